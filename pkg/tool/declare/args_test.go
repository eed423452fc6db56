package declare

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// declOf returns a declaration with the YAML's short schema.
func declOf(t testing.TB, params string) *genai.FunctionDeclaration {
	t.Helper()
	n, ds := spec.Parse("params.yaml", []byte(params))
	var s spec.ShortSchema
	ds = append(ds, s.DecodeSpec(n)...)
	if err := ds.Err(); err != nil {
		t.Fatalf("params: %v", err)
	}
	return &genai.FunctionDeclaration{Name: "roll", ParametersJsonSchema: s.JSON()}
}

const rollParams = `
sides: integer
note: string?
dice: [integer]
tier: {enum: [free, gold], default: free}
who: {name: string, age: "integer?"}
`

func TestCheckArgs(t *testing.T) {
	who := map[string]any{"name": "Ana"}
	tests := []struct {
		name string
		args map[string]any
		want map[string]any
	}{
		{
			"defaults are filled in",
			map[string]any{"sides": int64(6), "dice": []any{}, "who": who},
			map[string]any{"sides": int64(6), "dice": []any{}, "who": who, "tier": "free"},
		},
		{
			"whole floats are integers, at any depth",
			map[string]any{"sides": 6.0, "dice": []any{1.0, json.Number("2")}, "tier": "gold", "who": map[string]any{"name": "Ana", "age": 30.0}},
			map[string]any{"sides": int64(6), "dice": []any{int64(1), int64(2)}, "tier": "gold", "who": map[string]any{"name": "Ana", "age": int64(30)}},
		},
		{
			"null for an optional parameter is left out",
			map[string]any{"sides": int64(6), "note": nil, "dice": []any{}, "tier": nil, "who": who},
			map[string]any{"sides": int64(6), "dice": []any{}, "who": who, "tier": "free"},
		},
		{
			"what no parameter asks for is kept",
			map[string]any{"sides": int64(6), "dice": []any{}, "tier": "free", "who": who, "admin": true},
			map[string]any{"sides": int64(6), "dice": []any{}, "who": who, "tier": "free", "admin": true},
		},
	}
	decl := declOf(t, rollParams)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, _ := json.Marshal(tt.args)
			got, err := CheckArgs(t.Context(), decl, tt.args)
			if err != nil {
				t.Fatalf("CheckArgs(%v): %v", tt.args, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("CheckArgs (-want +got):\n%s", diff)
			}
			if after, _ := json.Marshal(tt.args); string(after) != string(before) {
				t.Errorf("CheckArgs changed the arguments to %s", after)
			}
		})
	}
}

