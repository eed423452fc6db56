package session

import (
	"fmt"
	"reflect"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/pkg/model"
)

// Normalize returns a value as if encoded to JSON and decoded as [DecodeMap] does: integers
// as int64, floats as float64, slices as []any, bytes as URL-safe base64, structs as
// map[string]any. It shares no map or slice with v. A value without a JSON form, such as a
// channel, is unchanged; encoding it is an error.
func Normalize(v any) any { return adkjson.Normalize(v) }

// DecodeMap decodes a JSON object with free-form keys, such as a state.
// Numbers are int64, float64 or, if neither keeps all digits, json.Number (see
// internal/number). A null is a nil map. A failure is a [FieldError] whose path begins
// with keys.
func DecodeMap(b []byte, keys ...any) (map[string]any, error) {
	r := &adkjson.Decoder{Buf: b}
	if r.ConsumeNull() {
		return nil, checkEnd(r, keys...)
	}
	m := r.ReadFreeMap()
	if err := checkEnd(r, keys...); err != nil {
		return nil, err
	}
	return m, nil
}

// DecodeValue decodes any JSON value as [DecodeMap] does.
func DecodeValue(b []byte) (any, error) {
	r := &adkjson.Decoder{Buf: b}
	v := r.ReadValue()
	return v, checkEnd(r)
}

// EncodeMap encodes an object with free-form keys, such as a call's arguments, with all
// digits in its numbers. A nil map is {}.
func EncodeMap(m map[string]any) ([]byte, error) {
	w := newEncoder(nil)
	w.WriteTypedMap(reflect.ValueOf(m))
	if w.Err != nil {
		return nil, (*FieldError)(w.Err)
	}
	return w.Buf, nil
}

// EncodeValue encodes any value as [EncodeMap] does.
func EncodeValue(v any) ([]byte, error) {
	w := newEncoder(nil)
	w.WriteValue(v)
	if w.Err != nil {
		return nil, (*FieldError)(w.Err)
	}
	return w.Buf, nil
}

// DecodeContent decodes a content from a client. Keys may be camelCase or snake_case, bytes
// in either base64 alphabet. An unknown key in a content or a part and a value with the wrong
// type are errors: a [FieldError] whose path begins with keys. Free-form maps are accepted as
// they are.
func DecodeContent(b []byte, keys ...any) (*genai.Content, error) {
	c := new(genai.Content)
	if err := decodeStrict(b, c, keys); err != nil {
		return nil, err
	}
	return c, nil
}

// DecodePart decodes a part as [DecodeContent] does.
func DecodePart(b []byte, keys ...any) (*genai.Part, error) {
	p := new(genai.Part)
	if err := decodeStrict(b, p, keys); err != nil {
		return nil, err
	}
	return p, nil
}

func decodeStrict(b []byte, p any, keys []any) error {
	r := newStrictDecoder(b)
	r.ReadInto(p)
	return checkEnd(r, keys...)
}

// EncodeContent encodes a content as in an event.
func EncodeContent(c *genai.Content) ([]byte, error) { return encodeTyped("content", c) }

// EncodePart encodes a part as in an event.
func EncodePart(p *genai.Part) ([]byte, error) { return encodeTyped("part", p) }

func encodeTyped(what string, p any) ([]byte, error) {
	w := newEncoder(nil)
	w.WriteTyped(reflect.ValueOf(p))
	if w.Err != nil {
		return nil, fmt.Errorf("encoding %s: %w", what, (*FieldError)(w.Err))
	}
	return w.Buf, nil
}

func writeContent(w *adkjson.Encoder, c *genai.Content) {
	w.OpenBracket('{')
	if len(c.Parts) > 0 {
		before := w.Err
		w.StartField("parts")
		writeParts(w, c.Parts)
		w.AddErrorKey(before, "parts")
	}
	w.WriteOptionalString("role", c.Role)
	w.CloseBracket('}')
}

func writeParts(w *adkjson.Encoder, ps []*genai.Part) {
	w.OpenBracket('[')
	for i, p := range ps {
		before := w.Err
		w.WriteComma()
		if p == nil {
			w.SetError("is missing")
		} else {
			writePart(w, p)
		}
		w.AddErrorIndex(before, i)
	}
	w.CloseBracket(']')
}

// writePart also writes an empty text, because a part must have a kind.
func writePart(w *adkjson.Encoder, p *genai.Part) {
	w.OpenBracket('{')
	w.WriteOptional("mediaResolution", p.MediaResolution)
	w.WriteOptional("codeExecutionResult", p.CodeExecutionResult)
	w.WriteOptional("executableCode", p.ExecutableCode)
	w.WriteOptional("fileData", p.FileData)
	w.WriteOptional("functionCall", p.FunctionCall)
	w.WriteOptional("functionResponse", p.FunctionResponse)
	w.WriteOptional("inlineData", p.InlineData)
	if model.IsEmptyText(p) {
		w.StartField("text").WriteString("")
	} else {
		w.WriteOptionalString("text", p.Text)
	}
	w.WriteOptionalFlag("thought", p.Thought)
	if len(p.ThoughtSignature) > 0 {
		w.StartField("thoughtSignature").WriteBase64(p.ThoughtSignature)
	}
	w.WriteOptional("videoMetadata", p.VideoMetadata)
	w.WriteOptional("toolCall", p.ToolCall)
	w.WriteOptional("toolResponse", p.ToolResponse)
	if len(p.PartMetadata) > 0 {
		w.WriteMapField("partMetadata", p.PartMetadata)
	}
	w.WriteOptional("audioTranscription", p.AudioTranscription)
	w.WriteOptionalString("mediaProcessing", string(p.MediaProcessing))
	w.WriteOptional("speechMetadata", p.SpeechMetadata)
	w.CloseBracket('}')
}

