package mcpserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

// Each problem of mcp_server is reported at its place, with the value and the limit.
func TestSectionProblems(t *testing.T) {
	for section, want := range map[string]string{
		"{expose: [{agent: desk, artifacts: true}]}": "exactly one of agent, artifacts and prompt is required",
		"{expose: [{}]}":                                               "exactly one of agent, artifacts and prompt is required",
		"{expose: [{agent: stranger}]}":                                `agent "stranger" not found in the agent tree, or it is a workflow's node`,
		`{expose: [{agent: desk, tool: "a b"}]}`:                       `tool "a b" must have 1 to 64 characters: letters, digits, _ and -`,
		"{expose: [{artifacts: true, tool: x}]}":                       "tool names an agent's tool: agent is required",
		"{expose: [{agent: desk}, {agent: desk}]}":                     `duplicate tool "desk"`,
		"{expose: [{prompt: p}]}":                                      "text is required for a prompt",
		"{expose: [{agent: desk, text: x}]}":                           "text and arguments belong to a prompt: prompt is required",
		"{session: user}":                                              "user",
		"{instructions: " + strings.Repeat("x", 4001) + "}":            "instructions exceeds the limit of 4000 characters",
		"{expose: [" + strings.Repeat("{artifacts: true},", 65) + "]}": "expose exceeds the limit of 64, got 65",
		"{expose: [{prompt: p, text: x, arguments: [" + strings.Repeat("{name: a},", 17) + "]}]}": "arguments exceeds the limit of 16, got 17",
	} {
		if got := loadSection(t, section); !strings.Contains(got, want) {
			t.Errorf("%.80s reports %q, want %q", section, got, want)
		}
	}
	if got := loadSection(t, "{}"); got != "" {
		t.Errorf("control: %s", got)
	}
}

func loadSection(t *testing.T, section string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "desk")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{
		"app.yaml":        "models: {m: {provider: scripted, script: s.yaml}}\nmcp_server: " + section + "\n",
		"root_agent.yaml": "name: desk\nmodel: m\ninstruction: x\n", "s.yaml": "- text: hi\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	app, problems := loader.New(testenv.Kinds(), nil).Load(t.Context(), dir)
	if app != nil {
		defer app.Close()
	}
	if err := problems.Err(); err != nil {
		return err.Error()
	}
	return ""
}
