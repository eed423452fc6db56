package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"agenthost/internal/jsonschema"
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
	v, err := decodeNumbers(raw)
	if err != nil {
		return nil, err
	}
	s := &Schema{source: schema, schema: jsonschema.Normalize(asMap(v))}
	if s.compiled, err = jsonschema.Compile(s.schema); err != nil {
		return nil, err
	}
	return s, nil
}

// JSON returns the schema as written. The caller must not modify it.
func (s *Schema) JSON() map[string]any { return s.source }

// Parse decodes a single JSON value and checks it. The errors are those of
// [Schema.Check], or report invalid JSON.
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
	err := s.compiled.Validate(ctx, full)
	var invalid *jsonschema.InvalidError
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

// decodeNumbers decodes JSON, and keeps the digits of numbers.
func decodeNumbers(raw []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
}
