package declare

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/tool"
)

func tierSchema(t *testing.T) *tool.StateSchema {
	t.Helper()
	s, err := StateSchema(map[string]any{"type": "object", "properties": map[string]any{
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
