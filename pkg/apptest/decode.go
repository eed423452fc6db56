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

	answers answers
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
	d := &decoder{names: names, seen: map[string]spec.Pos{}}
	var tests []*Test
	for _, item := range n.Items {
		tests = append(tests, d.test(item))
	}
	d.ds.Sort()
	return tests, d.ds
}

type decoder struct {
	names *Names
	seen  map[string]spec.Pos
	ds    spec.Diagnostics
}

func (d *decoder) add(ds ...spec.Diagnostic) { d.ds = append(d.ds, ds...) }

func (d *decoder) test(n *spec.Node) *Test {
	var c testConfig
	d.add(spec.Decode(n, &c)...)
	t := &Test{Name: c.Name.Value, Pos: n.Pos, tools: map[string][]*standIn{}}
	if n.Kind != spec.Mapping {
		return t
	}
	if first, taken := d.seen[t.Name]; taken && t.Name != "" {
		d.add(c.Name.Errorf(0, "duplicate-name", "the file has a test of this name already, in line %d", first.Line))
	}
	d.seen[t.Name] = c.Name.Pos
	t.answers = d.answers(c.Model.node)
	for _, name := range slices.Sorted(maps.Keys(c.Tools)) {
		t.tools[name] = d.standIns(n.Get("tools"), name, c.Tools[name])
	}
	t.turns = append(t.turns, d.turn(n, &c.First))
	for i, item := range itemsOf(n.Get("then")) {
		if i < len(c.Then) {
			t.turns = append(t.turns, d.turn(item, &c.Then[i]))
		}
	}
	if !slices.ContainsFunc(t.turns, func(tu *turn) bool { return len(tu.expect) > 0 }) && !d.ds.HasErrors() {
		d.add(n.Warnf("test-expects-nothing", "the test expects nothing: it passes whatever is said").
			WithHint(`give it expect: ['text contains "…"']`))
	}
	return t
}

func itemsOf(n *spec.Node) []*spec.Node {
	if n == nil {
		return nil
	}
	return n.Items
}

// turn checks what the user does, and compiles what is expected.
func (d *decoder) turn(n *spec.Node, c *turnConfig) *turn {
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
		d.add(n.Errorf("test", "the turn has no beginning: give it user, confirm or respond"))
	case len(ways) > 1:
		d.add(n.Get(ways[1]).Errorf("test", "a turn begins in one way: %s and %s exclude each other", ways[0], ways[1]))
	case n.Get("payload") != nil && (c.Confirm == nil || !*c.Confirm):
		d.add(n.Get("payload").Errorf("test", "a payload is part of an approval: it stands beside confirm: true"))
	case n.Get("parts") != nil && len(ways) == 1 && ways[0] != "user":
		d.add(n.Get("parts").Errorf("test", "parts are what the user sends: they do not go with %s", ways[0]))
	}
	for _, src := range c.Expect {
		if e := d.expectation(src); e != nil {
			tu.expect = append(tu.expect, e)
		}
	}
	return tu
}

func (d *decoder) expectation(src spec.Expr) *expectation {
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
		d.add(src.Errorf(offset, "expression", "%v", err))
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

// answers reads what stands under model.
func (d *decoder) answers(n *spec.Node) answers {
	a := answers{}
	switch {
	case n.IsNull():
	case n.Kind == spec.Mapping:
		for _, e := range n.Entries {
			d.known(e.Key, "agent with a model, %s", d.names.Agents)
			a[e.Key.Value] = d.script(e.Value)
		}
	default:
		a[""] = d.script(n)
	}
	return a
}

// script reads one script: a list of answers, or a file.
func (d *decoder) script(n *spec.Node) *script {
	decode, ordered := provider.DecodeAnswers, true
	if n.Kind == spec.Scalar {
		var path spec.Text
		ds := path.DecodeSpec(n)
		d.add(ds...)
		if ds.HasErrors() {
			return nil
		}
		file, ds := d.names.File(path)
		d.add(ds...)
		if file == nil || ds.HasErrors() {
			return nil
		}
		n, decode, ordered = file, provider.DecodeScript, false
	}
	s, ds := decode(n)
	d.add(ds...)
	for _, item := range n.Items {
		if at := item.Get("tool"); at != nil {
			d.add(at.Errorf("test", "what a tool answers in a test stands under tools, not among the answers of a model"))
		}
	}
	return &script{s, ordered}
}

func (d *decoder) standIns(tools *spec.Node, name string, c standInsNode) []*standIn {
	for _, e := range tools.Entries {
		if e.Key.Value == name {
			d.known(e.Key, "tool %s", d.names.Tools)
		}
	}
	all := make([]*standIn, len(c.items))
	for i := range c.items {
		all[i] = &standIn{standInConfig: c.items[i], pos: c.nodes[i].Pos}
	}
	return all
}

// known wants a name of a list; what has %s for the name.
func (d *decoder) known(at *spec.Node, what string, names []string) {
	if names == nil || slices.Contains(names, at.Value) {
		return
	}
	problem := at.Errorf("unknown-name", "the app has no "+what, at.Value)
	if near := spec.Suggest(at.Value, names); near != "" {
		problem = problem.WithHint("did you mean %q?", near)
	}
	d.add(problem)
}
