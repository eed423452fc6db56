package session

import (
	"fmt"
	"reflect"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// DecodeContent decodes a content from a client. Keys may be camelCase or
// snake_case, bytes in either base64 alphabet. An unknown key of a content or a
// part and a value of the wrong type are errors: a [FieldError] whose path
// begins with keys. Free-form maps are accepted as they are.
func DecodeContent(b []byte, keys ...any) (*genai.Content, error) {
	c := new(genai.Content)
	if err := decodeStrict(b, c, keys); err != nil {
		return nil, err
	}
	return c, nil
}

// DecodePart decodes a part by the rules of [DecodeContent].
func DecodePart(b []byte, keys ...any) (*genai.Part, error) {
	p := new(genai.Part)
	if err := decodeStrict(b, p, keys); err != nil {
		return nil, err
	}
	return p, nil
}

func decodeStrict(b []byte, p any, keys []any) error {
	r := reader{b: b, strict: true}
	r.readInto(p)
	return r.checkEnd(keys...)
}

// EncodeContent encodes a content as in an event.
func EncodeContent(c *genai.Content) ([]byte, error) { return encodeTyped("content", c) }

// EncodePart encodes a part as in an event.
func EncodePart(p *genai.Part) ([]byte, error) { return encodeTyped("part", p) }

func encodeTyped(what string, p any) ([]byte, error) {
	var w writer
	w.writeTyped(reflect.ValueOf(p))
	if w.err != nil {
		return nil, fmt.Errorf("encoding %s: %w", what, w.err)
	}
	return w.b, nil
}

func (w *writer) writeContent(c *genai.Content) {
	w.openBracket('{')
	if len(c.Parts) > 0 {
		before := w.err
		w.startField("parts").writeParts(c.Parts)
		w.addErrorKey(before, "parts")
	}
	w.writeOptionalString("role", c.Role)
	w.closeBracket('}')
}

func (w *writer) writeParts(ps []*genai.Part) {
	w.openBracket('[')
	for i, p := range ps {
		before := w.err
		w.writeComma()
		if p == nil {
			w.setError("is missing")
		} else {
			w.writePart(p)
		}
		w.addErrorIndex(before, i)
	}
	w.closeBracket(']')
}

// writePart also writes an empty text, because a part must have a kind.
func (w *writer) writePart(p *genai.Part) {
	w.openBracket('{')
	w.writeOptional("mediaResolution", p.MediaResolution)
	w.writeOptional("codeExecutionResult", p.CodeExecutionResult)
	w.writeOptional("executableCode", p.ExecutableCode)
	w.writeOptional("fileData", p.FileData)
	w.writeOptional("functionCall", p.FunctionCall)
	w.writeOptional("functionResponse", p.FunctionResponse)
	w.writeOptional("inlineData", p.InlineData)
	if model.IsEmptyText(p) {
		w.startField("text").writeString("")
	} else {
		w.writeOptionalString("text", p.Text)
	}
	w.writeOptionalFlag("thought", p.Thought)
	if len(p.ThoughtSignature) > 0 {
		w.startField("thoughtSignature").writeBase64(p.ThoughtSignature)
	}
	w.writeOptional("videoMetadata", p.VideoMetadata)
	w.writeOptional("toolCall", p.ToolCall)
	w.writeOptional("toolResponse", p.ToolResponse)
	if len(p.PartMetadata) > 0 {
		w.writeMapField("partMetadata", p.PartMetadata)
	}
	w.writeOptional("audioTranscription", p.AudioTranscription)
	w.writeOptionalString("mediaProcessing", string(p.MediaProcessing))
	w.writeOptional("speechMetadata", p.SpeechMetadata)
	w.closeBracket('}')
}

// writeFunctionCall always writes args, as adk-python does.
func (w *writer) writeFunctionCall(c *genai.FunctionCall) {
	w.openBracket('{')
	w.writeOptionalString("id", c.ID)
	w.writeMapField("args", c.Args)
	w.writeOptionalString("name", c.Name)
	w.writeOptionalList("partialArgs", c.PartialArgs)
	w.writeOptional("willContinue", c.WillContinue)
	w.closeBracket('}')
}

// writeFunctionResponse always writes a response, as adk-python does.
func (w *writer) writeFunctionResponse(f *genai.FunctionResponse) {
	w.openBracket('{')
	w.writeOptional("willContinue", f.WillContinue)
	w.writeOptionalString("scheduling", string(f.Scheduling))
	w.writeOptionalList("parts", f.Parts)
	w.writeOptionalString("id", f.ID)
	w.writeOptionalString("name", f.Name)
	w.writeMapField("response", f.Response)
	w.closeBracket('}')
}
