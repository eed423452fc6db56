package aguiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/pkg/protocol"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A runInput is a run's body (RunAgentInput). Other keys are ignored, as the protocol requires.
type runInput struct {
	ThreadID    string          `json:"threadId"`
	RunID       string          `json:"runId"`
	ParentRunID string          `json:"parentRunId"`
	State       json.RawMessage `json:"state"`
	Messages    []clientMessage `json:"messages"`
	Tools       []clientTool    `json:"tools"`
	Context     []contextEntry  `json:"context"`
	Resume      []resumeEntry   `json:"resume"`
}

// A clientMessage is a message in a thread, as the client sends it.
type clientMessage struct {
	ID   string `json:"id"`
	Role string `json:"role"`
	// Content is text or parts.
	Content    json.RawMessage `json:"content"`
	ToolCalls  []toolCall      `json:"toolCalls"`
	ToolCallID string          `json:"toolCallId"`
	Error      string          `json:"error"`

	Name           ignoredText `json:"name"`
	SubagentRunID  ignoredText `json:"subagentRunId"`
	EncryptedValue ignoredText `json:"encryptedValue"`
}

// ignoredText must be a string, which is not used.
type ignoredText struct{}

// UnmarshalJSON checks the type.
func (*ignoredText) UnmarshalJSON(value []byte) error { return json.Unmarshal(value, new(string)) }

// A clientTool is a tool that the client runs.
type clientTool struct {
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters"`
}

// A contextEntry is a fact from the client's application.
type contextEntry struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

// A resumeEntry answers an interrupt.
type resumeEntry struct {
	InterruptID string          `json:"interruptId"`
	Status      string          `json:"status"`
	Payload     json.RawMessage `json:"payload"`
}

// Limits for a run.
const (
	maxMessages = 10_000
	maxContext  = 1000
	maxResume   = 1000
	// maxID limits run and message IDs, which are stored.
	maxID = 200
)

// readInput reads a run's body.
func (h *handlers) readInput(w http.ResponseWriter, r *http.Request) (*runInput, error) {
	in := &runInput{}
	if err := protocol.ReadObject(h.Services, w, r, in); err != nil {
		return nil, err
	}
	in.ThreadID = strings.TrimSpace(in.ThreadID)
	switch {
	case in.ThreadID == "":
		return nil, newRefusal("threadId is required")
	case in.RunID == "":
		return nil, newRefusal("runId is required")
	case len(in.RunID) > maxID || len(in.ParentRunID) > maxID:
		return nil, newRefusal("runId and parentRunId must have at most %d bytes", maxID)
	case len(in.Messages) > maxMessages:
		return nil, newRefusal("messages exceeds the limit of %d, got %d", maxMessages, len(in.Messages))
	case len(in.Context) > maxContext:
		return nil, newRefusal("context exceeds the limit of %d, got %d", maxContext, len(in.Context))
	case len(in.Resume) > maxResume:
		return nil, newRefusal("resume exceeds the limit of %d, got %d", maxResume, len(in.Resume))
	}
	for i := range in.Messages {
		if id := in.Messages[i].ID; id == "" || len(id) > maxID {
			return nil, newRefusal("messages[%d].id must have 1 to %d bytes", i, maxID)
		}
	}
	return in, nil
}

// ReadMessages implements [protocol.MessageReader] for usual messages.
func (in *runInput) ReadMessages(r *adkjson.Decoder) bool {
	var ids protocol.StringRoom
	return protocol.ReadMessages(r, &in.Messages, func(m *clientMessage, key, value []byte) (isText bool) {
		switch string(key) {
		case "id":
			m.ID, isText = ids.ReadText(value)
		case "role":
			m.Role, isText = protocol.ReadRole(value)
		case "content":
			m.Content, isText = value, true
		case "toolCalls":
			return json.Unmarshal(value, &m.ToolCalls) == nil
		case "toolCallId":
			m.ToolCallID, isText = protocol.ReadText(value)
		case "error":
			m.Error, isText = protocol.ReadText(value)
		case "name", "subagentRunId", "encryptedValue":
			_, isText = protocol.ReadText(value)
		}
		return isText
	})
}

// readTools returns the client's tools, which the app must accept.
func (in *runInput) readTools(s *Settings) ([]tool.Tool, error) {
	switch {
	case len(in.Tools) == 0:
		return nil, nil
	case !s.Tools:
		return nil, newRefusal("tools are not accepted: the app needs client_tools in agui_server")
	case len(in.Tools) > protocol.MaxClientTools:
		return nil, newRefusal("tools exceeds the limit of %d, got %d", protocol.MaxClientTools, len(in.Tools))
	}
	var all []tool.Tool
	names := map[string]bool{}
	for i := range in.Tools {
		t := &in.Tools[i]
		one, err := protocol.NewClientTool(t.Name, t.Description, t.Parameters)
		if err != nil {
			return nil, newRefusal("tools[%d]: %s", i, err)
		}
		if names[t.Name] {
			return nil, newRefusal("tools[%d]: duplicate tool %q", i, t.Name)
		}
		names[t.Name] = true
		all = append(all, one)
	}
	return all, nil
}

