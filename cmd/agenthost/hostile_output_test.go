package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/spf13/cobra"
	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/internal/terminal"
	"agenthost/pkg/session"
	"agenthost/pkg/store/storeurl"
)

// hostileText clears the screen, sets the title, forges a colour, reverses the text direction, hides
// text and overwrites its line.
const hostileText = "\x1b[2J\x1b]0;title\a\x1b[31mFORGED\x1b[35m\u202e\u200b\u009b2J\U000e0041\rover"

// TestHostileOutput runs each command with a session, files and models whose texts attack the
// terminal: none of it reaches the terminal, and no style of this program is forged.
func TestHostileOutput(t *testing.T) {
	root := t.TempDir()
	app := saveHostileApp(t, root)
	db := "sqlite:///" + filepath.Join(root, "s.db")
	saveHostileSession(t, db)
	set := filepath.Join(app, "orders.eval.yaml")
	saved := filepath.Join(root, "broken")
	at := []string{"--session-db", db}
	commands := []struct {
		path string
		args []string
	}{
		{"check", []string{app, saved}},
		{"check", []string{app, saved, "--output", "json"}},
		{"config", []string{app}},
		{"config", []string{app, "--resolved"}},
		{"config", []string{saved}},
		{"conformance record", []string{saved, "--apps", root}},
		{"conformance test", []string{saved, "--apps", root}},
		{"db status", []string{db}},
		{"db migrate", []string{db}},
		{"db check", []string{db}},
		{"db backup", []string{filepath.Join(root, "copy.db"), db}},
		{"db restore", []string{filepath.Join(root, "copy.db"), "sqlite:///" + filepath.Join(root, "restored.db")}},
		{"db import", append([]string{db, "--dry-run"}, "--session-db", "sqlite:///"+filepath.Join(root, "t.db"))},
		{"run", append([]string{app, "Hello " + hostileText, "--session", "new"}, at...)},
		{"run", append([]string{app, "Hello", "--session", "new", "--output", "json"}, at...)},
		{"session list", append([]string{app}, at...)},
		{"session list", append([]string{app, "--output", "json"}, at...)},
		{"session show", append([]string{app, "s"}, at...)},
		{"session show", append([]string{app, "s", "--output", "json"}, at...)},
		{"session show", append([]string{app, hostileText}, at...)},
		{"session prune", append([]string{app, "--older-than", "1s", "--dry-run"}, at...)},
		{"why", append([]string{app, "s"}, at...)},
		{"record", append([]string{app, "s"}, at...)},
		{"preview", append([]string{app, "Hi", "--session", "s"}, at...)},
		{"memory add", append([]string{app, "s"}, at...)},
		{"memory search", append([]string{app, "FORGED"}, at...)},
		{"memory delete", append([]string{app, "s"}, at...)},
		{"revisions", append([]string{app}, at...)},
		{"outcomes", append([]string{app}, at...)},
		{"rollout status", append([]string{app}, at...)},
		{"rollout pause", append([]string{app}, at...)},
		{"rollout resume", append([]string{app}, at...)},
		{"rollout promote", append([]string{app}, at...)},
		{"rollout abort", append([]string{app}, at...)},
		{"cost", append([]string{app}, at...)},
		{"replay", append([]string{app, "--show"}, at...)},
		{"plan", append([]string{app, saved}, at...)},
		{"diff", append([]string{app, hostileText}, at...)},
		{"rollback", append([]string{app, hostileText}, at...)},
		{"mcp", append([]string{saved}, at...)},
		{"mcp", append([]string{app}, at...)},
		{"acp", append([]string{saved}, at...)},
		{"acp", append([]string{app}, at...)},
		{"models", []string{app, saved}},
		{"doctor", append([]string{app, saved}, at...)},
		{"test", []string{app, "--verbose"}},
		{"test", []string{saved}},
		{"eval", []string{app, set, "--verbose"}},
		{"evalset create", []string{app, hostileText}},
		{"evalset add", []string{app, hostileText, "--scenarios", set}},
		{"evalset generate", []string{app, hostileText}},
		{"evalset personas", nil},
		{"optimize", []string{app, set}},
		{"export", []string{app, "--adk", filepath.Join(root, "out")}},
		{"new", []string{filepath.Join(root, hostileText)}},
		{"ready", []string{"--addr", hostileText}},
		{"schema", []string{hostileText}},
		{"session rewind", append([]string{app, "s", "--turns", "9"}, at...)},
		{"session delete", append([]string{app, "s"}, at...)},
		{hostileText, nil},
		{"run", []string{"--" + hostileText}},
		{"licenses", nil},
		{"version", nil},
	}
	for i, c := range commands {
		t.Run(strconv.Itoa(i)+" "+terminal.Clean(c.path), func(t *testing.T) {
			var out bytes.Buffer
			stream := terminal.NewOutput(&out, terminal.Settings{Terminal: true, Styles: true, Width: 80})
			args := append(strings.Fields(c.path), c.args...)
			if c.path == hostileText {
				args = []string{hostileText}
			}
			in := map[string]string{"mcp": mcpMessages, "acp": acpMessages}[c.path]
			run(t.Context(), args, command.Env{In: strings.NewReader(in), Out: stream, Err: stream})
			if out.Len() == 0 {
				t.Error("the command prints nothing")
			}
			checkHarmless(t, out.String())
		})
	}
	// The commands without a case, with the reason.
	exempt := []string{"serve (prints its greeting as the others do, and ends only with a signal)", "lsp (writes for an editor)"}
	for _, leaf := range leafCommands(newRootCommand(command.Env{})) {
		isTested := slices.ContainsFunc(commands, func(c struct {
			path string
			args []string
		},
		) bool {
			return c.path == leaf
		})
		if !isTested && !slices.ContainsFunc(exempt, func(e string) bool { return strings.HasPrefix(e, leaf+" ") }) {
			t.Errorf("%s has no case", leaf)
		}
	}
}

