package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/fake/fakeanthropic"
)

// TestDocs runs the examples in README.md and the pages in docs/. A fenced block whose first line
// is a comment with a path is that file, and so is a JSON block with a path after its language; a
// console block contains commands with their expected stdout. Each page has its own folder, and a
// Gemini key in the environment. A console block after a comment <!-- fake: PROVIDER VAR ANSWER -->
// runs in its own folder against a fake provider, whose address is in VAR; see [docPage.beginFake].
// With -update, the test writes the actual output into the pages.
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
		p.archive.Comment = []byte(pageKey + p.script.String())
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

// pageKey is the line in a page's script that sets its key.
const pageKey = "env GOOGLE_API_KEY=test-key\n"

func pageScript(dir, page string) string {
	return filepath.Join(dir, strings.TrimSuffix(filepath.Base(page), ".md")+".txtar")
}

// docPage is a docs page, converted to a script.
type docPage struct {
	text    string
	script  strings.Builder
	archive txtar.Archive
	// commands has the command line for each file with expected output.
	commands map[string]string
	// fake is the variable with the address of the block's fake, or "". startFake is the
	// command that starts it, until it is started.
	fake, startFake string
	// condition begins the lines of a block that needs what a test machine may lack, or is "".
	condition string
	// exported are the variables that the block has set.
	exported []string
}

// pythonMark is the comment before a console block that needs the folder interpreters with
// Python, which "make interpreters" installs.
const pythonMark = "<!-- needs: python -->"

// fakeMark is the comment before a console block that runs against a fake.
var fakeMark = regexp.MustCompile(`(?:^|\n)<!-- fake: (\S+) (\S+) (.+) -->$`)

func readPage(text string) *docPage {
	p := &docPage{text: text, commands: map[string]string{}}
	var mark []string
	needsPython := false
	for i, part := range strings.Split(text, "\n```") {
		lang, block, _ := strings.Cut(part, "\n")
		if i%2 == 0 {
			mark, needsPython = fakeMark.FindStringSubmatch(part), strings.HasSuffix(part, pythonMark)
			continue
		}
		first, rest, _ := strings.Cut(block, "\n")
		if path, ok := strings.CutPrefix(first, "# "); ok && (lang == "yaml" && strings.HasSuffix(path, ".yaml") || lang == "markdown" && strings.HasSuffix(path, ".md") || lang == "sh" && strings.HasSuffix(path, "/.env")) {
			p.addFile(path, rest+"\n")
		}
		if path, ok := strings.CutPrefix(lang, "json "); ok {
			p.addFile(path, block+"\n")
		}
		if lang != "console" {
			continue
		}
		if mark != nil {
			p.beginFake(i, mark[1], mark[2], mark[3])
		}
		if needsPython {
			p.condition = "[python] "
			p.script.WriteString("[python] symlink interpreters -> $INTERPRETERS\n")
		}
		for _, command := range strings.Split("\n"+block+"\n", "\n$ ")[1:] {
			p.addCommand(command)
		}
		p.condition = ""
		if mark != nil {
			p.endFake()
		}
	}
	return p
}

func (p *docPage) addFile(name, data string) {
	p.archive.Files = append(p.archive.Files, txtar.File{Name: name, Data: []byte(data)})
}

// beginFake begins a block with a fake provider, which has one answer. The fake starts after
// `agenthost new`, which prints the variables that are missing. An export of its variable, which
// has the real service's address, is ignored. An exported value with … sets the key that the fakes
// accept.
func (p *docPage) beginFake(block int, provider, variable, answer string) {
	fmt.Fprintf(&p.script, "mkdir block-%d\ncd block-%[1]d\nenv GOOGLE_API_KEY=\n", block)
	p.fake, p.startFake, p.exported = variable, fmt.Sprintf("fake-model %s %s '%s'\n", provider, variable, answer), nil
}

// endFake checks that the fake was called with the exported key, and unsets the variables.
func (p *docPage) endFake() {
	fmt.Fprintln(&p.script, "model-calls")
	if slices.ContainsFunc(p.exported, func(name string) bool { return strings.Contains(name, "KEY") }) {
		fmt.Fprintf(&p.script, "stdout '%s$'\n", fakeanthropic.Key[len(fakeanthropic.Key)-4:])
	} else {
		fmt.Fprintln(&p.script, "stdout .")
	}
	for _, name := range append(p.exported, p.fake) {
		fmt.Fprintf(&p.script, "env %s=\n", name)
	}
	fmt.Fprint(&p.script, "cd $WORK\n", pageKey)
	p.fake = ""
}

