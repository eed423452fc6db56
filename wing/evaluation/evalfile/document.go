package evalfile

import (
	"reflect"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/toolstub"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
)

// fileConfig is an eval file.
type fileConfig struct {
	Description string           `yaml:"description" doc:"Short description of the set."`
	Metrics     metricsNode      `yaml:"metrics" doc:"Criteria by metric, in order: the threshold, or a criterion; or a custom metric with expr by its own name. Default: those in the test_config.json next to the file, or else tool_trajectory: 1 and response_match: 0.8."`
	Rubrics     rubricsNode      `yaml:"rubrics" doc:"Properties that judges check, by their IDs. Criteria, cases and turns refer to them."`
	Simulator   *simulatorConfig `yaml:"user_simulator_config" doc:"The simulated user for cases with a plan."`
	Live        bool             `yaml:"live" doc:"Run the conversations live: a live model uses its own connection, any other model text."`
	Stubs       stubsConfig      `yaml:",inline"`
	Cases       []caseConfig     `yaml:"cases" required:"true" doc:"The cases in the set."`
}

// caseConfig is a case: its first turn and the later ones, or a plan.
type caseConfig struct {
	Name       spec.Text      `yaml:"name" required:"true" doc:"The case ID, without commas and colons."`
	First      turnConfig     `yaml:",inline"`
	Then       []turnConfig   `yaml:"then" doc:"The turns after the first, in order."`
	Plan       *spec.Text     `yaml:"plan" doc:"Instead of expect and then: what a simulated user wants after its first message user, and how the conversation continues."`
	Persona    personaNode    `yaml:"persona" doc:"The simulated user's persona: a prebuilt one's ID, or its description and behaviors."`
	UserID     string         `yaml:"user_id" doc:"The user of the session. Default: test_user_id."`
	State      map[string]any `yaml:"state" doc:"The initial session state."`
	FinalState map[string]any `yaml:"final_state" doc:"Values that the session state must have after the conversation; null for none."`
	StateMatch string         `yaml:"final_state_match" enum:"SUBSET|EXACT" default:"SUBSET" doc:"Whether the state and its objects may have other keys, or must be exactly final_state."`
	Rubrics    rubricsNode    `yaml:"rubrics" doc:"Rubrics for all turns: rubric IDs from the file, or properties by ID."`
	Stubs      stubsConfig    `yaml:",inline"`
	Metrics    metricsNode    `yaml:"metrics" doc:"Criteria for this case, which replace or extend the set's. A threshold alone keeps the other settings of a set criterion."`
}

// turnConfig is a turn: the user's message, and what the agent should do.
type turnConfig struct {
	User    *spec.Text     `yaml:"user" doc:"The user message text."`
	Parts   []*genai.Part  `yaml:"parts" doc:"Further parts in the user message, such as files."`
	Confirm *bool          `yaml:"confirm" doc:"Instead of user: approve (true) or reject (false) the pending confirmations."`
	Payload *spec.Node     `yaml:"payload" doc:"The payload that the user sends with an approval."`
	Respond map[string]any `yaml:"respond" doc:"Instead of user: responses to pending calls, by function name."`
	Expect  *expectConfig  `yaml:"expect" doc:"The expected agent behavior, which the metrics compare."`
}

// expectConfig declares what a turn must do.
type expectConfig struct {
	Text    *spec.Text   `yaml:"text" doc:"The expected final response."`
	Calls   []callConfig `yaml:"calls" doc:"The expected tool calls in order. Default: none."`
	Rubrics rubricsNode  `yaml:"rubrics" doc:"Turn rubrics: rubric IDs from the file, or properties by ID."`
}

// callConfig is an expected tool call.
type callConfig struct {
	Name spec.Text      `yaml:"name" required:"true" doc:"The tool name."`
	Args map[string]any `yaml:"args" doc:"The expected arguments."`
}