// mcpMessages lists an app's tools and calls its agent.
const mcpMessages = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"shop","arguments":{"request":"Hello"}}}
{"jsonrpc":"2.0","id":4,"method":"\u001b[2J\u202e"}
`

// acpMessages load an app's session, and name what does not exist.
const acpMessages = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}
{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"s","cwd":"/","mcpServers":[{"name":"\u001b[2J\u202e"}]}}
{"jsonrpc":"2.0","id":3,"method":"\u001b[2J\u202e","params":{"sessionId":"\u001b[2J\u202e"}}
{"jsonrpc":"2.0","id":4,"method":"session/list","params":{"cwd":"/\u001b[2J\u202e"}}
`

// A table is harmless through a pipe too, because another terminal may show it.
func TestHostileTablesOnPipe(t *testing.T) {
	root := t.TempDir()
	app := saveHostileApp(t, root)
	db := "sqlite:///" + filepath.Join(root, "s.db")
	saveHostileSession(t, db)
	for _, args := range [][]string{{"session", "list", app}, {"session", "show", app, "s"}, {"memory", "add", app, "s"}, {"memory", "search", app, "FORGED"}} {
		var out bytes.Buffer
		env := command.Env{In: strings.NewReader(""), Out: &out, Err: &out}
		if code := run(t.Context(), append(args, "--session-db", db), env); code != command.ExitOK {
			t.Fatalf("%v: exit status %d: %s", args, code, &out)
		}
		table, _, _ := strings.Cut(out.String(), "\nstate ")
		checkHarmless(t, table)
	}
}

// ownStyle matches the sequences that package terminal writes.
var ownStyle = regexp.MustCompile("\x1b\\[(0|1|2|3|4|9|31|32|33|36)(;(1|2|3|4|9|31|32|33|36))*m")

