package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/command"
)

// newModels are models by the names that people write, with the variables for their keys.
func newModels() map[string]string {
	return map[string]string{
		"":                            "",
		"gemini-flash-latest":         "GOOGLE_API_KEY",
		"openai/gpt-4o":               "OPENAI_API_KEY",
		"gpt-4o":                      "OPENAI_API_KEY",
		"anthropic/claude-sonnet-4-5": "ANTHROPIC_API_KEY",
		"ollama/qwen3:8b":             "",
	}
}

// TestNewTemplates creates an app from each template with each model. The app has no problems, its
// tests pass without a model, and editors find its files' schemas.
func TestNewTemplates(t *testing.T) {
	for _, key := range newModels() {
		if key != "" {
			t.Setenv(key, "test")
		}
	}
	t.Setenv("DEMO_MODEL", "demo")
	for _, name := range templateNames() {
		for model, key := range newModels() {
			t.Run(name+" "+model, func(t *testing.T) {
				dir := filepath.Join(t.TempDir(), "my-app")
				runNew(t, "new", dir, "--template", name, "--model", model)
				runNew(t, "check", dir)
				runNew(t, "test", dir)
				testSchemaPatterns(t, dir)
				testNewFiles(t, dir)
				if example := readText(t, filepath.Join(dir, ".env.example")); key != "" && !strings.Contains(example, "\n"+key+"=\n") {
					t.Errorf(".env.example does not contain %s:\n%s", key, example)
				}
				if readme := readText(t, filepath.Join(dir, "README.md")); model != "" && !strings.Contains(readme, "`"+model+"`") {
					t.Errorf("README.md does not contain %s:\n%s", model, readme)
				}
			})
		}
	}
}

// TestNewReadmes runs the commands from each template's README in the app's folder. Lines that
// begin with > are typed into the conversation.
func TestNewReadmes(t *testing.T) {
	line := regexp.MustCompile(`(?m)^    agenthost (.*?)(?: +#.*)?\n((?:    > .*\n)*)`)
	for _, name := range templateNames() {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "my-app")
			runNew(t, "new", dir, "--template", name)
			t.Chdir(dir)
			commands := line.FindAllStringSubmatch(readText(t, "README.md"), -1)
			for _, m := range commands {
				verb, text, quoted := strings.Cut(m[1], ` "`)
				args := strings.Fields(verb)
				if quoted {
					args = append(args, strings.TrimSuffix(text, `"`))
				}
				var out, problems bytes.Buffer
				code := run(t.Context(), args, command.Env{In: strings.NewReader(strings.ReplaceAll(m[2], "    > ", "")), Out: &out, Err: &problems})
				if code != command.ExitOK || args[0] == "run" && out.Len() == 0 {
					t.Errorf("%s: exit status %d\n%s%s", m[1], code, &out, &problems)
				}
			}
			if len(commands) < 3 {
				t.Errorf("README.md has %d commands, want those of check, test and run", len(commands))
			}
		})
	}
}

// runNew runs a command line, which must succeed and report no problems.
func runNew(t *testing.T, args ...string) {
	t.Helper()
	var out, problems bytes.Buffer
	code := run(t.Context(), args, command.Env{In: strings.NewReader(""), Out: &out, Err: &problems})
	if code != command.ExitOK || strings.Contains(problems.String(), "hint:") {
		t.Fatalf("%q: exit status %d\n%s%s", args, code, &out, &problems)
	}
}

// testNewFiles checks the form of a new app's files.
func testNewFiles(t *testing.T, dir string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text := readText(t, file)
		if !strings.HasSuffix(text, "\n") || strings.HasSuffix(text, "\n\n") || strings.Contains(text, "\n\n\n") || strings.ContainsAny(text, "\t\r") || strings.Contains(text, "[[") {
			t.Errorf("%s is not well formed:\n%s", file, text)
		}
		for line := range strings.Lines(text) {
			if len(line) > 121 || strings.TrimRight(line, " \n") != strings.TrimRight(line, "\n") {
				t.Errorf("%s has a line that is too long or ends with blanks: %s", file, line)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// The embedded folders are the templates.
func TestNewTemplateNames(t *testing.T) {
	entries, err := newFiles.ReadDir(newFolder)
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]bool{}
	for _, e := range entries {
		if e.IsDir() {
			folders[e.Name()] = true
		}
	}
	want := map[string]bool{}
	for _, name := range templateNames() {
		want[name] = true
	}
	if diff := cmp.Diff(want, folders); diff != "" {
		t.Errorf("templates (-want +got):\n%s", diff)
	}
}

// An app that cannot be moved to its place leaves neither a draft nor new parents.
func TestNewLeavesNothing(t *testing.T) {
	parent := t.TempDir()
	app := newApp{Name: "app", Template: "chat"}
	taken := filepath.Join(parent, "taken")
	if err := os.MkdirAll(filepath.Join(taken, "by", "another", "program"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := app.createFolder(t.Context(), taken)
	if want := "cannot create " + taken + ": file exists"; err == nil || err.Error() != want {
		t.Errorf("create = %v, want %s", err, want)
	}
	unknown := newApp{Name: "app", Template: "chat", Model: "acme/m"}
	if err := unknown.createFolder(t.Context(), filepath.Join(parent, "new", "folders", "app")); err == nil {
		t.Error("create with an unknown model succeeded")
	}
	entries, err := os.ReadDir(parent)
	if err != nil || len(entries) != 1 {
		t.Errorf("files = %v, %v, want only %s", entries, err, taken)
	}
}
