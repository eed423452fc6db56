package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestDocs runs the examples of README.md and of the pages in docs/. A fenced block
// whose first line is a comment with a path is that file; a console block contains
// commands with their expected stdout. Each page has its own folder, and a key of Gemini
// in the environment. With -update,
// the test writes the actual output into the pages.
func TestDocs(t *testing.T) {
	files, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal("no pages", err)
	}
	files = append(files, "../../README.md")
	dir := t.TempDir()
	pages := map[string]*docPage{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		p := readPage(string(text))
		if p.script.Len() == 0 {
			continue
		}
		pages[file] = p
		p.archive.Comment = []byte("env GOOGLE_API_KEY=test-key\n" + p.script.String())
		if err := os.WriteFile(pageScript(dir, file), txtar.Format(&p.archive), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("pages", func(t *testing.T) { runScripts(t, dir) })
	if !updating() {
		return
	}
	for file, p := range pages {
		ran, err := txtar.ParseFile(pageScript(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(p.withOutput(ran)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func pageScript(dir, page string) string {
	return filepath.Join(dir, strings.TrimSuffix(filepath.Base(page), ".md")+".txtar")
}

// docPage is a page of the docs, converted to a script.
type docPage struct {
	text    string
	script  strings.Builder
	archive txtar.Archive
	// commands has the command line of each file with expected output.
	commands map[string]string
}

func readPage(text string) *docPage {
	p := &docPage{text: text, commands: map[string]string{}}
	for i, part := range strings.Split(text, "\n```") {
		lang, block, _ := strings.Cut(part, "\n")
		if i%2 == 0 {
			continue
		}
		first, rest, _ := strings.Cut(block, "\n")
		if path, ok := strings.CutPrefix(first, "# "); ok && (lang == "yaml" && strings.HasSuffix(path, ".yaml") || lang == "sh" && strings.HasSuffix(path, "/.env")) {
			p.addFile(path, rest+"\n")
		}
		if lang == "console" {
			for _, command := range strings.Split("\n"+block+"\n", "\n$ ")[1:] {
				p.addCommand(command)
			}
		}
	}
	return p
}

func (p *docPage) addFile(name, data string) {
	p.archive.Files = append(p.archive.Files, txtar.File{Name: name, Data: []byte(data)})
}

// addCommand adds a command line and its expected output. A printf that is piped into
// the command is its input.
func (p *docPage) addCommand(text string) {
	line, want, _ := strings.Cut(text, "\n")
	command := line
	if input, piped, ok := strings.Cut(line, " | "); ok {
		stdin := strings.ReplaceAll(strings.Trim(strings.TrimPrefix(input, "printf "), "'"), `\n`, "\n")
		name := fmt.Sprintf("in-%d", len(p.archive.Files))
		p.addFile(name, stdin)
		fmt.Fprintf(&p.script, "stdin %s\n", name)
		command = piped
	}
	name := fmt.Sprintf("want-%d", len(p.archive.Files))
	p.commands[name] = line
	p.addFile(name, want)
	fmt.Fprintf(&p.script, "exec %s\ncmp stdout %s\n", strings.ReplaceAll(command, `"`, "'"), name)
}

// withOutput returns the page with the actual output of its commands.
func (p *docPage) withOutput(ran *txtar.Archive) string {
	text := p.text
	for i, f := range ran.Files {
		if line, ok := p.commands[f.Name]; ok {
			text = strings.Replace(text, "$ "+line+"\n"+string(p.archive.Files[i].Data), "$ "+line+"\n"+string(f.Data), 1)
		}
	}
	return text
}
