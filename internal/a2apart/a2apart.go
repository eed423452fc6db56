// Package a2apart converts between A2A's message parts and event parts, as ADK does
// (a2a/converters/part_converter.py). Both sides use it: servers and clients.
package a2apart

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

// ADKExtension is the extension's URI with which ADK's remote agents request all parts and metadata
// (ADK: a2a/executor/a2a_agent_executor_impl.py).
const ADKExtension = "https://google.github.io/adk-docs/a2a/a2a-extension/"

// Keys in metadata (ADK: a2a/converters/part_converter.py).
const (
	TypeKey        = "adk_type"
	LongRunningKey = "adk_is_long_running"
	ThoughtKey     = "adk_thought"

	TypeCall     = "function_call"
	TypeResponse = "function_response"
)

// Marks around data in an inline part, as in ADK.
const (
	dataStart = "<a2a_datapart_json>"
	dataEnd   = "</a2a_datapart_json>"
	dataType  = "text/plain"
)

// maxName limits a file's name.
const maxName = 256

func newInvalid(format string, args ...any) error {
	return a2a.NewError(a2a.ErrInvalidParams, fmt.Sprintf(format, args...))
}

// ReadPart returns a message part for an event; at is its place for errors, which are [a2a.ErrInvalidParams]
// or [a2a.ErrUnsupportedContentType].
func ReadPart(at string, p *a2a.Part) (*genai.Part, error) {
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
	switch p.Metadata[TypeKey] {
	case nil:
		text, err := server.EncodeJSON(value)
		if err != nil {
			return nil, newInvalid("%s.data: %s", at, err)
		}
		return &genai.Part{InlineData: &genai.Blob{Data: slices.Concat([]byte(dataStart), text, []byte(dataEnd)), MIMEType: dataType}}, nil
	case TypeResponse:
	default:
		return nil, newInvalid("%s.metadata.%s must be %s", at, TypeKey, TypeResponse)
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

// ReadWrapped returns the data in a part that readData made; nil for another one.
func ReadWrapped(b *genai.Blob) json.RawMessage {
	text, ok := bytes.CutPrefix(b.Data, []byte(dataStart))
	text, isWhole := bytes.CutSuffix(text, []byte(dataEnd))
	if b.MIMEType != dataType || !ok || !isWhole || !json.Valid(text) {
		return nil
	}
	return text
}

// BuildParts returns an event's parts for a client. Thoughts, calls and results are for ADK's clients
// only; hidden are the calls, by ID, that the task's state has.
func BuildParts(c *genai.Content, isADK bool, hidden []string) a2a.ContentParts {
	if c == nil {
		return nil
	}
	var all a2a.ContentParts
	for _, p := range c.Parts {
		if part := BuildPart(p, isADK, hidden); part != nil {
			all = append(all, part)
		}
	}
	return all
}

// BuildPart returns an event part for a client, see [BuildParts]; nil for one that it does not get.
func BuildPart(p *genai.Part, isADK bool, hidden []string) *a2a.Part {
	switch {
	case p == nil || p.Thought && !isADK:
	case p.Text != "":
		part := a2a.NewTextPart(p.Text)
		if p.Thought {
			part.SetMeta(ThoughtKey, true)
		}
		return part
	case p.InlineData != nil && len(p.InlineData.Data) > 0:
		if data := ReadWrapped(p.InlineData); data != nil {
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
		return NewTypedPart(TypeCall, p.FunctionCall, p.ThoughtSignature)
	case p.FunctionResponse != nil && !slices.Contains(hidden, p.FunctionResponse.ID):
		return NewTypedPart(TypeResponse, p.FunctionResponse, nil)
	case p.ExecutableCode != nil:
		return NewTypedPart("executable_code", p.ExecutableCode, nil)
	case p.CodeExecutionResult != nil:
		return NewTypedPart("code_execution_result", p.CodeExecutionResult, nil)
	}
	return nil
}

// NewTypedPart returns a value as a data part with ADK's type; nil for one without a JSON form.
func NewTypedPart(kind string, value any, signature []byte) *a2a.Part {
	text, err := server.EncodeJSON(value)
	if err != nil {
		return nil
	}
	object, err := session.DecodeMap(text)
	if err != nil {
		return nil
	}
	part := a2a.NewDataPart(object)
	part.SetMeta(TypeKey, kind)
	if len(signature) > 0 {
		part.SetMeta("adk_thought_signature", base64.StdEncoding.EncodeToString(signature))
	}
	return part
}
