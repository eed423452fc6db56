package chatpage

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/genai"

	"agenthost/internal/jsonbody"
	"agenthost/internal/number"
	"agenthost/internal/terminal"
	"agenthost/pkg/connection"
	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// The kinds of questions.
const (
	askApproval      = "approve"
	askChoice        = "choose"
	askText          = "text"
	askFields        = "fields"
	askAuthorization = "authorize"
	// askOther is a call that another program answers.
	askOther = "wait"
)

// A question waits for the user.
type question struct {
	// ID is the call's.
	ID   string `json:"id"`
	Kind string `json:"kind"`
	// Title names what waits; Text is the app's own words about it.
	Title string `json:"title,omitempty"`
	Text  string `json:"text,omitempty"`
	// Details are what an approval lets run.
	Details []detail `json:"details,omitempty"`
	// Options are the answers to choose from, and Fields the parts of one.
	Options []string `json:"options,omitempty"`
	Fields  []field  `json:"fields,omitempty"`
	// URL is where the user authorizes Title; Code is entered there.
	URL  string `json:"url,omitempty"`
	Code string `json:"code,omitempty"`
	// Open is false once it is answered; Outcome is the answer in a few words.
	Open    bool   `json:"open"`
	Outcome string `json:"outcome,omitempty"`
}

// A detail is one value of a call.
type detail struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// A field is one value of an answer.
type field struct {
	Name  string `json:"name"`
	Label string `json:"label"`
	// Kind is text, number, yes, email, url or date.
	Kind     string   `json:"kind"`
	Options  []string `json:"options,omitempty"`
	Required bool     `json:"required,omitempty"`
	// Value is what the answer has unless the user changes it.
	Value any `json:"value,omitempty"`
	// Whole reports that a number has no fraction; Min, Max and MaxLength are bounds.
	Whole     bool     `json:"whole,omitempty"`
	Min       *float64 `json:"min,omitempty"`
	Max       *float64 `json:"max,omitempty"`
	MaxLength *float64 `json:"maxLength,omitempty"`
	// Hint describes the value.
	Hint string `json:"hint,omitempty"`
}

// Limits for questions.
const (
	maxDetails     = 100
	maxDetailValue = 2000
	maxQuestion    = 10_000
	maxOptions     = 50
	maxFields      = 30
)

// readQuestions adds the questions that an event asks the user.
func (o *outlook) readQuestions(m *message, ev *session.Event) {
	for _, c := range ev.Calls() {
		if !slices.Contains(ev.LongRunningToolIDs, c.ID) {
			continue
		}
		q := newQuestion(c)
		if q.Open = o.pending == nil || o.pending[c.ID]; !q.Open {
			if q.Kind == askOther {
				continue
			}
			q.closeQuestion(c, o.answers[c.ID])
		}
		m.Questions = append(m.Questions, q)
	}
}

// newQuestion describes a call that waits. An approval has the call's arguments, because a person
// must see what runs; text in them that hides other text is removed.
func newQuestion(c *genai.FunctionCall) *question {
	q := &question{ID: c.ID, Kind: askOther}
	if a := runtime.ReadApproval(c); a != nil {
		q.Kind, q.Title = askApproval, writePhrase(a.Tool)
		if a.Hint != tool.DefaultConfirmationHint(a.Tool) {
			q.Text = cleanText(a.Hint)
		}
		q.readApproval(a)
		return q
	}
	switch c.Name {
	case tool.UserChoice:
		options, _ := c.Args["options"].([]any)
		for _, option := range options {
			if text, ok := option.(string); ok && len(q.Options) < maxOptions {
				q.Options = append(q.Options, text)
			}
		}
		if len(q.Options) > 0 {
			q.Kind = askChoice
		}
	case tool.RequestInput:
		q.Kind = askText
		text, _ := c.Args["message"].(string)
		q.Text = cleanText(text)
		q.readSchema(c)
	case runtime.RequestCredential:
		q.readAuthorization(c)
	}
	return q
}