// criterionConfig is how a metric measures. The keys are those in ADK's test_config.json.
type criterionConfig struct {
	Threshold        *float64              `yaml:"threshold" required:"true" doc:"The lowest score that passes."`
	MatchType        string                `yaml:"match_type" enum:"EXACT|IN_ORDER|ANY_ORDER" default:"EXACT" doc:"tool_trajectory: whether calls match one to one, or others may come between the expected ones (IN_ORDER), which may also have another order (ANY_ORDER)."`
	IgnoreArgs       bool                  `yaml:"ignore_args" doc:"tool_trajectory: compare only tool names."`
	Tools            map[string]argsConfig `yaml:"tools" doc:"tool_trajectory: how arguments match, by tool name; * for all others."`
	PartialScore     bool                  `yaml:"partial_score" doc:"tool_trajectory: score the share of matching calls instead of 0 or 1."`
	OnlyExpected     bool                  `yaml:"only_expected" doc:"Metrics that compare with expected turns: score only turns with an expected response, or with expected calls, and leave out cases without any."`
	Rubrics          rubricsNode           `yaml:"rubrics" doc:"Metric rubrics: rubric IDs from the file, or properties by ID."`
	Judge            *judgeConfig          `yaml:"judge_model_options" doc:"The judge of a metric that has one."`
	WithIntermediate bool                  `yaml:"include_intermediate_responses_in_final" doc:"final_response_match_v2 and rubric_based_quality: count the texts before the final response as part of it."`
	CheckTexts       bool                  `yaml:"evaluate_intermediate_nl_responses" doc:"hallucinations: also check the texts before the final response."`
	StopSignal       string                `yaml:"stop_signal" doc:"per_turn_user_simulator_quality_v1: how a simulated user ends a conversation."`
}

// exprConfig is a custom metric.
type exprConfig struct {
	Expr      spec.Expr `yaml:"expr" required:"true" doc:"Scores a turn: true, false or a number from 0 to 1; nil for a turn that does not count. It reads the test variables except error, and user, expected.text, expected.calls, duration, turn and turns."`
	Threshold *float64  `yaml:"threshold" doc:"The lowest score that passes. Default: 1."`
}

// argsConfig is how a tool's arguments match.
type argsConfig struct {
	Only      []string             `yaml:"only" doc:"The arguments to compare. Default: all."`
	Ignore    []string             `yaml:"ignore" doc:"Arguments that are not compared."`
	Patterns  map[string]spec.Text `yaml:"patterns" doc:"Regular expressions for whole arguments in the actual call, instead of the expected values."`
	Tolerance float64              `yaml:"tolerance" doc:"The difference that numbers may have."`
}

// judgeConfig selects a judge.
type judgeConfig struct {
	Model    string `yaml:"judge_model" doc:"A model in the app, or another by its name. Default: the --judge model."`
	Samples  *int   `yaml:"num_samples" doc:"How often each turn is judged, at most 100. Default: 5."`
	Parallel *int   `yaml:"parallelism_limit" doc:"How many samples are requested at the same time, at most 100. Default: 1."`
}

// simulatorConfig configures the simulated user.
type simulatorConfig struct {
	Model        string `yaml:"model" doc:"A model in the app, or another by its name. Default: the --judge model."`
	MaxMessages  *int   `yaml:"max_allowed_invocations" doc:"The maximum user messages; negative for no limit. Default: 20."`
	Instructions string `yaml:"custom_instructions" doc:"Replaces the prompt. It contains {{ stop_signal }}, {{ conversation_plan }} and {{ conversation_history }}, and {{ persona }} if a case has one."`
	IncludeCalls bool   `yaml:"include_function_calls" doc:"Show tool calls and their responses to the simulated user."`
}

// personaConfig is a persona in the file.
type personaConfig struct {
	ID          string           `yaml:"id" required:"true" doc:"The persona ID."`
	Description string           `yaml:"description" required:"true" doc:"Who the user is."`
	Behaviors   []behaviorConfig `yaml:"behaviors" doc:"How the user behaves."`
}

// behaviorConfig is a persona's trait.
type behaviorConfig struct {
	Name         string   `yaml:"name" required:"true" doc:"The trait's name."`
	Description  string   `yaml:"description" doc:"What the user does."`
	Instructions []string `yaml:"behavior_instructions" doc:"Instructions for the simulated user."`
	Violations   []string `yaml:"violation_rubrics" doc:"Signs by which a judge notices that the user did not behave this way."`
}

// rubricConfig is a rubric with more than its property.
type rubricConfig struct {
	Text        spec.Text `yaml:"text" required:"true" doc:"The property."`
	Description string    `yaml:"description" doc:"Why the property matters."`
	Type        string    `yaml:"type" enum:"FINAL_RESPONSE_QUALITY|TOOL_USE_QUALITY|TRAJECTORY_QUALITY" default:"FINAL_RESPONSE_QUALITY" doc:"The metric that checks a rubric in a case or turn: for responses, tool calls or conversations."`
}

