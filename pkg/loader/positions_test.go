package loader_test

import (
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

// TestProblemPositions makes each mistake in each place that can declare an agent. The
// problem is reported at the line that the user wrote, with the caret below the
// mistake.
func TestProblemPositions(t *testing.T) {
	// In line, ‹› marks the caret position.
	mistakes := []struct{ rule, line string }{
		{"unknown-field", `‹output_keyy›: x`},
		{"enum", `include_contents: ‹al›`},
		{"type", `disallow_transfer_to_peers: ‹perhaps›`},
		{"type", `output_schema: {a: ‹strin›}`},
		{"expression", `before_agent_callbacks: [{when: "state.x =‹=›", respond: No.}]`},
		{"callback", `before_agent_callbacks: [{when: state.x == 1, ‹emit›: No.}]`},
		{"code", `after_model_callbacks: [{name: ‹my_pkg.callbacks.check›}]`},
		{"unknown-field", `generate_content_config: {‹temperatur›: 1}`},
		{"unknown-name", `tools: [{name: ‹google_serch›}]`},
		{"expression", `tools: [{expr: {name: v, value: args.n ‹+›}}]`},
		{"model", `model: ‹unknown/large›`},
		{"env", `global_instruction: "For ‹${env:NOT_SET}›"`},
	}
	ways := []struct {
		name, file string
		files      map[string]string
	}{
		{"in its file", "app/root_agent.yaml", map[string]string{"app/root_agent.yaml": "name: a\ninstruction: x\nMISTAKE\n"}},
		{"in app.yaml", "app/app.yaml", map[string]string{"app/app.yaml": "root_agent:\n  name: a\n  instruction: x\n  MISTAKE\n"}},
		{"below", "app/root_agent.yaml", map[string]string{"app/root_agent.yaml": "agent_class: SequentialAgent\nname: a\nsub_agents:\n  - name: b\n    instruction: x\n    MISTAKE\n"}},
		{"by config_path", "app/sub/b.yaml", map[string]string{
			"app/root_agent.yaml": "agent_class: SequentialAgent\nname: a\nsub_agents: [{config_path: sub/b.yaml}]\n",
			"app/sub/b.yaml":      "# a comment\nname: b\ninstruction: x\nMISTAKE\n",
		}},
		{"by an include", "shared.yaml", map[string]string{
			"app/root_agent.yaml": "agent_class: SequentialAgent\nname: a\nsub_agents: [{use: b}]\n",
			"app/app.yaml":        "include: [../shared.yaml]\n",
			"shared.yaml":         "agents:\n  b:\n    instruction: x\n    MISTAKE\n",
		}},
		{"by an anchor", "app/app.yaml", map[string]string{
			"app/root_agent.yaml": "agent_class: SequentialAgent\nname: a\nsub_agents: [{use: c}]\n",
			"app/app.yaml":        "agents:\n  b: &b\n    instruction: x\n    MISTAKE\n  c:\n    <<: *b\n    description: Is like b.\n",
		}},
		{"by defaults", "app/app.yaml", map[string]string{
			"app/root_agent.yaml": "agent_class: SequentialAgent\nname: a\nsub_agents: [{name: b, instruction: x}]\n",
			"app/app.yaml":        "defaults:\n  LlmAgent:\n    MISTAKE\n",
		}},
		{"by an overlay", "app/app.prod.yaml", map[string]string{
			"app/root_agent.yaml": "agent_class: SequentialAgent\nname: a\nsub_agents: [{use: b}]\n",
			"app/app.yaml":        "agents:\n  b:\n    instruction: x\n",
			"app/app.prod.yaml":   "agents:\n  b:\n    MISTAKE\n",
		}},
		{"as a replacement of code", "app/app.yaml", map[string]string{
			"app/root_agent.yaml": "agent_class: SequentialAgent\nname: a\nsub_agents: [{code: my_pkg.agents.b}]\n",
			"app/app.yaml":        "functions:\n  my_pkg.agents.b:\n    instruction: x\n    MISTAKE\n",
		}},
	}
	for _, way := range ways {
		for _, m := range mistakes {
			t.Run(way.name+" "+m.rule, func(t *testing.T) {
				line := strings.NewReplacer("‹", "", "›", "").Replace(m.line)
				before, _, _ := strings.Cut(m.line, "‹")
				top := t.TempDir()
				for name, text := range way.files {
					write(t, filepath.Join(top, filepath.FromSlash(name)), strings.ReplaceAll(text, "MISTAKE", line))
				}
				ds := loader.New(testenv.Kinds(), &loader.Options{Env: lookUpEnv, Overlay: "prod"}).Check(t.Context(), filepath.Join(top, "app"))
				for _, d := range ds {
					at := strings.Index(d.Source, line)
					file := strings.TrimPrefix(d.Pos.File, filepath.ToSlash(top)+"/")
					if d.Rule == m.rule && file == way.file && at >= 0 && d.Pos.Col == at+len(before)+1 {
						return
					}
				}
				t.Errorf("Check of %q does not report it at its position:\n%s", line, renderText(t, ds))
			})
		}
	}
}