// addExport adds an export command's variables.
func (p *docPage) addExport(settings string) {
	for setting := range strings.FieldsSeq(settings) {
		name, value, _ := strings.Cut(setting, "=")
		if name == p.fake {
			continue
		}
		if strings.Contains(value, "…") {
			value = fakeanthropic.Key
		}
		p.exported = append(p.exported, name)
		fmt.Fprintf(&p.script, "env %s=%s\n", name, value)
	}
}

// addCommand adds a command line and its expected output. A printf that is piped into
// the command is its input.
func (p *docPage) addCommand(text string) {
	line, want, _ := strings.Cut(text, "\n")
	if settings, ok := strings.CutPrefix(line, "export "); ok {
		p.addExport(settings)
		return
	}
	if !strings.HasPrefix(line, "agenthost new ") {
		p.script.WriteString(p.startFake)
		p.startFake = ""
	}
	command := line
	if input, piped, ok := strings.Cut(line, " | "); ok {
		stdin := strings.ReplaceAll(strings.Trim(strings.TrimPrefix(input, "printf "), "'"), `\n`, "\n")
		name := fmt.Sprintf("in-%d", len(p.archive.Files))
		p.addFile(name, stdin)
		fmt.Fprintf(&p.script, "stdin $WORK/%s\n", name)
		command = piped
	}
	name := fmt.Sprintf("want-%d", len(p.archive.Files))
	p.commands[name] = line
	p.addFile(name, want)
	fmt.Fprintf(&p.script, "%[3]sexec %[1]s\n%[3]scmp stdout $WORK/%[2]s\n", strings.ReplaceAll(command, `"`, "'"), name, p.condition)
}

// withOutput returns the page with its commands' actual output.
func (p *docPage) withOutput(ran *txtar.Archive) string {
	text := p.text
	for i, f := range ran.Files {
		if line, ok := p.commands[f.Name]; ok {
			old, shown := string(p.archive.Files[i].Data), string(f.Data)
			if old != "" && !strings.HasSuffix(old, "\n") { // another command follows
				shown = strings.TrimSuffix(shown, "\n")
			}
			text = strings.Replace(text, "$ "+line+"\n"+old, "$ "+line+"\n"+shown, 1)
		}
	}
	return text
}

// TestDocsProviders runs a newcomer's path for each row in the provider table: with the row's key,
// and its address variable set to a fake, the app answers. A row without such a variable cannot
// reach a fake; package provider's suite tests it.
func TestDocsProviders(t *testing.T) {
	text, err := os.ReadFile("../../docs/models.md")
	if err != nil {
		t.Fatal(err)
	}
	var script, skipped strings.Builder
	row := regexp.MustCompile("(?m)^\\| `([a-z0-9_]+)`.* \\| (.*) \\| (.*) \\|$")
	variable := regexp.MustCompile("`([A-Z][A-Z0-9_]+)`")
	for _, m := range row.FindAllStringSubmatch(string(text), -1) {
		prefix, key, address := m[1], variable.FindStringSubmatch(m[2]), variable.FindStringSubmatch(m[3])
		if address == nil || !strings.Contains(address[1], "URL") && !strings.Contains(address[1], "BASE") {
			fmt.Fprintln(&skipped, prefix)
			continue
		}
		provider := "openai"
		if _, ok := fakeModels()[prefix]; ok {
			provider = prefix
		}
		fmt.Fprintf(&script, "fake-model %s %s 'Hello from %s.'\n", provider, address[1], prefix)
		if key != nil {
			fmt.Fprintf(&script, "env %s=%s\n", key[1], fakeanthropic.Key)
		}
		name := prefix + "/qwen3" // which the fake Ollama has
		if prefix == "apigee" {
			name = "apigee/openai/qwen3"
		}
		fmt.Fprintf(&script, "exec agenthost new %s --model %s\nexec agenthost run %[1]s Hi\nstdout '^Hello from %[1]s\\.$'\nmodel-calls\n", prefix, name)
		if key != nil {
			fmt.Fprintf(&script, "stdout '%s$'\nenv %s=\n", fakeanthropic.Key[len(fakeanthropic.Key)-4:], key[1])
		}
		fmt.Fprintf(&script, "env %s=\n", address[1])
	}
	if got, want := strings.Fields(skipped.String()), []string{"vertex_ai", "cohere", "bedrock"}; !slices.Equal(got, want) {
		t.Errorf("rows without a variable of the address: %v, want %v", got, want)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "providers.txtar"), []byte(script.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Run("rows", func(t *testing.T) { runScripts(t, dir) })
}
