package lsp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net/textproto"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/wing/lsp"
)

// T is a test or a benchmark.
type T = testing.TB

// editor is the pipes' client end.
type editor struct {
	T
	dir string
	in  io.Writer
	// messages buffers the server's messages, so that it never blocks.
	messages chan wire
	ended    chan error
	id       int
	// shown are the types and texts of the messages for the person.
	shown []string
	// published are each file's latest diagnostics.
	published map[string][]string
}

type wire struct {
	ID     *int            `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int
		Message string
	} `json:"error"`
}

const shop = `
models:
  fast: {provider: scripted, script: s.script.yaml}
agents:
  answer: {description: Answers., instruction: Answer., model: fast}
tools:
  stock:
    http: {name: stock, description: Counts things., url: "${env:SHOP:-http://shop.test}/stock"}
`

// startEditor starts a server for the app shop.
func startEditor(t *testing.T) *editor { return startEditorWith(t, testenv.Kinds()) }

// startEditorWith starts a server whose loader has these kinds and no environment.
func startEditorWith(t testing.TB, kinds loader.Kinds) *editor {
	t.Helper()
	return startEditorOf(t, func(o *lsp.Options) { o.Kinds = kinds })
}

// startEditorOf starts a server with changed options.
func startEditorOf(t testing.TB, change func(*lsp.Options)) *editor {
	t.Helper()
	top, err := os.MkdirTemp("", "lsp") // t.TempDir has characters that URIs escape
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(top) })
	e := &editor{T: t, dir: filepath.Join(top, "shop"), ended: make(chan error, 1), published: map[string][]string{}}
	for file, text := range map[string]string{
		"app.yaml":             shop,
		"root_agent.yaml":      "name: desk\nmodel: fast\ninstruction: Help {tier}.\noutput_key: last\nsub_agents: [{use: answer}]\ntools: [{use: stock}]\n",
		"s.script.yaml":        "- text: Hello.\n",
		"more/sub.yaml":        "name: sub\ninstruction: x\n",
		"root_agent.test.yaml": "",
	} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(e.dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(e.dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	fromEditor, in := io.Pipe()
	out, fromServer := io.Pipe()
	e.in, e.messages = in, make(chan wire, 1024)
	go e.readMessages(bufio.NewReader(out))
	opts := &lsp.Options{Kinds: testenv.Kinds(), Loader: loader.Options{Env: func(string) (string, bool) { return "", false }}, Version: "test"}
	change(opts)
	go func() {
		err := lsp.New(opts).Serve(t.Context(), fromEditor, fromServer)
		fromServer.Close()
		e.ended <- err
	}()
	var answer struct {
		Capabilities map[string]any
		ServerInfo   map[string]string
	}
	e.call("initialize", map[string]any{}, &answer)
	if answer.ServerInfo["version"] != "test" || answer.Capabilities["hoverProvider"] != true {
		t.Errorf("initialize = %+v", answer)
	}
	e.notify("initialized", map[string]any{})
	return e
}

// close shuts the server down as an editor does.
func (e *editor) close() {
	e.Helper()
	e.call("shutdown", nil, nil)
	e.notify("exit", nil)
	if err := <-e.ended; err != nil {
		e.Errorf("Serve = %v", err)
	}
}

func (e *editor) send(m map[string]any) {
	e.Helper()
	m["jsonrpc"] = "2.0"
	body, err := json.Marshal(m)
	if err != nil {
		e.Fatal(err)
	}
	if _, err := fmt.Fprintf(e.in, "Content-Length: %d\r\n\r\n%s", len(body), body); err != nil {
		e.Fatal(err)
	}
}

func (e *editor) notify(method string, params any) {
	e.Helper()
	e.send(map[string]any{"method": method, "params": params})
}

// readMessages reads messages from the server until it ends.
func (e *editor) readMessages(out *bufio.Reader) {
	defer close(e.messages)
	for {
		header, err := textproto.NewReader(out).ReadMIMEHeader()
		if err != nil {
			return
		}
		size, _ := strconv.Atoi(header.Get("Content-Length"))
		body := make([]byte, size)
		var m wire
		if _, err := io.ReadFull(out, body); err != nil || json.Unmarshal(body, &m) != nil {
			return
		}
		e.messages <- m
	}
}

// receive returns the next message and records published diagnostics.
func (e *editor) receive() wire {
	e.Helper()
	m, ok := <-e.messages
	if !ok {
		e.Fatal("server ended")
	}
	switch m.Method {
	case "textDocument/publishDiagnostics":
		e.recordDiagnostics(m.Params)
	case "window/showMessage":
		var p struct {
			Type    int
			Message string
		}
		if err := json.Unmarshal(m.Params, &p); err != nil {
			e.Fatal(err)
		}
		e.shown = append(e.shown, fmt.Sprintf("%d %s", p.Type, p.Message))
	}
	return m
}

func (e *editor) recordDiagnostics(params json.RawMessage) {
	e.Helper()
	var p struct {
		URI         string
		Diagnostics []struct {
			Range struct {
				Start, End struct{ Line, Character int }
			}
			Severity              int
			Code, Message, Source string
		}
	}
	if err := json.Unmarshal(params, &p); err != nil {
		e.Fatal(err)
	}
	file := strings.TrimPrefix(p.URI, "file://"+e.dir+"/")
	e.published[file] = []string{}
	for _, d := range p.Diagnostics {
		e.published[file] = append(e.published[file], fmt.Sprintf("%d:%d-%d %s [%s]", d.Range.Start.Line, d.Range.Start.Character, d.Range.End.Character, d.Message, d.Code))
	}
}

// call sends a request and waits for its response.
func (e *editor) call(method string, params, into any) *wire {
	e.Helper()
	e.id++
	e.send(map[string]any{"id": e.id, "method": method, "params": params})
	for {
		m := e.receive()
		if m.ID == nil || *m.ID != e.id {
			continue
		}
		if into != nil && m.Error == nil {
			if err := json.Unmarshal(m.Result, into); err != nil {
				e.Fatal(err)
			}
		}
		return &m
	}
}

func (e *editor) uri(file string) string { return "file://" + e.dir + "/" + file }

// openDocument opens a file with this text and returns its diagnostics.
func (e *editor) openDocument(file, text string) []string {
	e.Helper()
	e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": e.uri(file), "text": text}})
	return e.waitForDiagnostics(file)
}

// waitForDiagnostics reads messages until the file's diagnostics are published.
func (e *editor) waitForDiagnostics(file string) []string {
	e.Helper()
	delete(e.published, file)
	for e.published[file] == nil {
		e.receive()
	}
	return e.published[file]
}

// openAtCursor opens a file with this text and returns the position of ¦ in it.
func (e *editor) openAtCursor(file, text string) map[string]any {
	e.Helper()
	before, after, ok := strings.Cut(text, "¦")
	if !ok {
		e.Fatal("no cursor in text")
	}
	e.notify("textDocument/didOpen", map[string]any{"textDocument": map[string]any{"uri": e.uri(file), "text": before + after}})
	return map[string]any{
		"textDocument": map[string]any{"uri": e.uri(file)},
		"position":     map[string]any{"line": strings.Count(before, "\n"), "character": len(before) - strings.LastIndex(before, "\n") - 1},
	}
}

func (e *editor) completionLabels(file, text string) []string {
	e.Helper()
	var answer struct{ Items []struct{ Label string } }
	e.call("textDocument/completion", e.openAtCursor(file, text), &answer)
	labels := []string{}
	for _, item := range answer.Items {
		labels = append(labels, item.Label)
	}
	return labels
}

// TestDiagnosticsInUnsavedFiles covers diagnostics in unsaved files.
func TestDiagnosticsInUnsavedFiles(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	got := e.openDocument("root_agent.yaml", "name: desk\nmodel: fsat\ninstruction: Help.\ntols: []\n# é𝄞: x\n")
	want := []string{
		"1:7-11 unknown model \"fsat\"\ndid you mean \"fast\"? [model]",
		"3:0-4 unknown field \"tols\"\ndid you mean \"tools\"? [unknown-field]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("diagnostics (-want +got):\n%s", diff)
	}
	change := func(file, text string) {
		e.notify("textDocument/didChange", map[string]any{
			"textDocument": map[string]any{"uri": e.uri(file), "version": 2}, "contentChanges": []any{map[string]any{"text": text}},
		})
	}
	change("root_agent.yaml", "name: desk\nmodel: fast\ninstruction: Help.\nsub_agents: [{use: é𝄞z}, {use: x}]\ntools: [{use: stock}]\n")
	got = e.waitForDiagnostics("root_agent.yaml")
	if len(got) != 2 || !strings.HasPrefix(got[0], "3:19-23 ") || !strings.HasPrefix(got[1], "3:32-33 ") {
		t.Errorf("diagnostics = %q, want positions in UTF-16 units", got)
	}
	change("root_agent.yaml", "name: desk\nmodel: fast\ninstruction: Help.\nsub_agents: [{use: answer}]\ntools: [{use: stock}]\n")
	if got := e.waitForDiagnostics("root_agent.yaml"); len(got) != 0 {
		t.Errorf("diagnostics = %q, want none after the fix", got)
	}
	change("app.yaml", strings.Replace(shop, "answer:", "answers:", 1))
	if got := e.waitForDiagnostics("root_agent.yaml"); len(got) != 1 || !strings.Contains(got[0], `unknown agent "answer" under agents`) {
		t.Errorf("diagnostics = %q, want the error caused by another file", got)
	}
	e.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": e.uri("app.yaml")}})
	if got := e.waitForDiagnostics("root_agent.yaml"); len(got) != 0 {
		t.Errorf("diagnostics = %q, want none after closing an unsaved change", got)
	}
	if got := e.openDocument("root_agent.test.yaml", "- name: a\n  user: hi\n  expect: [txt == '']\n"); len(got) != 1 || !strings.Contains(got[0], "did you mean text?") {
		t.Errorf("diagnostics = %q, want those of the test file", got)
	}
}

// TestCodeActionsForRequestedLines expects check --fix's fixes, for the requested lines and kinds only.
func TestCodeActionsForRequestedLines(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	e.openDocument("root_agent.yaml", "name: desk\nmodel: fast\ninstruction: é𝄞 {usr:name?} {tmp:x?}.\n")
	requestActions := func(first, last int, only ...string) []string {
		t.Helper()
		var actions []struct {
			Title, Kind string
			Edit        struct {
				Changes map[string][]struct {
					Range struct{ Start, End struct{ Line, Character int } }
					Text  string `json:"newText"`
				}
			}
		}
		e.call("textDocument/codeAction", map[string]any{
			"textDocument": map[string]any{"uri": e.uri("root_agent.yaml")},
			"range":        map[string]any{"start": map[string]int{"line": first, "character": 0}, "end": map[string]int{"line": last, "character": 0}},
			"context":      map[string]any{"diagnostics": []any{}, "only": only},
		}, &actions)
		got := []string{}
		for _, a := range actions {
			for _, edit := range a.Edit.Changes[e.uri("root_agent.yaml")] {
				got = append(got, fmt.Sprintf("%s: %s, %d:%d-%d %s", a.Kind, a.Title, edit.Range.Start.Line, edit.Range.Start.Character, edit.Range.End.Character, edit.Text))
			}
		}
		return got
	}
	user := "quickfix: Change usr:name to user:name, 2:18-26 user:name"
	temp := "quickfix: Change tmp:x to temp:x, 2:30-35 temp:x"
	for _, tt := range []struct {
		name      string
		got, want []string
	}{
		{"one line", requestActions(2, 2), []string{user, temp}},
		{"all lines", requestActions(0, 9), []string{user, temp}},
		{"no certain fix", requestActions(3, 3), []string{}},
		{"only quick fixes", requestActions(2, 2, "quickfix"), []string{user, temp}},
		{"only other kinds", requestActions(2, 2, "refactor"), []string{}},
	} {
		if diff := cmp.Diff(tt.want, tt.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

// TestCompletionAtCursor checks the completions at the cursor, ¦.
func TestCompletionAtCursor(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	for _, tt := range []struct {
		name, file, text string
		want, without    []string
	}{
		{"fields of an agent", "root_agent.yaml", "name: a\ninstruction: x\n¦", []string{"description", "tools", "output_key", "sub_agents"}, []string{"name", "max_iterations", "instruction"}},
		{"fields of a class", "root_agent.yaml", "agent_class: LoopAgent\nname: a\nmax¦", []string{"max_iterations", "until"}, []string{"instruction"}},
		{"classes", "root_agent.yaml", "agent_class: ¦", []string{"LoopAgent", "RouterAgent"}, nil},
		{"values", "root_agent.yaml", "name: a\ninclude_contents: ¦\n", []string{"default", "none"}, nil},
		{"models", "root_agent.yaml", "name: a\nmodel: ¦\ninstruction: x\n", []string{"fast"}, []string{"answer"}},
		{"agents to use", "root_agent.yaml", "name: a\ninstruction: x\nsub_agents:\n  - use: ¦\n", []string{"answer"}, []string{"stock"}},
		{"tools to use, in flow style", "root_agent.yaml", "name: a\ninstruction: x\ntools: [{use: ¦}]\n", []string{"stock"}, []string{"answer"}},
		{"kinds of tools", "root_agent.yaml", "name: a\ninstruction: x\ntools:\n- ¦\n", []string{"http", "expr", "use", "name"}, nil},
		{"fields of a tool", "root_agent.yaml", "name: a\ninstruction: x\ntools:\n  - http:\n      name: f\n      ¦\n", []string{"url", "method", "timeout"}, []string{"name"}},
		{"built-in tools", "root_agent.yaml", "tools:\n  - name: ¦\n", []string{"exit_loop", "load_memory"}, nil},
		{"fields of an inner agent", "root_agent.yaml", "agent_class: SequentialAgent\nname: a\nsub_agents:\n  - name: b\n    ¦\n  - agent_class: LoopAgent\n    name: c\n", []string{"instruction", "tools"}, []string{"max_iterations"}},
		{"files", "root_agent.yaml", "name: a\nsub_agents:\n  - config_path: ¦\n", []string{"more/sub.yaml"}, []string{"app.yaml"}},
		{"state keys in a string", "root_agent.yaml", "name: a\ninstruction: |\n  Help {¦\noutput_key: last\n", []string{"last"}, []string{"name"}},
		{"state keys in an expression", "root_agent.yaml", "name: a\nwhen: state.¦\noutput_key: last\n", []string{"last"}, nil},
		{"fields of app.yaml", "app.yaml", shop + "¦", []string{"plugins", "run_config"}, []string{"models"}},
		{"providers", "app.yaml", "models: {fast: {provider: ¦}}", []string{"gemini", "scripted"}, nil},
		{"fields of a provider", "app.yaml", "models: {fast: {provider: scripted, ¦}}", []string{"script"}, []string{"vertexai", "provider"}},
		{"fields of an eval file", "root_agent.eval.yaml", "cases:\n- name: a\n  ¦\n", []string{"user", "expect", "plan"}, []string{"name"}},
		{"fields of a test", "root_agent.test.yaml", "- name: a\n  ¦\n", []string{"user", "expect", "model"}, []string{"name"}},
		{"agents of a test", "root_agent.test.yaml", "- name: a\n  user: b\n  model:\n    ¦\n", []string{"desk", "answer"}, nil},
		{"tools of a test", "root_agent.test.yaml", "- name: a\n  tools:\n    ¦\n", []string{"stock"}, nil},
		{"stubs", "root_agent.test.yaml", "- name: a\n  tools:\n    stock: {¦}\n", []string{"return", "fail", "times"}, nil},
		{"stubs of faults", "root_agent.test.yaml", "- name: a\n  tools:\n    stock: {¦}\n", []string{"error", "probability", "latency", "simulate"}, nil},
		{"tools of an eval file", "root_agent.eval.yaml", "tools:\n  ¦\ncases: []\n", []string{"stock"}, []string{"desk"}},
		{"tools of a case", "root_agent.eval.yaml", "cases:\n- name: a\n  tools:\n    ¦\n", []string{"stock"}, nil},
		{"stubs of a case", "root_agent.eval.yaml", "cases:\n- name: a\n  tools:\n    stock: {¦}\n", []string{"return", "error"}, nil},
		{"tools of a criterion", "root_agent.eval.yaml", "metrics:\n  tool_trajectory:\n    tools:\n      ¦\n", []string{"stock"}, nil},
		{"metrics", "root_agent.eval.yaml", "metrics:\n  ¦\n", []string{"response_match", "tool_trajectory", "safety_v1"}, []string{"token_usage_v1"}},
		{"metrics of a case", "root_agent.eval.yaml", "cases:\n- name: a\n  metrics:\n    ¦\n", []string{"response_match"}, nil},
		{"keys of a criterion", "root_agent.eval.yaml", "metrics:\n  response_match:\n    ¦\n", []string{"threshold", "only_expected"}, nil},
		{"keys of a custom metric", "root_agent.eval.yaml", "metrics:\n  short:\n    ¦\n", []string{"expr", "threshold"}, []string{"match_type"}},
		{"match of the state", "root_agent.eval.yaml", "cases:\n- name: a\n  final_state_match: ¦\n", []string{"SUBSET", "EXACT"}, nil},
		{"input of a later turn", "root_agent.eval.yaml", "cases:\n- name: a\n  then:\n  - ¦\n", []string{"confirm", "payload", "respond", "parts"}, nil},
		{"judges", "root_agent.eval.yaml", "metrics:\n  safety:\n    judge_model_options:\n      judge_model: ¦\n", []string{"fast"}, nil},
		{"expected calls", "root_agent.eval.yaml", "cases:\n- name: a\n  expect:\n    calls:\n    - name: ¦\n", []string{"stock"}, []string{"desk"}},
		{"simulation", "root_agent.eval.yaml", "simulation: {¦}\n", []string{"model", "data", "stateful_parameters"}, nil},
		{"fields of a script", "s.script.yaml", "- when: 'true'\n  ¦\n", []string{"text", "calls"}, []string{"when"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e.T = t
			got := e.completionLabels(tt.file, tt.text)
			for _, want := range tt.want {
				if !slices.Contains(got, want) {
					t.Errorf("%s is missing from the completions: %v", want, got)
				}
			}
			for _, not := range tt.without {
				if slices.Contains(got, not) {
					t.Errorf("unexpected completion %s: %v", not, got)
				}
			}
			if e.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": e.uri(tt.file)}}); t.Failed() {
				t.Log(tt.text)
			}
		})
	}
	e.T = t
}

// TestHoverOverFieldsAndNames covers the documentation for fields, names and resolved values.
func TestHoverOverFieldsAndNames(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	for _, tt := range []struct{ name, file, text, want string }{
		{"a field", "root_agent.yaml", "name: a\noutput_¦key: last\ninstruction: x\n", "**output_key**"},
		{"a field of a tool", "app.yaml", "tools:\n  stock:\n    http:\n      tim¦eout: 5s\n", "Maximum call duration."},
		{"a value", "root_agent.yaml", "name: a\nmethod: x\ninclude¦_contents: none\n", "One of `default`, `none`."},
		{"a key of an eval file", "root_agent.eval.yaml", "cases:\n- name: a\n  final_state¦_match: EXACT\n", "must be exactly final_state"},
		{"an expression of a metric", "root_agent.eval.yaml", "metrics:\n  short:\n    ex¦pr: 'true'\n", "true, false or a number from 0 to 1"},
		{"an agent", "root_agent.yaml", "sub_agents: [{use: ans¦wer}]\n", "Answers."},
		{"a tool", "root_agent.yaml", "tools: [{use: sto¦ck}]\n", "**stock**"},
		{"a string with a variable", "app.yaml", strings.Replace(shop, "SHOP", "SH¦OP", 1), "http://shop.test/stock"},
		{"nothing", "root_agent.yaml", "name: a\ninstruction: ¦ x\n", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e.T = t
			var answer struct{ Contents struct{ Kind, Value string } }
			e.call("textDocument/hover", e.openAtCursor(tt.file, tt.text), &answer)
			if !strings.Contains(answer.Contents.Value, tt.want) || tt.want == "" && answer.Contents.Value != "" {
				t.Errorf("hover = %q, want %q", answer.Contents.Value, tt.want)
			}
			e.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": e.uri(tt.file)}})
		})
	}
	e.T = t
}

// TestDefinitionOfFilesAndNames covers references to files and names.
func TestDefinitionOfFilesAndNames(t *testing.T) {
	e := startEditor(t)
	defer e.close()
	for _, tt := range []struct{ name, file, text, want string }{
		{"config_path", "root_agent.yaml", "sub_agents:\n  - config_path: more/s¦ub.yaml\n", "more/sub.yaml:0"},
		{"use of an agent", "root_agent.yaml", "sub_agents: [{use: ans¦wer}]\n", "app.yaml:4"},
		{"use of a tool", "root_agent.yaml", "tools: [{use: sto¦ck}]\n", "app.yaml:6"},
		{"model", "root_agent.yaml", "model: fa¦st\n", "app.yaml:2"},
		{"script", "app.yaml", "models: {fast: {provider: scripted, script: s.scr¦ipt.yaml}}", "s.script.yaml:0"},
		{"agent of a test", "root_agent.test.yaml", "- name: a\n  model: {de¦sk: [{text: x}]}\n", "root_agent.yaml:0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e.T = t
			var at []struct {
				URI   string
				Range struct{ Start struct{ Line int } }
			}
			e.call("textDocument/definition", e.openAtCursor(tt.file, tt.text), &at)
			if len(at) == 0 {
				t.Fatal("no definition")
			}
			if got := fmt.Sprintf("%s:%d", strings.TrimPrefix(at[0].URI, "file://"+e.dir+"/"), at[0].Range.Start.Line); got != tt.want {
				t.Errorf("definition = %s, want %s", got, tt.want)
			}
			e.notify("textDocument/didClose", map[string]any{"textDocument": map[string]any{"uri": e.uri(tt.file)}})
		})
	}
	e.T = t
}

// TestProtocolErrors covers invalid messages, unknown methods and a missing shutdown.
func TestProtocolErrors(t *testing.T) {
	e := startEditor(t)
	if m := e.call("textDocument/declaration", map[string]any{}, nil); m.Error == nil || m.Error.Code != -32601 || m.Error.Message != "unknown method textDocument/declaration" {
		t.Errorf("unknown method = %+v", m.Error)
	}
	if m := e.call("textDocument/hover", 7, nil); m.Error == nil || m.Error.Code != -32602 {
		t.Errorf("invalid params = %+v", m.Error)
	}
	fmt.Fprint(e.in, "Content-Length: 4\r\n\r\n{{{{")
	if m := e.receive(); m.Error == nil || m.Error.Code != -32700 {
		t.Errorf("invalid JSON = %+v", m.Error)
	}
	untitled := map[string]any{"textDocument": map[string]any{"uri": "untitled:one"}, "position": map[string]any{"line": 0, "character": 0}}
	if m := e.call("textDocument/hover", untitled, nil); m.Error != nil || string(m.Result) != "null" {
		t.Errorf("hover in an untitled file = %s, %+v", m.Result, m.Error)
	}
	e.close()

	e = startEditor(t)
	e.notify("exit", nil)
	if err := <-e.ended; err == nil || err.Error() != "exit received without a preceding shutdown request" {
		t.Errorf("Serve = %v", err)
	}
}
