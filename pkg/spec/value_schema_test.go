package spec_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

type answerConfig struct {
	S spec.ValueSchema `yaml:"s"`
}

func TestValueSchema(t *testing.T) {
	text := object{"type": "string"}
	for _, tt := range []struct {
		in   string
		want object
	}{
		{"string", text},
		{"[string]", object{"type": "array", "items": text}},
		{"[{name: string}]", object{"type": "array", "items": objectSchema(object{"name": text}, "name")}},
		{"{name: string}", objectSchema(object{"name": text}, "name")},
		{"{enum: [a, b]}", object{"type": "string", "enum": []any{"a", "b"}}},
		{"{type: array, items: {type: string}}", object{"type": "array", "items": text}},
		{"{properties: {name: {type: string}}}", object{"type": "object", "properties": object{"name": text}}},
	} {
		var got answerConfig
		if ds := spec.Decode(parseValid(t, "s: "+tt.in), &got); len(ds) > 0 {
			t.Errorf("Decode(%s): %s", tt.in, ds)
			continue
		}
		if diff := cmp.Diff(tt.want, got.S.JSON()); diff != "" {
			t.Errorf("Decode(%s) (-want +got):\n%s", tt.in, diff)
		}
	}
}

func TestValueSchemaProblems(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"string?", `f.yaml:1:4: the value as a whole cannot be optional [type]`},
		{"str", `f.yaml:1:4: unknown type "str" [type]`},
		{"[a, b]", `f.yaml:1:4: a list must have one element type, got 2 [type]`},
	} {
		var got answerConfig
		ds := spec.Decode(parseValid(t, "s: "+tt.in), &got)
		if len(ds) != 1 || ds[0].String() != tt.want {
			t.Errorf("Decode(%s) = %s, want %s", tt.in, ds.Strings(), tt.want)
		}
	}
}
