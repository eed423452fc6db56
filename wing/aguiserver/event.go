package aguiserver

import (
	"encoding/json"

	"agenthost/internal/adkjson"
	"agenthost/pkg/server"
)

// protocolVersion is the AG-UI version that the host speaks.
const protocolVersion = "1.0"

// Event types.
const (
	runStarted       = "RUN_STARTED"
	runFinished      = "RUN_FINISHED"
	runError         = "RUN_ERROR"
	stepStarted      = "STEP_STARTED"
	stepFinished     = "STEP_FINISHED"
	textStart        = "TEXT_MESSAGE_START"
	textContent      = "TEXT_MESSAGE_CONTENT"
	textEnd          = "TEXT_MESSAGE_END"
	reasoningStart   = "REASONING_START"
	reasoningEnd     = "REASONING_END"
	thoughtStart     = "REASONING_MESSAGE_START"
	thoughtContent   = "REASONING_MESSAGE_CONTENT"
	thoughtEnd       = "REASONING_MESSAGE_END"
	toolStart        = "TOOL_CALL_START"
	toolArgs         = "TOOL_CALL_ARGS"
	toolEnd          = "TOOL_CALL_END"
	toolResult       = "TOOL_CALL_RESULT"
	stateSnapshot    = "STATE_SNAPSHOT"
	stateDelta       = "STATE_DELTA"
	messagesSnapshot = "MESSAGES_SNAPSHOT"
	subagentStarted  = "SUBAGENT_STARTED"
	subagentFinished = "SUBAGENT_FINISHED"
	subagentError    = "SUBAGENT_ERROR"
	encryptedValue   = "REASONING_ENCRYPTED_VALUE"
)

// An event is an event on the wire. Each type has some fields. A field with the type any is
// present unless it is nil.
type event struct {
	Type            string   `json:"type"`
	ThreadID        string   `json:"threadId,omitempty"`
	RunID           string   `json:"runId,omitempty"`
	ProtocolVersion string   `json:"protocolVersion,omitempty"`
	ParentRunID     string   `json:"parentRunId,omitempty"`
	StepName        string   `json:"stepName,omitempty"`
	MessageID       string   `json:"messageId,omitempty"`
	ToolCallID      string   `json:"toolCallId,omitempty"`
	ToolCallName    string   `json:"toolCallName,omitempty"`
	ParentMessageID string   `json:"parentMessageId,omitempty"`
	Role            string   `json:"role,omitempty"`
	Name            string   `json:"name,omitempty"`
	Delta           any      `json:"delta,omitempty"` // text or operations
	Content         any      `json:"content,omitempty"`
	Snapshot        any      `json:"snapshot,omitempty"`
	Messages        any      `json:"messages,omitempty"`
	Message         string   `json:"message,omitempty"`
	Code            string   `json:"code,omitempty"`
	Outcome         *outcome `json:"outcome,omitempty"`
	Usage           []*usage `json:"usage,omitempty"`
	// SubagentRunID is the subagent that the event is about, or that made it.
	SubagentRunID       string `json:"subagentRunId,omitempty"`
	Description         string `json:"description,omitempty"`
	ParentSubagentRunID string `json:"parentSubagentRunId,omitempty"`
	ParentToolCallID    string `json:"parentToolCallId,omitempty"`
	// Subtype is what EntityID names: a message or a tool-call.
	Subtype        string `json:"subtype,omitempty"`
	EntityID       string `json:"entityId,omitempty"`
	EncryptedValue string `json:"encryptedValue,omitempty"`
}

