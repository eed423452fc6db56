package apptest

import (
	"reflect"

	"google.golang.org/genai"

	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// testConfig is a test as it is written: its first turn, and those behind it.
type testConfig struct {
	Name  spec.Text               `yaml:"name" required:"true" doc:"What the test shows, in a few words."`
	Model answersNode             `yaml:"model" doc:"What the models answer: a list of answers for each agent, one list for all of them, or a script file of the app."`
	Tools map[string]standInsNode `yaml:"tools" doc:"What stands in for tools, by their names: one answer or a list. Other tools do their work, but reach no network."`
	First turnConfig              `yaml:",inline"`
	Then  []turnConfig            `yaml:"then" doc:"The turns behind the first, in order."`
}

// turnConfig is one turn: what the user says or decides, and what must be true
// behind it.
type turnConfig struct {
	User    *spec.Text     `yaml:"user" doc:"What the user says."`
	Parts   []*genai.Part  `yaml:"parts" doc:"More of what the user sends: raw parts, such as files."`
	Confirm *bool          `yaml:"confirm" doc:"Instead: what the user answers to the calls that wait for approval."`
	Payload *spec.Node     `yaml:"payload" doc:"What the user has made of the payload of a call that is approved."`
	Respond map[string]any `yaml:"respond" doc:"Instead: the answers to calls that wait for one, by the names of their functions."`
	State   map[string]any `yaml:"state" doc:"The state that the session begins with; in later turns, what is set with the message."`
	Session string         `yaml:"session" doc:"The session of the turn; without it that of the turn before."`
	Expect  []spec.Expr    `yaml:"expect" doc:"Expressions that must be true behind the turn."`
}

// standInConfig is one answer of what stands in for a tool.
type standInConfig struct {
	Args   map[string]any `yaml:"args" doc:"The arguments that it answers to; without it all."`
	Return *spec.Node     `yaml:"return" doc:"What the tool answers: a mapping, or the result; null answers nothing yet."`
	Fail   string         `yaml:"fail" doc:"Instead: what the tool fails with; timeout is that it took too long."`
	State  map[string]any `yaml:"state" doc:"The keys of the state that the call sets; null removes a key."`
	Times  int            `yaml:"times" doc:"How often it answers; without it always."`
}

// answersNode keeps what is written under model: until the names of the app
// are known.
type answersNode struct{ node *spec.Node }

// DecodeSpec keeps the node.
func (a *answersNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	a.node = n
	return nil
}

// SchemaSpec describes the three forms.
func (a *answersNode) SchemaSpec() map[string]any {
	file := map[string]any{"type": "string", "description": "A script file of the app."}
	list := map[string]any{"type": "array", "items": map[string]any{"$ref": "#/$defs/answer"}}
	byAgent := map[string]any{"type": "object", "additionalProperties": map[string]any{"anyOf": []any{file, list}}}
	return map[string]any{"anyOf": []any{file, list, byAgent}}
}

// standInsNode is one stand-in or a list of them.
type standInsNode struct {
	items []standInConfig
	nodes []*spec.Node
}

// DecodeSpec accepts both forms.
func (s *standInsNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	s.nodes = []*spec.Node{n}
	if n.Kind == spec.Sequence {
		s.nodes = n.Items
	}
	s.items = make([]standInConfig, len(s.nodes))
	var ds spec.Diagnostics
	for i, item := range s.nodes {
		ds = append(ds, spec.Decode(item, &s.items[i])...)
		ds = append(ds, checkStandIn(item, &s.items[i])...)
	}
	return ds
}

// SchemaSpec describes both.
func (s *standInsNode) SchemaSpec() map[string]any {
	one := map[string]any{"$ref": "#/$defs/stand_in"}
	return map[string]any{"anyOf": []any{one, map[string]any{"type": "array", "items": one}}}
}

// checkStandIn wants one way to answer.
func checkStandIn(n *spec.Node, c *standInConfig) spec.Diagnostics {
	if n.Kind != spec.Mapping {
		return nil
	}
	returns, fails, times := n.Get("return"), n.Get("fail"), n.Get("times")
	var ds spec.Diagnostics
	switch {
	case returns == nil && fails == nil:
		ds = append(ds, n.Errorf("test", "what stands in for a tool answers or fails: give it return or fail"))
	case returns != nil && fails != nil:
		ds = append(ds, fails.Errorf("test", "a call either answers or fails: return and fail exclude each other"))
	case fails != nil && fails.Value == "":
		ds = append(ds, fails.Errorf("test", "say what the tool fails with"))
	}
	if times != nil && !times.IsNull() && c.Times < 1 {
		ds = append(ds, times.Errorf("value", "want at least 1"))
	}
	return ds
}

// Schema is the JSON Schema of a file of tests, for editors.
func Schema() map[string]any {
	var set spec.SchemaSet
	set.Define("answer", set.Object(reflect.TypeFor[provider.ScriptEntry]()))
	set.Define("stand_in", set.Object(reflect.TypeFor[standInConfig]()))
	return set.Document(map[string]any{"type": "array", "items": set.Object(reflect.TypeFor[testConfig]())})
}

// Reference are the pages of the fields of tests.
func Reference() []string {
	return []string{
		spec.Reference("A test", "One conversation, and what is expected of it: its first turn, and under `then:` those behind it.", reflect.TypeFor[testConfig]()),
		spec.Reference("A stand-in", "One answer in the place of a tool.", reflect.TypeFor[standInConfig]()),
	}
}
