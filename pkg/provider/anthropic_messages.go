package provider

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// An anthropicBlock is a content block or a tool, as JSON.
type anthropicBlock = map[string]any

// An anthropicMessage is one message of a request.
type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

// trimEnd removes the white space at the end of the last text, which the service rejects
// at the end of a conversation.
func (m *anthropicMessage) trimEnd() {
	for n := len(m.Content); n > 0; n-- {
		text, ok := m.Content[n-1]["text"].(string)
		if !ok {
			return
		}
		if text = strings.TrimRight(text, " \t\r\n"); text != "" {
			m.Content[n-1]["text"] = text
			return
		}
		m.Content = m.Content[:n-1]
	}
}

// continuesUnthought reports whether the last message answers calls of a message that
// does not begin with a thought.
func continuesUnthought(messages []anthropicMessage) bool {
	n := len(messages)
	if n < 2 || messages[n-1].Content[0]["type"] != "tool_result" {
		return false
	}
	kind := messages[n-2].Content[0]["type"]
	return kind != "thinking" && kind != "redacted_thinking"
}

// anthropicMessages converts the conversation: roles alternate, the user begins and
// ends, and each call is answered at the beginning of the next message. Only thoughts
// that the same model signed are sent back. dropped names what cannot be sent.
func anthropicMessages(name string, contents []*genai.Content) (messages []anthropicMessage, dropped []string, err error) {
	w := &anthropicWriter{model: name, used: map[string]bool{}}
	own := withoutForeignParts(contents, anthropicVendor)
	for _, c := range endWithUser(fillOpenCalls(mergeResponses(dropEmptyContents(own)))) {
		if err := w.addContent(c); err != nil {
			return nil, nil, err
		}
	}
	if len(w.messages) == 0 || w.messages[0].Role != roleUser {
		w.messages = slices.Insert(w.messages, 0, anthropicMessage{roleUser, []anthropicBlock{textBlock("Continue the conversation.")}})
	}
	if last := w.messages[len(w.messages)-1]; last.Role != roleUser {
		w.messages = append(w.messages, anthropicMessage{roleUser, []anthropicBlock{textBlock("Continue.")}})
	}
	return w.messages, w.dropped, nil
}

// mergeResponses joins contents of the user that follow each other if they answer calls:
// all responses to the calls of a content must be in the next one.
func mergeResponses(contents []*genai.Content) []*genai.Content {
	var merged []*genai.Content
	for _, c := range contents {
		n := len(merged)
		if n > 0 && c.Role != genai.RoleModel && merged[n-1].Role != genai.RoleModel && len(model.ResponsesOf(c)) > 0 {
			merged[n-1] = &genai.Content{Role: c.Role, Parts: slices.Concat(merged[n-1].Parts, c.Parts)}
			continue
		}
		merged = append(merged, c)
	}
	return merged
}

// An anthropicWriter converts contents to messages.
type anthropicWriter struct {
	model    string
	messages []anthropicMessage
	dropped  []string
	// open are the calls of the last message without a response, used the IDs of all
	// calls, and generated counts the IDs that replaced others.
	open      []anthropicOpenCall
	used      map[string]bool
	generated int
}

// An anthropicOpenCall is a call and the ID that was sent for it.
type anthropicOpenCall struct{ id, name, sent string }

func (w *anthropicWriter) addContent(c *genai.Content) error {
	if c.Role == genai.RoleModel {
		w.addAssistant(c)
		return nil
	}
	var results, others []anthropicBlock
	for _, p := range c.Parts {
		if p.FunctionResponse != nil {
			block, isResult, err := w.responseBlock(p.FunctionResponse)
			if err != nil {
				return err
			}
			if isResult {
				results = append(results, block)
			} else {
				others = append(others, block)
			}
			continue
		}
		block, err := userBlock(p)
		if err != nil {
			return err
		}
		if block != nil {
			others = append(others, block)
		}
	}
	w.open = nil
	w.appendBlocks(roleUser, append(results, others...))
	return nil
}

