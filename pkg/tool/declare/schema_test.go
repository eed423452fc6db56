package declare

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func scoreSchema() map[string]any {
	return map[string]any{
		"type": "object",
		"properties": map[string]any{
			"score": map[string]any{"type": "integer", "maximum": int64(10)},
			"note":  map[string]any{"type": "string"},
			"tier":  map[string]any{"enum": []any{"free", "gold"}, "default": "free"},
		},
		"required": []any{"score"},
	}
}

func TestSchemaParse(t *testing.T) {
	for _, tt := range []struct {
		name, in string
		want     any
		err      string
	}{
		{"whole", `{"score": 7, "note": "x", "tier": "gold"}`, map[string]any{"score": int64(7), "note": "x", "tier": "gold"}, ""},
		{"defaults, null, 7.0", `{"score": 7.0, "note": null}`, map[string]any{"score": int64(7), "tier": "free"}, ""},
		{"additional field", `{"score": 1, "more": 2.5}`, map[string]any{"score": int64(1), "tier": "free", "more": 2.5}, ""},
		{"missing", `{}`, nil, "missing property 'score'"},
		{"wrong", `{"score": 11, "note": 1}`, nil, "note: got number, want string; score: maximum: got 11, want 10"},
		{"another type", `[1]`, nil, "got array, want object"},
		{"no JSON", `seven`, nil, "invalid JSON: expected a value, got 's' at byte 0"},
		{"two values", `{} {}`, nil, "invalid JSON: expected the end of the text, got an object"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Schema(scoreSchema())
			if err != nil {
				t.Fatal(err)
			}
			got, err := s.Parse(t.Context(), tt.in)
			if text := errorString(err); text != tt.err {
				t.Errorf("Parse(%s): error %q, want %q", tt.in, text, tt.err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Parse(%s) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestSchemaErrors(t *testing.T) {
	for _, tt := range []struct {
		schema map[string]any
		want   string
	}{
		{map[string]any{"$ref": "https://example.com/x.json"}, "reference to https://example.com/x.json: references must stay within the schema"},
		{map[string]any{"$ref": "file:///etc/passwd"}, "reference to file:///etc/passwd: references must stay within the schema"},
		{map[string]any{"minLength": "x"}, "invalid JSON Schema: minLength: got string, want integer"},
	} {
		_, err := Schema(tt.schema)
		if text := errorString(err); !strings.HasSuffix(text, tt.want) {
			t.Errorf("Schema(%v): error %q, want %q", tt.schema, text, tt.want)
		}
	}
}

// TestSchemaCheckBounds: the cost of converting a value to its schema has a limit, and so has the
// size of the defaults that it gets.
func TestSchemaCheckBounds(t *testing.T) {
	objects := make([]any, 250_000)
	for i := range objects {
		objects[i] = map[string]any{}
	}
	names, properties := make([]any, 3000), map[string]any{}
	for i := range names {
		names[i] = fmt.Sprint("n", i)
	}
	for i := range 1500 {
		properties[fmt.Sprint("n", i)] = true
	}
	for _, tt := range []struct {
		name  string
		items map[string]any
		want  string
	}{
		{"required names", map[string]any{"required": names}, "converting the value to its schema exceeds the limit of 4000000 steps"},
		{"properties", map[string]any{"properties": properties}, "converting the value to its schema exceeds the limit of 4000000 steps"},
		{"defaults", map[string]any{"properties": map[string]any{"a": map[string]any{"default": strings.Repeat("x", 60_000)}}}, "the value's defaults exceed the limit of 1 MiB"},
		{"required defaults", map[string]any{"properties": map[string]any{"a": map[string]any{"default": strings.Repeat("x", 60_000)}}, "required": []any{"a"}}, "the value's defaults exceed the limit of 1 MiB"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Schema(map[string]any{"type": "array", "items": tt.items})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := s.Check(t.Context(), objects); errorString(err) != tt.want {
				t.Errorf("Check: %.200v\nwant %s", err, tt.want)
			}
			if _, err := s.Check(t.Context(), objects[:10]); tt.name != "required names" && err != nil {
				t.Errorf("Check of 10 objects: %v", err)
			}
		})
	}
}

// TestSchemaCheckMemory: a conversion's memory grows with the value, not with its schema times the
// value.
func TestSchemaCheckMemory(t *testing.T) {
	properties := map[string]any{}
	for i := range 1500 {
		properties[fmt.Sprint("n", i)] = true
	}
	s, err := Schema(map[string]any{"type": "array", "items": map[string]any{"properties": properties}})
	if err != nil {
		t.Fatal(err)
	}
	objects := make([]any, 1000)
	for i := range objects {
		objects[i] = map[string]any{"n1": "x"}
	}
	result := testing.Benchmark(func(b *testing.B) {
		for b.Loop() {
			if _, err := s.Check(t.Context(), objects); err != nil {
				b.Fatal(err)
			}
		}
	})
	if most := int64(len(objects) * 1000); result.AllocedBytesPerOp() > most {
		t.Errorf("%d bytes for %d objects, want at most %d", result.AllocedBytesPerOp(), len(objects), most)
	}
}

func TestCheckName(t *testing.T) {
	const rule = " must start with a letter or _, followed by letters, digits and _ . : -"
	tests := []struct{ name, in, want string }{
		{"plain", "get_order", ""},
		{"all that may be", "_a.b:c-9", ""},
		{"longest", strings.Repeat("a", 128), ""},
		{"empty", "", "tool name is required"},
		{"a digit first", "9a", `tool name "9a"` + rule},
		{"a blank", "a b", `tool name "a b"` + rule},
		{"an accent", "à", `tool name "à"` + rule},
		{"too long", strings.Repeat("a", 129), `tool name "` + strings.Repeat("a", 129) + `" exceeds the limit of 128 bytes`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, errorString(checkName(tt.in))); diff != "" {
				t.Errorf("checkName(%q) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}
