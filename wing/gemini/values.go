package gemini

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"google.golang.org/genai"

	"agenthost/internal/limit"
	"agenthost/internal/modelapi"
	"agenthost/internal/modelcall"
	"agenthost/pkg/session"
)

// Google's library decodes all values in requests and responses to float64. So values that may be
// any JSON, and contain numbers, bypass it: request values are added to the body that it built, and
// response values are text until it has decoded the rest.

// A freeValue is a part field that is any object.
type freeValue struct {
	// holder is the part field that has the value, "" for the part itself.
	holder, field string
	// find returns a part's value, nil if the part has no such holder.
	find func(*genai.Part) *map[string]any
}

// freeValues are all such part fields.
var freeValues = []freeValue{
	{"functionCall", "args", func(p *genai.Part) *map[string]any {
		if p.FunctionCall == nil {
			return nil
		}
		return &p.FunctionCall.Args
	}},
	{"functionResponse", "response", func(p *genai.Part) *map[string]any {
		if p.FunctionResponse == nil {
			return nil
		}
		return &p.FunctionResponse.Response
	}},
	{"toolCall", "args", func(p *genai.Part) *map[string]any {
		if p.ToolCall == nil {
			return nil
		}
		return &p.ToolCall.Args
	}},
	{"toolResponse", "response", func(p *genai.Part) *map[string]any {
		if p.ToolResponse == nil {
			return nil
		}
		return &p.ToolResponse.Response
	}},
	{"", "partMetadata", func(p *genai.Part) *map[string]any { return &p.PartMetadata }},
}

// A withheldValue is a value that Google's library does not see, and its place in the body. The
// path elements are fields and indexes.
type withheldValue struct {
	path  []any
	value json.RawMessage
}

// withholdValues removes the values and schemas from a request, and adds them to its body.
func (c *geminiCall) withholdValues() error {
	var withheld []withheldValue
	withhold := func(v any, path ...any) error {
		raw, err := session.EncodeValue(v)
		if err != nil {
			return modelcall.NewConfigError(http.StatusBadRequest, fmt.Sprintf("cannot encode %s: %s", describePath(path), err))
		}
		withheld = append(withheld, withheldValue{path, raw})
		return nil
	}
	if err := c.withholdContents(withhold); err != nil {
		return err
	}
	if err := c.withholdSchemas(withhold); err != nil {
		return err
	}
	if len(withheld) == 0 {
		return nil
	}
	if c.config.HTTPOptions == nil {
		c.config.HTTPOptions = &genai.HTTPOptions{}
	}
	before := c.config.HTTPOptions.ExtrasRequestProvider
	c.config.HTTPOptions.ExtrasRequestProvider = func(body map[string]any) map[string]any {
		for _, w := range withheld {
			addValue(body, w.path, w.value)
		}
		if before != nil {
			body = before(body)
		}
		return body
	}
	return nil
}

// withholdContents removes the free values from the contents.
func (c *geminiCall) withholdContents(withhold func(v any, path ...any) error) error {
	own := slices.Clone(c.contents)
	for i, content := range own {
		own[i] = &genai.Content{Role: content.Role, Parts: slices.Clone(content.Parts)}
		for k, p := range own[i].Parts {
			if p == nil {
				continue
			}
			bare := copyHolders(p)
			own[i].Parts[k] = bare
			for _, f := range freeValues {
				value := f.find(bare)
				if value == nil || len(*value) == 0 {
					continue
				}
				path := []any{"contents", i, "parts", k, f.holder, f.field}
				if f.holder == "" {
					path = slices.Delete(path, 4, 5)
				}
				if err := withhold(*value, path...); err != nil {
					return err
				}
				*value = nil
			}
		}
	}
	c.contents = own
	return nil
}

// copyHolders copies a part and its fields that have free values.
func copyHolders(p *genai.Part) *genai.Part {
	own := *p
	own.FunctionCall = copyPointer(p.FunctionCall)
	own.FunctionResponse = copyPointer(p.FunctionResponse)
	own.ToolCall = copyPointer(p.ToolCall)
	own.ToolResponse = copyPointer(p.ToolResponse)
	return &own
}

func copyPointer[T any](p *T) *T {
	if p == nil {
		return nil
	}
	own := *p
	return &own
}

