package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"agenthost/internal/command"
)

const repo = "../.."

// TestReadmeCommands runs the README commands that need neither an API key nor a running host, and
// checks their output.
func TestReadmeCommands(t *testing.T) {
	t.Setenv("DEMO_MODEL", "demo")
	apps, err := filepath.Abs(appsDir)
	if err != nil {
		t.Fatal(err)
	}
	folders := map[string]string{} // one for each README, whose commands build on each other
	for _, tt := range []struct{ file, command, want string }{
		{"README.md", "agenthost new hello", "Wrote hello."},
		{"apps/hello/README.md", `agenthost run apps/hello "my name is Ana"`, "Nice to meet you, Ana!"},
		{"apps/hello/README.md", `agenthost run apps/hello "good morning"`, "Hello again, Ana!"},
		{"apps/hello/README.md", `agenthost preview apps/hello --state user:name=Ana "hi"`, "if it is known: Ana"},
		{"apps/memory/README.md", `agenthost run apps/memory "My cat is called Milo."`, "I will remember that."},
		{"apps/memory/README.md", `agenthost run apps/memory "What is my cat called?"`, "Your cat is called Milo."},
		{"apps/memory/README.md", `agenthost run apps/memory "look up the cat"`, "I looked it up: Your cat is called Milo."},
		{"apps/memory/README.md", `agenthost memory search apps/memory milo`, "My cat is called Milo."},
		{"apps/pipeline/README.md", `agenthost run apps/pipeline "why sleep matters"`, "[critic] I give it 9 of 10."},
		{"apps/pipeline/README.md", `agenthost preview apps/pipeline --agent editor --state draft=… --state score=6`, "It scored 6 of 10"},
		{"apps/research/README.md", `agenthost run apps/research "How do cities get cooler?"`, "[writer] Plant trees, and paint roofs white."},
		{"apps/team/README.md", `agenthost run apps/team`, "[technician] The workshop here."},
		{"apps/tools/README.md", `agenthost run apps/tools "what is 100 with tax?"`, "With tax that is 121."},
		{"apps/tools/README.md", `agenthost run apps/tools "good morning in Portuguese, please"`, "In Portuguese: Bom dia"},
	} {
		if folders[tt.file] == "" {
			folders[tt.file] = copyApps(t, apps)
		}
		t.Run(tt.command, func(t *testing.T) {
			text := readText(t, filepath.Join(repo, tt.file))
			t.Chdir(folders[tt.file])
			if !strings.Contains(text, tt.command) {
				t.Errorf("%s does not have: %s", tt.file, tt.command)
			}
			if got := runCommandLine(t, tt.command, promptedLines(text)); !strings.Contains(got, tt.want) {
				t.Errorf("%s prints:\n%s\nwant %q in it", tt.command, got, tt.want)
			}
		})
	}
}

func copyApps(t *testing.T, apps string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "apps"), os.DirFS(apps)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// runCommandLine runs a command and returns its output.
func runCommandLine(t *testing.T, line, input string) string {
	t.Helper()
	var args []string
	for _, w := range shellWord.FindAllStringSubmatch(line, -1)[1:] {
		args = append(args, w[1]+w[2])
	}
	var out, problems bytes.Buffer
	if code := run(t.Context(), args, command.Env{In: strings.NewReader(input), Out: &out, Err: &problems}); code != command.ExitOK {
		t.Fatalf("%s: exit status %d\n%s", line, code, &problems)
	}
	return out.String()
}

// promptedLines returns the lines after a prompt in a README.
func promptedLines(readme string) string {
	var b strings.Builder
	for _, m := range promptLine.FindAllStringSubmatch(readme, -1) {
		b.WriteString(m[1] + "\n")
	}
	return b.String()
}

// promptLine matches a line after a prompt.
var promptLine = regexp.MustCompile(`(?m)^    > (.*)$`)

// shellWord matches a command line word, with the quoting that the READMEs use.
var shellWord = regexp.MustCompile(`"([^"]*)"|(\S+)`)

// No file in the repository contains an absolute path from one machine.
func TestNoAbsoluteHomePaths(t *testing.T) {
	place := regexp.MustCompile(`(^|[^\w.:/])/(work|home|root|Users)/\w`)
	err := filepath.WalkDir(repo, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			if slices.Contains([]string{".git", "bin", "data", "node_modules", ".bundle", "screenshots"}, name) {
				return fs.SkipDir
			}
			return nil
		}
		if name == ".git" {
			return nil // a worktree's file with its repository's path
		}
		b, err := os.ReadFile(path)
		if m := place.Find(b); m != nil && !bytes.ContainsRune(b, 0) {
			t.Errorf("%s contains %q", path, bytes.TrimSpace(m))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
