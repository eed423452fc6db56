package anthropic

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/session"
)

const (
	roleUser      = "user"
	roleAssistant = "assistant"
)

// An anthropicBlock is a content block or a tool, as JSON.
type anthropicBlock = map[string]any

// An anthropicMessage is one request message.
type anthropicMessage struct {
	Role    string           `json:"role"`
	Content []anthropicBlock `json:"content"`
}

// trimEnd removes the last text's trailing white space: the service rejects it at the end of a
// conversation.
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

// continuesUnthought reports whether the last message answers calls in a message that does not
// begin with a thought.
func continuesUnthought(messages []anthropicMessage) bool {
	n := len(messages)
	if n < 2 || messages[n-1].Content[0]["type"] != "tool_result" {
		return false
	}
	kind := messages[n-2].Content[0]["type"]
	return kind != "thinking" && kind != "redacted_thinking"
}

// anthropicMessages converts the conversation: roles alternate, the user ends, and each
// call is answered at the beginning of the next message. Only thoughts that the same
// model signed are sent back.
func anthropicMessages(name string, contents []*genai.Content) ([]anthropicMessage, error) {
	w := &anthropicWriter{model: name}
	for _, c := range modelapi.EndWithUser(contents) {
		if err := w.addContent(c); err != nil {
			return nil, err
		}
	}
	if len(w.messages) == 0 || w.messages[0].Role != roleUser {
		w.messages = slices.Insert(w.messages, 0, anthropicMessage{roleUser, []anthropicBlock{textBlock(modelapi.BeginText)}})
	}
	return w.messages, nil
}

// An anthropicWriter converts contents to messages.
type anthropicWriter struct {
	model    string
	messages []anthropicMessage
}

func (w *anthropicWriter) addContent(c *genai.Content) error {
	if c.Role == genai.RoleModel {
		return w.addAssistant(c)
	}
	var blocks []anthropicBlock
	for _, p := range c.Parts {
		if p.FunctionResponse != nil {
			block, err := responseBlock(p.FunctionResponse)
			if err != nil {
				return err
			}
			blocks = append(blocks, block)
			continue
		}
		if block := userBlock(p); block != nil {
			blocks = append(blocks, block)
		}
	}
	w.appendBlocks(roleUser, blocks)
	return nil
}

// appendBlocks adds blocks to a message with the role.
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

func (w *anthropicWriter) addAssistant(c *genai.Content) error {
	var blocks []anthropicBlock
	for _, p := range c.Parts {
		switch {
		case p.Thought:
			if block := w.thoughtBlock(p); block != nil {
				blocks = append(blocks, block)
			}
		case p.FunctionCall != nil:
			input, err := modelapi.EncodeArguments(p.FunctionCall)
			if err != nil {
				return err
			}
			blocks = append(blocks, anthropicBlock{"type": "tool_use", "id": p.FunctionCall.ID, "name": p.FunctionCall.Name, "input": input})
		case p.ExecutableCode != nil:
			blocks = append(blocks, textBlock("Code:\n```\n"+p.ExecutableCode.Code+"\n```"))
		case p.CodeExecutionResult != nil:
			blocks = append(blocks, textBlock("Execution Result:\n```\n"+p.CodeExecutionResult.Output+"\n```"))
		case strings.TrimSpace(p.Text) != "":
			blocks = append(blocks, textBlock(p.Text))
		}
	}
	w.appendBlocks(roleAssistant, blocks)
	return nil
}

func textBlock(text string) anthropicBlock { return anthropicBlock{"type": "text", "text": text} }

// thoughtBlock returns the block for a thought that the same model signed, or nil.
func (w *anthropicWriter) thoughtBlock(p *genai.Part) anthropicBlock {
	if vendor, signer := modelapi.PartVendor(p); vendor != modelapi.AnthropicVendor || !isSigner(signer, w.model) || len(p.ThoughtSignature) == 0 {
		return nil
	}
	if p.PartMetadata[modelapi.RedactedKey] == true {
		return anthropicBlock{"type": "redacted_thinking", "data": string(p.ThoughtSignature)}
	}
	return anthropicBlock{"type": "thinking", "thinking": p.Text, "signature": string(p.ThoughtSignature)}
}

// responseBlock returns a call's result.
func responseBlock(r *genai.FunctionResponse) (anthropicBlock, error) {
	content, err := resultContent(r)
	if err != nil {
		return nil, err
	}
	block := anthropicBlock{"type": "tool_result", "tool_use_id": r.ID}
	if len(content) > 0 {
		block["content"] = content
	}
	return block, nil
}

// resultContent returns a response's text and media.
func resultContent(r *genai.FunctionResponse) ([]anthropicBlock, error) {
	text, err := resultText(r.Response)
	if err != nil {
		return nil, modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode response of %s: %s", r.Name, err))
	}
	var blocks []anthropicBlock
	if strings.TrimSpace(text) != "" {
		blocks = append(blocks, textBlock(text))
	}
	for _, p := range modelapi.FilesOfResponse(r) {
		if block := userBlock(p); block != nil {
			blocks = append(blocks, block)
		}
	}
	return blocks, nil
}

// resultText returns a response's text: the texts in an MCP content list, a lone content or result,
// or else the whole JSON (adk-python models/anthropic_llm.py).
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
	raw, err := session.EncodeValue(value)
	return string(raw), err
}

// contentTexts returns the texts in a list that has nothing else.
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
func userBlock(p *genai.Part) anthropicBlock {
	switch {
	case p.InlineData != nil:
		return inlineBlock(p.InlineData)
	case p.FileData != nil:
		kind := "document"
		if strings.HasPrefix(p.FileData.MIMEType, "image/") {
			kind = "image"
		}
		return anthropicBlock{"type": kind, "source": map[string]any{"type": "url", "url": p.FileData.FileURI}}
	case p.Thought || p.Text == "":
		return nil
	}
	return textBlock(p.Text)
}

func inlineBlock(b *genai.Blob) anthropicBlock {
	kind := modelapi.BaseType(b.MIMEType)
	source := map[string]any{"type": "base64", "media_type": kind, "data": b.Data}
	if strings.HasPrefix(kind, "image/") {
		return anthropicBlock{"type": "image", "source": source}
	}
	if modelapi.IsTextData(b) {
		source = map[string]any{"type": "text", "media_type": "text/plain", "data": modelapi.DataText(b)}
	}
	block := anthropicBlock{"type": "document", "source": source}
	if b.DisplayName != "" {
		block["title"] = b.DisplayName
	}
	return block
}

// claudeDate matches the date at the end of a Claude version.
var claudeDate = regexp.MustCompile(`[-@]20[0-9]{6}$`)

// isSigner reports whether a Claude model wrote what signer signed: it has this name, or the name
// without this version's date.
func isSigner(signer, name string) bool {
	return signer == name || claudeDate.ReplaceAllString(signer, "") == name
}
