package apptest

import (
	"errors"
	"maps"
	"slices"

	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// Names are what tests of an app may name. A nil list is not known: nothing is
// held against it.
type Names struct {
	// Agents have models, Tools are what they may call.
	Agents, Tools []string
	// State has samples of the typed keys of the state; nil types none.
	State map[string]any
	// File reads a document of the app by its path there.
	File func(path spec.Text) (*spec.Node, spec.Diagnostics)
}

// A Test is a checked test, compiled. It does not change; it may be run many
// times, also at once.
type Test struct {
	// Name is what the test shows, Pos where it stands.
	Name string
	Pos  spec.Pos

	answers scriptsByAgent
	tools   map[string][]*standIn
	turns   []*turn
}

// turn is one turn of a test.
type turn struct {
	turnConfig
	node   *spec.Node
	expect []*expectation
}

// Decode reads the tests of a file: a list. It reports every problem; with any
// error the tests cannot be run.
func Decode(n *spec.Node, names *Names) ([]*Test, spec.Diagnostics) {
	if n.IsNull() {
		return nil, nil
	}
	if n.Kind != spec.Sequence {
		return nil, spec.Diagnostics{n.Errorf("type", "a file of tests is a list of them")}
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
	t := &Test{Name: c.Name.Value, Pos: n.Pos, tools: map[string][]*standIn{}}
	if n.Kind != spec.Mapping {
		return t
	}
	if first, taken := d.seenNames[t.Name]; taken && t.Name != "" {
		d.addDiagnostics(c.Name.Errorf(0, "duplicate-name", "the file has a test of this name already, in line %d", first.Line))
	}
	d.seenNames[t.Name] = c.Name.Pos
	t.answers = d.decodeScripts(c.Model.node)
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t.tools[name] = d.decodeStandIns(n.Get("tools"), name, c.Tools[name])
	}
	t.turns = append(t.turns, d.decodeTurn(n, &c.First))
	for i, item := range sequenceItems(n.Get("then")) {
		if i < len(c.Then) {
			t.turns = append(t.turns, d.decodeTurn(item, &c.Then[i]))
		}
	}
	if !slices.ContainsFunc(t.turns, func(tu *turn) bool { return len(tu.expect) > 0 }) && !d.diagnostics.HasErrors() {
		d.addDiagnostics(n.Warnf("test-expects-nothing", "the test expects nothing: it passes whatever is said").
			WithHint(`give it expect: ['text contains "…"']`))
	}
	return t
}

func sequenceItems(n *spec.Node) []*spec.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// decodeTurn checks what the user does, and compiles what is expected.
func (d *decoder) decodeTurn(n *spec.Node, c *turnConfig) *turn {
	tu := &turn{turnConfig: *c, node: n}
	if n.Kind != spec.Mapping {
		return tu
	}
	var ways []string
	for _, key := range []string{"user", "confirm", "respond"} {
		if n.Get(key) != nil {
			ways = append(ways, key)
		}
	}
	switch {
	case len(ways) == 0 && n.Get("parts") == nil:
		d.addDiagnostics(n.Errorf("test", "the turn has no beginning: give it user, confirm or respond"))
	case len(ways) > 1:
		d.addDiagnostics(n.Get(ways[1]).Errorf("test", "a turn begins in one way: %s and %s exclude each other", ways[0], ways[1]))
	case n.Get("payload") != nil && (c.Confirm == nil || !*c.Confirm):
		d.addDiagnostics(n.Get("payload").Errorf("test", "a payload is part of an approval: it stands beside confirm: true"))
	case n.Get("parts") != nil && len(ways) == 1 && ways[0] != "user":
		d.addDiagnostics(n.Get("parts").Errorf("test", "parts are what the user sends: they do not go with %s", ways[0]))
	}
	for _, src := range c.Expect {
		if e := d.compileExpectation(src); e != nil {
			tu.expect = append(tu.expect, e)
		}
	}
	return tu
}

func (d *decoder) compileExpectation(src spec.Expr) *expectation {
	if src.Pos == (spec.Pos{}) {
		return nil // told already, when the test was decoded
	}
	env := expectEnv(d.names.State)
	compiled, err := template.CompileBool(src.Value, env)
	if err != nil {
		offset := 0
		if at, ok := errors.AsType[*template.Error](err); ok {
			offset = at.Offset
		}
		d.addDiagnostics(src.Errorf(offset, "expression", "%v", err))
		return nil
	}
	e := &expectation{src: src, when: compiled}
	for _, part := range template.Parts(src.Value) {
		// What is only part of a larger whole may not stand alone.
		if x, err := template.Compile(part, env); err == nil {
			e.parts = append(e.parts, namedExpr{part, x})
		}
	}
	return e
}

// decodeScripts reads what stands under model.
func (d *decoder) decodeScripts(n *spec.Node) scriptsByAgent {
	a := scriptsByAgent{}
	switch {
	case n.IsNull():
	case n.Kind == spec.Mapping:
		for _, e := range n.Entries {
			d.checkName(e.Key, "agent with a model, %s", d.names.Agents)
			a[e.Key.Value] = d.decodeScript(e.Value)
		}
	default:
		a[""] = d.decodeScript(n)
	}
	return a
}

// decodeScript reads one script: a list of answers, or a file.
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
			d.addDiagnostics(at.Errorf("test", "what a tool answers in a test stands under tools, not among the answers of a model"))
		}
	}
	return &script{s, ordered}
}

func (d *decoder) decodeStandIns(tools *spec.Node, name string, c standInsNode) []*standIn {
	for _, e := range tools.Entries {
		if e.Key.Value == name {
			d.checkName(e.Key, "tool %s", d.names.Tools)
		}
	}
	all := make([]*standIn, len(c.items))
	for i := range c.items {
		all[i] = &standIn{standInConfig: c.items[i], pos: c.nodes[i].Pos}
	}
	return all
}

// checkName wants a name of a list; what has %s for the name.
func (d *decoder) checkName(at *spec.Node, what string, names []string) {
	if names == nil || slices.Contains(names, at.Value) {
		return
	}
	problem := at.Errorf("unknown-name", "the app has no "+what, at.Value)
	if near := spec.Suggest(at.Value, names); near != "" {
		problem = problem.WithHint("did you mean %q?", near)
	}
	d.addDiagnostics(problem)
}