// readApproval adds what an approval lets run, and the fields for what the user may change or has to
// enter: the arguments that the app lets a person change, or the form of a service's question.
func (q *question) readApproval(a *runtime.ApprovalRequest) {
	values, schema := readForm(a)
	properties, _ := schema["properties"].(map[string]any)
	q.Fields = slices.DeleteFunc(listFields(schema, values), func(f field) bool {
		p, _ := properties[f.Name].(map[string]any)
		return p["type"] == "object" || p["type"] == "array" // not in one field
	})
	fixed := maps.Clone(a.Args)
	if a.Editable != nil {
		for _, f := range q.Fields {
			delete(fixed, f.Name)
		}
	}
	q.Details = listDetails(fixed)
}

// closeQuestion adds the user's answer to a call that does not wait any more; nil if there is none. An
// approval lists what it let run instead of the fields.
func (q *question) closeQuestion(c *genai.FunctionCall, answer *genai.FunctionResponse) {
	q.URL, q.Code = "", "" // used
	if answer == nil {
		return
	}
	q.Outcome = describeOutcome(answer)
	decision, ok := runtime.IsApproval(answer)
	a := runtime.ReadApproval(c)
	if !ok || a == nil || len(q.Fields) == 0 {
		return
	}
	if confirmed, _ := decision["confirmed"].(bool); confirmed && decision["payload"] != nil {
		a.Payload = decision["payload"]
	}
	values, _ := readForm(a)
	for _, f := range q.Fields {
		if v := values[f.Name]; v != nil {
			q.Details = append(q.Details, newDetail(f.Label, v))
		}
	}
	q.Fields = nil
}

// readForm returns the values that the answer to an approval may have, and their schema; nil if it
// has none.
func readForm(a *runtime.ApprovalRequest) (values, schema map[string]any) {
	payload, _ := a.Payload.(map[string]any)
	if a.Editable != nil {
		return payload, a.Editable
	}
	values, _ = payload["content"].(map[string]any)
	if values == nil {
		return nil, nil
	}
	for _, name := range slices.Sorted(maps.Keys(payload)) {
		part, _ := payload[name].(map[string]any)
		if schema, ok := part["requestedSchema"].(map[string]any); ok {
			return values, schema
		}
	}
	return nil, nil
}

// readSchema makes fields from an answer's schema, if it is an object of simple values.
func (q *question) readSchema(c *genai.FunctionCall) {
	schema, _ := c.Args["response_schema"].(map[string]any)
	if options := listEnum(schema); len(options) > 0 {
		q.Kind, q.Options = askChoice, options
		return
	}
	if q.Fields = listFields(schema, nil); len(q.Fields) > 0 {
		q.Kind = askFields
	}
}