// withholdSchemas removes the JSON Schemas from the settings: a limit or a constant may be a number
// that a float64 rounds.
func (c *geminiCall) withholdSchemas(withhold func(v any, path ...any) error) error {
	c.config.Tools = slices.Clone(c.config.Tools)
	for i, t := range c.config.Tools {
		if t == nil || len(t.FunctionDeclarations) == 0 {
			continue
		}
		own := *t
		own.FunctionDeclarations = slices.Clone(t.FunctionDeclarations)
		c.config.Tools[i] = &own
		for k, d := range own.FunctionDeclarations {
			bare := *d
			own.FunctionDeclarations[k] = &bare
			if err := withholdSchema(withhold, &bare.ParametersJsonSchema, "tools", i, "functionDeclarations", k, "parametersJsonSchema"); err != nil {
				return err
			}
			if err := withholdSchema(withhold, &bare.ResponseJsonSchema, "tools", i, "functionDeclarations", k, "responseJsonSchema"); err != nil {
				return err
			}
		}
	}
	return withholdSchema(withhold, &c.config.ResponseJsonSchema, "generationConfig", "responseJsonSchema")
}

func withholdSchema(withhold func(v any, path ...any) error, schema *any, path ...any) error {
	if *schema == nil {
		return nil
	}
	err := withhold(*schema, path...)
	*schema = nil
	return err
}

// addValue adds a value to a body. A value whose place is not in the body, such as a part
// that a cache does not include, is skipped.
func addValue(body map[string]any, path []any, value json.RawMessage) {
	for len(path) > 1 {
		field := path[0].(string)
		if index, ok := path[1].(int); ok {
			list := toMappings(body[field])
			if index >= len(list) || list[index] == nil {
				return
			}
			body, path = list[index], path[2:]
			continue
		}
		inner, ok := body[field].(map[string]any)
		if !ok {
			return
		}
		body, path = inner, path[1:]
	}
	body[path[0].(string)] = value
}

// toMappings returns the mappings in a request body's list.
func toMappings(list any) []map[string]any {
	if all, ok := list.([]map[string]any); ok {
		return all
	}
	var all []map[string]any
	items, _ := list.([]any)
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			all = append(all, m)
		}
	}
	return all
}

// describePath returns a path as in contents[1].parts[0].functionCall.args.
func describePath(path []any) string {
	var text string
	for _, step := range path {
		switch step := step.(type) {
		case int:
			text += fmt.Sprintf("[%d]", step)
		case string:
			if text != "" {
				text += "."
			}
			text += step
		}
	}
	return text
}

// quotedKey is the only key in a value that is text.
const quotedKey = ""

// quoteValues makes the free values in a response's part text: JSON, or what the service sent as a
// string, such as the JSON arguments.
func quoteValues(part map[string]any) {
	for _, f := range freeValues {
		holder := part
		if f.holder != "" {
			holder, _ = part[f.holder].(map[string]any)
		}
		switch value := holder[f.field].(type) {
		case nil:
			delete(holder, f.field)
		case string:
			holder[f.field] = map[string]any{quotedKey: value}
		default:
			if raw, err := json.Marshal(value); err == nil {
				holder[f.field] = map[string]any{quotedKey: string(raw)}
			}
		}
	}
}

// unquoteValues decodes the free values in a content before it is used. It returns the call whose
// arguments cannot be decoded; it leaves out another value that cannot be decoded. An error means
// that the answer exceeds a limit.
func unquoteValues(b *modelapi.AnswerBudget, c *genai.Content) (*modelapi.MalformedCall, error) {
	if c == nil {
		return nil, nil
	}
	for _, p := range c.Parts {
		if p.FunctionCall != nil {
			if err := b.AddCall(); err != nil {
				return nil, err
			}
		}
		for _, f := range freeValues {
			value := f.find(p)
			if value == nil {
				continue
			}
			text, ok := (*value)[quotedKey].(string)
			if !ok {
				continue
			}
			decoded, err := b.DecodeArguments(text)
			if _, tooLarge := errors.AsType[*limit.Error](err); tooLarge {
				return nil, err
			}
			if err != nil && f.holder == "functionCall" {
				return &modelapi.MalformedCall{Name: p.FunctionCall.Name, Args: text}, nil
			}
			*value = decoded
		}
	}
	return nil, nil
}
