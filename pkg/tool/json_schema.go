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

// A Schema is a compiled JSON Schema, for the input or the output of an agent.
// It is safe for concurrent use.
type Schema struct {
	source   map[string]any
	schema   map[string]any
	compiled *jsonschema.Schema
}

// NewSchema compiles a JSON Schema. References outside the schema are rejected.
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

// JSON returns the schema as written. The caller must not modify it.
func (s *Schema) JSON() map[string]any { return s.source }

// Parse decodes a single JSON value and checks it. The errors are those of
// [Schema.Check], or report invalid JSON.
func (s *Schema) Parse(text string) (any, error) {
	v, err := decodeJSON([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("invalid JSON: %w", err)
	}
	return s.Check(v)
}

// Check returns the value with defaults filled in, integers as int64, and
// without null for optional properties. v is not modified. The error lists all
// violations, each with its path.
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