// listFields returns the fields of an object's schema, those that are required first; nil if it has
// too many.
func listFields(schema, values map[string]any) []field {
	properties, _ := schema["properties"].(map[string]any)
	if len(properties) == 0 || len(properties) > maxFields {
		return nil
	}
	required, _ := schema["required"].([]any)
	var names []string // those that are required first, in their order
	for _, v := range required {
		if name, ok := v.(string); ok && properties[name] != nil && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	var fields []field
	for _, name := range names {
		p, _ := properties[name].(map[string]any)
		f := newField(name, p, values[name])
		f.Required = slices.Contains(required, any(name))
		fields = append(fields, f)
	}
	return fields
}

// newField returns the field for a property with a value, which may be nil. A value that is no
// text, number or boolean is not shown.
func newField(name string, p map[string]any, value any) field {
	f := field{Name: name, Label: writePhrase(name), Kind: "text", Options: listEnum(p)}
	if title, ok := p["title"].(string); ok && title != "" {
		f.Label = cleanName(title)
	}
	text, _ := p["description"].(string)
	f.Hint = protocol.TruncateText(terminal.Clean(text), maxDetailValue)
	switch p["type"] {
	case "number", "integer":
		f.Kind, f.Whole = "number", p["type"] == "integer"
		f.Min, f.Max = readBound(p["minimum"]), readBound(p["maximum"])
	case "boolean":
		f.Kind = "yes"
	default:
		f.MaxLength = readBound(p["maxLength"])
		if kind, ok := map[any]string{"email": "email", "uri": "url", "date": "date"}[p["format"]]; ok {
			f.Kind = kind
		}
	}
	switch v := value.(type) {
	case string:
		f.Value = protocol.TruncateText(v, maxQuestion)
	case bool, float64, int64, json.Number:
		f.Value = v
	}
	return f
}

func readBound(v any) *float64 {
	if n, err := number.ToFloat(v); err == nil && number.Is(v) {
		return &n
	}
	return nil
}

func listEnum(schema map[string]any) []string {
	values, _ := schema["enum"].([]any)
	var options []string
	for _, v := range values {
		text, ok := v.(string)
		if !ok || len(values) > maxOptions {
			return nil
		}
		options = append(options, text)
	}
	return options
}

// readAuthorization reads a connection's request.
func (q *question) readAuthorization(c *genai.FunctionCall) {
	config, _ := c.Args["authConfig"].(map[string]any)
	key, _ := config["credentialKey"].(string)
	address, code := protocol.ReadAuthorization(c)
	if !connection.IsCredentialKey(key) || address == "" {
		return
	}
	q.Kind, q.Title, q.URL = askAuthorization, cleanName(connection.ServiceName(config)), address
	if connection.CredentialKey(q.Title) == key {
		q.Title = writePhrase(q.Title)
	}
	q.Code = cleanName(code)
}

func cleanText(text string) string { return protocol.TruncateText(terminal.Clean(text), maxQuestion) }

func listDetails(args map[string]any) []detail {
	var all []detail
	for _, name := range slices.Sorted(maps.Keys(args)) {
		if len(all) == maxDetails {
			return append(all, detail{"…", fmt.Sprintf("%d more", len(args)-maxDetails)})
		}
		all = append(all, newDetail(writePhrase(name), args[name]))
	}
	return all
}

func newDetail(label string, value any) detail {
	text, ok := value.(string)
	if !ok {
		text = template.String(value)
	}
	return detail{label, protocol.TruncateText(terminal.Clean(text), maxDetailValue)}
}

// writePhrase makes words of a name in code: refundOrder and refund_order become Refund order.
func writePhrase(name string) string {
	var b strings.Builder
	before := ' '
	for _, r := range cleanName(name) {
		switch {
		case r == '_' || r == '-' || r == '.':
			r = ' '
		case unicode.IsUpper(r) && unicode.IsLower(before):
			b.WriteRune(' ')
			r = unicode.ToLower(r)
		}
		if b.Len() == 0 {
			r = unicode.ToUpper(r)
		}
		b.WriteRune(r)
		before = r
	}
	return strings.TrimSpace(b.String())
}

// describeOutcome returns the user's own answer in a few words.
func describeOutcome(f *genai.FunctionResponse) string {
	if decision, ok := runtime.IsApproval(f); ok {
		if yes, _ := decision["confirmed"].(bool); yes {
			return "approved"
		}
		return "declined"
	}
	if f.Name == runtime.RequestCredential {
		return "answered"
	}
	if text, ok := f.Response["result"].(string); ok {
		return protocol.TruncateText(cleanName(text), maxName)
	}
	return "answered"
}

// An answerRequest answers a question.
type answerRequest struct {
	Question string         `json:"question"`
	Approve  *bool          `json:"approve"`
	Text     *string        `json:"text"`
	Fields   map[string]any `json:"fields"`
}

var (
	errAnswered  = server.NewError(http.StatusConflict, "The question is not open")
	errNoAnswer  = server.NewError(http.StatusUnprocessableEntity, "The answer does not fit the question")
	errNotOption = server.NewError(http.StatusUnprocessableEntity, "The answer is not one of the options")
)

// buildResponse returns a browser's answer as the call's response. The host makes it from the stored
// request, so that a browser cannot answer for a tool, or change what it approves.
func (a *answerRequest) buildResponse(ctx context.Context, events []*session.Event) (*genai.Content, error) {
	call := findPending(events, a.Question)
	if call == nil {
		return nil, errAnswered
	}
	response, err := a.readAnswer(ctx, call)
	if err != nil {
		return nil, err
	}
	return &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: response}}}}, nil
}

func findPending(events []*session.Event, id string) *genai.FunctionCall {
	for _, w := range runtime.Pending(session.Recorded(events)) {
		for _, c := range w.Calls {
			if c.ID == id {
				return c
			}
		}
	}
	return nil
}