func TestCheckArgsErrors(t *testing.T) {
	const wrong = "Invoking `roll()` failed as the following input parameters are wrong:\n"
	const retry = "\nYou could retry calling this tool with parameters that fit its declaration."
	tests := []struct {
		name, params string
		args         map[string]any
		want         string
	}{
		{
			"missing: the text of ADK", "{a: string, b: integer, c: \"string?\"}",
			map[string]any{},
			"Invoking `roll()` failed as the following mandatory input parameters are not present:\na\nb\n" +
				"You could retry calling this tool, but it is IMPORTANT for you to provide all the mandatory parameters.",
		},
		{"wrong type", "{a: integer}", map[string]any{"a": "six"}, wrong + "a: got string, want integer" + retry},
		{"no integer", "{a: integer}", map[string]any{"a": 1.5}, wrong + "a: got number, want integer" + retry},
		{"null", "{a: integer}", map[string]any{"a": nil}, wrong + "a: got null, want integer" + retry},
		{"inside a list", "{a: [string]}", map[string]any{"a": []any{"x", true}}, wrong + "a.1: got boolean, want string" + retry},
		{
			"not in the enum", "{a: {enum: [x, y]}}",
			map[string]any{"a": "z"},
			wrong + "a: value must be one of 'x', 'y'" + retry,
		},
		{
			"a nested parameter is missing", "{who: {name: string}}",
			map[string]any{"who": map[string]any{}},
			wrong + "who: missing property 'name'" + retry,
		},
		{
			"keywords of a full schema", "{type: object, properties: {a: {type: integer, minimum: 1}}}",
			map[string]any{"a": int64(0)},
			wrong + "a: minimum: got 0, want 1" + retry,
		},
		{
			"closed to others", "{type: object, properties: {a: {type: integer}}, additionalProperties: false}",
			map[string]any{"b": int64(0)},
			wrong + "arguments: additional properties 'b' not allowed" + retry,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := CheckArgs(t.Context(), declOf(t, tt.params), tt.args)
			var wrongArgs *tool.ArgsError
			if !errors.As(err, &wrongArgs) {
				t.Fatalf("CheckArgs(%v) = %v, want an *ArgsError", tt.args, err)
			}
			if diff := cmp.Diff(tt.want, err.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCheckArgsReportsAll checks that one error reports all invalid arguments.
func TestCheckArgsReportsAll(t *testing.T) {
	_, err := CheckArgs(t.Context(), declOf(t, "{a: integer, b: string}"), map[string]any{"a": "x", "b": int64(1)})
	var wrong *tool.ArgsError
	if !errors.As(err, &wrong) || len(wrong.Wrong) != 2 {
		t.Errorf("CheckArgs = %v, want two errors", err)
	}
}

func TestCheckArgsWithoutSchema(t *testing.T) {
	args := map[string]any{"n": json.Number("18446744073709551615"), "f": json.Number("1.5")}
	got, err := CheckArgs(t.Context(), &genai.FunctionDeclaration{Name: "any"}, args)
	want := map[string]any{"n": json.Number("18446744073709551615"), "f": 1.5}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("CheckArgs = %v (-want +got):\n%s", err, diff)
	}
}

// TestCheckArgsGenaiSchema uses Gemini's own schema type.
func TestCheckArgsGenaiSchema(t *testing.T) {
	decl := &genai.FunctionDeclaration{Name: "roll", Parameters: &genai.Schema{
		Type: genai.TypeObject, Required: []string{"sides"},
		Properties: map[string]*genai.Schema{
			"sides": {Type: genai.TypeInteger, Minimum: genai.Ptr(1.0), Maximum: genai.Ptr(100.0)},
			"note":  {Type: genai.TypeString, Nullable: genai.Ptr(true), MaxLength: genai.Ptr[int64](3), Pattern: "^[a-z]*$"},
			"tags":  {Type: genai.TypeArray, Items: &genai.Schema{Type: genai.TypeString, Enum: []string{"a", "b"}, Nullable: genai.Ptr(true)}},
			"tier":  {Type: genai.TypeString, Default: "free"},
			"id":    {AnyOf: []*genai.Schema{{Type: genai.TypeString}, {Type: genai.TypeInteger}}},
		},
	}}
	got, err := CheckArgs(t.Context(), decl, map[string]any{"sides": 6.0, "note": nil, "tags": []any{"a", nil}, "id": int64(7)})
	want := map[string]any{"sides": int64(6), "note": nil, "tags": []any{"a", nil}, "id": int64(7), "tier": "free"}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("CheckArgs = %v (-want +got):\n%s", err, diff)
	}
	for name, v := range map[string]any{"sides": int64(101), "note": "long", "tags": []any{"c"}, "id": true} {
		args := map[string]any{"sides": int64(6), name: v}
		if _, err := CheckArgs(t.Context(), decl, args); err == nil {
			t.Errorf("CheckArgs(%v) found nothing wrong", args)
		}
	}
}

// TestCheckArgsFullSchema checks that other drafts and definitions need no loading.
func TestCheckArgsFullSchema(t *testing.T) {
	decl := declOf(t, `
$schema: http://json-schema.org/draft-07/schema#
type: object
properties: {who: {$ref: "#/definitions/person"}, n: {type: [integer, "null"]}}
definitions: {person: {type: object, properties: {name: {type: string}}, required: [name]}}
`)
	got, err := CheckArgs(t.Context(), decl, map[string]any{"who": map[string]any{"name": "Ana"}, "n": nil})
	want := map[string]any{"who": map[string]any{"name": "Ana"}, "n": nil}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("CheckArgs = %v (-want +got):\n%s", err, diff)
	}
	if _, err := CheckArgs(t.Context(), decl, map[string]any{"who": map[string]any{}}); err == nil {
		t.Error("CheckArgs reported no error for the referenced schema")
	}
}

// TestCheckArgsBadDeclaration checks that an invalid schema is not an ArgsError.
func TestCheckArgsBadDeclaration(t *testing.T) {
	_, err := CheckArgs(t.Context(), &genai.FunctionDeclaration{Name: "roll", ParametersJsonSchema: 1}, nil)
	if want := "parameters of roll: the schema must be a JSON object"; errorString(err) != want {
		t.Errorf("CheckArgs = %v, want %s", err, want)
	}
}

func TestParamsErrors(t *testing.T) {
	tests := []struct {
		name   string
		schema any
		want   string
	}{
		{
			"no schema",
			map[string]any{"type": "object", "properties": map[string]any{"a": map[string]any{"type": "txt"}}},
			"parameters of roll: invalid JSON Schema: properties.a.type: value must be one of 'array', 'boolean', 'integer', " +
				"'null', 'number', 'object', 'string'; properties.a.type: got string, want array",
		},
		{"no object", []any{}, "parameters of roll: the schema must be a JSON object"},
		{"no JSON", func() {}, "parameters of roll: json: unsupported type: func()"},
		{
			"a file",
			map[string]any{"$ref": "file:///etc/passwd"},
			`parameters of roll: failing loading "file:///etc/passwd": reference to file:///etc/passwd: references must stay within the schema`,
		},
		{
			"the network",
			map[string]any{"$ref": "http://127.0.0.1:1/x"},
			`parameters of roll: failing loading "http://127.0.0.1:1/x": reference to http://127.0.0.1:1/x: references must stay within the schema`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Params(&genai.FunctionDeclaration{Name: "roll", ParametersJsonSchema: tt.schema})
			if diff := cmp.Diff(tt.want, errorString(err)); diff != "" {
				t.Errorf("Params error (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzCheckArgs checks that Check never panics or modifies its arguments, and that
// it is idempotent.
func FuzzCheckArgs(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"sides":6,"dice":[],"who":{"name":"x"}}`, `{"sides":6.0,"dice":[1.0],"who":{"name":"x","age":1e400}}`,
		`{"sides":null,"dice":null,"who":null,"tier":null,"note":null}`, `{"sides":1e300,"dice":[[[]]],"who":[]}`,
		`{"sides":9223372036854775808,"dice":[-0.0],"who":{"name":""},"x":{"y":[1]}}`,
	} {
		f.Add(seed)
	}
	params, err := Params(declOf(f, rollParams))
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, src string) {
		v, err := tool.DecodeResult([]byte(src))
		args, ok := v.(map[string]any)
		if err != nil || !ok {
			return
		}
		before, _ := json.Marshal(args)
		once, err := params.Check(t.Context(), args)
		if after, _ := json.Marshal(args); string(after) != string(before) {
			t.Fatalf("Check changed %s to %s", before, after)
		}
		if err != nil {
			return
		}
		twice, err := params.Check(t.Context(), once)
		if diff := cmp.Diff(once, twice); err != nil || diff != "" {
			t.Fatalf("Check(Check(%s)) = %v (-once +twice):\n%s", src, err, diff)
		}
	})
}
