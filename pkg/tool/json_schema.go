package tool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A Schema is a JSON Schema, ready to check values: what an agent is given, or
// what it answers. Many goroutines may use it.
type Schema struct {
	source   map[string]any
	schema   map[string]any
	compiled *jsonschema.Schema
}

// NewSchema reads a JSON Schema. The error says what is wrong with it; a
// reference that leaves the schema is refused.
func NewSchema(schema map[string]any) (*Schema, error) {
	raw, err := json.Marshal(schema)
	if err != nil {
		return nil, err
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	s := &Schema{source: schema, schema: asMap(v)}
	if s.compiled, err = compileSchema(s.schema); err != nil {
		return nil, err
	}
	return s, nil
}

// JSON is the schema as it was written. It is only read.
func (s *Schema) JSON() map[string]any { return s.source }

// Parse reads a text that is one JSON value of the schema. The errors are those
// of [Schema.Check], or say that the text is no JSON.
func (s *Schema) Parse(text string) (any, error) {
	v, err := decodeJSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("it is no JSON: %w", err)
	}
	return s.Check(v)
}

// Check returns the value with defaults filled in, whole numbers as int64 where
// an integer is wanted, and without null for what is optional. v itself stays
// as it is. The error lists what does not fit, each with its place.
func (s *Schema) Check(v any) (any, error) {
	full := normalizeValue(s.schema, v)
	err := s.compiled.Validate(full)
	var invalid *jsonschema.ValidationError
	switch {
	case err == nil:
		return full, nil
	case errors.As(err, &invalid):
		lines := validationErrors(invalid, "")
		slices.Sort(lines)
		return nil, errors.New(strings.Join(lines, "; "))
	}
	return nil, err
}
