package provider

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// encodeMessages converts the conversation: the system instruction first, and each tool
// response right after the message with its call.
func (t *chatTarget) encodeMessages(req *model.Request) ([]chatMessage, error) {
	w := &chatWriter{target: t, calls: newCallIDs(t.shortIDs)}
	instruction := strings.TrimPrefix(req.Instruction()+"\n\n"+t.schemaInstruction(req.Config), "\n\n")
	if instruction = strings.TrimSuffix(instruction, "\n\n"); instruction != "" {
		w.messages = append(w.messages, chatMessage{Role: "system", Content: instruction})
	}
	contents := endWithUser(normalizeContents(t.vendor, req.Contents))
	if t.gemini && isGemini3(t.model) {
		contents = signCalls(contents)
	}
	mode := cmp.Or(t.thoughts, thoughtsTools)
	thoughts := firstThoughtIndex(contents, mode)
	for i, c := range contents {
		if c.Role == genai.RoleModel {
			if err := w.addAssistant(c, i >= thoughts); err != nil {
				return nil, err
			}
			continue
		}
		if err := w.addUser(c); err != nil {
			return nil, err
		}
	}
	return w.messages, nil
}

// A chatWriter converts contents to messages.
type chatWriter struct {
	target   *chatTarget
	messages []chatMessage
	calls    *callIDs
}

// addUser adds the responses of tools, and then the rest of the content with the files
// of the responses. A response whose call is not in the conversation becomes text.
func (w *chatWriter) addUser(c *genai.Content) error {
	var lost []*genai.Part
	responses := model.ResponsesOf(c)
	for _, r := range responses {
		raw, err := json.Marshal(r.Response)
		if err != nil {
			return newConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode response of %s: %s", r.Name, err))
		}
		id, ok := w.calls.answerCall(r)
		if !ok {
			lost = append(lost, &genai.Part{Text: fmt.Sprintf("%s answered: %s", r.Name, raw)})
			continue
		}
		w.messages = append(w.messages, chatMessage{Role: "tool", ToolCallID: id, Content: string(raw)})
	}
	var parts []chatPart
	for _, p := range slices.Concat(lost, responseMedia(responses), c.Parts) {
		if p == nil || p.FunctionResponse != nil {
			continue
		}
		part, err := w.target.userPart(p)
		if err != nil {
			return err
		}
		if part != nil {
			parts = append(parts, *part)
		}
	}
	switch {
	case len(parts) == 1 && parts[0].Type == "text":
		w.messages = append(w.messages, chatMessage{Role: "user", Content: parts[0].Text})
	case len(parts) > 0:
		w.messages = append(w.messages, chatMessage{Role: "user", Content: parts})
	}
	return nil
}

// addAssistant adds the text and the calls of the model, and its own thoughts if they
// are sent back.
func (w *chatWriter) addAssistant(c *genai.Content, thoughts bool) error {
	m := chatMessage{Role: "assistant"}
	var text strings.Builder
	for _, p := range c.Parts {
		switch {
		case p == nil:
		case p.Thought:
			if thoughts {
				w.target.addThought(&m, p)
			}
		case p.FunctionCall != nil:
			call, err := w.encodeCall(p)
			if err != nil {
				return err
			}
			m.ToolCalls = append(m.ToolCalls, call)
		default:
			text.WriteString(answerText(p))
			if w.target.gemini && len(p.ThoughtSignature) > 0 {
				m.Extra = newGoogleExtra(p.ThoughtSignature)
			}
		}
	}
	if text.Len() > 0 {
		m.Content = text.String()
	}
	if m.Content != nil || len(m.ToolCalls) > 0 {
		w.messages = append(w.messages, m)
	}
	return nil
}

// addThought adds a thought of the model in the form in which it was read. Signed
// thoughts go only to the model that wrote them.
func (t *chatTarget) addThought(m *chatMessage, p *genai.Part) {
	owner, name := partVendor(p)
	if owner != t.vendor {
		return
	}
	field, _ := p.PartMetadata[thoughtFieldKey].(string)
	switch field {
	case fieldDetails, fieldBlocks:
		if name != t.model || !json.Valid(p.ThoughtSignature) {
			return
		}
		if field == fieldDetails {
			m.ReasoningDetails = json.RawMessage(p.ThoughtSignature)
		} else {
			m.ThinkingBlocks = json.RawMessage(p.ThoughtSignature)
		}
	case fieldEncrypted: // of the Responses API
	case fieldReasoning:
		if t.thoughts != "" {
			m.Reasoning += p.Text
		}
	default:
		if t.thoughts != "" {
			m.ReasoningContent += p.Text
		}
	}
}

// answerText returns the text of a part of an answer other than a call. Code is text.
func answerText(p *genai.Part) string {
	switch {
	case p.ExecutableCode != nil:
		return p.ExecutableCode.Code
	case p.CodeExecutionResult != nil:
		return p.CodeExecutionResult.Output
	}
	return p.Text
}

func (w *chatWriter) encodeCall(p *genai.Part) (chatCall, error) {
	raw, err := encodeArguments(p.FunctionCall)
	if err != nil {
		return chatCall{}, err
	}
	call := chatCall{ID: w.calls.startCall(p.FunctionCall), Type: "function", Function: chatFunction{Name: p.FunctionCall.Name, Arguments: raw}}
	if w.target.gemini && len(p.ThoughtSignature) > 0 {
		call.Extra = newGoogleExtra(p.ThoughtSignature)
		if !w.target.google {
			call.LiteLLM = &liteLLMFields{base64.StdEncoding.EncodeToString(p.ThoughtSignature)}
		}
	}
	return call, nil
}

