package provider

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// chatMessages converts the conversation: the system instruction first, and each tool
// response right after the message with its call.
func chatMessages(req *model.Request) ([]chatMessage, error) {
	w := &chatWriter{open: map[string][]string{}}
	if instruction := req.Instruction(); instruction != "" {
		w.messages = append(w.messages, chatMessage{Role: "system", Content: instruction})
	}
	for _, c := range endWithUser(normalizeContents(req.Contents)) {
		if err := w.addContent(c); err != nil {
			return nil, err
		}
	}
	return w.messages, nil
}

// A chatWriter converts contents to messages.
type chatWriter struct {
	messages []chatMessage
	// open holds the IDs of calls without a response, by function name; made counts the
	// generated IDs, because Gemini's calls need none.
	open         map[string][]string
	generatedIDs int
}

func (w *chatWriter) addContent(c *genai.Content) error {
	if c.Role == genai.RoleModel {
		return w.addAssistant(c)
	}
	var parts []chatPart
	for _, p := range c.Parts {
		switch {
		case p == nil:
		case p.FunctionResponse != nil:
			if err := w.addToolResponse(p.FunctionResponse); err != nil {
				return err
			}
		default:
			part, err := userPart(p)
			if err != nil {
				return err
			}
			if part != nil {
				parts = append(parts, *part)
			}
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

// addAssistant adds the text and calls of the model, without thoughts.
func (w *chatWriter) addAssistant(c *genai.Content) error {
	m := chatMessage{Role: "assistant"}
	var text strings.Builder
	for _, p := range c.Parts {
		switch {
		case p == nil || p.Thought:
		case p.FunctionCall != nil:
			call, err := w.encodeCall(p.FunctionCall)
			if err != nil {
				return err
			}
			m.ToolCalls = append(m.ToolCalls, call)
		case p.ExecutableCode != nil:
			text.WriteString(p.ExecutableCode.Code)
		case p.CodeExecutionResult != nil:
			text.WriteString(p.CodeExecutionResult.Output)
		default:
			text.WriteString(p.Text)
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

func (w *chatWriter) encodeCall(c *genai.FunctionCall) (chatCall, error) {
	args := c.Args
	if args == nil {
		args = map[string]any{}
	}
	raw, err := json.Marshal(args)
	if err != nil {
		return chatCall{}, newConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode arguments of %s: %s", c.Name, err))
	}
	id := c.ID
	if id == "" {
		w.generatedIDs++
		id = fmt.Sprintf("call_%d", w.generatedIDs)
		w.open[c.Name] = append(w.open[c.Name], id)
	}
	return chatCall{ID: id, Type: "function", Function: chatFunction{Name: c.Name, Arguments: string(raw)}}, nil
}

// addToolResponse answers the call with its ID, or the first open call of its name.
func (w *chatWriter) addToolResponse(r *genai.FunctionResponse) error {
	raw, err := json.Marshal(r.Response)
	if err != nil {
		return newConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode response of %s: %s", r.Name, err))
	}
	id := r.ID
	if open := w.open[r.Name]; id == "" && len(open) > 0 {
		id, w.open[r.Name] = open[0], open[1:]
	}
	if id == "" {
		// The call is no longer in the conversation: add the response as text.
		w.messages = append(w.messages, chatMessage{Role: "user", Content: fmt.Sprintf("%s answered: %s", r.Name, raw)})
		return nil
	}
	w.messages = append(w.messages, chatMessage{Role: "tool", ToolCallID: id, Content: string(raw)})
	return nil
}

// userPart converts text, an image, audio or a file; it returns nil for an empty part.
func userPart(p *genai.Part) (*chatPart, error) {
	switch {
	case p.InlineData != nil:
		return inlinePart(p.InlineData)
	case p.FileData != nil && strings.HasPrefix(p.FileData.MIMEType, "image/") && strings.HasPrefix(p.FileData.FileURI, "http"):
		return &chatPart{Type: "image_url", ImageURL: &chatImage{p.FileData.FileURI}}, nil
	case p.FileData != nil:
		return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("a file of type %s by its address cannot be sent to this provider: only images on the web can", cmp.Or(p.FileData.MIMEType, "unknown")))
	case p.Text == "":
		return nil, nil
	}
	return &chatPart{Type: "text", Text: p.Text}, nil
}

func inlinePart(b *genai.Blob) (*chatPart, error) {
	kind, _, _ := strings.Cut(b.MIMEType, ";")
	data := base64.StdEncoding.EncodeToString(b.Data)
	sounds := map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}
	switch {
	case strings.HasPrefix(kind, "image/"):
		return &chatPart{Type: "image_url", ImageURL: &chatImage{"data:" + kind + ";base64," + data}}, nil
	case strings.HasPrefix(kind, "text/"), kind == "application/json":
		return &chatPart{Type: "text", Text: strings.ToValidUTF8(string(b.Data), "\uFFFD")}, nil
	case sounds[kind] != "":
		return &chatPart{Type: "input_audio", Audio: &chatAudio{data, sounds[kind]}}, nil
	case kind == "application/pdf":
		return &chatPart{Type: "file", File: &chatFile{cmp.Or(b.DisplayName, "file.pdf"), "data:" + kind + ";base64," + data}}, nil
	}
	return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("data of type %s cannot be sent to this provider: images, texts, PDF, WAV and MP3 can", cmp.Or(kind, "unknown")))
}