// metricsNode keeps the metrics node, because the order matters.
type metricsNode struct{ node *spec.Node }

// DecodeSpec keeps the node.
func (m *metricsNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	m.node = n
	return nil
}

// SchemaSpec returns the criterion schema for each metric with a threshold, and for custom
// metrics.
func (m *metricsNode) SchemaSpec() map[string]any {
	properties := map[string]any{}
	for _, metric := range eval.Metrics() {
		if metric.Informational() {
			continue
		}
		one := map[string]any{"description": metric.Description, "anyOf": []any{
			map[string]any{"type": "number", "minimum": metric.Min, "maximum": metric.Max}, map[string]any{"$ref": "#/$defs/criterion"},
		}}
		properties[metric.Name] = one
		if metric.Short != "" {
			properties[metric.Short] = one
		}
	}
	return map[string]any{"type": "object", "properties": properties, "additionalProperties": map[string]any{"$ref": "#/$defs/expression"}}
}

// rubricsNode keeps the rubrics node, which may refer to the file's rubrics.
type rubricsNode struct{ node *spec.Node }

// DecodeSpec keeps the node.
func (r *rubricsNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	r.node = n
	return nil
}

// SchemaSpec returns the schema for both forms.
func (r *rubricsNode) SchemaSpec() map[string]any {
	text := map[string]any{"type": "string"}
	return map[string]any{"anyOf": []any{
		map[string]any{"type": "array", "items": text},
		map[string]any{"type": "object", "additionalProperties": map[string]any{"anyOf": []any{text, map[string]any{"$ref": "#/$defs/rubric"}}}},
	}}
}

// personaNode is a prebuilt persona's ID, or a persona.
type personaNode struct{ persona *eval.Persona }

// DecodeSpec reads a prebuilt persona's ID, or a persona.
func (p *personaNode) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Mapping {
		var c personaConfig
		ds := spec.Decode(n, &c)
		p.persona = &eval.Persona{ID: c.ID, Description: c.Description}
		for _, b := range c.Behaviors {
			behavior := eval.Behavior(b)
			p.persona.Behaviors = append(p.persona.Behaviors, &behavior)
		}
		return ds
	}
	for _, known := range eval.Personas() {
		if known.ID == n.Value {
			p.persona = known
			return nil
		}
	}
	problem := n.Errorf("unknown-name", "unknown persona %q", n.Value).WithHint("the personas are %s", strings.Join(personaIDs(), ", "))
	if near := spec.Suggest(n.Value, personaIDs()); near != "" {
		problem = problem.WithNearName(n.Value, near)
	}
	return spec.Diagnostics{problem}
}

// SchemaSpec returns the schema for both forms.
func (p *personaNode) SchemaSpec() map[string]any {
	return map[string]any{"anyOf": []any{map[string]any{"enum": personaIDs()}, map[string]any{"$ref": "#/$defs/persona"}}}
}

func personaIDs() []string {
	var ids []string
	for _, p := range eval.Personas() {
		ids = append(ids, p.ID)
	}
	return ids
}

// Schema returns the JSON Schema for eval files, for editors.
func Schema() map[string]any {
	var set spec.SchemaSet
	toolstub.DefineSchemas(&set)
	set.Define("criterion", set.Object(reflect.TypeFor[criterionConfig]()))
	set.Define("expression", set.Object(reflect.TypeFor[exprConfig]()))
	set.Define("rubric", set.Object(reflect.TypeFor[rubricConfig]()))
	set.Define("persona", set.Object(reflect.TypeFor[personaConfig]()))
	return set.Document(set.Object(reflect.TypeFor[fileConfig]()))
}

// Reference returns the reference pages for eval files.
func Reference() []string {
	return []string{
		spec.Reference("An eval file", "Cases, and the metrics that score them.", reflect.TypeFor[fileConfig]()),
		spec.Reference("A simulation", "How a model writes the responses for stubs with `simulate: true`.", reflect.TypeFor[simulationConfig]()),
		spec.Reference("A criterion", "How a metric under `metrics:` measures, and from which score on it passes.", reflect.TypeFor[criterionConfig]()),
		spec.Reference("A custom metric", "An expression that scores each turn, under its own name in `metrics:`.", reflect.TypeFor[exprConfig]()),
		spec.Reference("A rubric", "A property that a judge checks: its text, or a mapping.", reflect.TypeFor[rubricConfig]()),
		spec.Reference("A persona", "A simulated user's character.", reflect.TypeFor[personaConfig]()),
	}
}
