package loader_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

const instructedApp = `name: desk
model: demo
instruction: |  # keep
  Help ${env:SHOP} customers.
  Be {tone?}.
sub_agents:
  - {name: judge, description: Judges., instruction_provider: '"x"'}
  - {config_path: more/sales.yaml}
`

// TestFindInstruction: an agent's instruction is found in its file with references as they are
// written, replaced in place, and written only if the file is unchanged.
func TestFindInstruction(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "desk")
	write(t, filepath.Join(dir, "root_agent.yaml"), instructedApp)
	write(t, filepath.Join(dir, "more", "sales.yaml"), "name: sales\ndescription: Sells.\ninstruction: Sell.\n")
	write(t, filepath.Join(dir, "app.yaml"), "models: {demo: {provider: scripted, script: demo.script.yaml}}\n")
	write(t, filepath.Join(dir, "demo.script.yaml"), "- text: hi\n")
	write(t, filepath.Join(dir, ".env"), "SHOP=Ana's\n")
	l := loader.New(testenv.Kinds(), newOptions(dir))
	root, ds, err := l.FindInstruction(t.Context(), dir, "")
	if root == nil || err != nil {
		t.Fatal(ds, err)
	}
	if root.Agent != "desk" || root.File != "root_agent.yaml" || root.Text != "Help ${env:SHOP} customers.\nBe {tone?}.\n" {
		t.Errorf("instruction = %+v", root)
	}
	edited, err := root.ReplaceText("Help well.\n")
	if err != nil {
		t.Fatal(err)
	}
	if app, ds := l.WithFiles(dir, map[string][]byte{root.File: edited}).Load(t.Context(), dir); app == nil {
		t.Error(ds)
	} else {
		app.Close()
	}
	if sales, _, err := l.FindInstruction(t.Context(), dir, "sales"); err != nil || sales.File != "more/sales.yaml" || sales.Text != "Sell." {
		t.Errorf("sales = %+v, %v", sales, err)
	}
	for agent, want := range map[string]string{
		"judge": "agent judge computes its instruction by instruction_provider in ",
		"dusk":  `unknown agent "dusk"; agents with one are desk, sales`,
	} {
		if _, _, err := l.FindInstruction(t.Context(), dir, agent); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %s", agent, err, want)
		}
	}
	if err := root.WriteFile(dir, edited); err != nil {
		t.Error(err)
	}
	if now, err := os.ReadFile(filepath.Join(dir, "root_agent.yaml")); err != nil || string(now) != string(edited) {
		t.Errorf("the file has %s", now)
	}
	if err := root.WriteFile(dir, edited); err == nil || err.Error() != "writing root_agent.yaml: the file changed since it was read" {
		t.Errorf("writing again: %v", err)
	}
}
