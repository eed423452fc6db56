package openai

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/pkg/session"
)

// A chatMessage is one request message.
type chatMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content,omitempty"` // text, or a list of chatPart
	ToolCalls  []chatCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`

	ReasoningContent string          `json:"reasoning_content,omitempty"`
	Reasoning        string          `json:"reasoning,omitempty"`
	ReasoningDetails json.RawMessage `json:"reasoning_details,omitempty"`
	ThinkingBlocks   json.RawMessage `json:"thinking_blocks,omitempty"`
	Extra            *googleExtra    `json:"extra_content,omitempty"`
}

// The thought fields. Details are OpenRouter's, and blocks are Claude's as LiteLLM passes them on;
// both may be signed.
const (
	fieldReasoningContent = "reasoning_content"
	fieldReasoning        = "reasoning"
	fieldDetails          = "reasoning_details"
	fieldBlocks           = "thinking_blocks"

	// thoughtFieldKey is the metadata key of the field.
	thoughtFieldKey = "field"
)

// A chatPart is a part in a user message.
type chatPart struct {
	Type     string     `json:"type"`
	Text     string     `json:"text,omitempty"`
	ImageURL *chatURL   `json:"image_url,omitempty"`
	VideoURL *chatURL   `json:"video_url,omitempty"`
	Audio    *chatAudio `json:"input_audio,omitempty"`
	File     *chatFile  `json:"file,omitempty"`
}

type chatURL struct {
	URL string `json:"url"`
}

type chatAudio struct {
	Data   string `json:"data"`
	Format string `json:"format"`
}

type chatFile struct {
	Name string `json:"filename,omitempty"`
	Data string `json:"file_data,omitempty"`
	ID   string `json:"file_id,omitempty"`
}

// A chatCall is a tool call, or a chunk of one in a stream.
type chatCall struct {
	Index    *int           `json:"index,omitempty"`
	ID       string         `json:"id,omitempty"`
	Type     string         `json:"type,omitempty"`
	Function chatFunction   `json:"function"`
	Extra    *googleExtra   `json:"extra_content,omitempty"`
	LiteLLM  *liteLLMFields `json:"provider_specific_fields,omitempty"`
}

// UnmarshalJSON reads the fields in the types that servers write.
func (c *chatCall) UnmarshalJSON(data []byte) error {
	type plain chatCall
	own := struct {
		*plain
		Index *modelapi.LooseIndex `json:"index"`
		ID    modelapi.LooseText   `json:"id"`
	}{plain: (*plain)(c)}
	if err := json.Unmarshal(data, &own); err != nil {
		return err
	}
	c.Index, c.ID = (*int)(own.Index), string(own.ID)
	return nil
}

type chatFunction struct {
	Name      string         `json:"name,omitempty"`
	Arguments string         `json:"arguments"`
	LiteLLM   *liteLLMFields `json:"provider_specific_fields,omitempty"`
}

// UnmarshalJSON reads the fields in the types that servers write.
func (f *chatFunction) UnmarshalJSON(data []byte) error {
	type plain chatFunction
	own := struct {
		*plain
		Arguments modelapi.LooseJSON `json:"arguments"`
	}{plain: (*plain)(f)}
	if err := json.Unmarshal(data, &own); err != nil {
		return err
	}
	f.Arguments = string(own.Arguments)
	return nil
}

// A googleExtra holds a Gemini thought signature, in base64.
type googleExtra struct {
	Google struct {
		Signature string `json:"thought_signature,omitempty"`
	} `json:"google"`
}

func newGoogleExtra(signature []byte) *googleExtra {
	e := &googleExtra{}
	e.Google.Signature = base64.StdEncoding.EncodeToString(signature)
	return e
}

// decodeExtra returns the signature, or nil. e may be nil.
func (e *googleExtra) decodeExtra() []byte {
	if e == nil {
		return nil
	}
	return decodeSignature(e.Google.Signature)
}

// liteLLMFields hold a Gemini thought signature, in base64.
type liteLLMFields struct {
	Signature string `json:"thought_signature,omitempty"`
}

// liteLLMSuffix separates a call's ID from the signature that LiteLLM appends.
const liteLLMSuffix = "__thought__"

// splitSignature returns a call's ID and its thought signature, from whichever field the server
// uses.
func (c *chatCall) splitSignature() (id string, signature []byte) {
	id, suffix, _ := strings.Cut(c.ID, liteLLMSuffix)
	signature = c.Extra.decodeExtra()
	for _, fields := range []*liteLLMFields{c.LiteLLM, c.Function.LiteLLM, {suffix}} {
		if signature == nil && fields != nil {
			signature = decodeSignature(fields.Signature)
		}
	}
	return id, signature
}

// decodeSignature returns nil if there is no signature.
func decodeSignature(text string) []byte {
	if text == "" {
		return nil
	}
	for _, encoding := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawURLEncoding} {
		if raw, err := encoding.DecodeString(text); err == nil {
			return raw
		}
	}
	return nil
}

// A chatAnswer is a response, or a chunk of a streamed one.
type chatAnswer struct {
	Object  string          `json:"object"`
	Model   string          `json:"model"`
	Choices []chatChoice    `json:"choices"`
	Usage   *chatUsage      `json:"usage"`
	Error   json.RawMessage `json:"error"`
}

// errorObject returns the error that a server sends instead of an answer: in a field, or as all of
// raw, Mistral's form. It returns nil if there is none.
func (a *chatAnswer) errorObject(raw []byte) json.RawMessage {
	if a.Object == "error" {
		return raw
	}
	return a.Error
}

type chatChoice struct {
	Index        int             `json:"index"`
	Message      *chatReply      `json:"message"`
	Delta        *chatReply      `json:"delta"`
	FinishReason string          `json:"finish_reason"`
	Error        json.RawMessage `json:"error"`
}

// A chatReply is a model message. Servers use several names for its thoughts.
type chatReply struct {
	Content          chatText     `json:"content"`
	Refusal          string       `json:"refusal"`
	ReasoningContent string       `json:"reasoning_content"`
	Reasoning        string       `json:"reasoning"`
	ReasoningDetails []freeObject `json:"reasoning_details"`
	ThinkingBlocks   []freeObject `json:"thinking_blocks"`
	ToolCalls        []chatCall   `json:"tool_calls"`
	Extra            *googleExtra `json:"extra_content"`
}

// A freeObject is an object with free-form keys.
type freeObject map[string]any

// UnmarshalJSON keeps numbers' digits.
func (o *freeObject) UnmarshalJSON(data []byte) (err error) {
	*o, err = session.DecodeMap(data)
	return err
}

// thoughtText returns the thoughts' text and field.
func (m *chatReply) thoughtText() (text, field string) {
	switch {
	case m.ReasoningContent != "":
		return m.ReasoningContent, fieldReasoningContent
	case m.Reasoning != "":
		return m.Reasoning, fieldReasoning
	}
	return m.Content.thought, fieldReasoningContent
}

// textParts returns the model's thoughts and its text.
func (m *chatReply) textParts() []*genai.Part {
	var parts []*genai.Part
	if thought, _ := m.thoughtText(); thought != "" {
		parts = append(parts, &genai.Part{Text: thought, Thought: true})
	}
	if signature := m.Extra.decodeExtra(); m.Content.text != "" || signature != nil {
		parts = append(parts, &genai.Part{Text: m.Content.text, ThoughtSignature: signature})
	}
	return parts
}

// A chatText is content that is a string or, from Mistral's reasoning models, a list of
// texts and thoughts.
type chatText struct{ text, thought string }

// UnmarshalJSON decodes either form.
func (t *chatText) UnmarshalJSON(data []byte) error {
	var parts modelapi.LooseList[chatTextPart]
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	for _, part := range parts {
		t.text += part.Text
		for _, thought := range part.Thinking {
			t.thought += thought.Text
		}
	}
	return nil
}

// A chatTextPart is plain text, or a thought with texts that are not thoughts again.
type chatTextPart struct {
	Text     string                            `json:"text"`
	Thinking modelapi.LooseList[responsesText] `json:"thinking"`
}

// UnmarshalJSON reads an object, or its text alone.
func (p *chatTextPart) UnmarshalJSON(data []byte) error {
	type plain chatTextPart
	switch {
	case data[0] == '"':
		return json.Unmarshal(data, &p.Text)
	case data[0] != '{' && string(data) != "null":
		return errors.New("content is neither a string nor a list")
	}
	return json.Unmarshal(data, (*plain)(p))
}

type chatUsage struct {
	Prompt     modelapi.TokenCount `json:"prompt_tokens"`
	Completion modelapi.TokenCount `json:"completion_tokens"`
	Total      modelapi.TokenCount `json:"total_tokens"`
	Cached     modelapi.TokenCount `json:"cached_tokens"`
	CacheHits  modelapi.TokenCount `json:"prompt_cache_hit_tokens"` // DeepSeek's name

	PromptDetails struct {
		Cached modelapi.TokenCount `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning modelapi.TokenCount `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

// usageMetadata counts thoughts separately from the response, as Gemini does. Most
// services count them in the completion; xAI counts them next to it.
func (u *chatUsage) usageMetadata() *genai.GenerateContentResponseUsageMetadata {
	if u == nil {
		return nil
	}
	thoughts, answer := u.CompletionDetails.Reasoning, u.Completion
	if thoughts == 0 || u.Total != u.Prompt+u.Completion+thoughts {
		thoughts = min(thoughts, u.Completion)
		answer -= thoughts
	}
	return &genai.GenerateContentResponseUsageMetadata{
		PromptTokenCount: int32(u.Prompt), CandidatesTokenCount: int32(answer), ThoughtsTokenCount: int32(thoughts),
		CachedContentTokenCount: int32(max(u.PromptDetails.Cached, u.Cached, u.CacheHits)), TotalTokenCount: int32(max(u.Total, u.Prompt+answer+thoughts)),
	}
}
