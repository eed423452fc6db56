package toolstub

import (
	"reflect"

	"agenthost/pkg/spec"
)

// stubConfig is one tool response. The field comments name ADK's fields.
type stubConfig struct {
	Args        map[string]any       `yaml:"args" doc:"All arguments that the call must have. Default: any."`
	MatchArgs   map[string]any       `yaml:"match_args" doc:"Arguments that the call must have among others."`
	Patterns    map[string]spec.Text `yaml:"patterns" doc:"Regular expressions that whole call arguments must match."`
	Probability *float64             `yaml:"probability" default:"1" doc:"The share of matching calls that the stub answers, from 0 to 1."`
	Seed        *int64               `yaml:"seed" doc:"The seed for probability: the same seed chooses the same calls in each conversation. Required in tests. Default: other calls each time."`
	Times       int                  `yaml:"times" doc:"How many calls the stub answers. Default: unlimited."`
	Latency     spec.Duration        `yaml:"latency" doc:"How long the response takes, at most 2m. Tests do not wait."`
	Return      *spec.Node           `yaml:"return" doc:"The tool's response: a mapping, or the value of result; null means no response yet."`
	Fail        string               `yaml:"fail" doc:"Instead of return: the error that the tool fails with; timeout simulates a timeout."`
	Error       *errorConfig         `yaml:"error" doc:"Instead of return: the response from a failed service."`
	Simulate    bool                 `yaml:"simulate" doc:"Instead of return: a model writes the response, as simulation configures it."`
	State       map[string]any       `yaml:"state" doc:"The state keys that the call sets; null removes a key."`
}

// errorConfig is a failed service's response.
type errorConfig struct {
	Code    *int   `yaml:"code" required:"true" doc:"The HTTP status, which the model gets as error_code."`
	Message string `yaml:"message" required:"true" doc:"The message, which the model gets as error_message."`
}

// A Config is a tool's value under tools: one stub, or a list.
type Config struct{ stubs []*stub }

// DecodeSpec decodes and checks both forms.
func (c *Config) DecodeSpec(n *spec.Node) spec.Diagnostics {
	nodes := []*spec.Node{n}
	if n.Kind == spec.Sequence {
		nodes = n.Items
	}
	var ds spec.Diagnostics
	for _, node := range nodes {
		s := &stub{pos: node.Pos}
		ds = append(ds, spec.Decode(node, &s.stubConfig)...)
		ds = append(ds, s.checkStub(node)...)
		c.stubs = append(c.stubs, s)
	}
	return ds
}

// SchemaSpec returns the schema for both forms; see [DefineSchemas].
func (c *Config) SchemaSpec() map[string]any {
	one := map[string]any{"$ref": "#/$defs/stub"}
	return map[string]any{"anyOf": []any{one, map[string]any{"type": "array", "items": one}}}
}

// A SimulationConfig has the simulation settings other than the model.
type SimulationConfig struct {
	Data     *spec.Node           `yaml:"data" doc:"Data for the simulated services, such as database rows: text, or any value."`
	Traces   *spec.Node           `yaml:"traces" doc:"Earlier calls with their responses, as examples: text, or any value."`
	Stateful []*StatefulParameter `yaml:"stateful_parameters" doc:"Parameters that identify resources, and the tools that create and read them. Default: the model finds them before its first response."`
	MaxCalls *int                 `yaml:"max_model_calls" default:"100" doc:"The maximum model calls in a conversation, at most 1000."`
}

// A StatefulParameter is a parameter that identifies a resource. The keys are those in ADK's
// tool connection map.
type StatefulParameter struct {
	Name      string   `yaml:"parameter_name" json:"parameter_name" required:"true" doc:"The parameter name, such as order_id."`
	Creating  []string `yaml:"creating_tools" json:"creating_tools" doc:"The tools that create or change the resource."`
	Consuming []string `yaml:"consuming_tools" json:"consuming_tools" doc:"The tools that only read it."`
}

// DefineSchemas defines the stub schema in a document's schema.
func DefineSchemas(set *spec.SchemaSet) {
	set.Define("stub", set.Object(reflect.TypeFor[stubConfig]()))
}

// Reference returns the reference pages for stubs and their simulation.
func Reference() []string {
	return []string{
		spec.Reference("A stub", "One response that replaces a tool call. A tool's first matching stub answers a call.", reflect.TypeFor[stubConfig]()),
		spec.Reference("A stub error", "A failed service's response, under `error:`.", reflect.TypeFor[errorConfig]()),
		spec.Reference("A stateful parameter", "A parameter that identifies a resource, under `stateful_parameters:` of a simulation.", reflect.TypeFor[StatefulParameter]()),
	}
}
