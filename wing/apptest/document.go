package apptest

import (
	"reflect"

	"google.golang.org/genai"

	"agenthost/internal/toolstub"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// testConfig is an item in a test file: the first turn and the later ones.
type testConfig struct {
	Name       spec.Text                  `yaml:"name" required:"true" doc:"Short description of the test."`
	Model      answersNode                `yaml:"model" doc:"Model answers: a list for each agent, one list for all agents, or a script file in the app."`
	Tools      map[string]toolstub.Config `yaml:"tools" doc:"Stubs by tool name: one response or a list. Tools without a stub run without network access."`
	Simulation *simulationConfig          `yaml:"simulation" doc:"How a model writes the responses for stubs with simulate: true."`
	Live       bool                       `yaml:"live" doc:"Hold the conversation live, by text: each turn is a live conversation of one message."`
	First      turnConfig                 `yaml:",inline"`
	Then       []turnConfig               `yaml:"then" doc:"The turns after the first, in order."`
}

// simulationConfig configures responses by a model.
type simulationConfig struct {
	Model                     answersNode `yaml:"model" required:"true" doc:"Model answers: a list, or a script file in the app. The first answer has the stateful parameters, unless they are set here."`
	toolstub.SimulationConfig `yaml:",inline"`
}

// turnConfig is one turn: the user's input, and the expectations after it.
type turnConfig struct {
	User    *spec.Text     `yaml:"user" doc:"The user message text."`
	Parts   []*genai.Part  `yaml:"parts" doc:"Further parts in the user message, such as files."`
	Confirm *bool          `yaml:"confirm" doc:"Instead of user: approve (true) or reject (false) the pending confirmations."`
	Payload *spec.Node     `yaml:"payload" doc:"The payload that the user sends with an approval."`
	Respond map[string]any `yaml:"respond" doc:"Instead of user: responses to pending calls, by function name."`
	State   map[string]any `yaml:"state" doc:"The initial session state; in later turns, the state delta sent with the message."`
	Session string         `yaml:"session" doc:"The turn's session. Default: the previous turn's session."`
	Expect  []spec.Expr    `yaml:"expect" doc:"Expressions that must be true after the turn."`
}

// answersNode keeps the model node for [Decode], which checks it against the app's names.
type answersNode struct{ node *spec.Node }

// DecodeSpec keeps the node.
func (a *answersNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	a.node = n
	return nil
}

// SchemaSpec returns the schema for the three forms.
func (a *answersNode) SchemaSpec() map[string]any {
	file := map[string]any{"type": "string", "description": "A script file in the app."}
	list := map[string]any{"type": "array", "items": map[string]any{"$ref": "#/$defs/answer"}}
	byAgent := map[string]any{"type": "object", "additionalProperties": map[string]any{"anyOf": []any{file, list}}}
	return map[string]any{"anyOf": []any{file, list, byAgent}}
}

// Schema returns the JSON Schema for test files, for editors.
func Schema() map[string]any {
	var set spec.SchemaSet
	set.Define("answer", set.Object(reflect.TypeFor[provider.ScriptEntry]()))
	toolstub.DefineSchemas(&set)
	return set.Document(map[string]any{"type": "array", "items": set.Object(reflect.TypeFor[testConfig]())})
}

// Reference returns the reference pages for test files.
func Reference() []string {
	return append([]string{
		spec.Reference("A test", "One conversation and its expectations: the first turn, and the later turns under `then:`.", reflect.TypeFor[testConfig]()),
		spec.Reference("A simulation in a test", "How a model writes the responses for stubs with `simulate: true`.", reflect.TypeFor[simulationConfig]()),
	}, toolstub.Reference()...)
}
