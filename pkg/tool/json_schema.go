package tool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// A Schema is a compiled JSON Schema, for an agent's input or output. Package declare compiles
// them. It is safe for concurrent use.
type Schema struct {
	source    map[string]any
	schema    map[string]any
	validator Validator
	compile   Compiler
}

// A Validator validates values by a compiled JSON Schema. Its error is an [InvalidError], an ended
// context's cause, or reports that the validation costs too much.
type Validator interface {
	Validate(ctx context.Context, v any) error
}

// An InvalidError reports a value that does not match its schema.
type InvalidError interface {
	error
	// Lines returns a line for each problem with its place; whole names the value itself, or is "".
	Lines(whole string) []string
}

// A Compiler compiles JSON Schemas.
type Compiler func(schema map[string]any) (*Schema, error)

// NewSchema returns a schema that a compiler has compiled: as it was written, and in the JSON
// Schema 2020-12 form by which values are converted.
func NewSchema(source, normal map[string]any, v Validator, compile Compiler) *Schema {
	return &Schema{source, normal, v, compile}
}

// Compile compiles another schema with s's compiler.
func (s *Schema) Compile(schema map[string]any) (*Schema, error) { return s.compile(schema) }

// JSON returns the schema as written. The caller must not modify it.
func (s *Schema) JSON() map[string]any { return s.source }

// Parse decodes a single JSON value and checks it. The errors are the same as in [Schema.Check], or
// report invalid JSON.
func (s *Schema) Parse(ctx context.Context, text string) (any, error) {
	v, err := DecodeResult([]byte(trimFence(text)))
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	return s.Check(ctx, v)
}

// codeFence matches a Markdown fence around the whole text.
var codeFence = regexp.MustCompile("^\\s*```\\w*\\s*((?s:.*?))\\s*```\\s*$")

// trimFence removes a fence around the whole text, which models add when the service does
// not enforce the schema (adk-python utils/_schema_utils.py). JSON never begins with one.
func trimFence(text string) string {
	if m := codeFence.FindStringSubmatch(text); m != nil {
		return m[1]
	}
	return text
}

// Check returns the value with defaults filled in, integers as int64, and
// without null for optional properties. v is not modified. The error lists the first
// violations, each with its path.
func (s *Schema) Check(ctx context.Context, v any) (any, error) {
	n := newNormalizer(ctx)
	full := n.normalizeValue(s.schema, v)
	if n.err != nil {
		return nil, n.err
	}
	err := s.validator.Validate(ctx, full)
	var invalid InvalidError
	switch {
	case err == nil:
		n.fillDefaults(s.schema, full)
		return full, n.err
	case errors.As(err, &invalid):
		lines := invalid.Lines("")
		slices.Sort(lines)
		return nil, errors.New(strings.Join(lines, "; "))
	}
	return nil, err
}

// A stringValidator validates an object whose properties are strings. It has their schemas by
// name.
type stringValidator map[string]any

// Validate implements [Validator].
func (v stringValidator) Validate(_ context.Context, args any) error {
	given := asMap(args)
	var wrong stringError
	for _, name := range slices.Sorted(maps.Keys(v)) {
		value, ok := given[name]
		if !ok {
			continue
		}
		text, isText := value.(string)
		enum := asList(asMap(v[name])["enum"])
		switch {
		case !isText:
			wrong = append(wrong, fmt.Sprintf("%s: got %s, want string", name, describeType(value)))
		case len(enum) > 0 && !slices.Contains(enum, any(text)):
			wrong = append(wrong, name+": "+describeEnum(enum))
		}
	}
	if wrong == nil {
		return nil
	}
	return wrong
}

// A stringError is a stringValidator's [InvalidError].
type stringError []string

// Lines implements [InvalidError].
func (e stringError) Lines(string) []string { return e }

// Error returns the lines.
func (e stringError) Error() string { return strings.Join(e, "; ") }

// describeType names a value's type unless it is a string.
func describeType(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case int64, float64, json.Number:
		return "number"
	case []any:
		return "array"
	}
	return "object"
}

// maxEnumText limits an enum's description, in characters.
const maxEnumText = 1000

func describeEnum(enum []any) string {
	quoted := make([]string, len(enum))
	for i, v := range enum {
		text := strings.NewReplacer(`\"`, `"`, `'`, `\'`).Replace(fmt.Sprintf("%q", v))
		quoted[i] = "'" + text[1:len(text)-1] + "'"
	}
	text := "value must be one of " + strings.Join(quoted, ", ")
	if len(enum) == 1 {
		text = "value must be " + quoted[0]
	}
	if shown := []rune(text); len(shown) > maxEnumText {
		return string(shown[:maxEnumText]) + "…"
	}
	return text
}
