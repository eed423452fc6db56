package provider

import "encoding/json"

// A chatMessage is one message of a request.
type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitempty"` // text, or a list of chatPart
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// A chatPart is a part of a user message.
type chatPart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	ImageURL *chatImage `json:"image_url,omitempty"`
	Audio    *chatAudio `json:"input_audio,omitempty"`
	File     *chatFile  `json:"file,omitempty"`
}

type chatImage struct {
	URL string `json:"url"`
}

type chatAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type chatFile struct {
	Name string `json:"filename,omitempty"`
	Data string `json:"file_data"`
}

// A chatCall is a tool call, or a chunk of one in a stream.
type chatCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function chatFunction `json:"function"`
}

type chatFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// A chatAnswer is a response, or a chunk of a streamed one.
type chatAnswer struct {
	Model   string          `json:"model"`
	Choices []chatChoice    `json:"choices"`
	Usage   *chatUsage      `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

type chatChoice struct {
	Index        int        `json:"index"`
	Message      *chatReply `json:"message"`
	Delta        *chatReply `json:"delta"`
	FinishReason string     `json:"finish_reason"`
}

// A chatReply is a message of the model. Servers use two names for its thoughts.
type chatReply struct {
	Content          string     `json:"content"`
	Refusal          string     `json:"refusal"`
	ReasoningContent string     `json:"reasoning_content"`
	Reasoning        string     `json:"reasoning"`
	ToolCalls        []chatCall `json:"tool_calls"`
}

type chatUsage struct {
	Prompt     int32 `json:"prompt_tokens"`
	Completion int32 `json:"completion_tokens"`
	Total      int32 `json:"total_tokens"`

	PromptDetails struct {
		Cached int32 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int32 `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}
