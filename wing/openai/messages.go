package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
)

// encodeMessages converts the conversation: the system instruction first, and each tool
// response right after the message with its call.
func (t *chatTarget) encodeMessages(req *model.Request) ([]chatMessage, error) {
	w := &chatWriter{target: t}
	instruction := strings.TrimPrefix(req.Instruction()+"\n\n"+t.schemaInstruction(req.Config), "\n\n")
	if instruction = strings.TrimSuffix(instruction, "\n\n"); instruction != "" {
		w.messages = append(w.messages, chatMessage{Role: "system", Content: instruction})
	}
	contents := modelapi.EndWithUser(req.Contents)
	if t.gemini && modelapi.IsGemini3(t.model) {
		contents = modelapi.SignCalls(contents)
	}
	mode := cmp.Or(t.thoughts, modelapi.ThoughtsTools)
	thoughts := modelapi.FirstThoughtIndex(contents, mode)
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

// noAnswerText is the model message between tool responses and the user, where a service requires
// one.
const noAnswerText = "(no answer)"

// A chatWriter converts contents to messages.
type chatWriter struct {
	target   *chatTarget
	messages []chatMessage
}

// addUser adds the tool responses, and then the rest of the content with the responses' files.
func (w *chatWriter) addUser(c *genai.Content) error {
	responses := model.ResponsesOf(c)
	for _, r := range responses {
		raw, err := modelapi.EncodeResponse(r)
		if err != nil {
			return err
		}
		w.messages = append(w.messages, chatMessage{Role: "tool", ToolCallID: r.ID, Content: string(raw)})
	}
	var parts []chatPart
	for _, p := range slices.Concat(modelapi.ResponseMedia(responses), c.Parts) {
		if p == nil || p.FunctionResponse != nil {
			continue
		}
		if part := w.target.userPart(p); part != nil {
			parts = append(parts, *part)
		}
	}
	if n := len(w.messages); len(parts) > 0 && w.target.answersTools && n > 0 && w.messages[n-1].Role == "tool" {
		w.messages = append(w.messages, chatMessage{Role: "assistant", Content: noAnswerText})
	}
	switch {
	case len(parts) == 1 && parts[0].Type == "text":
		w.messages = append(w.messages, chatMessage{Role: "user", Content: parts[0].Text})
	case len(parts) > 0:
		w.messages = append(w.messages, chatMessage{Role: "user", Content: parts})
	}
	return nil
}

// addAssistant adds the model's text and calls, and its own thoughts if they are sent back.
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
			text.WriteString(modelapi.AnswerText(p))
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

// addThought adds a model thought in the form in which it was read. Signed thoughts go only to the
// model that wrote them.
func (t *chatTarget) addThought(m *chatMessage, p *genai.Part) {
	owner, name := modelapi.PartVendor(p)
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
	case fieldEncrypted: // Responses API
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

func (w *chatWriter) encodeCall(p *genai.Part) (chatCall, error) {
	raw, err := modelapi.EncodeArguments(p.FunctionCall)
	if err != nil {
		return chatCall{}, err
	}
	call := chatCall{ID: p.FunctionCall.ID, Type: "function", Function: chatFunction{Name: p.FunctionCall.Name, Arguments: string(raw)}}
	if w.target.gemini && len(p.ThoughtSignature) > 0 {
		call.Extra = newGoogleExtra(p.ThoughtSignature)
		if !w.target.google {
			call.LiteLLM = &liteLLMFields{base64.StdEncoding.EncodeToString(p.ThoughtSignature)}
		}
	}
	return call, nil
}

// userPart converts text, an image, audio, video or a file; it returns nil for an empty
// part.
func (t *chatTarget) userPart(p *genai.Part) *chatPart {
	switch {
	case p.InlineData != nil:
		return t.inlinePart(p.InlineData)
	case p.FileData != nil:
		return t.filePart(p.FileData)
	case p.Text == "":
		return nil
	}
	return &chatPart{Type: "text", Text: p.Text}
}

// filePart converts a file by its address: an image or a video on the web, an uploaded
// file, or a file that the service loads.
func (t *chatTarget) filePart(f *genai.FileData) *chatPart {
	uploaded := strings.HasPrefix(f.FileURI, "file-") || strings.HasPrefix(f.FileURI, "gs://")
	switch {
	case uploaded:
		return &chatPart{Type: "file", File: &chatFile{ID: f.FileURI}}
	case strings.HasPrefix(f.MIMEType, "image/"):
		return &chatPart{Type: "image_url", ImageURL: &chatURL{f.FileURI}}
	case t.video && strings.HasPrefix(f.MIMEType, "video/"):
		return &chatPart{Type: "video_url", VideoURL: &chatURL{f.FileURI}}
	}
	return &chatPart{Type: "file", File: &chatFile{Name: cmp.Or(f.DisplayName, "file"), Data: f.FileURI}}
}

// sounds are the audio formats by their types.
var sounds = map[string]string{"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}

func (t *chatTarget) inlinePart(b *genai.Blob) *chatPart {
	kind := modelapi.BaseType(b.MIMEType)
	data := base64.StdEncoding.EncodeToString(b.Data)
	dataURL := "data:" + kind + ";base64," + data
	switch {
	case strings.HasPrefix(kind, "image/"):
		return &chatPart{Type: "image_url", ImageURL: &chatURL{dataURL}}
	case modelapi.IsTextData(b):
		return &chatPart{Type: "text", Text: modelapi.DataText(b)}
	case sounds[kind] != "":
		return &chatPart{Type: "input_audio", Audio: &chatAudio{data, sounds[kind]}}
	case strings.HasPrefix(kind, "video/"):
		return &chatPart{Type: "video_url", VideoURL: &chatURL{dataURL}}
	}
	return &chatPart{Type: "file", File: &chatFile{Name: cmp.Or(b.DisplayName, "file.pdf"), Data: dataURL}}
}
