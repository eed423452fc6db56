package aguiserver_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

// Errors in agui_server are found by check, at their place.
func TestSection(t *testing.T) {
	for section, want := range map[string]string{
		"{}":                                                 "",
		"{agents: [writer]}":                                 "",
		"{client_state: [city]}":                             "",
		"{agents: [reader]}":                                 `app.yaml:1:14: agent "reader" not found in the agent tree, or it is a workflow's node [agui_server]`,
		"{agent: [writer]}":                                  `app.yaml:1:15: unknown field "agent" [unknown-field]`,
		`{client_state: ["app:x"]}`:                          `app.yaml:1:30: clients cannot write the state key "app:x": use a key of the session, without a prefix [agui_server]`,
		`{client_state: ["user:x"]}`:                         `app.yaml:1:30: clients cannot write the state key "user:x": use a key of the session, without a prefix [agui_server]`,
		`{client_state: ["temp:x"]}`:                         `app.yaml:1:30: clients cannot write the state key "temp:x": use a key of the session, without a prefix [agui_server]`,
		`{client_state: [adk_token]}`:                        `app.yaml:1:30: clients cannot write the state key "adk_token": use a key of the session, without a prefix [agui_server]`,
		`{client_state: [" "]}`:                              `app.yaml:1:30: clients cannot write the state key " ": use a key of the session, without a prefix [agui_server]`,
		"{agents: [" + strings.Repeat("a,", 65) + "]}":       "app.yaml:1:23: agents exceeds the limit of 64, got 65 [agui_server]",
		"{client_state: [" + strings.Repeat("a,", 65) + "]}": "app.yaml:1:29: client_state exceeds the limit of 64, got 65 [agui_server]",
	} {
		dir := filepath.Join(t.TempDir(), "app")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		for name, text := range map[string]string{
			"app.yaml":        "agui_server: " + section + "\n",
			"root_agent.yaml": "name: app\nmodel: openai/gpt-4o\ninstruction: Answer.\nsub_agents:\n  - {name: writer, model: openai/gpt-4o, description: Writes., instruction: Write.}\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		env := func(string) (string, bool) { return "key", true }
		ds := loader.New(testenv.Kinds(), &loader.Options{Env: env}).Check(t.Context(), dir)
		got := ""
		for _, d := range ds {
			if filepath.Base(d.Pos.File) == "app.yaml" {
				got = filepath.Base(d.Pos.File) + fmt.Sprintf(":%d:%d: %s [%s]", d.Pos.Line, d.Pos.Col, d.Message, d.Rule)
			}
		}
		if got != want {
			t.Errorf("%.60s:\ngot  %s\nwant %s", section, got, want)
		}
	}
}
