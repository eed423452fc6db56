package runtime

import (
	"reflect"

	"google.golang.org/genai"

	"agenthost/pkg/spec"
)

// plannerConfig is the YAML of a planner: plan_react, or built_in with a
// thinking_config. Planners written in code are not supported.
type plannerConfig struct{ planner *Planner }

type builtInPlannerConfig struct {
	ThinkingConfig *genai.ThinkingConfig `yaml:"thinking_config" required:"true" doc:"include_thoughts, thinking_budget and thinking_level, as in the Gemini API."`
}

// DecodeSpec accepts both forms.
func (c *plannerConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Scalar && n.Value == "plan_react" {
		c.planner = &Planner{PlanReact: true}
		return nil
	}
	settings := n.Get("built_in")
	if settings == nil || len(n.Entries) != 1 {
		return spec.Diagnostics{n.Errorf("type", "a planner must be plan_react or {built_in: {thinking_config: {…}}}")}
	}
	var built builtInPlannerConfig
	ds := spec.Decode(settings, &built)
	c.planner = &Planner{Thinking: built.ThinkingConfig}
	return ds
}

// SchemaSpec describes the forms.
func (c *plannerConfig) SchemaSpec() map[string]any {
	thinking := new(spec.SchemaSet).Object(reflect.TypeFor[genai.ThinkingConfig]())
	return map[string]any{"title": "`plan_react`, or [built_in](language.md#planners)", "anyOf": []any{
		map[string]any{"enum": []any{"plan_react"}},
		map[string]any{
			"type": "object", "additionalProperties": false, "required": []string{"built_in"},
			"properties": map[string]any{"built_in": map[string]any{
				"type": "object", "additionalProperties": false, "required": []string{"thinking_config"},
				"properties": map[string]any{"thinking_config": thinking},
			}},
		},
	}}
}