func (a *answerRequest) readAnswer(ctx context.Context, call *genai.FunctionCall) (map[string]any, error) {
	q := newQuestion(call)
	switch q.Kind {
	case askApproval:
		if a.Approve == nil {
			return nil, errNoAnswer
		}
		response := map[string]any{"confirmed": *a.Approve}
		if !*a.Approve {
			return response, nil
		}
		payload, err := a.buildPayload(ctx, runtime.ReadApproval(call), q.Fields)
		if payload != nil {
			response["payload"] = payload
		}
		return response, err
	case askChoice:
		if a.Text == nil || !slices.Contains(q.Options, *a.Text) {
			return nil, errNotOption
		}
		return map[string]any{"result": *a.Text}, nil
	case askText:
		if a.Text == nil || strings.TrimSpace(*a.Text) == "" {
			return nil, errNoAnswer
		}
		return readBySchema(ctx, call, *a.Text, nil)
	case askFields:
		if a.Fields == nil {
			return nil, errNoAnswer
		}
		text, err := json.Marshal(a.Fields)
		if err != nil {
			return nil, errNoAnswer
		}
		return readBySchema(ctx, call, string(text), a.Fields)
	case askAuthorization:
		return map[string]any{}, nil // the host has received the authorization server's answer
	}
	return nil, errAnswered
}

// buildPayload returns the payload of an approval: the request's, with the fields that the user
// filled in.
func (a *answerRequest) buildPayload(ctx context.Context, request *runtime.ApprovalRequest, fields []field) (any, error) {
	values, written := readForm(request)
	if written == nil || len(fields) == 0 {
		return request.Payload, nil
	}
	content := map[string]any{}
	for name, v := range values {
		if v != nil {
			content[name] = v
		}
	}
	for name, v := range a.Fields {
		if !slices.ContainsFunc(fields, func(f field) bool { return f.Name == name }) {
			return nil, errNoAnswer
		}
		content[name] = v
		if v == nil && request.Editable == nil {
			delete(content, name)
		}
	}
	if schema, err := declare.Schema(written); err == nil {
		if _, err := schema.Check(ctx, content); err != nil {
			return nil, newFieldsError(ctx, written, content)
		}
	}
	if request.Editable != nil {
		return content, nil
	}
	payload, _ := request.Payload.(map[string]any)
	payload = maps.Clone(payload)
	payload["content"] = content
	return payload, nil
}

// newFieldsError returns an error that names the values of an answer that do not fit their own part
// of an object's schema. It describes no value and no schema: the page has the fields' bounds.
func newFieldsError(ctx context.Context, schema, values map[string]any) error {
	properties, _ := schema["properties"].(map[string]any)
	required, _ := schema["required"].([]any)
	wrong := &jsonbody.InvalidError{}
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		own, _ := properties[name].(map[string]any)
		value, given := values[name]
		if !given && !slices.Contains(required, any(name)) || given && fitsSchema(ctx, own, value) {
			continue
		}
		kind, text := "value_error", "The value does not fit"
		if !given {
			kind, text = "missing", "The value is required"
		}
		wrong.Details = append(wrong.Details, jsonbody.Detail{Type: kind, Loc: []any{"body", "fields", name}, Msg: text})
	}
	if len(wrong.Details) == 0 {
		return errNoAnswer
	}
	return wrong
}

// fitsSchema reports whether a value fits a property's schema. One that refers to other parts of its
// document cannot be compiled alone, and fits.
func fitsSchema(ctx context.Context, written map[string]any, value any) bool {
	schema, err := declare.Schema(written)
	if err != nil {
		return true
	}
	_, err = schema.Check(ctx, value)
	return err == nil
}

// readBySchema parses an answer by the request's schema, and as text without one. fields are the
// values of an answer that has them. A model may write an invalid schema: then any answer is valid.
func readBySchema(ctx context.Context, call *genai.FunctionCall, text string, fields map[string]any) (map[string]any, error) {
	written, _ := call.Args["response_schema"].(map[string]any)
	if written == nil {
		return map[string]any{"result": text}, nil
	}
	schema, err := declare.Schema(written)
	if err != nil {
		return map[string]any{"result": text}, nil
	}
	v, err := schema.Parse(ctx, text)
	if err != nil {
		if v, err = schema.Check(ctx, text); err != nil {
			return nil, newFieldsError(ctx, written, fields)
		}
	}
	if m, ok := v.(map[string]any); ok {
		return m, nil
	}
	return map[string]any{"result": v}, nil
}
