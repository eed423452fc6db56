package apptest

import (
	"slices"

	"agenthost/internal/toolstub"
	"agenthost/internal/turn"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// Names are the names that an app's tests may refer to. Names are not checked against a nil
// list.
type Names struct {
	// Agents are the agents with a model, Tools the tools that they may call.
	Agents, Tools []string
	// State has sample values for the typed state keys; nil means no typed keys.
	State map[string]any
	// File reads an app document by its path in the app's folder.
	File func(path spec.Text) (*spec.Node, spec.Diagnostics)
}

// A Test is a validated, compiled test. It is immutable and may run many times,
// also concurrently.
type Test struct {
	// Name describes the test, Pos is its position in the file.
	Name string
	Pos  spec.Pos

	answers   scriptsByAgent
	stubs     *toolstub.Set
	simulator *script
	live      bool
	turns     []*testTurn
}

// testTurn is one turn in a test.
type testTurn struct {
	turnConfig
	node   *spec.Node
	expect []*expectation
}

// Decode decodes a test file, a list of tests. It reports all problems. The tests cannot run
// if any problem is an error.
func Decode(n *spec.Node, names *Names) ([]*Test, spec.Diagnostics) {
	if n.IsNull() {
		return nil, nil
	}
	if n.Kind != spec.Sequence {
		return nil, spec.Diagnostics{n.Errorf("type", "a test file must be a list of tests")}
	}
	d := &decoder{names: names, seenNames: map[string]spec.Pos{}}
	var tests []*Test
	for _, item := range n.Items {
		tests = append(tests, d.decodeTest(item))
	}
	d.diagnostics.Sort()
	return tests, d.diagnostics
}

type decoder struct {
	names       *Names
	seenNames   map[string]spec.Pos
	diagnostics spec.Diagnostics
}

func (d *decoder) addDiagnostics(ds ...spec.Diagnostic) { d.diagnostics = append(d.diagnostics, ds...) }

func (d *decoder) decodeTest(n *spec.Node) *Test {
	var c testConfig
	d.addDiagnostics(spec.Decode(n, &c)...)
	t := &Test{Name: c.Name.Value, Pos: n.Pos}
	if n.Kind != spec.Mapping {
		return t
	}
	if first, found := d.seenNames[t.Name]; found && t.Name != "" {
		d.addDiagnostics(c.Name.Errorf(0, "duplicate-name", "duplicate test name, first used in line %d", first.Line))
	}
	d.seenNames[t.Name] = c.Name.Pos
	t.answers = d.decodeScripts(c.Model.node)
	d.decodeTools(n, &c, t)
	t.live = c.Live
	t.turns = append(t.turns, d.decodeTurn(n, &c.First))
	for i, item := range listItems(n.Get("then")) {
		if i < len(c.Then) {
			t.turns = append(t.turns, d.decodeTurn(item, &c.Then[i]))
		}
	}
	if !slices.ContainsFunc(t.turns, func(tu *testTurn) bool { return len(tu.expect) > 0 }) && !d.diagnostics.HasErrors() {
		d.addDiagnostics(n.Warnf("test-expects-nothing", "the test has no expectations and always passes").
			WithHint(`add expect: ['text contains "…"']`))
	}
	return t
}

func listItems(n *spec.Node) []*spec.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// decodeTurn validates the user's input and compiles the expectations.
func (d *decoder) decodeTurn(n *spec.Node, c *turnConfig) *testTurn {
	tu := &testTurn{turnConfig: *c, node: n}
	if n.Kind != spec.Mapping {
		return tu
	}
	d.addDiagnostics(turn.CheckInput(n, c.Confirm, "test")...)
	for _, src := range c.Expect {
		if e := d.compileExpectation(src); e != nil {
			tu.expect = append(tu.expect, e)
		}
	}
	return tu
}

func (d *decoder) compileExpectation(src spec.Expr) *expectation {
	if src.Pos == (spec.Pos{}) {
		return nil // already reported by spec.Decode
	}
	env := turn.NewEnv(d.names.State)
	compiled, err := template.CompileBool(src.Value, env)
	if err != nil {
		d.addDiagnostics(tool.NewTemplateDiagnostic(src.Text, "expression", err))
		return nil
	}
	return &expectation{src: src, when: compiled, parts: turn.CompileParts(src.Value, env)}
}

// decodeScripts reads the model field's value.
func (d *decoder) decodeScripts(n *spec.Node) scriptsByAgent {
	a := scriptsByAgent{}
	switch {
	case n.IsNull():
	case n.Kind == spec.Mapping:
		for _, e := range n.Entries {
			d.checkName(e.Key, "agent %s with a model", d.names.Agents)
			a[e.Key.Value] = d.decodeScript(e.Value)
		}
	default:
		a[""] = d.decodeScript(n)
	}
	return a
}

// decodeScript reads one script: a list of answers, or a file's path.
func (d *decoder) decodeScript(n *spec.Node) *script {
	decode, ordered := provider.DecodeAnswers, true
	if n.Kind == spec.Scalar {
		var path spec.Text
		ds := path.DecodeSpec(n)
		d.addDiagnostics(ds...)
		if ds.HasErrors() {
			return nil
		}
		file, ds := d.names.File(path)
		d.addDiagnostics(ds...)
		if file == nil || ds.HasErrors() {
			return nil
		}
		n, decode, ordered = file, provider.DecodeScript, false
	}
	s, ds := decode(n)
	d.addDiagnostics(ds...)
	for _, item := range n.Items {
		if at := item.Get("tool"); at != nil {
			d.addDiagnostics(at.Errorf("test", "tool responses must be under tools, not in a model's answers"))
		}
	}
	return &script{s, ordered}
}

// decodeTools reads a test's stubs and the script for the model that simulates tools.
func (d *decoder) decodeTools(n *spec.Node, c *testConfig, t *Test) {
	tools, simulation := n.Get("tools"), n.Get("simulation")
	stubs, ds := toolstub.Build(tools, c.Tools, d.names.Tools)
	d.addDiagnostics(ds...)
	d.addDiagnostics(stubs.CheckSeeds(tools)...)
	t.stubs = stubs
	switch {
	case c.Simulation != nil:
		d.addDiagnostics(toolstub.CheckSimulation(simulation, &c.Simulation.SimulationConfig, d.names.Tools, stubs)...)
		t.stubs = stubs.WithSimulation(&c.Simulation.SimulationConfig)
		t.simulator = d.decodeSimulator(c.Simulation.Model.node)
	case stubs.Simulates():
		d.addDiagnostics(tools.Errorf("stub", "simulate requires simulation in a test, with its model's answers").
			WithHint("add simulation: {model: [{json: {…}}]}"))
	}
}

// decodeSimulator reads the answers for the model that simulates tools.
func (d *decoder) decodeSimulator(n *spec.Node) *script {
	switch {
	case n.IsNull():
		return nil // reported by spec.Decode
	case n.Kind == spec.Mapping:
		d.addDiagnostics(n.Errorf("type", "a simulation's model must be a list of answers or a script file in the app"))
		return nil
	}
	return d.decodeScript(n)
}

// checkName reports a name that is not in the list. The format what contains %s for
// the name.
func (d *decoder) checkName(at *spec.Node, what string, names []string) {
	if names == nil || slices.Contains(names, at.Value) {
		return
	}
	problem := at.Errorf("unknown-name", "the app has no "+what, at.Value)
	if near := spec.Suggest(at.Value, names); near != "" {
		problem = problem.WithNearName(at.Value, near)
	}
	d.addDiagnostics(problem)
}
