package a2aserver

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"slices"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// adkExtension is the URI of the extension with which ADK's remote agents ask for all parts and metadata
// (ADK: a2a/executor/a2a_agent_executor_impl.py).
const adkExtension = "https://google.github.io/adk-docs/a2a/a2a-extension/"

// Keys in metadata (ADK: a2a/converters/part_converter.py).
const (
	typeKey        = "adk_type"
	longRunningKey = "adk_is_long_running"
	thoughtKey     = "adk_thought"

	typeCall     = "function_call"
	typeResponse = "function_response"
)

// Marks around data in a part of the type text/plain, as in ADK.
const (
	dataStart = "<a2a_datapart_json>"
	dataEnd   = "</a2a_datapart_json>"
	dataType  = "text/plain"
)

// Limits for messages.
const (
	maxParts    = 100
	maxName     = 256
	maxMetadata = 4096
	maxID       = 256
)

func newInvalid(format string, args ...any) error {
	return a2a.NewError(a2a.ErrInvalidParams, fmt.Sprintf(format, args...))
}

// readParts returns a message's parts.
func readParts(m *a2a.Message) ([]*genai.Part, error) {
	if len(m.Parts) == 0 || len(m.Parts) > maxParts {
		return nil, newInvalid("message.parts must have 1 to %d parts, got %d", maxParts, len(m.Parts))
	}
	var all []*genai.Part
	for i, p := range m.Parts {
		part, err := readPart(fmt.Sprintf("message.parts[%d]", i), p)
		if err != nil {
			return nil, err
		}
		all = append(all, part)
	}
	return all, nil
}

func readPart(at string, p *a2a.Part) (*genai.Part, error) {
	if p == nil {
		return nil, newInvalid("%s must be an object", at)
	}
	kind := p.MediaType
	if kind != "" {
		parsed, _, err := mime.ParseMediaType(kind)
		if err != nil {
			return nil, a2a.NewError(a2a.ErrUnsupportedContentType, at+".mediaType must be a media type")
		}
		kind = parsed
	}
	name := protocol.TruncateText(p.Filename, maxName)
	switch content := p.Content.(type) {
	case a2a.Text:
		return &genai.Part{Text: string(content)}, nil
	case a2a.Raw:
		if len(content) == 0 {
			return nil, newInvalid("%s.raw must not be empty", at)
		}
		if kind == "" {
			kind = "application/octet-stream"
		}
		return &genai.Part{InlineData: &genai.Blob{Data: content, MIMEType: kind, DisplayName: name}}, nil
	case a2a.URL:
		u, err := url.Parse(string(content))
		if err != nil || u.Host == "" || !slices.Contains([]string{"https", "http", "gs"}, u.Scheme) {
			return nil, newInvalid("%s.url must be an https://, http:// or gs:// address", at)
		}
		return &genai.Part{FileData: &genai.FileData{FileURI: u.String(), MIMEType: kind, DisplayName: name}}, nil
	case a2a.Data:
		return readData(at, p, content.Value)
	}
	return nil, newInvalid("%s must have text, raw, url or data", at)
}

// readData returns the response to a call, or data as text for the model.
func readData(at string, p *a2a.Part, value any) (*genai.Part, error) {
	switch p.Metadata[typeKey] {
	case nil:
		text, err := server.EncodeJSON(value)
		if err != nil {
			return nil, newInvalid("%s.data: %s", at, err)
		}
		return &genai.Part{InlineData: &genai.Blob{Data: slices.Concat([]byte(dataStart), text, []byte(dataEnd)), MIMEType: dataType}}, nil
	case typeResponse:
	default:
		return nil, newInvalid("%s.metadata.%s must be %s", at, typeKey, typeResponse)
	}
	object, _ := value.(map[string]any)
	id, _ := object["id"].(string)
	name, _ := object["name"].(string)
	response, ok := object["response"].(map[string]any)
	if id == "" || !ok {
		return nil, newInvalid("%s.data must have the id of a call, and its response as an object", at)
	}
	return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: id, Name: name, Response: response}}, nil
}

// readWrapped returns the data in a part that readData made; nil for another one.
func readWrapped(b *genai.Blob) json.RawMessage {
	text, ok := bytes.CutPrefix(b.Data, []byte(dataStart))
	text, isWhole := bytes.CutSuffix(text, []byte(dataEnd))
	if b.MIMEType != dataType || !ok || !isWhole || !json.Valid(text) {
		return nil
	}
	return text
}

// buildParts returns an event's parts for a client. Thoughts, calls and results are for ADK's clients
// only; hidden are the IDs of calls that the task's state has.
func buildParts(c *genai.Content, isADK bool, hidden []string) a2a.ContentParts {
	if c == nil {
		return nil
	}
	var all a2a.ContentParts
	for _, p := range c.Parts {
		if part := buildPart(p, isADK, hidden); part != nil {
			all = append(all, part)
		}
	}
	return all
}

func buildPart(p *genai.Part, isADK bool, hidden []string) *a2a.Part {
	switch {
	case p == nil || p.Thought && !isADK:
	case p.Text != "":
		part := a2a.NewTextPart(p.Text)
		if p.Thought {
			part.SetMeta(thoughtKey, true)
		}
		return part
	case p.InlineData != nil && len(p.InlineData.Data) > 0:
		if data := readWrapped(p.InlineData); data != nil {
			return a2a.NewDataPart(data)
		}
		part := a2a.NewRawPart(p.InlineData.Data)
		part.MediaType, part.Filename = p.InlineData.MIMEType, p.InlineData.DisplayName
		return part
	case p.FileData != nil && p.FileData.FileURI != "":
		part := a2a.NewFileURLPart(a2a.URL(p.FileData.FileURI), p.FileData.MIMEType)
		part.Filename = p.FileData.DisplayName
		return part
	case !isADK:
	case p.FunctionCall != nil && !slices.Contains(hidden, p.FunctionCall.ID):
		return newTypedPart(typeCall, p.FunctionCall, p.ThoughtSignature)
	case p.FunctionResponse != nil && !slices.Contains(hidden, p.FunctionResponse.ID):
		return newTypedPart(typeResponse, p.FunctionResponse, nil)
	case p.ExecutableCode != nil:
		return newTypedPart("executable_code", p.ExecutableCode, nil)
	case p.CodeExecutionResult != nil:
		return newTypedPart("code_execution_result", p.CodeExecutionResult, nil)
	}
	return nil
}

// newTypedPart returns a part of ADK's as data; nil for a value without a JSON form.
func newTypedPart(kind string, value any, signature []byte) *a2a.Part {
	text, err := server.EncodeJSON(value)
	if err != nil {
		return nil
	}
	object, err := session.DecodeMap(text)
	if err != nil {
		return nil
	}
	part := a2a.NewDataPart(object)
	part.SetMeta(typeKey, kind)
	if len(signature) > 0 {
		part.SetMeta("adk_thought_signature", base64.StdEncoding.EncodeToString(signature))
	}
	return part
}
