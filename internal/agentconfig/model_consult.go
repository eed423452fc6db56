package agentconfig

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// consultConfig has the args that ADK's ModelConsultTool has (adk-python
// tools/model_consult_tool.py).
type consultConfig struct {
	Model              spec.Text            `yaml:"model" default:"gemini-3.1-pro-preview" doc:"The advisor: a name from models, provider/model, or a Gemini model."`
	Name               string               `yaml:"name" default:"model_consult" doc:"The name that the model calls."`
	Description        string               `yaml:"description" doc:"Tool description for the model."`
	MaxUses            int                  `yaml:"max_uses" doc:"Maximum successful consultations in an invocation; default: no limit but max_llm_calls."`
	SessionMaxUses     int                  `yaml:"session_max_uses" doc:"Maximum successful consultations in a session; default: no limit."`
	ThinkingLevel      string               `yaml:"thinking_level" enum:"minimal|low|medium|high" default:"high" doc:"How much the advisor thinks, if its model can."`
	MaxOutputTokens    int                  `yaml:"max_output_tokens" doc:"Maximum length of the guidance, in tokens."`
	TimeoutSeconds     float64              `yaml:"timeout_seconds" doc:"Maximum duration of a consultation, in seconds; default: no limit."`
	Context            consultContextConfig `yaml:"context_config" doc:"The part of the conversation that the advisor sees."`
	ExecutorNote       *string              `yaml:"executor_instruction" doc:"Instruction about consultations for the calling model; an empty string adds none."`
	AdvisorInstruction string               `yaml:"advisor_instruction" doc:"System instruction of the advisor."`
	AddInstruction     bool                 `yaml:"include_agent_instruction" doc:"Whether the advisor sees the instruction of the calling agent."`
	AddInventory       bool                 `yaml:"include_tool_inventory" doc:"Whether the advisor sees tool names and descriptions of the calling agent."`

	Config *genai.GenerateContentConfig `yaml:"generate_content_config" doc:"Settings of the advisor's requests, named as in the Gemini API."`

	Call toolconfig.CallConfig `yaml:",inline"`
}

type consultContextConfig struct {
	IncludeSession  bool `yaml:"include_session" default:"true" doc:"Whether the advisor sees the conversation."`
	MaxEvents       int  `yaml:"max_events" doc:"Number of last contents in the conversation; default: all."`
	MaxChars        int  `yaml:"max_chars" default:"200000" doc:"Maximum length of the conversation, in characters; the oldest contents are left out."`
	MaxPartChars    int  `yaml:"max_part_chars" default:"4000" doc:"Maximum length of a string, call or result, in characters."`
	IncludeMedia    bool `yaml:"include_media" default:"true" doc:"Whether the advisor sees images and other files."`
	IncludeThoughts bool `yaml:"include_thoughts" doc:"Whether the advisor sees the thoughts of models."`
}

var (
	_ ModelConfig  = (*consultConfig)(nil)
	_ spec.Checker = (*consultConfig)(nil)
)

// ModelName returns the advisor.
func (c *consultConfig) ModelName() spec.Text { return c.Model }

// ModelCodeNode returns nil: the advisor has a name.
func (c *consultConfig) ModelCodeNode() *spec.Node { return nil }

// Check reports negative limits, and settings that a consultation does not have.
func (c *consultConfig) Check(n *spec.Node) spec.Diagnostics {
	ds := checkConfirm(c.Call.Confirm.When)
	for _, key := range []string{"max_uses", "session_max_uses", "max_output_tokens", "timeout_seconds"} {
		ds = append(ds, checkPositive(n.Get(key), key)...)
	}
	for _, key := range []string{"max_events", "max_chars", "max_part_chars"} {
		ds = append(ds, checkPositive(n.Get("context_config").Get(key), key)...)
	}
	settings := n.Get("generate_content_config")
	for _, m := range misplacedSettings() {
		for _, key := range m[:2] {
			if v := settings.Get(key); v != nil {
				ds = append(ds, v.Errorf("generate-content-config", "%s is not allowed in generate_content_config of an advisor", key))
			}
		}
	}
	return ds
}

// checkPositive reports a number that is not positive. The decoder reports other values.
func checkPositive(at *spec.Node, key string) spec.Diagnostics {
	if at.IsNull() {
		return nil
	}
	if v, err := strconv.ParseFloat(at.Value, 64); err == nil && v <= 0 {
		return spec.Diagnostics{at.Errorf("tool", "%s must be positive, got %s", key, at.Value)}
	}
	return nil
}

func newConsultTool(_ context.Context, env AgentToolEnv, c *consultConfig) (tool.Set, error) {
	config := genai.GenerateContentConfig{}
	if c.Config != nil {
		config = *c.Config
	}
	if config.ThinkingConfig == nil {
		config.ThinkingConfig = &genai.ThinkingConfig{ThinkingLevel: thinkingLevel(c.ThinkingLevel)}
	}
	if config.MaxOutputTokens == 0 {
		config.MaxOutputTokens = int32(c.MaxOutputTokens)
	}
	note := fmt.Sprintf(runtime.DefaultConsultInstruction, c.Name)
	if c.ExecutorNote != nil {
		note = *c.ExecutorNote
	}
	opts := runtime.ConsultOptions{
		Name: c.Name, Description: c.Description, MaxUses: c.MaxUses, SessionMaxUses: c.SessionMaxUses,
		Timeout:             time.Duration(c.TimeoutSeconds * float64(time.Second)),
		ExecutorInstruction: note, AdvisorInstruction: c.AdvisorInstruction,
		AddAgentInstruction: c.AddInstruction, AddToolInventory: c.AddInventory, Config: &config,
		Context: runtime.ConsultContext{
			WithoutSession: !c.Context.IncludeSession, MaxEvents: c.Context.MaxEvents, MaxChars: c.Context.MaxChars,
			MaxPartChars: c.Context.MaxPartChars, WithoutMedia: !c.Context.IncludeMedia, WithThoughts: c.Context.IncludeThoughts,
		},
	}
	t, err := runtime.NewConsultTool(env.Model, opts)
	if err != nil {
		return nil, err
	}
	capabilities, err := c.Call.Capabilities(t.Declaration())
	if err != nil {
		return nil, err
	}
	return tool.One(t.WithCapabilities(capabilities)), nil
}

func thinkingLevel(name string) genai.ThinkingLevel {
	switch name {
	case "minimal":
		return genai.ThinkingLevelMinimal
	case "low":
		return genai.ThinkingLevelLow
	case "medium":
		return genai.ThinkingLevelMedium
	}
	return genai.ThinkingLevelHigh
}