// appendBlocks adds blocks to a message of the role.
func (w *anthropicWriter) appendBlocks(role string, blocks []anthropicBlock) {
	if len(blocks) == 0 {
		return
	}
	if n := len(w.messages); n > 0 && w.messages[n-1].Role == role {
		w.messages[n-1].Content = append(w.messages[n-1].Content, blocks...)
		return
	}
	w.messages = append(w.messages, anthropicMessage{role, blocks})
}

func (w *anthropicWriter) addAssistant(c *genai.Content) {
	var blocks []anthropicBlock
	for _, p := range c.Parts {
		switch {
		case p.Thought:
			if block := w.thoughtBlock(p); block != nil {
				blocks = append(blocks, block)
			}
		case p.FunctionCall != nil:
			blocks = append(blocks, w.callBlock(p.FunctionCall))
		case p.ExecutableCode != nil:
			blocks = append(blocks, textBlock("Code:\n```\n"+p.ExecutableCode.Code+"\n```"))
		case p.CodeExecutionResult != nil:
			blocks = append(blocks, textBlock("Execution Result:\n```\n"+p.CodeExecutionResult.Output+"\n```"))
		case strings.TrimSpace(p.Text) != "":
			blocks = append(blocks, textBlock(p.Text))
		case p.InlineData != nil || p.FileData != nil:
			w.dropped = append(w.dropped, "media of the model")
		}
	}
	w.appendBlocks(roleAssistant, blocks)
}

func textBlock(text string) anthropicBlock { return anthropicBlock{"type": "text", "text": text} }

// thoughtBlock returns the block of a thought that the same model signed, or nil.
func (w *anthropicWriter) thoughtBlock(p *genai.Part) anthropicBlock {
	if vendor, signer := partVendor(p); vendor != anthropicVendor || !isSigner(signer, w.model) || len(p.ThoughtSignature) == 0 {
		return nil
	}
	if p.PartMetadata[redactedKey] == true {
		return anthropicBlock{"type": "redacted_thinking", "data": string(p.ThoughtSignature)}
	}
	return anthropicBlock{"type": "thinking", "thinking": p.Text, "signature": string(p.ThoughtSignature)}
}

// callID matches the IDs of calls that the service accepts.
var callID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// callBlock returns the block of a call, with an ID of its own.
func (w *anthropicWriter) callBlock(c *genai.FunctionCall) anthropicBlock {
	sent := c.ID
	for !callID.MatchString(sent) || w.used[sent] {
		w.generated++
		sent = fmt.Sprintf("toolu_fallback_%d", w.generated)
	}
	w.used[sent] = true
	w.open = append(w.open, anthropicOpenCall{c.ID, c.Name, sent})
	input := c.Args
	if input == nil {
		input = map[string]any{}
	}
	return anthropicBlock{"type": "tool_use", "id": sent, "name": wireToolName(c.Name), "input": input}
}

// responseBlock returns the result of the call with the ID of the response, or of the
// first open one of its name. A response without a call becomes text.
func (w *anthropicWriter) responseBlock(r *genai.FunctionResponse) (block anthropicBlock, isResult bool, err error) {
	content, err := resultContent(r)
	if err != nil {
		return nil, false, err
	}
	i := slices.IndexFunc(w.open, func(c anthropicOpenCall) bool { return c.id == r.ID && (r.ID != "" || c.name == r.Name) })
	if i < 0 {
		raw, err := json.Marshal(r.Response)
		if err != nil {
			return nil, false, newConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode response of %s: %s", r.Name, err))
		}
		return textBlock(fmt.Sprintf("%s answered: %s", r.Name, raw)), false, nil
	}
	block = anthropicBlock{"type": "tool_result", "tool_use_id": w.open[i].sent}
	w.open = slices.Delete(w.open, i, i+1)
	if len(content) > 0 {
		block["content"] = content
	}
	return block, true, nil
}

