package spec_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"google.golang.org/genai"

	"agenthost/pkg/spec"
)

type routeConfig struct {
	When  spec.Expr    `yaml:"when" doc:"The condition."`
	Agent *agentConfig `yaml:"agent" required:"true" doc:"Agent that answers."`
}

// agentConfig has a field for each type.
type agentConfig struct {
	Name     string                  `yaml:"name" required:"true" doc:"Name of the agent."`
	Mode     string                  `yaml:"mode" enum:"default|none" default:"default" doc:"Visible context."`
	Modes    []string                `yaml:"modes" enum:"a|b"`
	Key      string                  `yaml:"key" secret:"true" doc:"A key."`
	Old      bool                    `yaml:"old" deprecated:"use mode" doc:"Former mode."`
	Steps    int                     `yaml:"steps" default:"3" doc:"Number of steps."`
	Heat     *float64                `yaml:"heat" default:"0.5"`
	Text     spec.Text               `yaml:"text"`
	Wait     spec.Duration           `yaml:"wait" default:"5s"`
	Size     spec.Size               `yaml:"size"`
	Params   spec.ShortSchema        `yaml:"params"`
	Routes   []routeConfig           `yaml:"routes"`
	Models   map[string]*innerStruct `yaml:"models"`
	Anything any                     `yaml:"anything"`
	Raw      *spec.Node              `yaml:"raw"`
	Own      shoutText               `yaml:"own"`
	Bytes    []byte                  `yaml:"bytes"`
	Go       time.Duration           `yaml:"go"`
	Time     time.Time               `yaml:"time"`
	Think    genai.ThinkingConfig    `yaml:"think"`
	Common   inlinedFields           `yaml:",inline"`
	Private  struct {
		A string `yaml:"a"`
	} `yaml:"private"`
}

// compareGolden compares got with a testdata file.
func compareGolden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func TestSchemaGolden(t *testing.T) {
	got, err := json.MarshalIndent(spec.Schema(reflect.TypeFor[agentConfig]()), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	compareGolden(t, "schema.json", string(got)+"\n")
}

// compileSchema compiles a schema from its JSON encoding.
func compileSchema(t testing.TB, schema map[string]any) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(schema)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		t.Fatalf("Compile: %v", err)
	}
	return compiled
}

// The schema accepts exactly what Decode accepts.
func TestSchema_AgreesWithDecode(t *testing.T) {
	schema := compileSchema(t, spec.Schema(reflect.TypeFor[agentConfig]()))
	tests := []struct {
		in string
		ok bool
	}{
		{"name: a", true},
		{"{}", false},
		{"name: 1", false},
		{"{name: a, nmae: b}", false},
		{"{name: a, mode: none}", true},
		{"{name: a, mode: nome}", false},
		{"{name: a, modes: [a]}", true},
		{"{name: a, modes: [c]}", false},
		{"{name: a, steps: 2, heat: 1}", true},
		{"{name: a, steps: 1.5}", false},
		{"{name: a, steps: many}", false},
		{"{name: a, text: 12}", true},
		{"{name: a, text: []}", false},
		{"{name: a, wait: 1h30m}", true},
		{"{name: a, wait: 0}", true},
		{"{name: a, wait: 5}", false},
		{"{name: a, wait: soon}", false},
		{"{name: a, size: 10MiB}", true},
		{"{name: a, size: 4096}", true},
		{"{name: a, size: big}", false},
		{"{name: a, params: {n: integer}}", true},
		{"{name: a, params: []}", false},
		{"{name: a, routes: [{when: x > 1, agent: {name: b}}]}", true},
		{"{name: a, routes: [{agent: {}}]}", false},
		{"{name: a, models: {fast: {tries: 1}}}", true},
		{"{name: a, models: {fast: {tires: 1}}}", false},
		{"{name: a, anything: [1], raw: {a: b}}", true},
		{"{name: a, think: {thinking_budget: 1}}", true},
		{"{name: a, think: {thinkingBudget: 1}}", true},
		{"{name: a, think: {budget: 1}}", false},
		{"{name: a, timeout: 1s}", true},
		{"{name: a, old: yes}", true},
		{"{name: a, old: perhaps}", false},
		{"{name: a, go: 2s}", true},
		{"{name: a, go: 1500}", true},
		{"{name: a, private: {a: b}}", true},
		{"{name: a, private: {c: b}}", false},
	}
	for _, test := range tests {
		n := parseValid(t, test.in)
		var v agentConfig
		if ds := spec.Decode(n, &v); ds.HasErrors() == test.ok {
			t.Errorf("Decode(%s) = %v, want ok %v", test.in, ds, test.ok)
		}
		if err := schema.Validate(toJSONValue(t, n)); (err == nil) != test.ok {
			t.Errorf("schema of %s: %v, want ok %v", test.in, err, test.ok)
		}
	}
	if err := schema.Validate(toJSONValue(t, parseValid(t, `{name: a, steps: "${env:STEPS}", old: "${env:OLD}"}`))); err != nil {
		t.Errorf("the schema rejects references: %v", err)
	}
}

