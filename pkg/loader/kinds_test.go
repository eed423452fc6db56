package loader

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
)

// testKinds are testenv.Kinds, whose package imports this one: TestMain sets them.
var testKinds Kinds

// SetTestKinds sets the kinds for this package's tests.
func SetTestKinds(kinds Kinds) { testKinds = kinds }

// listKinds returns the kinds in the program agenthost.
func listKinds() Kinds { return testKinds }

// Without kinds, an app with an agent has a problem at the agent.
func TestNoKinds(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/root_agent.yaml", "name: x\nmodel: m\ninstruction: y\n")
	ds := New(Kinds{}, nil).Check(t.Context(), s.path("x"))
	if got := ds.Error(); len(ds) != 1 || !strings.Contains(got, "this program has no agent classes") {
		t.Fatalf("problems = %s", got)
	}
	if got, want := ds[0].Hint, "in Go, add loader.AgentKinds to Agents of loader.Kinds"; got != want {
		t.Errorf("hint = %q, want %q", got, want)
	}
}

// A program without a gate that an app configures does not activate the app.
func TestUnknownGate(t *testing.T) {
	s := newGatedEnv(t)
	kinds := listKinds()
	kinds.Gates = nil
	app, ds := New(kinds, nil).Load(t.Context(), s.path("x"))
	if app == nil {
		t.Fatal(ds)
	}
	defer app.Close()
	got := New(kinds, nil).RunGate(t.Context(), s.path("x"), app)
	if want := "this program has no gate tests [value]"; !got.HasErrors() || !strings.Contains(got.Error(), want) {
		t.Errorf("RunGate = %v, want %s", got, want)
	}
}

// A program needs the default model only if an agent needs it.
func TestNoVendor(t *testing.T) {
	s := newWatchEnv(t)
	kinds := Kinds{Models: provider.Kinds(), Agents: AgentKinds()}
	app := "models: {m: {provider: scripted, script: s.yaml}}\n"
	s.writeFile("own/app.yaml", app)
	s.writeFile("own/s.yaml", "- text: hi\n")
	s.writeFile("own/root_agent.yaml", "name: own\nmodel: m\ninstruction: y\n")
	if ds := New(kinds, nil).Check(t.Context(), s.path("own")); len(ds) > 0 {
		t.Errorf("problems of an app with a model of its own: %s", ds.Error())
	}
	s.writeFile("none/root_agent.yaml", "name: none\ninstruction: y\n")
	if got, want := New(kinds, nil).Check(t.Context(), s.path("none")).Error(), "an agent names no model, and this program has no provider with a default model [model]"; !strings.Contains(got, want) {
		t.Errorf("problems of an app without a model = %s, want %q", got, want)
	}
	s.writeFile("none/root_agent.yaml", "name: none\nmodel: big\ninstruction: y\n")
	if got, want := New(kinds, nil).Check(t.Context(), s.path("none")).Error(), `none/root_agent.yaml:2:8: unknown model "big" [model] (write PROVIDER/big for a model of another provider, such as ollama/big, or declare the model under models in app.yaml)`; !strings.HasSuffix(got, want) {
		t.Errorf("problems of an app with an unknown model = %s, want %q", got, want)
	}
}

// An executor whose package the program does not use is a problem at its name, which names the
// package and nothing from the args.
func TestUnlinkedExecutor(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/app.yaml", "models: {m: {provider: scripted, script: s.yaml}}\n")
	s.writeFile("x/s.yaml", "- text: hi\n")
	kinds := Kinds{Models: provider.Kinds(), Agents: AgentKinds()}
	for executor, want := range map[string]string{
		"{name: wasi, args: {command: [python.wasm], memory: 1MiB}}": "x/root_agent.yaml:4:23: this program does not have the code executor wasi: available are built_in, expr [code-executor]\n" +
			"hint: in Go, add wasi.Executors of package agenthost/wing/wasi to Executors of loader.Kinds",
		"{name: container, args: {image: x}}": "x/root_agent.yaml:4:23: this program does not have the code executor container: available are built_in, expr [code-executor]\n" +
			"hint: in Go, add programs.Executors of package agenthost/wing/programs to Executors of loader.Kinds",
		"{name: google.adk.code_executors.ContainerCodeExecutor}": "x/root_agent.yaml:4:23: this program does not have the code executor google.adk.code_executors.ContainerCodeExecutor: available are built_in, expr [code-executor]\n" +
			"hint: in Go, add programs.Executors of package agenthost/wing/programs to Executors of loader.Kinds",
		"{name: expr, args: {memory: 1MiB}}": "x/root_agent.yaml:4:36: unknown field \"memory\" [unknown-field]\n" +
			"hint: valid fields: stateful, error_retry_attempts, code_block_delimiters, execution_result_delimiters, timeout, max_output",
	} {
		s.writeFile("x/root_agent.yaml", "name: x\nmodel: m\ninstruction: y\ncode_executor: "+executor+"\n")
		ds := New(kinds, nil).Check(t.Context(), s.path("x"))
		if len(ds) != 1 {
			t.Errorf("%s: %s", executor, ds.Error())
			continue
		}
		if got := ds[0].String() + "\nhint: " + ds[0].Hint; !strings.HasSuffix(got, want) {
			t.Errorf("%s: %s, want %s", executor, got, want)
		}
	}
}

