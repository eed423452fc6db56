package session

import (
	"fmt"
	"reflect"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// DecodeContent reads a content that a client sent. Keys may be camelCase or
// snake_case, bytes in either base64 alphabet. A key that a content or a part
// does not have is an error, as is a value of the wrong type: a [FieldError]
// with the path from the content, after the keys that lead to it, if they are
// given. Free-form maps are taken as they are.
func DecodeContent(b []byte, keys ...any) (*genai.Content, error) {
	c := new(genai.Content)
	if err := decodeStrict(b, c, keys); err != nil {
		return nil, err
	}
	return c, nil
}

// DecodePart reads a part by the rules of [DecodeContent].
func DecodePart(b []byte, keys ...any) (*genai.Part, error) {
	p := new(genai.Part)
	if err := decodeStrict(b, p, keys); err != nil {
		return nil, err
	}
	return p, nil
}

func decodeStrict(b []byte, p any, keys []any) error {
	r := reader{b: b, strict: true}
	r.into(p)
	return r.end(keys...)
}

// EncodeContent writes a content as it stands in an event.
func EncodeContent(c *genai.Content) ([]byte, error) { return encode("content", c) }

// EncodePart writes a part as it stands in an event.
func EncodePart(p *genai.Part) ([]byte, error) { return encode("part", p) }

func encode(what string, p any) ([]byte, error) {
	var w writer
	w.typed(reflect.ValueOf(p))
	if w.err != nil {
		return nil, fmt.Errorf("writing %s: %w", what, w.err)
	}
	return w.b, nil
}

func (w *writer) content(c *genai.Content) {
	w.open('{')
	if len(c.Parts) > 0 {
		before := w.err
		w.field("parts").parts(c.Parts)
		w.inKey(before, "parts")
	}
	w.optionalText("role", c.Role)
	w.close('}')
}

func (w *writer) parts(ps []*genai.Part) {
	w.open('[')
	for i, p := range ps {
		before := w.err
		w.comma()
		if p == nil {
			w.fail("is missing")
		} else {
			w.part(p)
		}
		w.inItem(before, i)
	}
	w.close(']')
}

// part writes a text also when it is empty: a part must say what it is.
func (w *writer) part(p *genai.Part) {
	w.open('{')
	w.optional("mediaResolution", p.MediaResolution)
	w.optional("codeExecutionResult", p.CodeExecutionResult)
	w.optional("executableCode", p.ExecutableCode)
	w.optional("fileData", p.FileData)
	w.optional("functionCall", p.FunctionCall)
	w.optional("functionResponse", p.FunctionResponse)
	w.optional("inlineData", p.InlineData)
	if model.IsEmptyText(p) {
		w.field("text").text("")
	} else {
		w.optionalText("text", p.Text)
	}
	w.flag("thought", p.Thought)
	if len(p.ThoughtSignature) > 0 {
		w.field("thoughtSignature").bytes(p.ThoughtSignature)
	}
	w.optional("videoMetadata", p.VideoMetadata)
	w.optional("toolCall", p.ToolCall)
	w.optional("toolResponse", p.ToolResponse)
	if len(p.PartMetadata) > 0 {
		w.member("partMetadata", p.PartMetadata)
	}
	w.optional("audioTranscription", p.AudioTranscription)
	w.optionalText("mediaProcessing", string(p.MediaProcessing))
	w.optional("speechMetadata", p.SpeechMetadata)
	w.close('}')
}

// call always has args, as adk-python writes it.
func (w *writer) call(c *genai.FunctionCall) {
	w.open('{')
	w.optionalText("id", c.ID)
	w.member("args", c.Args)
	w.optionalText("name", c.Name)
	w.optionalList("partialArgs", c.PartialArgs)
	w.optional("willContinue", c.WillContinue)
	w.close('}')
}

// functionResponse always has a response, as adk-python writes it.
func (w *writer) functionResponse(f *genai.FunctionResponse) {
	w.open('{')
	w.optional("willContinue", f.WillContinue)
	w.optionalText("scheduling", string(f.Scheduling))
	w.optionalList("parts", f.Parts)
	w.optionalText("id", f.ID)
	w.optionalText("name", f.Name)
	w.member("response", f.Response)
	w.close('}')
}