func toJSONValue(t testing.TB, n *spec.Node) any {
	t.Helper()
	text, err := json.Marshal(n.Any())
	if err != nil {
		t.Fatal(err)
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// The largest API struct's schema compiles.
func TestSchema_API(t *testing.T) {
	schema := compileSchema(t, spec.Schema(reflect.TypeFor[genai.GenerateContentConfig]()))
	good := "{temperature: 0.5, maxOutputTokens: 1, http_options: {timeout: 1000, headers: {a: b}}}"
	if err := schema.Validate(toJSONValue(t, parseValid(t, good))); err != nil {
		t.Errorf("schema of %s: %v", good, err)
	}
	if err := schema.Validate(toJSONValue(t, parseValid(t, "temprature: 0.5"))); err == nil {
		t.Error("the schema accepts unknown fields")
	}
}

// Definitions may refer to each other.
func TestSchemaSet(t *testing.T) {
	var s spec.SchemaSet
	s.Define("agent", map[string]any{"anyOf": []any{s.Of(reflect.TypeFor[innerStruct]()), s.Ref("list")}})
	s.Define("list", map[string]any{"type": "array", "items": s.Ref("agent")})
	schema := compileSchema(t, s.Document(s.Ref("agent")))
	for in, ok := range map[string]bool{"{tries: 1}": true, "[[{tries: 1}], {}]": true, "[{tires: 1}]": false, "text": false} {
		if err := schema.Validate(toJSONValue(t, parseValid(t, in))); (err == nil) != ok {
			t.Errorf("schema of %s: %v, want ok %v", in, err, ok)
		}
	}
}

func TestReferenceGolden(t *testing.T) {
	compareGolden(t, "reference.md", spec.Reference("agent", "Answers questions.", reflect.TypeFor[agentConfig]()))
}

func TestFieldsFromTags(t *testing.T) {
	type config struct {
		Name   string        `yaml:"name" required:"true" doc:"Name of the agent."`
		Mode   string        `yaml:"mode" enum:"a|b" default:"a"`
		Key    string        `yaml:"key" secret:"true" deprecated:"use name"`
		Common inlinedFields `yaml:",inline"`
		Hidden string
		Out    string `yaml:"-"`
		//lint:ignore U1000 shows that unexported fields are ignored
		hidden string `yaml:"hidden"`
	}
	want := []spec.Field{
		{Name: "name", Required: true, Doc: "Name of the agent.", Type: reflect.TypeFor[string]()},
		{Name: "mode", Enum: []string{"a", "b"}, Default: "a", Type: reflect.TypeFor[string]()},
		{Name: "key", Secret: true, Deprecated: "use name", Type: reflect.TypeFor[string]()},
		{Name: "timeout", Default: "5s", Type: reflect.TypeFor[spec.Duration]()},
	}
	got := spec.Fields(reflect.TypeFor[config]())
	same := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".index" || p.Last().String() == ".quoted" }, cmp.Ignore())
	types := cmp.Comparer(func(a, b reflect.Type) bool { return a == b })
	if diff := cmp.Diff(want, got, same, types, cmp.AllowUnexported(spec.Field{})); diff != "" {
		t.Errorf("Fields (-want +got):\n%s", diff)
	}
}

// Types with the same name get separate definitions.
func TestSchemaSet_Names(t *testing.T) {
	var s spec.SchemaSet
	outer := s.Of(reflect.TypeFor[innerStruct]())
	type inner struct {
		A string `yaml:"a"`
	}
	local := s.Of(reflect.TypeFor[inner]())
	if cmp.Equal(outer, local) {
		t.Errorf("two types are defined as %v", local)
	}
	if again := s.Of(reflect.TypeFor[*inner]()); !cmp.Equal(local, again) {
		t.Errorf("second call of Of = %v, want %v", again, local)
	}
}

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