// An executor that runs programs is a problem in a program that runs none.
func TestExecutorWithoutPrograms(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/root_agent.yaml", "name: x\ninstruction: y\ncode_executor: {name: command, args: {command: [python3, -]}}\n")
	kinds := listKinds()
	kinds.Programs = nil
	ds := New(kinds, &Options{Policy: readTestPolicy(t, "grants: [{commands: [[python3, '-']]}]")}).Check(t.Context(), s.path("x"))
	want := "x/root_agent.yaml:3:23: the code executor command runs programs, which this program cannot run [code-executor]"
	if len(ds) != 1 || !strings.HasSuffix(ds[0].String(), want) {
		t.Fatalf("problems = %s, want %s", ds.Error(), want)
	}
	if got, want := ds[0].Hint, "in Go, set Programs of loader.Kinds, such as programs.Opener from package wing/programs"; got != want {
		t.Errorf("hint = %q, want %q", got, want)
	}
}

// A program adds an executor with its own settings, which the app closes.
func TestOwnExecutor(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/app.yaml", "models: {m: {provider: scripted, script: s.yaml}}\n")
	s.writeFile("x/s.yaml", "- text: hi\n")
	s.writeFile("x/root_agent.yaml", "name: x\nmodel: m\ninstruction: y\ncode_executor: {name: lisp, args: {dialect: scheme, timeout: 3s}}\n")
	closed := ""
	kinds := Kinds{Models: provider.Kinds(), Agents: AgentKinds(), Executors: ExecutorKinds{
		spec.NewKind("lisp", "runs Lisp", func(_ context.Context, env ExecutorEnv, c *lispConfig) (runtime.CodeExecutor, error) {
			return &lispExecutor{close: func() { closed = c.Dialect + " " + env.Timeout.String() }}, nil
		}),
	}}
	l := New(kinds, nil)
	app, ds := l.Load(t.Context(), s.path("x"))
	if app == nil {
		t.Fatal(ds)
	}
	if app.Close(); closed != "scheme 3s" {
		t.Errorf("closed = %q", closed)
	}
	if !strings.Contains(l.Reference(), "expr evaluates expressions, lisp runs Lisp, other names") {
		t.Error("the reference does not describe the executor")
	}
	schema, err := l.Schema("agent")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := json.Marshal(schema); err != nil || !strings.Contains(string(b), `"dialect"`) {
		t.Errorf("the schema has no args of the executor: %v", err)
	}
}

type lispConfig struct {
	Dialect string `yaml:"dialect" enum:"common|scheme" default:"common" doc:"The dialect."`
}

type lispExecutor struct {
	runtime.ExprExecutor
	close func()
}

// Close records the end.
func (x *lispExecutor) Close() error {
	x.close()
	return nil
}

func readTestPolicy(t *testing.T, text string) *Policy {
	t.Helper()
	file := filepath.Join(t.TempDir(), "policy.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := ReadPolicy(file, PolicyHost{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A kind whose package the program does not use is a problem at its name, and the hint names the
// package and the list.
func TestUnlinkedKinds(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/s.yaml", "- text: hi\n")
	kinds := Kinds{Models: provider.Kinds(), Agents: AgentKinds()}
	const model, in = "models: {m: {provider: scripted, script: s.yaml}}\n", "in Go, add "
	for _, tt := range []struct{ app, agent, message, hint string }{
		{"models: {m: {provider: openai, model: gpt-5}}\n", "model: m", `this program does not have the provider "openai"; available: route, scripted`, "openai.Kinds of package agenthost/wing/openai to Models of loader.Kinds"},
		{model, "model: openai/gpt-5", `this program does not have the provider "openai"; available: route, scripted`, "openai.Kinds of package agenthost/wing/openai to Models of loader.Kinds"},
		{model, "model: gemini-2.5-flash", `this program does not have the provider "gemini" of model gemini-2.5-flash; available: route, scripted`, "gemini.Kind of package agenthost/wing/gemini to Models of loader.Kinds"},
		{model, "model: m\ntools: [command: {name: t, command: [ls]}]", `this program does not have the kind of tool "command"; available: agent`, "programs.Kinds of package agenthost/wing/programs to Tools of loader.Kinds"},
		{model, "model: m\ntools: [mcp: {url: https://example.com}]", `this program does not have the kind of tool "mcp"; available: agent`, "mcptool.Kinds of package agenthost/wing/mcptool to Tools of loader.Kinds"},
		{model, "model: m\ntools: [name: google_search]", `this program does not have the built-in tool "google_search"; available: AgentTool, ModelConsultTool`, "builtin.Builtins of package agenthost/pkg/tool/builtin to Builtins of loader.Kinds"},
		{model, "model: m\ntools: [name: CalendarToolset]", `this program does not have the built-in tool "CalendarToolset"; available: AgentTool, ModelConsultTool`, "openapitool.Toolsets of package agenthost/wing/openapitool to Builtins of loader.Kinds"},
	} {
		s.writeFile("x/app.yaml", tt.app)
		s.writeFile("x/root_agent.yaml", "name: x\ninstruction: y\n"+tt.agent+"\n")
		ds := New(kinds, nil).Check(t.Context(), s.path("x"))
		if len(ds) == 0 || ds[0].Message != tt.message || ds[0].Hint != in+tt.hint {
			t.Errorf("%s%s: %v", tt.app, tt.agent, ds.StringsWithHints())
		}
	}
}