func checkHarmless(t *testing.T, out string) {
	t.Helper()
	if strings.Contains(out, "\x1b[31mFORGED") {
		t.Errorf("a style is forged in %q", out)
	}
	for _, r := range ownStyle.ReplaceAllString(out, "") {
		if unicode.IsControl(r) && r != '\n' && r != '\t' || unicode.Is(unicode.Cf, r) {
			t.Errorf("%U reaches the terminal in %q", r, out)
			return
		}
	}
}

// leafCommands returns the commands that have no subcommands.
func leafCommands(c *cobra.Command) (leaves []string) {
	for _, sub := range c.Commands() {
		switch path := strings.TrimPrefix(sub.CommandPath(), "agenthost "); {
		case sub.Name() == "help" || sub.Name() == "completion":
		case sub.HasSubCommands():
			leaves = append(leaves, leafCommands(sub)...)
		default:
			leaves = append(leaves, path)
		}
	}
	return leaves
}

// saveHostileApp saves an app that loads, whose model answers with hostileText, and next to it one
// with problems. It returns the first one's folder.
func saveHostileApp(t *testing.T, root string) string {
	t.Helper()
	quoted := strconv.QuoteToASCII(hostileText)
	quoted = strings.ReplaceAll(quoted, `\x1b`, `\e`)
	app, broken := filepath.Join(root, "shop"), filepath.Join(root, "broken")
	for _, dir := range []string{app, broken} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	saveFile(t, app, "root_agent.yaml", "name: shop\nmodel: demo\ndescription: "+quoted+"\ninstruction: "+quoted+"\n")
	saveFile(t, app, "app.yaml", "models:\n  demo: {provider: scripted, script: s.yaml}\n")
	saveFile(t, app, "s.yaml", "- text: "+quoted+"\n")
	saveFile(t, app, "root_agent.test.yaml", "- name: "+quoted+"\n  user: hi\n  model: s.yaml\n  expect: ['text == \"other\"']\n")
	saveFile(t, app, "orders.eval.yaml", "name: orders\ncases:\n  - name: "+quoted+"\n    turns: [{user: "+quoted+", answer: "+quoted+"}]\n")
	saveFile(t, broken, "root_agent.yaml", "name: broken\nmodel: demo\n"+quoted+": 1\ninstrction: "+quoted+"\nsub_agents:\n  - config_path: "+quoted+"\n")
	saveFile(t, broken, "a\x1b[2J\u202e.test.yaml", "- nme: "+quoted+"\n")
	return app
}

// saveHostileSession saves the session s, whose texts, tools, state and errors are hostile.
func saveHostileSession(t *testing.T, db string) {
	t.Helper()
	st, err := storeurl.Open(t.Context(), db, &storeurl.Options{Schemes: storeSchemes()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	key := session.Key{App: "shop", User: "user", ID: "s"}
	sess, err := st.Sessions.Create(t.Context(), key, map[string]any{"first" + hostileText: hostileText})
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]any{hostileText: hostileText}
	for _, part := range []*genai.Part{
		{Text: hostileText},
		{FunctionCall: &genai.FunctionCall{ID: "c", Name: "pay" + hostileText, Args: values}},
		{FunctionResponse: &genai.FunctionResponse{ID: "c", Name: "pay" + hostileText, Response: values}},
		{Text: "answer " + hostileText},
		nil,
	} {
		ev := &session.Event{Author: "shop", InvocationID: "e-1", Actions: session.Actions{StateDelta: values}}
		if part == nil {
			ev.Author, ev.ErrorCode, ev.ErrorMessage = "agent"+hostileText, "CODE"+hostileText, hostileText
		} else {
			ev.Content = &genai.Content{Role: "user", Parts: []*genai.Part{part}}
		}
		if err := st.Sessions.Append(t.Context(), sess, ev); err != nil {
			t.Fatal(err)
		}
	}
	for _, id := range []string{"id" + hostileText, "id\u202e"} {
		if _, err := st.Sessions.Create(t.Context(), session.Key{App: "shop", User: "user" + hostileText, ID: id}, nil); err != nil {
			t.Logf("session %q: %v", id, err)
		}
	}
}
