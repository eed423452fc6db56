package apptest

import (
	"reflect"

	"google.golang.org/genai"

	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// testConfig is an item of a test file: the first turn and the later ones.
type testConfig struct {
	Name  spec.Text            `yaml:"name" required:"true" doc:"Short description of the test."`
	Model answersNode          `yaml:"model" doc:"Answers of the models: a list for each agent, one list for all agents, or a script file of the app."`
	Tools map[string]stubsNode `yaml:"tools" doc:"Stubs by tool name: one response or a list. Tools without a stub run without network access."`
	First turnConfig           `yaml:",inline"`
	Then  []turnConfig         `yaml:"then" doc:"The turns after the first, in order."`
}

// turnConfig is one turn: the user's input, and the expectations after it.
type turnConfig struct {
	User    *spec.Text     `yaml:"user" doc:"The text of the user's message."`
	Parts   []*genai.Part  `yaml:"parts" doc:"Further parts of the user's message, such as files."`
	Confirm *bool          `yaml:"confirm" doc:"Instead of user: approve (true) or reject (false) the pending confirmations."`
	Payload *spec.Node     `yaml:"payload" doc:"The payload that the user sends with an approval."`
	Respond map[string]any `yaml:"respond" doc:"Instead of user: responses to pending calls, by function name."`
	State   map[string]any `yaml:"state" doc:"The initial session state; in later turns of a session, the state delta sent with the message."`
	Session string         `yaml:"session" doc:"The session of the turn. Default: the session of the previous turn."`
	Expect  []spec.Expr    `yaml:"expect" doc:"Expressions that must be true after the turn."`
}

// stubConfig is one scripted response of a tool.
type stubConfig struct {
	Args   map[string]any `yaml:"args" doc:"The arguments that the call must have. Default: any."`
	Return *spec.Node     `yaml:"return" doc:"The tool's response: a mapping, or the value of result; null means no response yet."`
	Fail   string         `yaml:"fail" doc:"Instead of return: the error that the tool fails with; timeout simulates a timeout."`
	State  map[string]any `yaml:"state" doc:"The state keys that the call sets; null removes a key."`
	Times  int            `yaml:"times" doc:"The number of calls that the stub answers. Default: unlimited."`
}

// answersNode keeps the node of model: for [Decode], which checks it against the
// names of the app.
type answersNode struct{ node *spec.Node }

// DecodeSpec keeps the node.
func (a *answersNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	a.node = n
	return nil
}

// SchemaSpec returns the schema of the three forms.
func (a *answersNode) SchemaSpec() map[string]any {
	file := map[string]any{"type": "string", "description": "A script file of the app."}
	list := map[string]any{"type": "array", "items": map[string]any{"$ref": "#/$defs/answer"}}
	byAgent := map[string]any{"type": "object", "additionalProperties": map[string]any{"anyOf": []any{file, list}}}
	return map[string]any{"anyOf": []any{file, list, byAgent}}
}

// stubsNode is one stub or a list of stubs.
type stubsNode struct {
	items []stubConfig
	nodes []*spec.Node
}

// DecodeSpec accepts both forms.
func (s *stubsNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	s.nodes = []*spec.Node{n}
	if n.Kind == spec.Sequence {
		s.nodes = n.Items
	}
	s.items = make([]stubConfig, len(s.nodes))
	var ds spec.Diagnostics
	for i, item := range s.nodes {
		ds = append(ds, spec.Decode(item, &s.items[i])...)
		ds = append(ds, checkStub(item, &s.items[i])...)
	}
	return ds
}

// SchemaSpec returns the schema of both forms.
func (s *stubsNode) SchemaSpec() map[string]any {
	one := map[string]any{"$ref": "#/$defs/stub"}
	return map[string]any{"anyOf": []any{one, map[string]any{"type": "array", "items": one}}}
}

// checkStub validates a stub: it must have either return or fail.
func checkStub(n *spec.Node, c *stubConfig) spec.Diagnostics {
	if n.Kind != spec.Mapping {
		return nil
	}
	returns, fails, times := n.Get("return"), n.Get("fail"), n.Get("times")
	var ds spec.Diagnostics
	switch {
	case returns == nil && fails == nil:
		ds = append(ds, n.Errorf("test", "a stub requires return or fail"))
	case returns != nil && fails != nil:
		ds = append(ds, fails.Errorf("test", "return and fail are mutually exclusive"))
	case fails != nil && fails.Value == "":
		ds = append(ds, fails.Errorf("test", "fail requires an error message"))
	}
	if times != nil && !times.IsNull() && c.Times < 1 {
		ds = append(ds, times.Errorf("value", "must be at least 1"))
	}
	return ds
}

// Schema returns the JSON Schema of a test file, for editors.
func Schema() map[string]any {
	var set spec.SchemaSet
	set.Define("answer", set.Object(reflect.TypeFor[provider.ScriptEntry]()))
	set.Define("stub", set.Object(reflect.TypeFor[stubConfig]()))
	return set.Document(map[string]any{"type": "array", "items": set.Object(reflect.TypeFor[testConfig]())})
}

// Reference returns the reference pages of test files.
func Reference() []string {
	return []string{
		spec.Reference("A test", "One conversation and its expectations: the first turn, and the later turns under `then:`.", reflect.TypeFor[testConfig]()),
		spec.Reference("A stub", "One scripted response that replaces a tool call.", reflect.TypeFor[stubConfig]()),
	}
}