// encodeArguments returns the arguments of a call as JSON.
func encodeArguments(c *genai.FunctionCall) (string, error) {
	args := c.Args
	if args == nil {
		args = map[string]any{}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return "", newConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode arguments of %s: %s", c.Name, err))
	}
	return string(raw), nil
}

// callIDs assigns the IDs of calls in a request. Gemini's calls need none, and those of
// other services may be too long.
type callIDs struct {
	short     bool
	generated int
	// open holds the calls without a response, in order.
	open []openCall
}

type openCall struct{ id, name, sent string }

func newCallIDs(short bool) *callIDs { return &callIDs{short: short} }

// startCall returns the ID of a call.
func (ids *callIDs) startCall(c *genai.FunctionCall) string {
	sent := c.ID
	if sent == "" {
		ids.generated++
		sent = fmt.Sprintf("call_%d", ids.generated)
	}
	sent = ids.convertID(sent)
	ids.open = append(ids.open, openCall{c.ID, c.Name, sent})
	return sent
}

// answerCall returns the ID of the call of a response: the one with its ID or, without
// an ID, the first open one of its name.
func (ids *callIDs) answerCall(r *genai.FunctionResponse) (sent string, ok bool) {
	i := slices.IndexFunc(ids.open, func(c openCall) bool { return c.id == r.ID && (r.ID != "" || c.name == r.Name) })
	if i < 0 {
		return "", false
	}
	sent = ids.open[i].sent
	ids.open = slices.Delete(ids.open, i, i+1)
	return sent, true
}

// maxCallID is the longest ID that OpenAI accepts.
const maxCallID = 40

var shortID = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

// convertID returns an ID that the service accepts. The same ID always becomes the same
// one.
func (ids *callIDs) convertID(id string) string {
	hash := sha256.Sum256([]byte(id))
	switch {
	case ids.short && !shortID.MatchString(id):
		return hex.EncodeToString(hash[:])[:9]
	case len(id) > maxCallID:
		return "call_" + hex.EncodeToString(hash[:16])
	}
	return id
}

// userPart converts text, an image, audio, video or a file; it returns nil for an empty
// part.
func (t *chatTarget) userPart(p *genai.Part) (*chatPart, error) {
	switch {
	case p.InlineData != nil:
		return t.inlinePart(p.InlineData)
	case p.FileData != nil:
		return t.filePart(p.FileData)
	case p.Text == "":
		return nil, nil
	}
	return &chatPart{Type: "text", Text: p.Text}, nil
}

// filePart converts a file by its address: an image on the web, or what else the service
// takes.
func (t *chatTarget) filePart(f *genai.FileData) (*chatPart, error) {
	web := strings.HasPrefix(f.FileURI, "https://") || strings.HasPrefix(f.FileURI, "http://")
	switch {
	case web && strings.HasPrefix(f.MIMEType, "image/"):
		return &chatPart{Type: "image_url", ImageURL: &chatURL{f.FileURI}}, nil
	case web && t.video && strings.HasPrefix(f.MIMEType, "video/"):
		return &chatPart{Type: "video_url", VideoURL: &chatURL{f.FileURI}}, nil
	case web && t.fileURLs:
		return &chatPart{Type: "file", File: &chatFile{Name: cmp.Or(f.DisplayName, "file"), Data: f.FileURI}}, nil
	case t.fileIDs && strings.HasPrefix(f.FileURI, "file-"), t.format == formatLiteLLM && strings.HasPrefix(f.FileURI, "gs://"):
		return &chatPart{Type: "file", File: &chatFile{ID: f.FileURI}}, nil
	}
	return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("a file of type %s by its address cannot be sent to this provider: only images on the web can", cmp.Or(f.MIMEType, "unknown")))
}

// sounds are the formats of audio by their types.
var sounds = map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}

func (t *chatTarget) inlinePart(b *genai.Blob) (*chatPart, error) {
	kind, _, _ := strings.Cut(b.MIMEType, ";")
	data := base64.StdEncoding.EncodeToString(b.Data)
	dataURL := "data:" + kind + ";base64," + data
	switch {
	case strings.HasPrefix(kind, "image/"):
		return &chatPart{Type: "image_url", ImageURL: &chatURL{dataURL}}, nil
	case isTextData(b):
		return &chatPart{Type: "text", Text: dataText(b)}, nil
	case sounds[kind] != "":
		return &chatPart{Type: "input_audio", Audio: &chatAudio{data, sounds[kind]}}, nil
	case kind == "application/pdf":
		return &chatPart{Type: "file", File: &chatFile{Name: cmp.Or(b.DisplayName, "file.pdf"), Data: dataURL}}, nil
	case t.video && strings.HasPrefix(kind, "video/"):
		return &chatPart{Type: "video_url", VideoURL: &chatURL{dataURL}}, nil
	}
	return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("data of type %s cannot be sent to this provider: images, texts, PDF, WAV and MP3 can", cmp.Or(kind, "unknown")))
}

// isTextData reports whether data is sent as text.
func isTextData(b *genai.Blob) bool {
	kind, _, _ := strings.Cut(b.MIMEType, ";")
	return strings.HasPrefix(kind, "text/") || kind == "application/json"
}

func dataText(b *genai.Blob) string { return strings.ToValidUTF8(string(b.Data), "\uFFFD") }