// readInstructions returns the client's context and system messages as text.
func (in *runInput) readInstructions() (string, error) {
	var lines []string
	for _, c := range in.Context {
		lines = append(lines, c.Description+": "+c.Value)
	}
	for i := range in.Messages {
		if m := &in.Messages[i]; m.Role == "system" || m.Role == "developer" {
			parts, err := m.readParts(i)
			if err != nil {
				return "", err
			}
			for _, p := range parts {
				lines = append(lines, p.Text)
			}
		}
	}
	return strings.Join(lines, "\n\n"), nil
}

// readParts returns the content's parts; i is the message's index.
func (m *clientMessage) readParts(i int) ([]*genai.Part, error) {
	text, isText := protocol.ReadText(m.Content)
	switch {
	case len(m.Content) == 0 || string(m.Content) == "null":
		return nil, nil
	case isText:
		if strings.TrimSpace(text) == "" {
			return nil, nil
		}
		return []*genai.Part{{Text: text}}, nil
	}
	var parts []contentPart
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return nil, newRefusal("messages[%d].content must be text, or a list of parts", i)
	}
	var all []*genai.Part
	for n := range parts {
		part, err := parts[n].readPart(fmt.Sprintf("messages[%d].content[%d]", i, n))
		if err != nil {
			return nil, err
		}
		if part != nil {
			all = append(all, part)
		}
	}
	return all, nil
}

// readPart returns a part; nil for empty text. Addresses are not fetched: a client could make the host
// read any address.
func (p *contentPart) readPart(at string) (*genai.Part, error) {
	switch p.Type {
	case "text":
		if strings.TrimSpace(p.Text) == "" {
			return nil, nil
		}
		return &genai.Part{Text: p.Text}, nil
	case "image", "audio", "video", "document":
	default:
		return nil, newRefusal("%s must be a part of the type text, image, audio, video or document, got %q", at, protocol.TruncateText(p.Type, maxShown))
	}
	if p.Source == nil || p.Source.Type != "data" {
		return nil, newRefusal("%s.source must be of the type data: other addresses are not fetched", at)
	}
	kind, _, err := mime.ParseMediaType(p.Source.MIMEType)
	if err != nil {
		return nil, newRefusal("%s.source.mimeType must be a media type such as image/png", at)
	}
	data, err := base64.StdEncoding.DecodeString(p.Source.Value)
	if err != nil || len(data) == 0 {
		return nil, newRefusal("%s.source.value must be base64", at)
	}
	return &genai.Part{InlineData: &genai.Blob{Data: data, MIMEType: kind}}, nil
}

// readToolResult returns a tool message's content as the response to its call: an object, or text.
func (m *clientMessage) readToolResult(i int) (*genai.Part, error) {
	parts, err := m.readParts(i)
	if err != nil {
		return nil, err
	}
	var texts []string
	for n, p := range parts {
		if p.InlineData != nil {
			return nil, newRefusal("messages[%d].content[%d]: the result of a tool must be text", i, n)
		}
		texts = append(texts, p.Text)
	}
	text := strings.Join(texts, "\n")
	response, err := session.DecodeMap([]byte(text))
	if err != nil {
		response = map[string]any{"result": text}
	}
	if m.Error != "" {
		response = map[string]any{"error": m.Error}
	}
	return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: m.ToolCallID, Response: response}}, nil
}

// readHistory returns earlier messages as contents.
func readHistory(messages []clientMessage) ([]*genai.Content, error) {
	var history []*genai.Content
	add := func(role string, parts []*genai.Part) {
		if n := len(history); n > 0 && history[n-1].Role == role {
			history[n-1].Parts = append(history[n-1].Parts, parts...)
		} else if len(parts) > 0 {
			history = append(history, &genai.Content{Role: role, Parts: parts})
		}
	}
	for i := range messages {
		m := &messages[i]
		switch m.Role {
		case roleUser, roleAssistant:
			parts, err := m.readParts(i)
			if err != nil {
				return nil, err
			}
			role := genai.RoleUser
			if m.Role == roleAssistant {
				role = genai.RoleModel
				calls, err := m.readCalls(i)
				if err != nil {
					return nil, err
				}
				parts = append(parts, calls...)
			}
			add(role, parts)
		case roleTool:
			part, err := m.readToolResult(i)
			if err != nil {
				return nil, err
			}
			add(genai.RoleUser, []*genai.Part{part})
		}
	}
	return history, protocol.NameResponses(history)
}

func (m *clientMessage) readCalls(i int) ([]*genai.Part, error) {
	var parts []*genai.Part
	for n, c := range m.ToolCalls {
		if _, err := protocol.NewClientTool(c.Function.Name, "", nil); err != nil {
			return nil, newRefusal("messages[%d].toolCalls[%d]: %s", i, n, err)
		}
		args, err := session.DecodeMap([]byte(c.Function.Arguments))
		if err != nil {
			return nil, newRefusal("messages[%d].toolCalls[%d].function.arguments must be a JSON object", i, n)
		}
		parts = append(parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: c.ID, Name: c.Function.Name, Args: args}})
	}
	return parts, nil
}
