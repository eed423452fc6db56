package lsp_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/wing/lsp"
)

// TestMain also runs the test binary as the language server, for editors.
func TestMain(m *testing.M) {
	if len(os.Args) == 2 && os.Args[1] == "lsp" {
		opts := &lsp.Options{Kinds: testenv.Kinds(), Loader: loader.Options{Env: func(string) (string, bool) { return "", false }}}
		if err := lsp.New(opts).Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
			os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// Neovim finds definitions, references and symbols, and its rename command changes all files on disk.
func TestNeovim(t *testing.T) {
	program, err := exec.LookPath("nvim")
	if err != nil {
		t.Skip("SKIPPED: nvim is not installed; hint: apt-get install neovim")
	}
	script, err := filepath.Abs("testdata/neovim.lua")
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	e := startDesk(t)
	defer e.close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--headless", "-u", "NONE", "-i", "NONE", "-n", "-c", "luafile "+script)
	cmd.Dir, cmd.Env = e.dir, append(os.Environ(), "SERVER="+self, "HOME="+t.TempDir(), "XDG_STATE_HOME="+t.TempDir(), "XDG_CACHE_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("nvim: %v\n%s", err, out)
	}
	want := `definition root_agent.yaml:8:16
reference agents/writer.yaml:7:16
reference agents/writer.yaml:9:18
reference agents/writer.yaml:10:18
reference app.yaml:7:97
reference desk.eval.yaml:2:26
reference desk.eval.yaml:7:12
reference desk.eval.yaml:8:18
reference prompts/writer.md:1:12
reference prompts/writer.md:2:15
reference root_agent.test.yaml:7:11
reference root_agent.test.yaml:9:12
reference root_agent.test.yaml:9:35
reference root_agent.test.yaml:9:51
reference root_agent.yaml:8:16
renamed é𝄞 Follow {outline}.
refused cannot rename state key other: nothing in the app writes it, so clients or other programs do
symbol desk
symbol   planner
symbol     outline
workspace symbol outline root_agent.yaml:8:16
`
	var got strings.Builder
	for line := range strings.Lines(strings.ReplaceAll(string(out), "\r", "")) {
		for _, kind := range []string{"definition ", "reference ", "renamed ", "refused ", "symbol ", "workspace ", "error: "} {
			if strings.HasPrefix(line, kind) {
				got.WriteString(line)
			}
		}
	}
	if diff := cmp.Diff(want, got.String()); diff != "" {
		t.Errorf("nvim (-want +got):\n%s\n%s", diff, out)
	}
	for _, file := range []string{"root_agent.yaml", "agents/writer.yaml", "prompts/writer.md", "app.yaml", "root_agent.test.yaml", "desk.eval.yaml"} {
		if text := e.readFile(file); !strings.Contains(text, "outline") || strings.Contains(text, "{plan}") || strings.Contains(text, "{plan?") || strings.Contains(text, "state.plan") {
			t.Errorf("%s after the rename:\n%s", file, text)
		}
	}
	l := loader.New(testenv.Kinds(), &loader.Options{Env: func(string) (string, bool) { return "", false }})
	if ds := l.Check(t.Context(), e.dir); len(ds) > 0 {
		t.Errorf("check after the rename = %v", ds)
	}
}