// resultContent returns the text of a response and its media.
func resultContent(r *genai.FunctionResponse) ([]anthropicBlock, error) {
	text, err := resultText(r.Response)
	if err != nil {
		return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode response of %s: %s", r.Name, err))
	}
	var blocks []anthropicBlock
	if strings.TrimSpace(text) != "" {
		blocks = append(blocks, textBlock(text))
	}
	for _, p := range r.Parts {
		part := &genai.Part{}
		switch {
		case p == nil:
			continue
		case p.InlineData != nil:
			part.InlineData = &genai.Blob{MIMEType: p.InlineData.MIMEType, Data: p.InlineData.Data, DisplayName: p.InlineData.DisplayName}
		case p.FileData != nil:
			part.FileData = &genai.FileData{MIMEType: p.FileData.MIMEType, FileURI: p.FileData.FileURI}
		}
		block, err := userBlock(part)
		if err != nil {
			return nil, err
		}
		if block != nil {
			blocks = append(blocks, block)
		}
	}
	return blocks, nil
}

// resultText returns the text of a response: the texts of an MCP content list, a lone
// content or result, or else the whole JSON (adk-python models/anthropic_llm.py).
func resultText(response map[string]any) (string, error) {
	if len(response) == 1 {
		for _, name := range []string{"content", "result"} {
			switch value := response[name].(type) {
			case string:
				return value, nil
			case []any:
				if texts, ok := contentTexts(value); ok && name == "content" {
					return strings.Join(texts, "\n"), nil
				}
			}
		}
	}
	var value any = response
	if result, ok := response["result"]; ok && len(response) == 1 {
		value = result
	}
	raw, err := json.Marshal(value)
	return string(raw), err
}

// contentTexts returns the texts of a list that has nothing else.
func contentTexts(list []any) (texts []string, ok bool) {
	for _, item := range list {
		block, _ := item.(map[string]any)
		text, isText := block["text"].(string)
		if !isText {
			return nil, false
		}
		texts = append(texts, text)
	}
	return texts, len(texts) > 0
}

// userBlock converts text, an image or a document; it returns nil for an empty part.
func userBlock(p *genai.Part) (anthropicBlock, error) {
	switch {
	case p.InlineData != nil:
		return inlineBlock(p.InlineData)
	case p.FileData != nil:
		return fileBlock(p.FileData)
	case p.Thought || strings.TrimSpace(p.Text) == "":
		return nil, nil
	}
	return textBlock(p.Text), nil
}

func inlineBlock(b *genai.Blob) (anthropicBlock, error) {
	kind, _, _ := strings.Cut(b.MIMEType, ";")
	var block anthropicBlock
	switch {
	case slices.Contains([]string{"image/jpeg", "image/png", "image/gif", "image/webp"}, kind):
		return anthropicBlock{"type": "image", "source": map[string]any{"type": "base64", "media_type": kind, "data": b.Data}}, nil
	case kind == "application/pdf":
		block = anthropicBlock{"type": "document", "source": map[string]any{"type": "base64", "media_type": kind, "data": b.Data}}
	case strings.HasPrefix(kind, "text/"), kind == "application/json":
		text := strings.ToValidUTF8(string(b.Data), "\uFFFD")
		if strings.TrimSpace(text) == "" {
			return nil, nil
		}
		block = anthropicBlock{"type": "document", "source": map[string]any{"type": "text", "media_type": "text/plain", "data": text}}
	default:
		return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("data of type %s cannot be sent to Claude: "+
			"JPEG, PNG, GIF and WebP images, PDF and text can", cmp.Or(kind, "unknown")))
	}
	if b.DisplayName != "" {
		block["title"] = b.DisplayName
	}
	return block, nil
}

func fileBlock(f *genai.FileData) (anthropicBlock, error) {
	kind, _, _ := strings.Cut(f.MIMEType, ";")
	source := map[string]any{"type": "url", "url": f.FileURI}
	switch isWeb := strings.HasPrefix(f.FileURI, "https://") || strings.HasPrefix(f.FileURI, "http://"); {
	case isWeb && strings.HasPrefix(kind, "image/"):
		return anthropicBlock{"type": "image", "source": source}, nil
	case isWeb && kind == "application/pdf":
		return anthropicBlock{"type": "document", "source": source}, nil
	}
	return nil, newConfigError(http.StatusBadRequest, fmt.Sprintf("a file of type %s by its address cannot be sent to Claude: "+
		"only images and PDF on the web can", cmp.Or(kind, "unknown")))
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }
