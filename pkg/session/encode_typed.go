package session

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// The typed values are those of genai, and our own inside of events.
// encoding/json would write genai's bytes in the other alphabet, round its
// durations and escape HTML; so their json tags are read here.

// writeTyped writes a value by its type.
func (w *writer) writeTyped(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		w.writeString(v.String())
	case reflect.Bool:
		w.b = strconv.AppendBool(w.b, v.Bool())
	case reflect.Int, reflect.Int32, reflect.Int64:
		w.writeTypedInt(v)
	case reflect.Float32, reflect.Float64:
		w.writeFloat(v.Float(), v.Type().Bits())
	case reflect.Pointer:
		w.writePointer(v)
	case reflect.Struct:
		w.writeStruct(v)
	case reflect.Slice:
		w.writeTypedList(v)
	case reflect.Map:
		w.writeTypedMap(v)
	default:
		w.setError("%s cannot be encoded as JSON", v.Type())
	}
}

// writePointer writes the value that v points to. Types with their own rules
// are written field by field.
func (w *writer) writePointer(v reflect.Value) {
	if v.IsNil() {
		w.setError("is missing")
		return
	}
	switch p := v.Interface().(type) {
	case *genai.Content:
		w.writeContent(p)
	case *genai.Part:
		w.writePart(p)
	case *genai.FunctionCall:
		w.writeFunctionCall(p)
	case *genai.FunctionResponse:
		w.writeFunctionResponse(p)
	case *Actions:
		w.writeActions(p)
	case *Confirmation:
		w.writeConfirmation(p)
	case *Compaction:
		w.writeCompaction(p)
	default:
		w.writeTyped(v.Elem())
	}
}

func (w *writer) writeTypedInt(v reflect.Value) {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		w.b = append(w.b, '"')
		w.b = appendDuration(w.b, time.Duration(v.Int()))
		w.b = append(w.b, '"')
		return
	}
	w.writeInt(v.Int())
}

// writeStruct writes a struct of genai; all its fields are optional.
func (w *writer) writeStruct(v reflect.Value) {
	w.openBracket('{')
	for i := range v.NumField() {
		f := v.Field(i)
		if isEmpty(f) {
			continue
		}
		name, before := wireName(v.Type().Field(i)), w.err
		w.startField(name).writeTyped(f)
		w.addErrorKey(before, name)
	}
	w.closeBracket('}')
}

func isEmpty(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Map, reflect.Slice:
		return v.Len() == 0
	default:
		return v.IsZero()
	}
}

func (w *writer) writeTypedList(v reflect.Value) {
	if v.Type().Elem().Kind() == reflect.Uint8 {
		w.writeBase64(v.Bytes())
		return
	}
	w.openBracket('[')
	for i := range v.Len() {
		before := w.err
		w.writeComma()
		w.writeTyped(v.Index(i))
		w.addErrorIndex(before, i)
	}
	w.closeBracket(']')
}

func (w *writer) writeTypedMap(v reflect.Value) {
	if m, ok := v.Interface().(map[string]any); ok {
		w.writeObject(m)
		return
	}
	w.openBracket('{')
	if v.Len() > 0 {
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			before := w.err
			w.startEscapedField(k.String())
			w.writeTyped(v.MapIndex(k))
			w.addErrorKey(before, k.String())
		}
	}
	w.closeBracket('}')
}

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

// writeCacheMetadata writes the only part of an event with snake_case keys
// (adk-python models/cache_metadata.py has no aliases). Without a cache it
// consists of a fingerprint and a number of contents.
func (w *writer) writeCacheMetadata(m *model.CacheMetadata) {
	before := w.err
	w.startField("cacheMetadata").openBracket('{')
	w.writeOptionalString("cache_name", m.Name)
	if !m.Expires.IsZero() {
		w.writeTimeField("expire_time", m.Expires)
	}
	w.startField("fingerprint").writeString(m.Fingerprint)
	if m.Used != 0 {
		w.startField("invocations_used").writeInt(int64(m.Used))
	}
	w.startField("contents_count").writeInt(int64(m.Contents))
	if !m.Created.IsZero() {
		w.writeTimeField("created_at", m.Created)
	}
	w.closeBracket('}')
	w.addErrorKey(before, "cacheMetadata")
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
