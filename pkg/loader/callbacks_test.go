package loader_test

import (
	"context"
	"path/filepath"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store/storeurl"
)

// TestFunctionsCalledAtTheirHooks expects a registered function to be called by name, and only for
// its hooks.
func TestFunctionsCalledAtTheirHooks(t *testing.T) {
	guard := func(_ context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		return model.ModelText("guarded " + m.Agent().Name()), nil
	}
	opts := &loader.Options{Functions: loader.Functions{Callbacks: map[string]runtime.Callbacks{
		"my_pkg.guard": {BeforeAgent: []runtime.AgentFunc{guard}},
	}}}
	dir := filepath.Join(t.TempDir(), "app")
	file := filepath.Join(dir, "root_agent.yaml")
	write(t, file, "name: a\ninstruction: x\nbefore_agent_callbacks: [{name: my_pkg.guard}]\n")
	app, ds := loader.New(testenv.Kinds(), opts).Load(t.Context(), dir)
	if app == nil {
		t.Fatal(ds.Error())
	}
	st, err := storeurl.Open(t.Context(), "memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	host := runtime.NewHost(st, nil)
	defer host.Close()
	host.Swap(app)
	var ev *session.Event
	for e, err := range host.Run(t.Context(), &runtime.RunRequest{App: "app", UserID: "u", SessionID: "s", Message: model.UserText("x"), CreateSession: true}) {
		if err != nil {
			t.Fatal(err)
		}
		ev = e
	}
	if ev.Text() != "guarded a" {
		t.Errorf("text = %q, want the function's answer", ev.Text())
	}

	write(t, file, "name: a\ninstruction: x\nafter_agent_callbacks: [{name: my_pkg.guard}]\n")
	ds = loader.New(testenv.Kinds(), opts).Check(t.Context(), dir)
	if len(ds) != 1 || ds[0].Rule != "code" {
		t.Errorf("Check of another hook: %s", ds.Error())
	}
}

// TestNodeFunctionByName expects workflow edges to name a registered function, and to refer to it
// by its name's last word.
func TestNodeFunctionByName(t *testing.T) {
	route := func(context.Context, *runtime.CallbackContext, any) (any, error) { return "again", nil }
	opts := &loader.Options{Functions: loader.Functions{Nodes: map[string]runtime.NodeFunc{".agent.route": route}}}
	dir := filepath.Join(t.TempDir(), "app")
	write(t, filepath.Join(dir, "root_agent.yaml"), "agent_class: Workflow\nname: a\nedges: [[START, .agent.route, w], [w, {again: route}]]\nagents: {w: {instruction: x, include_contents: none}}\n")
	app, ds := loader.New(testenv.Kinds(), opts).Load(t.Context(), dir)
	if app == nil || len(ds) > 0 {
		t.Fatal(ds.Error())
	}
	defer app.Close()
	nodes := app.AgentInfo().Agents
	if len(nodes) != 2 || nodes[0].Name != "route" || nodes[0].Kind != "FunctionNode" {
		t.Errorf("nodes = %+v, want the FunctionNode route and w", nodes)
	}
}
