package loader_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// TestBrokenApps checks the diagnostics for invalid apps. Each archive has the rule in a sentence,
// the app's files, and the printed diagnostics.
func TestBrokenApps(t *testing.T) {
	for name, archive := range readArchives(t, "err") {
		t.Run(name, func(t *testing.T) {
			if len(checkGolden(t, "err", name, archive)) == 0 {
				t.Error("Check found no problem")
			}
		})
	}
}

// checkGolden compares an archive's diagnostics with its file want.
func checkGolden(t *testing.T, folder, name string, archive *txtar.Archive) spec.Diagnostics {
	t.Helper()
	dir := unpackArchive(t, archive)
	ds := check(t, dir)
	got := renderText(t, ds)
	want := wantFile(archive)
	if isUpdating() {
		want.Data = []byte(got)
		if err := os.WriteFile(filepath.Join("testdata", folder, name+".txtar"), txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(string(want.Data), got); diff != "" {
		t.Errorf("Check (-want +got):\n%s", diff)
	}
	checkPlaces(t, filepath.Dir(dir), ds)
	checkOneVerdict(t, dir, ds)
	return ds
}

// checkOneVerdict expects an app to load if and only if check reports no errors.
func checkOneVerdict(t *testing.T, dir string, ds spec.Diagnostics) {
	t.Helper()
	app, more := loader.New(testenv.Kinds(), newOptions(dir)).Load(t.Context(), dir)
	if app != nil {
		app.Close()
	}
	testsOnly := !more.HasErrors() // errors in tests do not prevent loading
	if ds.HasErrors() != (app == nil) && !testsOnly {
		t.Errorf("check has errors: %v, app loaded: %v", ds.HasErrors(), app != nil)
	}
}

// wantFile returns the archive's last file, want.
func wantFile(archive *txtar.Archive) *txtar.File {
	last := len(archive.Files) - 1
	if archive.Files[last].Name != "want" {
		archive.Files = append(archive.Files, txtar.File{Name: "want"})
		last++
	}
	return &archive.Files[last]
}

// checkPlaces expects every problem to have an existing file and line. Only problems with a whole
// file or folder have no line.
func checkPlaces(t *testing.T, above string, ds spec.Diagnostics) {
	t.Helper()
	for _, d := range ds {
		if d.Rule == "" || d.Message == "" || d.Pos.File == "" {
			t.Errorf("%s: lacks a file, a rule or a message", d)
		}
		if d.Pos.Line == 0 {
			if !slices.Contains([]string{"app-name", "file", "limit", "required"}, d.Rule) {
				t.Errorf("%s: lacks a line", d)
			}
			continue
		}
		b, err := os.ReadFile(filepath.Join(above, d.Pos.File))
		if err != nil {
			t.Errorf("%s: %v", d, err)
		}
		lines := strings.Split(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n")
		if d.Pos.Line > len(lines) {
			t.Errorf("%s: the file has %d lines", d, len(lines))
			continue
		}
		hidden := d.Source == "" && slices.Contains([]string{"key-in-file", "value"}, d.Rule) // the line has a secret
		if line := lines[d.Pos.Line-1]; !hidden && d.Source != line || d.Pos.Col < 1 || d.Pos.Col > len([]rune(line))+1 {
			t.Errorf("%s: source %q and column do not match line %q", d, d.Source, line)
		}
	}
}

// TestLargeProblems covers invalid apps that are too large for testdata.
func TestLargeProblems(t *testing.T) {
	for _, tt := range []struct{ name, agent, want string }{
		{
			"1 MiB and some", "name: a\ninstruction: " + strings.Repeat("x", 1<<20),
			"app/root_agent.yaml: file size of 1048597 bytes exceeds the limit of 1 MiB [limit]",
		},
		{
			"items", "name: a\ninstruction: x\nlabels: [" + strings.Repeat("a,", 50_000) + "]",
			"app/root_agent.yaml: file has about 50006 lines, keys and items, which exceeds the limit of 50000 [limit]",
		},
		{
			"agents that may all hand over to each other", "name: a\ninstruction: x\nsub_agents:\n" + repeatNumbered(400, "- {name: a%d, instruction: x}\n"),
			"app/root_agent.yaml:1:1: the app exceeds the limit of 100000 agent pairs that may transfer to each other [limit]",
		},
		{
			"parameters", "name: a\ninstruction: x\ntools:\n- expr:\n    name: t\n    value: '1'\n    params:\n" + repeatNumbered(2500, "      k%d: string\n"),
			"app/root_agent.yaml:5:11: parameters of t: the schema has 2503 objects and lists, which exceeds the limit of 2000 [tool]",
		},
		{
			"state keys", "name: a\ninstruction: x\nstate_schema:\n" + repeatNumbered(2500, "  k%d: string\n"),
			"app/root_agent.yaml:4:3: the keys and their definitions have 2501 objects and lists, which exceeds the limit of 2000 [state-schema]",
		},
		{
			"65 levels", "name: a\ninstruction: x\ngenerate_content_config: " + strings.Repeat("[", 70) + strings.Repeat("]", 70),
			"app/root_agent.yaml:3:89: nesting exceeds the limit of 64 levels [limit]",
		},
		{
			"agents that double", doublingAgents(20),
			"the app exceeds the limit of 4000 agents, counting every use [limit]",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "app")
			write(t, filepath.Join(dir, "root_agent.yaml"), tt.agent)
			got := slices.DeleteFunc(check(t, dir), func(d spec.Diagnostic) bool { return d.Severity == spec.Warning })
			if len(got) != 1 || !strings.HasSuffix(got[0].String(), tt.want) {
				t.Errorf("Check = %.300q, want %q", got.Strings(), tt.want)
			}
		})
	}
}

// TestManyProblems covers apps with thousands of errors. All are reported, in linear time.
func TestManyProblems(t *testing.T) {
	for _, tt := range []struct {
		name, agent string
		want        int
	}{
		{"unknown fields", "name: a\ninstruction: x\n" + repeatNumbered(9000, "instruction%d: x\n"), 9000},
		{"unknown tools", "name: a\ninstruction: x\ntools:\n" + repeatNumbered(4000, "- {name: tool_%d}\n"), 4000},
		{"keys that nothing writes", "name: a\ninstruction: |\n" + repeatNumbered(9000, "  {k%d}\n"), 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "app")
			write(t, filepath.Join(dir, "root_agent.yaml"), tt.agent)
			if got := check(t, dir); len(got) != tt.want {
				t.Errorf("Check found %d problems, want %d: %.300q", len(got), tt.want, got.Strings())
			}
		})
	}
}

