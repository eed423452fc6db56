package eval

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/pkg/model"
)

// writeCustom writes this package's structs, and genai's with their own rules.
func writeCustom(w *adkjson.Encoder, p any) bool {
	switch p := p.(type) {
	case *genai.FunctionCall:
		writeFunctionCall(w, p)
	case *genai.FunctionResponse:
		writeFunctionResponse(w, p)
	case *genai.Content:
		writeContent(w, p)
	case *genai.Part:
		if !model.IsEmptyText(p) {
			return false
		}
		w.OpenBracket('{')
		w.StartField("text").WriteString("")
		w.CloseBracket('}')
	case *Intermediate:
		writeIntermediate(w, p)
	case *IntermediateResponse:
		w.OpenBracket('[')
		w.WriteString(p.Author)
		w.WriteComma()
		w.WriteTyped(reflect.ValueOf(p.Parts))
		w.CloseBracket(']')
	case *Criteria:
		writeCriteria(w, p)
	case *Set, *Persona, *Behavior:
		// These have snake_case keys in both forms.
		writeStruct(w, p, w.StartEscapedField, snakeCase)
	default:
		v := reflect.TypeOf(p).Elem()
		if v.Kind() != reflect.Struct || v.PkgPath() != reflect.TypeFor[Set]().PkgPath() {
			return false
		}
		writeStruct(w, p, func(name string) { w.StartField(name) }, strings.Clone)
	}
	return true
}

func snakeCase(name string) string {
	var b strings.Builder
	for _, c := range name {
		if 'A' <= c && c <= 'Z' {
			b.WriteByte('_')
			c += 'a' - 'A'
		}
		b.WriteRune(c)
	}
	return b.String()
}

// writeStruct writes the fields by their tags: those with omitempty unless they are
// empty, the others always, in files as null if they are nil.
func writeStruct(w *adkjson.Encoder, p any, start func(name string), spell func(string) string) {
	v := reflect.ValueOf(p).Elem()
	w.OpenBracket('{')
	for i := range v.NumField() {
		f := v.Field(i)
		name, option, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		empty := f.IsZero() || f.Kind() == reflect.Map && f.Len() == 0
		isNull := (f.Kind() == reflect.Pointer || f.Kind() == reflect.Interface || f.Type() == reflect.TypeFor[json.RawMessage]()) && f.IsZero()
		if name == "-" || empty && option == "omitempty" || isNull && !w.SnakeCase {
			continue
		}
		before := w.Err
		start(spell(name))
		if raw, isRaw := f.Interface().(json.RawMessage); isNull {
			w.WriteLiteral("null")
		} else if isRaw {
			w.WriteRawJSON(raw)
		} else {
			w.WriteTyped(f)
		}
		w.AddErrorKey(before, name)
	}
	if extra, ok := extraOf(v); ok {
		for _, key := range slices.Sorted(maps.Keys(*extra)) {
			w.StartEscapedField(key)
			w.WriteRawJSON((*extra)[key])
		}
	}
	w.CloseBracket('}')
}

// writeContent writes an empty list for missing parts, as ADK does for a turn without a message.
func writeContent(w *adkjson.Encoder, c *genai.Content) {
	w.OpenBracket('{')
	if c.Parts != nil {
		before := w.Err
		w.StartField("parts").WriteTyped(reflect.ValueOf(c.Parts))
		w.AddErrorKey(before, "parts")
	}
	w.WriteOptionalString("role", c.Role)
	w.CloseBracket('}')
}

// writeFunctionCall writes empty arguments, which differ from missing ones.
func writeFunctionCall(w *adkjson.Encoder, c *genai.FunctionCall) {
	w.OpenBracket('{')
	w.WriteOptionalString("id", c.ID)
	if c.Args != nil {
		w.WriteMapField("args", c.Args)
	}
	w.WriteOptionalString("name", c.Name)
	w.WriteOptionalList("partialArgs", c.PartialArgs)
	w.WriteOptional("willContinue", c.WillContinue)
	w.CloseBracket('}')
}

func writeFunctionResponse(w *adkjson.Encoder, f *genai.FunctionResponse) {
	w.OpenBracket('{')
	w.WriteOptional("willContinue", f.WillContinue)
	w.WriteOptionalString("scheduling", string(f.Scheduling))
	w.WriteOptionalList("parts", f.Parts)
	w.WriteOptionalString("id", f.ID)
	w.WriteOptionalString("name", f.Name)
	if f.Response != nil {
		w.WriteMapField("response", f.Response)
	}
	w.CloseBracket('}')
}

// writeIntermediate writes the form that d has. The event list is written even if it is
// empty, because it decides the form.
func writeIntermediate(w *adkjson.Encoder, d *Intermediate) {
	w.OpenBracket('{')
	if d.Events != nil {
		before := w.Err
		w.StartField("invocationEvents").WriteTyped(reflect.ValueOf(d.Events))
		w.AddErrorKey(before, "invocationEvents")
	} else {
		w.WriteOptionalList("toolUses", d.ToolUses)
		w.WriteOptionalList("toolResponses", d.ToolResponses)
		w.WriteOptionalList("intermediateResponses", d.Responses)
	}
	w.CloseBracket('}')
}
