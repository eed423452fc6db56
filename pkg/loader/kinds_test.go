package loader

import (
	"strings"
	"testing"

	"agenthost/pkg/provider"
)

// testKinds are those of testenv.Kinds, whose package imports this one: TestMain sets them.
var testKinds Kinds

// SetTestKinds sets the kinds of the tests in this package.
func SetTestKinds(kinds Kinds) { testKinds = kinds }

// listKinds returns the kinds of the program agenthost.
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

// The default model is required of a program only if an agent needs it.
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
	if got, want := New(kinds, nil).Check(t.Context(), s.path("none")).Error(), "requires the provider gemini, which this program does not have"; !strings.Contains(got, want) {
		t.Errorf("problems of an app without a model = %s, want %q", got, want)
	}
}
