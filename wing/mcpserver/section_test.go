package mcpserver_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// Each problem of mcp_server is reported at its place, with the value and the limit.
func TestSectionProblems(t *testing.T) {
	for section, want := range map[string]string{
		"{expose: [{agent: desk, artifacts: true}]}": "exactly one of agent, tool, artifacts, skill, prompt and resource is required",
		"{expose: [{}]}":                                                                       "exactly one of agent, tool, artifacts, skill, prompt and resource is required",
		"{expose: [{agent: stranger}]}":                                                        `agent "stranger" not found in the agent tree, or it is a workflow's node`,
		`{expose: [{agent: desk, tool: "a b"}]}`:                                               `tool "a b" must have 1 to 64 characters: letters, digits, _ and -`,
		"{expose: [{artifacts: true, tool: x}]}":                                               "exactly one of agent, tool, artifacts, skill, prompt and resource is required",
		"{expose: [{agent: desk, from: desk}]}":                                                "from belongs to a tool without agent: tool is required, and agent is not allowed",
		"{expose: [{agent: desk}, {tool: desk}]}":                                              `duplicate tool "desk"`,
		"{expose: [{tool: 'a b'}]}":                                                            `tool "a b" must have 1 to 64 characters: letters, digits, _ and -`,
		"{expose: [{tool: x}]}":                                                                `unknown tool "x": the tools are none`,
		"{expose: [{tool: x, from: stranger}]}":                                                `agent "stranger" is not in the agent tree, or has no tools`,
		"{expose: [{prompt: p, text: x, tasks: required}]}":                                    "tasks belongs to an agent or tool: agent or tool is required",
		"{expose: [{agent: desk, tasks: always}]}":                                             `always`,
		"{expose: [{agent: desk}, {agent: desk}]}":                                             `duplicate tool "desk"`,
		"{expose: [{prompt: p}]}":                                                              "text is required for a prompt",
		"{expose: [{agent: desk, text: x}]}":                                                   "text and arguments belong to a prompt or resource: prompt or resource is required",
		"{expose: [{agent: desk, attach: ['docs://x']}]}":                                      "attach belongs to a prompt: prompt is required",
		"{expose: [{agent: desk, data: eA==}]}":                                                "data and mime_type belong to a resource: resource is required",
		"{expose: [{resource: 'docs://x'}]}":                                                   "exactly one of text and data is required for a resource",
		"{expose: [{resource: 'docs://x', data: '?'}]}":                                        "data must be base64: illegal base64 data at input byte 0",
		"{expose: [{resource: returns, text: x}]}":                                             `resource must be a URI with a scheme, such as docs://returns or docs://{name}, got "returns"`,
		"{expose: [{resource: 'docs://{', text: x}]}":                                          `resource must be a URI with a scheme, such as docs://returns or docs://{name}, got "docs://{"`,
		"{expose: [{resource: 'Artifact://x/y', text: x}]}":                                    "resource cannot begin with artifact://, which artifacts have",
		"{expose: [{resource: 'skill://x/y', text: x}]}":                                       "resource cannot begin with skill://, which skills have",
		"{expose: [{skill: letters}]}":                                                         `skill "letters" not found: the app's agents have no skills`,
		"{expose: [{skill: letters}, {skill: letters}]}":                                       `duplicate skill "letters"`,
		"{expose: [{resource: 'docs://x', text: " + strings.Repeat("x", 512<<10+1) + "}]}":     "resource exceeds the limit of 524288 bytes, got 524289",
		"{expose: [{prompt: p, text: x, attach: [" + strings.Repeat("'docs://x',", 9) + "]}]}": "attach exceeds the limit of 8, got 9",
		"{expose: [{prompt: p, text: x, arguments: [{name: a, values: [" + strings.Repeat("v,", 101) + "]}]}]}": "values exceeds the limit of 100, got 101",
		"{expose: [{resource: 'docs://x', text: x}, {resource: 'docs://x', text: y}]}":                          `duplicate resource "docs://x"`,
		"{session: user}": "user",
		"{instructions: " + strings.Repeat("x", 4001) + "}":                                       "instructions exceeds the limit of 4000 characters",
		"{expose: [" + strings.Repeat("{artifacts: true},", 65) + "]}":                            "expose exceeds the limit of 64, got 65",
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

// A skill that the app's agents do not have, or have from two folders, is an error that names the
// choice.
func TestUnknownSkill(t *testing.T) {
	if got := loadSkill(t, "letter", ""); !strings.Contains(got, `skill "letter" not found; the skills of the app's agents are letters, unlisted`) {
		t.Errorf("the error is %q", got)
	}
	other := strings.ReplaceAll(skillFiles, "apps/desk/skills", "apps/desk/more")
	if got := loadSkill(t, "letters", other); !strings.Contains(got, `skill "letters" is in more than one folder: more/letters, skills/letters`) {
		t.Errorf("the error is %q", got)
	}
	if got := loadSkill(t, "letters", ""); got != "" {
		t.Errorf("control: %s", got)
	}
}

// loadSkill returns the problems when the desk exposes a skill. more are files of a second folder.
func loadSkill(t *testing.T, name, more string) string {
	t.Helper()
	desk := strings.Replace(readDesk(t), "    - artifacts: true\n", "    - artifacts: true\n    - skill: "+name+"\n", 1)
	desk = strings.Replace(desk, "tools:\n", "tools:\n  - skills: {from: [skills]}\n", 1)
	if more != "" {
		desk = strings.Replace(desk, "    tools:\n", "    tools:\n      - skills: {from: [more]}\n", 1)
	}
	return loadDesk(t, desk+skillFiles+more)
}

// loadDesk returns the problems of the desk in an archive.
func loadDesk(t *testing.T, archive string) string {
	t.Helper()
	app, problems := buildDesk(t, archive)
	if app != nil {
		defer app.Close()
	}
	if err := problems.Err(); err != nil {
		return err.Error()
	}
	return ""
}

// buildDesk loads the desk in an archive.
func buildDesk(t *testing.T, archive string) (*runtime.App, spec.Diagnostics) {
	t.Helper()
	dir := t.TempDir()
	for _, f := range txtar.Parse([]byte(archive)).Files {
		file := filepath.Join(dir, f.Name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, f.Data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return loader.New(testenv.Kinds(), nil).Load(t.Context(), filepath.Join(dir, "apps/desk"))
}
