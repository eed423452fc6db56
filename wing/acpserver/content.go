package acpserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"path"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/protocol"
)

// A contentBlock is a part of a message on the wire.
type contentBlock struct {
	Type        string            `json:"type"`
	Text        *string           `json:"text,omitempty"`
	Data        *string           `json:"data,omitempty"`
	MIMEType    *string           `json:"mimeType,omitempty"`
	URI         *string           `json:"uri,omitempty"`
	Name        *string           `json:"name,omitempty"`
	Description *string           `json:"description,omitempty"`
	Resource    *embeddedResource `json:"resource,omitempty"`
}

type embeddedResource struct {
	URI      *string `json:"uri,omitempty"`
	MIMEType *string `json:"mimeType,omitempty"`
	Text     *string `json:"text,omitempty"`
	Blob     *string `json:"blob,omitempty"`
}

// maxBlocks limits the blocks in a prompt.
const maxBlocks = 1000

// readPrompt returns a prompt as the user's message.
func readPrompt(blocks []json.RawMessage) (*genai.Content, error) {
	switch {
	case len(blocks) == 0:
		return nil, newParamsError("prompt must have at least one block")
	case len(blocks) > maxBlocks:
		return nil, newParamsError("prompt exceeds the limit of %d blocks, got %d", maxBlocks, len(blocks))
	}
	content := &genai.Content{Role: genai.RoleUser}
	for i, text := range blocks {
		place := fmt.Sprintf("params.prompt[%d]", i)
		var b contentBlock
		if err := decodeValue(place, text, &b); err != nil {
			return nil, err
		}
		part, err := b.readPart()
		if err != nil {
			return nil, newWireError(codeInvalidParams, "%s%s", place, err)
		}
		content.Parts = append(content.Parts, part)
	}
	return content, nil
}

// readPart returns a block as a part. Links are not followed: the model reads the address. The error
// begins after the block's place.
func (b *contentBlock) readPart() (*genai.Part, error) {
	switch b.Type {
	case "text":
		if b.Text == nil {
			return nil, fmt.Errorf(".text is required")
		}
		return &genai.Part{Text: *b.Text}, nil
	case "image", "audio":
		if b.Data == nil {
			return nil, fmt.Errorf(".data is required")
		}
		kind, _, err := mime.ParseMediaType(readOptional(b.MIMEType))
		if err != nil || !strings.HasPrefix(kind, b.Type+"/") {
			return nil, fmt.Errorf(".mimeType must be a media type of %s, got %q", b.Type, protocol.TruncateText(readOptional(b.MIMEType), maxShown))
		}
		data, err := base64.StdEncoding.DecodeString(*b.Data)
		if err != nil {
			return nil, fmt.Errorf(".data must be base64: %w", err)
		}
		return &genai.Part{InlineData: &genai.Blob{Data: data, MIMEType: kind}}, nil
	case "resource_link":
		if b.URI == nil || b.Name == nil {
			return nil, fmt.Errorf(".uri and .name are required")
		}
		text := fmt.Sprintf("[%s](%s)", *b.Name, *b.URI)
		if about := readOptional(b.Description); about != "" {
			text += ": " + about
		}
		return &genai.Part{Text: text}, nil
	case "resource":
		return b.Resource.readPart()
	}
	return nil, fmt.Errorf(".type must be text, image, audio, resource_link or resource, got %q", protocol.TruncateText(b.Type, maxShown))
}

func (r *embeddedResource) readPart() (*genai.Part, error) {
	switch {
	case r == nil:
		return nil, fmt.Errorf(".resource is required")
	case r.URI == nil:
		return nil, fmt.Errorf(".resource.uri is required")
	case r.Text != nil:
		return &genai.Part{Text: "Content of " + *r.URI + ":\n\n" + *r.Text}, nil
	case r.Blob == nil:
		return nil, fmt.Errorf(".resource.text or .resource.blob is required")
	}
	data, err := base64.StdEncoding.DecodeString(*r.Blob)
	if err != nil {
		return nil, fmt.Errorf(".resource.blob must be base64: %w", err)
	}
	kind, _, err := mime.ParseMediaType(readOptional(r.MIMEType))
	if err != nil {
		kind = "application/octet-stream"
	}
	return &genai.Part{InlineData: &genai.Blob{Data: data, MIMEType: kind, DisplayName: path.Base(*r.URI)}}, nil
}

func readOptional(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// newBlock returns a part as a block; nil for one that clients do not see.
func newBlock(p *genai.Part) *contentBlock {
	switch {
	case p == nil:
	case p.Text != "":
		return newTextBlock(p.Text)
	case p.InlineData != nil:
		data := base64.StdEncoding.EncodeToString(p.InlineData.Data)
		kind, _, err := mime.ParseMediaType(p.InlineData.MIMEType)
		if err != nil {
			kind = "application/octet-stream"
		}
		if family, _, _ := strings.Cut(kind, "/"); family == "image" || family == "audio" {
			return &contentBlock{Type: family, Data: &data, MIMEType: &kind}
		}
		uri := "attachment:" + p.InlineData.DisplayName
		return &contentBlock{Type: "resource", Resource: &embeddedResource{URI: &uri, MIMEType: &kind, Blob: &data}}
	case p.FileData != nil && !strings.HasPrefix(p.FileData.FileURI, "artifact:"):
		name := p.FileData.DisplayName
		if name == "" {
			name = path.Base(p.FileData.FileURI)
		}
		return &contentBlock{Type: "resource_link", URI: &p.FileData.FileURI, Name: &name}
	case p.ExecutableCode != nil:
		return newTextBlock("```" + strings.ToLower(string(p.ExecutableCode.Language)) + "\n" + p.ExecutableCode.Code + "\n```\n")
	case p.CodeExecutionResult != nil:
		return newTextBlock("```\n" + p.CodeExecutionResult.Output + "\n```\n")
	}
	return nil
}

func newTextBlock(text string) *contentBlock { return &contentBlock{Type: "text", Text: &text} }