// appendJSON appends an event as encoding/json encodes it, in fewer steps: a stream has one for each chunk.
// After an error it returns dst unchanged.
func (ev *event) appendJSON(dst []byte) (_ []byte, err error) {
	b := append(dst, `{"type":"`...)
	b = append(append(b, ev.Type...), '"')
	text := func(name, value string) {
		if value != "" {
			b = adkjson.AppendString(appendKey(b, name), value)
		}
	}
	value := func(name string, v any) {
		if v != nil && err == nil {
			b, err = appendValue(appendKey(b, name), v)
		}
	}
	text("threadId", ev.ThreadID)
	text("runId", ev.RunID)
	text("protocolVersion", ev.ProtocolVersion)
	text("parentRunId", ev.ParentRunID)
	text("stepName", ev.StepName)
	text("messageId", ev.MessageID)
	text("toolCallId", ev.ToolCallID)
	text("toolCallName", ev.ToolCallName)
	text("parentMessageId", ev.ParentMessageID)
	text("role", ev.Role)
	text("name", ev.Name)
	value("delta", ev.Delta)
	value("content", ev.Content)
	value("snapshot", ev.Snapshot)
	value("messages", ev.Messages)
	text("message", ev.Message)
	text("code", ev.Code)
	if ev.Outcome != nil {
		value("outcome", ev.Outcome)
	}
	if len(ev.Usage) > 0 {
		value("usage", ev.Usage)
	}
	text("subagentRunId", ev.SubagentRunID)
	text("description", ev.Description)
	text("parentSubagentRunId", ev.ParentSubagentRunID)
	text("parentToolCallId", ev.ParentToolCallID)
	text("subtype", ev.Subtype)
	text("entityId", ev.EntityID)
	text("encryptedValue", ev.EncryptedValue)
	if err != nil {
		return dst, err
	}
	return append(b, '}'), nil
}

func appendKey(b []byte, name string) []byte {
	return append(append(append(b, `,"`...), name...), `":`...)
}

func appendValue(b []byte, v any) ([]byte, error) {
	switch v := v.(type) {
	case string:
		return adkjson.AppendString(b, v), nil
	case clientState:
		if len(v) == 0 {
			return append(b, "{}"...), nil
		}
	}
	return server.AppendJSON(b, v)
}

// An outcome reports how a run or a subagent has ended.
type outcome struct {
	Type       string      `json:"type"`
	Pending    []string    `json:"pendingToolCallIds,omitempty"`
	Interrupts []interrupt `json:"interrupts,omitempty"`
	// InterruptIDs are a suspended subagent's own interrupts.
	InterruptIDs []string `json:"interruptIds,omitempty"`
}

// An interrupt is a call that waits for a person.
type interrupt struct {
	ID             string         `json:"id"`
	Reason         string         `json:"reason"`
	Message        string         `json:"message,omitempty"`
	ToolCallID     string         `json:"toolCallId,omitempty"`
	ResponseSchema map[string]any `json:"responseSchema,omitempty"`
	Metadata       map[string]any `json:"metadata,omitempty"`
	SubagentRunID  string         `json:"subagentRunId,omitempty"`
}

// A usage counts a model's tokens.
type usage struct {
	Model     string `json:"model,omitempty"`
	Input     int64  `json:"inputTokens"`
	Output    int64  `json:"outputTokens"`
	Total     int64  `json:"totalTokens"`
	Reasoning int64  `json:"reasoningTokens,omitempty"`
	Cached    int64  `json:"cachedInputTokens,omitempty"`
}

// Message roles.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleTool      = "tool"
	roleReasoning = "reasoning"
)

// A message is a message in a thread, as the host sends it.
type message struct {
	ID   string `json:"id"`
	Role string `json:"role"`
	// Content is text or parts; absent for calls without text.
	Content    json.RawMessage `json:"content,omitempty"`
	ToolCalls  []toolCall      `json:"toolCalls,omitempty"`
	ToolCallID string          `json:"toolCallId,omitempty"`
	// SubagentRunID is the subagent that made the message.
	SubagentRunID string `json:"subagentRunId,omitempty"`
	// EncryptedValue is the model's signature.
	EncryptedValue string `json:"encryptedValue,omitempty"`
}

// A toolCall is a call in a message.
type toolCall struct {
	ID       string       `json:"id"`
	Type     string       `json:"type"`
	Function callFunction `json:"function"`
	// EncryptedValue is as in a message.
	EncryptedValue string `json:"encryptedValue,omitempty"`
}

type callFunction struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// A contentPart is a part in a message's content.
type contentPart struct {
	Type   string      `json:"type"`
	Text   string      `json:"text,omitempty"`
	Source *partSource `json:"source,omitempty"`
}

// A partSource is a file in a message.
type partSource struct {
	Type     string `json:"type"`
	Value    string `json:"value"`
	MIMEType string `json:"mimeType,omitempty"`
}