// TestFileUsedByMany covers a file that many agents use: it is read once, and its
// errors are reported once.
func TestFileUsedByMany(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	write(t, filepath.Join(dir, "root_agent.yaml"), "name: a\nagent_class: SequentialAgent\nsub_agents:\n"+strings.Repeat("- config_path: b.yaml\n", 1000))
	write(t, filepath.Join(dir, "b.yaml"), "name: b\ninstruction: x\ndescription: "+strings.Repeat("x", 1<<19)+"\nnaem: c\n")
	if got := check(t, dir); len(got) != 2 || got[1].Rule != "unknown-field" {
		t.Errorf("Check = %.300q, want one unknown field and one duplicate name", got.Strings())
	}
	write(t, filepath.Join(dir, "b.yaml"), "name: [")
	if got := check(t, dir); len(got) != 1 || got[0].Rule != "yaml" {
		t.Errorf("Check = %.300q, want one YAML error", got.Strings())
	}
}

// repeatNumbered repeats a format with the numbers from 0 to n-1.
func repeatNumbered(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// doublingAgents returns an app in which each agent uses the next one twice.
func doublingAgents(levels int) string {
	var b strings.Builder
	b.WriteString("agent_class: SequentialAgent\nname: a\nsub_agents: [{use: a0}]\nagents:\n")
	for i := range levels {
		fmt.Fprintf(&b, "  a%d: {agent_class: SequentialAgent, sub_agents: [{use: a%d}, {use: a%d}]}\n", i, i+1, i+1)
	}
	fmt.Fprintf(&b, "  a%d: {instruction: x}\n", levels)
	return b.String()
}

// TestDoublingSchemas covers schemas that use each other twice at each level: each
// oversized schema is reported, and nothing else.
func TestDoublingSchemas(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "app")
	write(t, filepath.Join(dir, "root_agent.yaml"), doublingSchemas(30))
	ds := check(t, dir)
	if want := "app/root_agent.yaml:3:16: the referenced schemas exceed the limit of 10000 values [limit]"; len(ds) == 0 || ds[0].String() != want {
		t.Errorf("Check = %.300q, want %q first", ds.Strings(), want)
	}
	for _, d := range ds {
		if d.Rule != "limit" {
			t.Errorf("unexpected diagnostic %s", d)
		}
	}
}

// doublingSchemas returns an app with an output schema in which each schema uses the
// next one twice.
func doublingSchemas(levels int) string {
	var b strings.Builder
	b.WriteString("name: a\ninstruction: x\noutput_schema: S0\nschemas:\n")
	for i := range levels {
		fmt.Fprintf(&b, "  S%d: {a: S%d, b: S%d}\n", i, i+1, i+1)
	}
	fmt.Fprintf(&b, "  S%d: {a: string}\n", levels)
	return b.String()
}

func TestCheckMissingFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "none")
	want := "none: cannot read the app's folder: file not found [file]\n"
	if got := renderText(t, check(t, dir)); got != want {
		t.Errorf("Check = %q, want %q", got, want)
	}
}

// TestOtherProgramsMistakes covers mistakes that other frameworks ignore or report at a
// wrong position. Each archive has the rule in a sentence and the printed diagnostics,
// which are empty for valid apps.
func TestOtherProgramsMistakes(t *testing.T) {
	for name, archive := range readArchives(t, "frameworks") {
		t.Run(name, func(t *testing.T) { checkGolden(t, "frameworks", name, archive) })
	}
}
