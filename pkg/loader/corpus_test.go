package loader_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// sample is an app from the corpus with agent config files.
type sample struct {
	Root, Verdict string
	Builtin, Code []string
}

func readSamples(t *testing.T) (folder string, all []sample) {
	t.Helper()
	corpus := os.Getenv("AGENTHOST_CORPUS")
	if corpus == "" {
		corpus = "../../../shared/corpus"
	}
	folder = filepath.Join(corpus, "agent-config")
	b, err := os.ReadFile(filepath.Join(folder, "apps.json"))
	if err != nil {
		t.Skip("SKIPPED: no corpus: set AGENTHOST_CORPUS")
	}
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	return folder, all
}

// TestCorpusAppsRunOrReportCode loads published agent config apps. Apps without code run a turn;
// for apps with code, every missing name is reported.
func TestCorpusAppsRunOrReportCode(t *testing.T) {
	folder, all := readSamples(t)
	for _, s := range all {
		t.Run(s.Root, func(t *testing.T) {
			root := filepath.Join(folder, filepath.FromSlash(s.Root))
			dir := filepath.Join(t.TempDir(), filepath.Base(filepath.Dir(root)))
			if err := os.CopyFS(dir, os.DirFS(filepath.Dir(root))); err != nil {
				t.Fatal(err)
			}
			if name := filepath.Base(root); name != "root_agent.yaml" {
				write(t, filepath.Join(dir, "app.yaml"), "root_agent: "+name)
			}
			switch s.Verdict {
			case "pure yaml", "off schema":
				runSample(t, dir)
			case "needs code":
				checkCode(t, dir, s)
			case "not agent config":
				if ds := check(t, dir); !ds.HasErrors() {
					t.Errorf("Check found nothing wrong: %s", renderText(t, ds))
				}
			default:
				t.Fatalf("unknown verdict %q", s.Verdict)
			}
		})
	}
}

func runSample(t *testing.T, dir string) {
	t.Helper()
	if ds := check(t, dir); len(ds) > 0 {
		t.Errorf("warnings for a published app:\n%s", renderText(t, ds))
	}
	env := testenv.New(t, &testenv.Options{Loader: &loader.Options{Env: lookUpEnv, Model: newAnsweringModel(t, "It works.")}})
	app := env.Load(t, dir)
	key := env.Session(t, app.Name(), "s", nil)
	req := &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: model.UserText("Hello")}
	var replies []string
	for ev, err := range env.Host.Run(t.Context(), req) {
		if err != nil {
			t.Fatalf("Run: %v", err)
		}
		replies = append(replies, model.TextOf(ev.Content))
	}
	if !slices.Contains(replies, "It works.") {
		t.Errorf("replies = %q, want the model's answer", replies)
	}
}

// newAnsweringModel returns a scripted model with one answer. It calls exit_loop if
// available, so that loops end.
func newAnsweringModel(t *testing.T, text string) model.LLM {
	t.Helper()
	n, ds := spec.Parse("script.yaml", []byte(`
- when: '"exit_loop" in tools and responses.exit_loop == nil'
  calls: [{name: exit_loop}]
- text: `+text))
	script, more := provider.DecodeScript(n)
	if ds = append(ds, more...); len(ds) > 0 {
		t.Fatalf("DecodeScript: %s", ds.Error())
	}
	return provider.NewScripted(script, nil)
}

// checkCode expects an error for every code name, and otherwise only errors for unsupported ADK
// tools.
func checkCode(t *testing.T, dir string, s sample) {
	t.Helper()
	var got []string
	for _, d := range check(t, dir) {
		words := strings.Fields(d.Message)
		switch {
		case d.Rule == "code" && strings.Contains(d.Source, "func:"):
			// LongRunningFunctionTool's list names only the wrapper, not the wrapped function.
			if !slices.Contains(s.Builtin, "LongRunningFunctionTool") {
				t.Errorf("Check: %s", d)
			}
		case d.Rule == "code":
			name, _, _ := strings.Cut(d.Message, " is code that")
			got = append(got, name[strings.LastIndex(name, " ")+1:])
		case d.Rule == "tool" && slices.Contains(s.Builtin, words[0]):
		default:
			t.Errorf("Check: %s", d)
		}
	}
	var want []string
	for _, name := range s.Code {
		name = strings.TrimPrefix(strings.TrimPrefix(name, "agent_class:"), "sub_agent code:")
		want = append(want, name)
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(slices.Compact(want), slices.Compact(got)); diff != "" {
		t.Errorf("names of code (-want +got):\n%s", diff)
	}
}

// TestCorpusMapped declares a replacement for each code name in the corpus. The apps then load and
// run a turn.
func TestCorpusMapped(t *testing.T) {
	folder, all := readSamples(t)
	mapped := 0
	for _, s := range all {
		if s.Verdict != "needs code" {
			continue
		}
		root := filepath.Join(folder, filepath.FromSlash(s.Root))
		dir := filepath.Join(t.TempDir(), filepath.Base(filepath.Dir(root)))
		if err := os.CopyFS(dir, os.DirFS(filepath.Dir(root))); err != nil {
			t.Fatal(err)
		}
		functions, ok := stubFunctions(t, dir)
		if !ok {
			continue // an agent class, or an unsupported tool
		}
		mapped++
		t.Run(s.Root, func(t *testing.T) {
			doc := "functions:\n" + functions
			if name := filepath.Base(root); name != "root_agent.yaml" {
				doc += "root_agent: " + name + "\n"
			}
			write(t, filepath.Join(dir, "app.yaml"), doc)
			runSample(t, dir)
		})
	}
	if mapped < 5 {
		t.Errorf("only %d apps can be mapped", mapped)
	}
}

// stubFunctions returns a functions section with an entry for each code name in an app.
func stubFunctions(t *testing.T, dir string) (string, bool) {
	t.Helper()
	var b strings.Builder
	seen := map[string]bool{}
	for _, d := range check(t, dir) {
		what, _, isCode := strings.Cut(d.Message, " is code that")
		words := strings.Fields(what)
		if !isCode || strings.HasPrefix(what, "agent class") {
			return "", false
		}
		name := words[len(words)-1]
		stub := map[string]string{
			"tool": `{expr: {value: '"done"'}}`, "schema": "{answer: string}", "agent": "{description: Helps., instruction: Help.}",
		}[words[0]]
		if stub == "" {
			stub = `{set: {seen: "true"}}`
		}
		if !seen[name] {
			b.WriteString("  " + name + ": " + stub + "\n")
		}
		seen[name] = true
	}
	return b.String(), b.Len() > 0
}