// writeFunctionCall always writes args, as adk-python does.
func writeFunctionCall(w *adkjson.Encoder, c *genai.FunctionCall) {
	w.OpenBracket('{')
	w.WriteOptionalString("id", c.ID)
	w.WriteMapField("args", c.Args)
	w.WriteOptionalString("name", c.Name)
	w.WriteOptionalList("partialArgs", c.PartialArgs)
	w.WriteOptional("willContinue", c.WillContinue)
	w.CloseBracket('}')
}

// writeFunctionResponse always writes a response, as adk-python does.
func writeFunctionResponse(w *adkjson.Encoder, f *genai.FunctionResponse) {
	w.OpenBracket('{')
	w.WriteOptional("willContinue", f.WillContinue)
	w.WriteOptionalString("scheduling", string(f.Scheduling))
	w.WriteOptionalList("parts", f.Parts)
	w.WriteOptionalString("id", f.ID)
	w.WriteOptionalString("name", f.Name)
	w.WriteMapField("response", f.Response)
	w.CloseBracket('}')
}

// writeCacheMetadata writes the only part of an event with snake_case keys (adk-python
// models/cache_metadata.py has no aliases). Without a cache it consists of a fingerprint and
// a content count.
func writeCacheMetadata(w *adkjson.Encoder, m *model.CacheMetadata) {
	before := w.Err
	w.StartField("cacheMetadata").OpenBracket('{')
	w.WriteOptionalString("cache_name", m.Name)
	if !m.Expires.IsZero() {
		w.WriteTimeField("expire_time", m.Expires)
	}
	w.StartField("fingerprint").WriteString(m.Fingerprint)
	if m.Used != 0 {
		w.StartField("invocations_used").WriteInt(int64(m.Used))
	}
	w.StartField("contents_count").WriteInt(int64(m.Contents))
	if !m.Created.IsZero() {
		w.WriteTimeField("created_at", m.Created)
	}
	w.CloseBracket('}')
	w.AddErrorKey(before, "cacheMetadata")
}

// cacheMetadataField returns the field with a camelCase key. Incomplete
// metadata is decoded as it is: it is not active, and the next response
// replaces it.
func cacheMetadataField(m *model.CacheMetadata, name []byte) any {
	switch string(name) {
	case "cacheName":
		return &m.Name
	case "expireTime":
		return &m.Expires
	case "fingerprint":
		return &m.Fingerprint
	case "invocationsUsed":
		return &m.Used
	case "contentsCount":
		return &m.Contents
	case "createdAt":
		return &m.Created
	default:
		return nil
	}
}

// commonField finds the fields that nearly every event has without a search through the
// struct tags.
func commonField(p any, name []byte) any {
	switch p := p.(type) {
	case *genai.Content:
		switch string(name) {
		case "role":
			return &p.Role
		case "parts":
			return &p.Parts
		}
	case *genai.Part:
		return commonPartField(p, name)
	case *genai.FunctionCall:
		switch string(name) {
		case "id":
			return &p.ID
		case "name":
			return &p.Name
		case "args":
			return &p.Args
		}
	case *genai.FunctionResponse:
		switch string(name) {
		case "id":
			return &p.ID
		case "name":
			return &p.Name
		case "response":
			return &p.Response
		}
	case *genai.GenerateContentResponseUsageMetadata:
		return commonUsageField(p, name)
	case *Actions:
		return commonActionField(p, name)
	case *model.CacheMetadata:
		return cacheMetadataField(p, name)
	}
	return nil
}

func commonPartField(p *genai.Part, name []byte) any {
	switch string(name) {
	case "text":
		return &p.Text
	case "thoughtSignature":
		return &p.ThoughtSignature
	case "functionCall":
		return &p.FunctionCall
	case "functionResponse":
		return &p.FunctionResponse
	default:
		return nil
	}
}

func commonUsageField(u *genai.GenerateContentResponseUsageMetadata, name []byte) any {
	switch string(name) {
	case "promptTokenCount":
		return &u.PromptTokenCount
	case "candidatesTokenCount":
		return &u.CandidatesTokenCount
	case "totalTokenCount":
		return &u.TotalTokenCount
	default:
		return nil
	}
}

func commonActionField(a *Actions, name []byte) any {
	switch string(name) {
	case "stateDelta":
		return &a.StateDelta
	case "artifactDelta":
		return &a.ArtifactDelta
	case "requestedAuthConfigs":
		return &a.RequestedAuthConfigs
	case "requestedToolConfirmations":
		return &a.RequestedToolConfirmations
	case "agentState":
		return (*adkjson.Object)(&a.AgentState)
	default:
		return nil
	}
}
