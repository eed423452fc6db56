package openaiserver

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/pkg/protocol"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A completionRequest is the body for POST /v1/chat/completions. Other keys are ignored, as clients
// expect: the app decides sampling and output limits.
type completionRequest struct {
	Model         string          `json:"model"`
	Messages      []chatMessage   `json:"messages"`
	Stream        bool            `json:"stream"`
	StreamOptions *streamOptions  `json:"stream_options"`
	N             *int            `json:"n"`
	Tools         []functionTool  `json:"tools"`
	ToolChoice    json.RawMessage `json:"tool_choice"`
	Functions     []any           `json:"functions"`
	Store         *bool           `json:"store"`
	User          string          `json:"user"`
	Metadata      map[string]any  `json:"metadata"`
	Modalities    []string        `json:"modalities"`
	Audio         *audioRequest   `json:"audio"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type chatMessage struct {
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	// ToolCalls are the assistant's calls, and ToolCallID is the one that a message of a tool answers.
	ToolCalls  []toolCall `json:"tool_calls"`
	ToolCallID string     `json:"tool_call_id"`
	// Audio is the assistant's, instead of its content.
	Audio *struct {
		ID string `json:"id"`
	} `json:"audio"`
}

// A functionTool is a tool of the client: chat completions have its parts in function, responses next
// to the type.
type functionTool struct {
	Type     string        `json:"type"`
	Function *functionTool `json:"function"`

	Name        string         `json:"name"`
	Description string         `json:"description"`
	Parameters  map[string]any `json:"parameters"`
}

// A toolCall is a call of a client's tool.
type toolCall struct {
	Index    *int         `json:"index,omitempty"`
	ID       string       `json:"id,omitempty"`
	Type     string       `json:"type,omitempty"`
	Function callFunction `json:"function"`
}

type callFunction struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

// An inputItem is an item in a request's input.
type inputItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	// Name, Arguments and CallID are a call's, and Output is its result.
	Name      string          `json:"name"`
	Arguments string          `json:"arguments"`
	CallID    string          `json:"call_id"`
	Output    json.RawMessage `json:"output"`
	// ApprovalID and Approve answer an approval.
	ApprovalID string `json:"approval_request_id"`
	Approve    bool   `json:"approve"`
}

// A chatPart is a part in a message's content.
type chatPart struct {
	Type     string   `json:"type"`
	Text     string   `json:"text"`
	Refusal  string   `json:"refusal"`
	ImageURL imageURL `json:"image_url"`
	// FileData, Filename and FileID are those of an input_file.
	FileData   string `json:"file_data"`
	FileID     string `json:"file_id"`
	Filename   string `json:"filename"`
	InputAudio *struct {
		Data   string `json:"data"`
		Format string `json:"format"`
	} `json:"input_audio"`
	File *struct {
		FileData string `json:"file_data"`
		FileID   string `json:"file_id"`
		Filename string `json:"filename"`
	} `json:"file"`
}

// An imageURL is an object with a url in chat completions, and the URL itself in responses.
type imageURL string

// UnmarshalJSON reads both forms.
func (u *imageURL) UnmarshalJSON(text []byte) error {
	var object struct {
		URL string `json:"url"`
	}
	if err := json.Unmarshal(text, &object); err == nil {
		*u = imageURL(object.URL)
		return nil
	}
	return json.Unmarshal(text, (*string)(u))
}

// ignoredKeys are those in messages that clients repeat from answers.
var ignoredKeys = []string{"name", "refusal", "annotations"}

// ReadMessages implements [protocol.MessageReader] for usual messages.
func (q *completionRequest) ReadMessages(r *adkjson.Decoder) bool {
	return protocol.ReadMessages(r, &q.Messages, func(m *chatMessage, key, value []byte) bool {
		isText := true
		switch string(key) {
		case "role":
			m.Role, isText = protocol.ReadRole(value)
		case "content":
			m.Content = value
		case "tool_call_id":
			m.ToolCallID, isText = protocol.ReadText(value)
		case "tool_calls":
			return json.Unmarshal(value, &m.ToolCalls) == nil
		default:
			return slices.Contains(ignoredKeys, string(key))
		}
		return isText
	})
}

// Roles on the wire.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// maxMessages limits a request's messages: each is compared with the session.
const maxMessages = 10_000

// readCompletion reads a request's body.
func (h *handlers) readCompletion(w http.ResponseWriter, r *http.Request) (*completionRequest, error) {
	q := &completionRequest{}
	if err := h.readBody(w, r, q); err != nil {
		return nil, err
	}
	switch {
	case len(q.Messages) > maxMessages:
		return nil, newRefusal("messages", "messages exceeds the limit of %d, got %d", maxMessages, len(q.Messages))
	case q.N != nil && *q.N != 1:
		return nil, newRefusal("n", "n must be 1: a model answers once")
	case len(q.Functions) > 0:
		return nil, newRefusal("functions", "functions is not supported: use tools")
	}
	return q, q.checkAudio()
}

// acceptsAudio reports whether the client accepts audio.
func (q *completionRequest) acceptsAudio() bool { return slices.Contains(q.Modalities, "audio") }

// checkAudio checks the audio that a request accepts.
func (q *completionRequest) checkAudio() error {
	switch {
	case !q.acceptsAudio() && q.Audio != nil:
		return newRefusal("audio", "audio requires modalities with audio")
	case !q.acceptsAudio():
		return nil
	case q.Audio == nil:
		return newRefusal("audio", "audio is required with the modality audio: {format: …}")
	case audioKinds[q.Audio.Format] == nil:
		return newRefusal("audio.format", "audio.format must be wav, mp3, flac, opus, aac or pcm16, got %q", protocol.TruncateText(q.Audio.Format, maxShown))
	}
	return nil
}

// readBody reads a JSON object into q, and names a key whose value has the wrong type.
func (h *handlers) readBody(w http.ResponseWriter, r *http.Request, q any) error {
	err := protocol.ReadObject(h.Services, w, r, q)
	if wrong := (*protocol.FieldError)(nil); errors.As(err, &wrong) {
		return newRefusal(wrong.Field, "%s", wrong.Message)
	}
	return err
}

// readTools returns the client's tools, which the model's app must accept. The choice none omits them.
func (m *model) readTools(tools []functionTool, choice json.RawMessage) ([]tool.Tool, error) {
	switch {
	case len(tools) == 0 || string(choice) == `"none"`:
		return nil, nil
	case !m.settings.Tools:
		return nil, newRefusal("tools", "tools are not accepted by the model %s: its app needs client_tools in openai_server", m.id)
	case len(tools) > protocol.MaxClientTools:
		return nil, newRefusal("tools", "tools exceeds the limit of %d, got %d", protocol.MaxClientTools, len(tools))
	}
	var all []tool.Tool
	names := map[string]bool{}
	for i := range tools {
		t, at := &tools[i], fmt.Sprintf("tools[%d]", i)
		if t.Type != "function" {
			return nil, newRefusal(at+".type", "%s.type must be function, got %q", at, protocol.TruncateText(t.Type, maxShown))
		}
		if t.Function != nil {
			t = t.Function
		}
		one, err := protocol.NewClientTool(t.Name, t.Description, t.Parameters)
		if err != nil {
			return nil, newRefusal(at+".name", "%s: %s", at, err)
		}
		if names[t.Name] {
			return nil, newRefusal(at+".name", "%s: duplicate tool %q", at, t.Name)
		}
		names[t.Name] = true
		all = append(all, one)
	}
	return all, nil
}

// A message is the user's or the assistant's.
type message struct {
	role string
	// text is what was written.
	text string
	// parts are nil for a message with text only, see listParts.
	parts []*genai.Part
	// audio is the ID of the audio that the message consists of.
	audio string
}

// listParts returns the parts. Most messages are only compared with a session, which needs none.
func (m *message) listParts() []*genai.Part {
	if m.parts == nil && strings.TrimSpace(m.text) != "" {
		m.parts = []*genai.Part{{Text: strings.Clone(m.text)}} // see protocol.StringRoom
	}
	return m.parts
}

// isEmpty reports whether a message has no content.
func (m *message) isEmpty() bool {
	return len(m.parts) == 0 && m.audio == "" && strings.TrimSpace(m.text) == ""
}

// answeredCall returns the first call that the message answers as its tool; empty for none.
func (m *message) answeredCall() string {
	for _, p := range m.parts {
		if p.FunctionResponse != nil {
			return p.FunctionResponse.ID
		}
	}
	return ""
}

func newClosedCall(id string) error {
	return newRefusal("tool_call_id", "tool_call_id %q is not that of an open call", protocol.TruncateText(id, maxShown))
}

// readMessages returns a conversation, and the clients' instructions. The last message is the user's.
func readMessages(all []chatMessage) (messages []message, instructions string, err error) {
	var system []string
	messages = make([]message, 0, len(all))
	var texts protocol.StringRoom
	for i := range all {
		m, isPlain := all[i].readPlain(&texts)
		if !isPlain {
			m, err = all[i].readMessage(fmt.Sprintf("messages[%d]", i))
		}
		switch {
		case err != nil:
			return nil, "", err
		case m.isEmpty():
		case m.role == roleSystem:
			system = append(system, m.text)
		default:
			messages = addMessage(messages, m)
		}
	}
	if n := len(messages); n == 0 || messages[n-1].role != roleUser {
		return nil, "", newRefusal("messages", "messages must end with a message of the user or a tool")
	}
	return messages, strings.Join(system, "\n\n"), nil
}

const roleSystem = "system"

// addMessage adds a message. It joins messages from one side that follow each other, as in a session's turn.
func addMessage(all []message, m message) []message {
	n := len(all)
	if n == 0 || all[n-1].role != m.role {
		return append(all, m)
	}
	last := &all[n-1]
	last.parts = append(last.listParts(), m.listParts()...)
	last.text = strings.TrimSpace(last.text + "\n\n" + m.text)
	return all
}

// readMessage returns a message, which is empty without content.
func (c *chatMessage) readMessage(at string) (m message, err error) {
	m.role = c.Role
	switch c.Role {
	case roleUser, roleAssistant, roleSystem:
	case "developer":
		m.role = roleSystem
	case "tool":
		m.role = roleUser
	default:
		return m, newRefusal(at+".role", "%s.role must be system, developer, user, assistant or tool, got %q", at, protocol.TruncateText(c.Role, maxShown))
	}
	if err := c.readContent(at, &m); err != nil {
		return m, err
	}
	if c.Role == "tool" {
		m.parts = []*genai.Part{newToolResponse(c.ToolCallID, m.text)}
	}
	for i := range c.ToolCalls {
		part, err := newCallPart(fmt.Sprintf("%s.tool_calls[%d]", at, i), &c.ToolCalls[i])
		if err != nil {
			return m, err
		}
		m.parts = append(m.listParts(), part)
	}
	if c.Audio != nil && c.Role == roleAssistant && m.text == "" {
		m.audio = c.Audio.ID
	}
	return m, nil
}

// readPlain returns a message that has text only, as readMessage does, and false for another one.
func (c *chatMessage) readPlain(texts *protocol.StringRoom) (m message, isPlain bool) {
	if c.ToolCalls != nil || c.Audio != nil || c.Role != roleUser && c.Role != roleAssistant && c.Role != roleSystem {
		return m, false
	}
	text, isText := texts.ReadText(c.Content)
	return message{role: c.Role, text: text}, isText
}

// newToolResponse returns the result of a client's tool: an object, or text. Its call has the name.
func newToolResponse(id, text string) *genai.Part {
	response, err := session.DecodeMap([]byte(text))
	if err != nil {
		response = map[string]any{"result": text}
	}
	return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: id, Response: response}}
}

func newCallPart(at string, c *toolCall) (*genai.Part, error) {
	if _, err := protocol.NewClientTool(c.Function.Name, "", nil); err != nil {
		return nil, newRefusal(at+".function.name", "%s: %s", at, err)
	}
	args, err := session.DecodeMap([]byte(c.Function.Arguments))
	if err != nil {
		return nil, newRefusal(at+".function.arguments", "%s.function.arguments must be a JSON object", at)
	}
	return &genai.Part{FunctionCall: &genai.FunctionCall{ID: c.ID, Name: c.Function.Name, Args: args}}, nil
}

// readCall returns a call of a client's tool, or its result, as a message.
func (item *inputItem) readCall(at string) (message, error) {
	if item.Type == "function_call" {
		part, err := newCallPart(at, &toolCall{ID: item.CallID, Function: callFunction{item.Name, item.Arguments}})
		return message{role: roleAssistant, parts: []*genai.Part{part}}, err
	}
	var text string
	if json.Unmarshal(item.Output, &text) != nil {
		return message{}, newRefusal(at+".output", "%s.output must be text", at)
	}
	return message{role: roleUser, text: text, parts: []*genai.Part{newToolResponse(item.CallID, text)}}, nil
}

// readContent reads text, or a list of parts.
func (c *chatMessage) readContent(at string, m *message) error {
	if len(c.Content) == 0 || string(c.Content) == "null" {
		return nil
	}
	if text, isText := protocol.ReadText(c.Content); isText {
		m.text = text
		return nil
	}
	var parts []chatPart
	if err := json.Unmarshal(c.Content, &parts); err != nil {
		return newRefusal(at+".content", "%s.content must be text, or a list of parts", at)
	}
	for i := range parts {
		part, err := parts[i].readPart(fmt.Sprintf("%s.content[%d]", at, i))
		if err != nil {
			return err
		}
		if m.parts = append(m.parts, part); part.Text != "" {
			m.text = strings.TrimSpace(m.text + "\n\n" + part.Text)
		}
	}
	return nil
}

// readPart returns a part. Addresses are not fetched: a client could make the host read any address.
func (p *chatPart) readPart(at string) (*genai.Part, error) {
	switch {
	case p.Type == "text" || p.Type == "input_text" || p.Type == "output_text":
		return &genai.Part{Text: p.Text}, nil
	case p.Type == "refusal":
		return &genai.Part{Text: p.Refusal}, nil
	case p.Type == "image_url":
		return readDataURL(at+".image_url.url", string(p.ImageURL), "")
	case p.Type == "input_image":
		return readDataURL(at+".image_url", string(p.ImageURL), "")
	case p.Type == "input_file" && p.FileID == "":
		return readDataURL(at+".file_data", p.FileData, p.Filename)
	case p.Type == "input_audio" && p.InputAudio != nil:
		kind, ok := map[string]string{"wav": "audio/wav", "mp3": "audio/mp3"}[p.InputAudio.Format]
		if !ok {
			return nil, newRefusal(at+".input_audio.format", "%s.input_audio.format must be wav or mp3", at)
		}
		return readBase64(at+".input_audio.data", p.InputAudio.Data, kind, "")
	case p.Type == "file" && p.File != nil && p.File.FileID != "":
		return nil, newRefusal(at+".file.file_id", "%s.file.file_id is not supported: send the file in file_data", at)
	case p.Type == "file" && p.File != nil:
		return readDataURL(at+".file.file_data", p.File.FileData, p.File.Filename)
	}
	return nil, newRefusal(at, "%s must be a part of the type text, image_url, input_audio or file, got %q", at, protocol.TruncateText(p.Type, maxShown))
}

func readDataURL(at, address, name string) (*genai.Part, error) {
	head, data, ok := strings.Cut(strings.TrimPrefix(address, "data:"), ",")
	kind, isBase64 := strings.CutSuffix(head, ";base64")
	kind, _, err := mime.ParseMediaType(kind)
	if !strings.HasPrefix(address, "data:") || !ok || !isBase64 || err != nil {
		return nil, newRefusal(at, "%s must be data:TYPE;base64,DATA: other addresses are not fetched", at)
	}
	return readBase64(at, data, kind, name)
}

func readBase64(at, data, kind, name string) (*genai.Part, error) {
	content, err := base64.StdEncoding.DecodeString(data)
	if err != nil || len(content) == 0 {
		return nil, newRefusal(at, "%s must be base64", at)
	}
	return &genai.Part{InlineData: &genai.Blob{Data: content, MIMEType: kind, DisplayName: protocol.TruncateText(name, maxShown)}}, nil
}
