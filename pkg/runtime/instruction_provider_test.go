package runtime_test

import (
	"strings"
	"testing"

	"agenthost/internal/testenv"
)

// TestInjectMisses: a value that inject misses is told with the place of the
// expression, as that of an instruction is.
func TestInjectMisses(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	e.Load(t, testenv.Files(t, "app", map[string][]byte{
		"root_agent.yaml": []byte("name: a\nmodel: demo\ninstruction_provider: inject(\"{city}\")\n"),
		"app.yaml":        []byte("models: {demo: {provider: scripted, script: s.yaml}}\n"),
		"s.yaml":          []byte("- text: x\n"),
	}))
	got := outline(e.Host.Run(t.Context(), say(key, "x")))
	if !strings.HasPrefix(got, "error MISSING_VALUE: Context variable not found: `city`. (agent a, ") ||
		!strings.HasSuffix(got, "app/root_agent.yaml:3:23; write {city?} if it may be missing)\n") {
		t.Errorf("Run = %s", got)
	}
}
