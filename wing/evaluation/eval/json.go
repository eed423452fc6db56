package eval

import (
	"bytes"
	"encoding/json"
	"reflect"

	"google.golang.org/genai"

	"agenthost/internal/adkjson"
	"agenthost/pkg/spec"
)

// Decode decodes JSON into v, a pointer to a struct in this package. Keys may be in camelCase
// or snake_case. Types with a field Extra keep unknown keys; sets and configs reject those
// that resemble a known key. Elsewhere an unknown key is an error. An error is a
// [spec.Diagnostics] with file, line and column.
func Decode(file string, src []byte, v any) error {
	if err := checkSyntax(file, src); err != nil {
		return err
	}
	_, isResult := v.(*SetResult)
	r := newDecoder(src, !isResult)
	r.ReadInto(v)
	if err := r.CheckEnd(); err != nil {
		return errorAt(file, src, err.Path, err.Message)
	}
	if c, ok := v.(validator); ok {
		if err := c.validateFields(); err != nil {
			return errorAt(file, src, err.Path, err.Message)
		}
	}
	return nil
}

// EncodeFile encodes v, a pointer to a struct in this package, as ADK writes it to files:
// snake_case, indented by 2. Sets leave out null and default values, results keep them.
func EncodeFile(v any) ([]byte, error) {
	text, err := EncodeLine(v)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// EncodeLine encodes v as [EncodeFile] does, on one line.
func EncodeLine(v any) ([]byte, error) { return encodeJSON(v, true) }

// EncodeWire encodes v, a pointer to a struct in this package, as ADK sends it over HTTP:
// camelCase without nulls, except for [Set] keys, which are in snake_case.
func EncodeWire(v any) ([]byte, error) { return encodeJSON(v, false) }

func encodeJSON(v any, isFile bool) ([]byte, error) {
	w := &adkjson.Encoder{WriteCustom: writeCustom, SnakeCase: isFile}
	w.WritePointer(reflect.ValueOf(v))
	if w.Err != nil {
		return nil, w.Err
	}
	return w.Buf, nil
}

// A validator has rules that its fields cannot express.
type validator interface{ validateFields() *adkjson.Error }

func newDecoder(src []byte, strict bool) *adkjson.Decoder {
	return &adkjson.Decoder{Buf: src, Strict: strict, Suggest: spec.Suggest, FindField: findField, ReadCustom: readCustom}
}

// findField distinguishes empty arguments from missing ones, because exact trajectory matches
// do.
func findField(p any, name []byte) any {
	switch p := p.(type) {
	case *genai.FunctionCall:
		if string(name) == "args" {
			return (*adkjson.Object)(&p.Args)
		}
	case *genai.FunctionResponse:
		if string(name) == "response" {
			return (*adkjson.Object)(&p.Response)
		}
	}
	return nil
}

// readCustom reads the types whose JSON differs from their fields.
func readCustom(r *adkjson.Decoder, p any) bool {
	switch p := p.(type) {
	case *genai.Content:
		readContent(r, p)
	case *Intermediate:
		readIntermediate(r, p)
	case *IntermediateResponse:
		readIntermediateResponse(r, p)
	case *InvocationEvent:
		*p = InvocationEvent{}
		// ADK's UI adds keys of its own, which ADK ignores.
		r.ReadFields(fieldsOf(p), func(_, _ []byte) { r.SkipValue() })
	case *Persona:
		readPersona(r, p)
	case *Invocation:
		readInvocation(r, p)
	case *Status:
		readStatus(r, p)
	case *MatchType:
		readMatchType(r, p)
	case *Criteria:
		readCriteria(r, p)
	default:
		return readWithExtra(r, p)
	}
	return true
}

func fieldsOf(p any) func(name []byte) any {
	return func(name []byte) any {
		if field := findField(p, name); field != nil {
			return field
		}
		return adkjson.FieldPointer(p, name)
	}
}

// readWithExtra reads a struct that keeps unknown keys, if p points to one.
func readWithExtra(r *adkjson.Decoder, p any) bool {
	v := reflect.ValueOf(p).Elem()
	if v.Kind() != reflect.Struct || v.Type().PkgPath() != reflect.TypeFor[Set]().PkgPath() {
		return false
	}
	v.SetZero()
	extra, _ := extraOf(v)
	r.ReadFields(fieldsOf(p), func(key, name []byte) {
		if extra == nil || r.Strict && !keepsUnknown(p, string(name)) {
			r.HandleUnknownKey(key, name, p)
			return
		}
		readUnknownKey(r, string(key), extra)
	})
	return true
}

// keepsUnknown reports whether a struct keeps an unknown key though the file is not a result.
// ADK keeps those in cases, session inputs and criteria, and ignores those in sets and
// configs, where a mistyped key would change what is measured.
func keepsUnknown(p any, name string) bool {
	switch p.(type) {
	case *Case, *SessionInput, *Criterion, *SimulatorConfig:
		return true
	case *Set, *Config, *CustomMetric:
		return spec.Suggest(name, adkjson.FieldNames(p)) == ""
	}
	return false
}

func extraOf(v reflect.Value) (*Extra, bool) {
	f := v.FieldByName("Extra")
	if !f.IsValid() {
		return nil, false
	}
	e, ok := f.Addr().Interface().(*Extra)
	return e, ok
}

func readUnknownKey(r *adkjson.Decoder, key string, extra *Extra) {
	raw := adkjson.CompactJSON(r.ReadRawValue())
	if raw == nil {
		return
	}
	if *extra == nil {
		*extra = Extra{}
	}
	(*extra)[key] = raw
}

// readContent also reads the trpc-agent-go form, whose contents are strings.
func readContent(r *adkjson.Decoder, c *genai.Content) {
	*c = genai.Content{}
	var text *string
	r.ReadFields(func(name []byte) any {
		switch string(name) {
		case "role":
			return &c.Role
		case "parts":
			return &c.Parts
		case "content":
			return &text
		}
		return nil
	}, func(key, name []byte) { r.HandleUnknownKey(key, name, c) })
	if text != nil {
		c.Parts = append(c.Parts, &genai.Part{Text: *text})
	}
}

// A recordedCall is a turn's tool call in the trpc-agent-go form.
type recordedCall struct {
	ID        string         `json:"id"`
	Name      string         `json:"name"`
	Arguments adkjson.Object `json:"arguments"`
	Result    any            `json:"result"`
}

func readInvocation(r *adkjson.Decoder, inv *Invocation) {
	*inv = Invocation{}
	var calls []*recordedCall
	r.ReadFields(func(name []byte) any {
		if string(name) == "tools" {
			return &calls
		}
		return adkjson.FieldPointer(inv, name)
	}, func(key, name []byte) {
		if r.Strict {
			r.HandleUnknownKey(key, name, inv)
			return
		}
		readUnknownKey(r, string(key), &inv.Extra)
	})
	if inv.UserContent == nil && r.Err == nil {
		r.SetError("user_content is required")
	}
	if len(calls) > 0 && inv.Intermediate == nil {
		inv.Intermediate = &Intermediate{}
	}
	for _, c := range calls {
		inv.Intermediate.ToolUses = append(inv.Intermediate.ToolUses, &genai.FunctionCall{ID: c.ID, Name: c.Name, Args: c.Arguments})
		if c.Result == nil {
			continue
		}
		result, ok := c.Result.(map[string]any)
		if !ok {
			result = map[string]any{"result": c.Result}
		}
		inv.Intermediate.ToolResponses = append(inv.Intermediate.ToolResponses, &genai.FunctionResponse{ID: c.ID, Name: c.Name, Response: result})
	}
}

// intermediateKeys are the keys in both forms, for suggestions.
type intermediateKeys struct {
	ToolUses      []*genai.FunctionCall     `json:"toolUses"`
	ToolResponses []*genai.FunctionResponse `json:"toolResponses"`
	Responses     []*IntermediateResponse   `json:"intermediateResponses"`
	Events        []*InvocationEvent        `json:"invocationEvents"`
}

// readIntermediate reads both ADK forms: the keys decide.
func readIntermediate(r *adkjson.Decoder, d *Intermediate) {
	var k intermediateKeys
	r.ReadFields(fieldsOf(&k), func(key, name []byte) { r.HandleUnknownKey(key, name, &k) })
	*d = Intermediate(k)
	if len(d.ToolUses) == 0 {
		d.ToolUses = nil
	}
	if len(d.ToolResponses) == 0 {
		d.ToolResponses = nil
	}
	if len(d.Responses) == 0 {
		d.Responses = nil
	}
	if d.Events != nil && (d.ToolUses != nil || d.ToolResponses != nil || d.Responses != nil) && r.Err == nil {
		r.SetError("cannot have invocation_events together with tool_uses, tool_responses or intermediate_responses")
	}
}

// readIntermediateResponse reads [author, [part, …]].
func readIntermediateResponse(r *adkjson.Decoder, p *IntermediateResponse) {
	*p = IntermediateResponse{}
	var pair []json.RawMessage
	r.ReadInto(&pair)
	if r.Err != nil {
		return
	}
	if len(pair) != 2 {
		r.SetError("must be a list of an author and a list of parts")
		return
	}
	for i, field := range []any{&p.Author, &p.Parts} {
		sub := newDecoder(pair[i], r.Strict)
		sub.ReadInto(field)
		if err := sub.CheckEnd(i); err != nil {
			r.SetError("%s", err.Message)
			r.Err.Path = err.Path
			return
		}
	}
}

// readPersona reads a persona, or a prebuilt one's ID.
func readPersona(r *adkjson.Decoder, p *Persona) {
	raw := r.ReadRawValue()
	if r.Err != nil {
		return
	}
	var id string
	if json.Unmarshal(raw, &id) != nil {
		type persona Persona // without this rule
		sub := newDecoder(raw, r.Strict)
		sub.ReadInto((*persona)(p))
		if err := sub.CheckEnd(); err != nil {
			r.SetError("%s", err.Message)
			r.Err.Path = err.Path
		}
		return
	}
	found := findPersona(id)
	if found == nil {
		r.SetError("unknown persona %q%s", id, formatSuggestion(id, personaIDs()))
		return
	}
	*p = *found
}
