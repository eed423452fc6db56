package tool

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func tierSchema(t *testing.T) *StateSchema {
	t.Helper()
	s, err := NewStateSchema(map[string]any{"type": "object", "properties": map[string]any{
		"tier": map[string]any{"enum": []any{"free", "gold"}, "default": "free"},
		"n":    map[string]any{"type": "integer"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStateSchemaCheck(t *testing.T) {
	for _, tt := range []struct {
		key     string
		in      any
		want    any
		problem string
	}{
		{"n", 3.0, int64(3), ""},
		{"n", nil, nil, ""},
		{"n", "3", nil, "invalid value for state key n: got string, want integer"},
		{"tier", "gold", "gold", ""},
		{"m", 1, nil, "the state key m is not in the state_schema: its keys are n, tier"},
		{"user:m", 1, 1, ""},
		{"odd:m", 1, 1, ""},
	} {
		got, err := tierSchema(t).Check(tt.key, tt.in)
		if text := errorString(err); text != tt.problem {
			t.Errorf("Check(%s, %v): error %q, want %q", tt.key, tt.in, text, tt.problem)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("Check(%s, %v) (-want +got):\n%s", tt.key, tt.in, diff)
		}
	}
}

func TestStateSchemaDefaults(t *testing.T) {
	all := map[string]any{"n": int64(1), "tier": nil}
	tierSchema(t).AddDefaults(all)
	if diff := cmp.Diff(map[string]any{"n": int64(1), "tier": "free"}, all); diff != "" {
		t.Errorf("AddDefaults (-want +got):\n%s", diff)
	}
}

// TestStateSchemaNil checks that a nil schema declares nothing.
func TestStateSchemaNil(t *testing.T) {
	var s *StateSchema
	if v, err := s.Check("any", 1); v != 1 || err != nil || !s.Has("any") || !s.acceptsText("any") {
		t.Errorf("Check(any, 1) = %v, %v", v, err)
	}
	if _, ok := s.Default("any"); ok || s.CheckDelta(map[string]any{"any": 1}) != nil {
		t.Error("a nil schema has defaults or refuses a write")
	}
}
