package runtime_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/session"
)

// TestMissingValues: a missing value ends the run before the model is called,
// in words that name key, agent and place; the session is usable afterwards
// (language 4).
func TestMissingValues(t *testing.T) {
	const script = "- text: \"done by {agent}\"\n"
	const demo = "models:\n  demo: {provider: scripted, script: demo.script.yaml}\n"
	tests := []struct {
		name  string
		files map[string]string
		want  string
	}{
		{
			"in a block",
			map[string]string{
				"app.yaml":        demo,
				"root_agent.yaml": "name: greeter\nmodel: demo\ninstruction: |\n  Be kind.\n  Greet {user:key}.\n",
			},
			"error MISSING_VALUE: Context variable not found: `user:key`. (agent greeter, root_agent.yaml:5:9; write {user:key?} if it may be missing)\n",
		},
		{
			"in a child's file",
			map[string]string{
				"app.yaml":        demo,
				"root_agent.yaml": "agent_class: SequentialAgent\nname: line\nsub_agents: [{config_path: a.yaml}, {config_path: b.yaml}]\n",
				"a.yaml":          "name: a\nmodel: demo\ninstruction: Do it.\n",
				"b.yaml":          "name: b\nmodel: demo\ninstruction: Continue with {user:key}.\n",
			},
			"a: done by a\nerror MISSING_VALUE: Context variable not found: `user:key`. (agent b, b.yaml:3:28; write {user:key?} if it may be missing)\n",
		},
		{
			"in the global instruction",
			map[string]string{
				"app.yaml":        demo,
				"root_agent.yaml": "name: root\nmodel: demo\nglobal_instruction: Speak {user:key}.\ninstruction: x\n",
			},
			"error MISSING_VALUE: Context variable not found: `user:key`. (agent root, root_agent.yaml:3:27; write {user:key?} if it may be missing)\n",
		},
		{
			"in a plugin's instruction",
			map[string]string{
				"app.yaml":        demo + "plugins:\n  - global_instruction: {instruction: \"Speak {user:key}.\"}\n",
				"root_agent.yaml": "name: root\nmodel: demo\ninstruction: x\n",
			},
			"error MISSING_VALUE: Context variable not found: `user:key`. (agent root, app.yaml:4:46; write {user:key?} if it may be missing)\n",
		},
		{
			"artifact",
			map[string]string{
				"app.yaml":        demo,
				"root_agent.yaml": "name: root\nmodel: demo\ninstruction: \"{artifact.none.txt?}{user:key?}{artifact.note.txt}\"\n",
			},
			"error MISSING_VALUE: Artifact note.txt not found. (agent root, root_agent.yaml:3:46; write {artifact.note.txt?} if it may be missing)\n",
		},
		{
			"of an agent as a tool",
			map[string]string{
				"app.yaml": demo,
				"root_agent.yaml": "name: boss\nmodel: demo\ninstruction: x\ntools:\n" +
					"  - agent: {agent: {name: expert, instruction: \"{user:key}\"}}\n",
				"demo.script.yaml": "- when: agent == \"expert\" or responses.expert != nil\n  text: \"done by {agent}\"\n- calls: [{name: expert, args: {request: r}}]\n",
			},
			"boss: call expert\nboss: expert map[error:Context variable not found: `user:key`. " +
				"(agent expert, root_agent.yaml:5:49; write {user:key?} if it may be missing)]\nboss: done by boss\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string][]byte{"demo.script.yaml": []byte(script)}
			for name, content := range tt.files {
				files[name] = []byte(content)
			}
			e := testenv.New(t, nil)
			dir := testenv.Files(t, "app", files)
			e.Load(t, dir)
			key := e.Session(t, "app", "s", nil)
			got := strings.ReplaceAll(formatRun(e.Host.Run(t.Context(), userMessage(key, "go"))), dir, "app")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Run() without the value (-want +got):\n%s", diff)
			}
			again := runAgain(t, e, key)
			if strings.Contains(again, "user:key") {
				t.Errorf("Run() with the value = %q, want no complaint about it", again)
			}
		})
	}
}

func runAgain(t *testing.T, e *testenv.Env, key session.Key) string {
	t.Helper()
	req := userMessage(key, "again")
	req.StateDelta = map[string]any{"user:key": "value"}
	return formatRun(e.Host.Run(t.Context(), req))
}
