package main

import (
	"encoding/xml"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"gopkg.in/yaml.v3"
)

// A ciWorkflow is a GitHub Actions workflow.
type ciWorkflow struct {
	Name        string
	On          map[string]any
	Permissions map[string]string
	Jobs        map[string]struct {
		RunsOn  string `yaml:"runs-on"`
		Timeout int    `yaml:"timeout-minutes"`
		Env     map[string]string
		Steps   []struct {
			Name, Uses, If, Run string
			Env, With           map[string]string
		}
	}
}

// readWorkflow reads the workflow in docs/evaluation.md.
func readWorkflow(t *testing.T) *ciWorkflow {
	t.Helper()
	page, err := os.ReadFile("../../docs/evaluation.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```yaml\n# .github/workflows/agents.yml\n")
	block, _, found := strings.Cut(block, "\n```")
	if !found {
		t.Fatal("docs/evaluation.md has no workflow")
	}
	var w ciWorkflow
	dec := yaml.NewDecoder(strings.NewReader(block))
	dec.KnownFields(true)
	if err := dec.Decode(&w); err != nil {
		t.Fatal(err)
	}
	return &w
}

// The workflow's actions have the same versions as in our own workflows.
func TestWorkflowActions(t *testing.T) {
	files, err := filepath.Glob("../../.github/workflows/*.yml")
	if err != nil || len(files) == 0 {
		t.Fatal("no workflows", err)
	}
	pinned := map[string]bool{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`uses: (\S+@\S+)`).FindAllStringSubmatch(string(text), -1) {
			pinned[m[1]] = true
		}
	}
	job := readWorkflow(t).Jobs["evaluate"]
	for _, step := range job.Steps {
		if step.Uses != "" && !pinned[step.Uses] {
			t.Errorf("the workflow uses %s, our own have another version or none", step.Uses)
		}
	}
	if job.Timeout == 0 || job.RunsOn == "" {
		t.Errorf("the job has no runner or no limit of time: %+v", job)
	}
}

// The workflow's commands check, test and evaluate an app: the first run passes, and writes the
// reports that the last step uploads. With a failing case the evaluation step fails, after it has
// written its report.
func TestWorkflowCommands(t *testing.T) {
	dir := t.TempDir()
	writeDesk := func(answer string) {
		for name, text := range map[string]string{
			"root_agent.yaml":  "name: desk\nmodel: demo\ninstruction: Answer questions about orders.\n",
			"app.yaml":         "models: {demo: {provider: scripted, script: demo.script.yaml}}\n",
			"demo.script.yaml": "- text: " + answer + "\n",
			"a.test.yaml":      "- name: answers\n  user: hi\n  model: [{text: Hello.}]\n  expect: [text == \"Hello.\"]\n",
			"orders.eval.yaml": "cases: [{name: status, user: 'Where is order 7?', expect: {text: Order 7 is shipped.}}]\n",
		} {
			file := filepath.Join(dir, "apps/desk", name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	writeDesk("Order 7 is shipped.")
	if failed := runWorkflow(t, dir); failed != "" {
		t.Errorf("step %s failed, want none", failed)
	}
	for file, want := range map[string]string{"reports/tests.xml": "desk: answers", "reports/evals.xml": "orders:status"} {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		var report struct {
			XMLName xml.Name `xml:"testsuites"`
			Tests   int      `xml:"tests,attr"`
		}
		if err := xml.Unmarshal(text, &report); err != nil || report.Tests != 1 {
			t.Errorf("%s = %s, %v; want one test, %s", file, text, err, want)
		}
	}
	if page, err := os.ReadFile(filepath.Join(dir, "reports/evals.html")); err != nil || !strings.Contains(string(page), "Order 7 is shipped.") {
		t.Errorf("evals.html = %.200s, %v; want the conversation", page, err)
	}
	if results, _ := filepath.Glob(filepath.Join(dir, "reports/results/*.evalset_result.json")); len(results) != 1 {
		t.Errorf("results = %v, want one", results)
	}
	if err := os.RemoveAll(filepath.Join(dir, "reports")); err != nil {
		t.Fatal(err)
	}
	writeDesk("Which order?")
	if failed := runWorkflow(t, dir); failed != "Evaluate" {
		t.Errorf("step %q failed, want Evaluate", failed)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "reports/evals.xml")); err != nil || !strings.Contains(string(text), "<failure") {
		t.Errorf("evals.xml = %s, %v; want the failure", text, err)
	}
}

// runWorkflow runs the job's commands in a folder, except the installation, and returns the first
// step that failed. The test binary is agenthost under that name.
func runWorkflow(t *testing.T, dir string) (failed string) {
	t.Helper()
	bin := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "agenthost"))
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range readWorkflow(t).Jobs["evaluate"].Steps {
		if step.Run == "" || strings.HasPrefix(step.Name, "Install") || failed != "" && step.If == "" {
			continue
		}
		cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", step.Run)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		if out, err := cmd.CombinedOutput(); err != nil && failed == "" {
			failed = step.Name
			t.Logf("%s: %v\n%s", step.Name, err, out)
		}
	}
	return failed
}
