package runtime

import (
	"context"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// IncludeContents says how much of the conversation an agent's model sees.
type IncludeContents string

// What an agent's model sees of the conversation.
const (
	IncludeDefault IncludeContents = "default" // all that is visible on its branch
	IncludeNone    IncludeContents = "none"    // the current turn only
)

// llmConfig is the YAML of an LlmAgent. Fields and meaning are ADK's
// (adk-python agents/llm_agent_config.py).
type llmConfig struct {
	Common CommonConfig `yaml:",inline"`

	Model             spec.Text      `yaml:"model" doc:"The model: a name from models, provider/model, or a Gemini model. Without one, the nearest agent above that has one decides."`
	ModelCode         *spec.Node     `yaml:"model_code" doc:"ADK's name of a model that is code, in the place of model; functions: has the model that stands for it."`
	Instruction       spec.Text      `yaml:"instruction" doc:"What the model is told; {key} is filled from the session's state. Required, unless there is an instruction_provider."`
	StaticInstruction *StaticContent `yaml:"static_instruction" doc:"A fixed system instruction, never filled; instruction is then sent as the user's words."`
	GlobalInstruction spec.Text      `yaml:"global_instruction" doc:"On the root agent: told to every agent of the tree, first of all."`
	Tools             []ToolRef      `yaml:"tools" doc:"What the agent may call."`

	CodeExecutor codeConfig `yaml:"code_executor" doc:"Lets the model write code and have it run: by built_in, Gemini's own sandbox, by expr, or by an executor of the program."`

	Planner plannerConfig `yaml:"planner" doc:"Has the model think before it acts: plan_react, or built_in with a thinking_config."`

	OutputKey                string          `yaml:"output_key" doc:"The state key that keeps the text of the agent's final answer; with output_schema the value itself."`
	OutputSchema             outputSchema    `yaml:"output_schema" doc:"What the final answer must be, as a short schema or a JSON Schema."`
	InputSchema              inputSchema     `yaml:"input_schema" doc:"The parameters of the agent when it is called as a tool, as a short schema or a JSON Schema."`
	IncludeContents          IncludeContents `yaml:"include_contents" enum:"default|none" default:"default" doc:"What the model sees of the conversation: all of it, or the current turn only."`
	DisallowTransferToParent bool            `yaml:"disallow_transfer_to_parent" doc:"The agent may not hand over to its parent."`
	DisallowTransferToPeers  bool            `yaml:"disallow_transfer_to_peers" doc:"The agent may not hand over to its siblings."`

	InstructionProvider spec.Expr `yaml:"instruction_provider" doc:"An expression that computes the whole instruction; inject(text) fills placeholders, file(path) is a text of the app."`

	GenerateContentConfig *genai.GenerateContentConfig `yaml:"generate_content_config" doc:"Settings of the model call, as Gemini's API names them: temperature, max_output_tokens, safety_settings and so on."`

	Callbacks llmCallbackLists `yaml:",inline"`

	// files are the texts of the files that InstructionProvider names.
	files map[string]string
}

func (c *llmConfig) AgentRefs() []*AgentRef { return c.Common.AgentRefs() }

// ToolRefs returns the tools that the agent names.
func (c *llmConfig) ToolRefs() []*ToolRef {
	refs := make([]*ToolRef, len(c.Tools))
	for i := range c.Tools {
		refs[i] = &c.Tools[i]
	}
	return refs
}

// Bind finds what the agent names of the program's functions.
func (c *llmConfig) Bind(f *Functions) spec.Diagnostics { return c.CodeExecutor.bindExecutor(f) }

// BuiltInCode is where the agent asks for the model's own sandbox, or nil.
func (c *llmConfig) BuiltInCode(n *spec.Node) *spec.Node {
	if x := c.CodeExecutor.execution; x == nil || x.hasExecutor() {
		return nil
	}
	return n.Get("code_executor")
}

// ModelName returns the model that the agent names; its Value is empty when
// it names none.
func (c *llmConfig) ModelName() spec.Text { return c.Model }

// CodeOfModel is what stands under model_code, or nil.
func (c *llmConfig) CodeOfModel() *spec.Node { return c.ModelCode }

// Instructions returns the texts that are filled from the state.
func (c *llmConfig) Instructions() []spec.Text {
	return []spec.Text{c.Instruction, c.GlobalInstruction}
}

// misplacedSettings are the settings that ADK refuses inside generate_content_config,
// in both spellings, and where they belong.
func misplacedSettings() [][3]string {
	return [][3]string{
		{"tools", "tools", "the agent's own tools: is the place for them"},
		{"system_instruction", "systemInstruction", "instruction: or static_instruction: of the agent is the place for it"},
		{"cached_content", "cachedContent", "context_cache_config: of app.yaml is the place for it"},
		{"response_schema", "responseSchema", "output_schema: of the agent is the place for it"},
	}
}

// Check reports settings that ADK refuses inside generate_content_config.
func (c *llmConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	settings := n.Get("generate_content_config")
	for _, m := range misplacedSettings() {
		for _, key := range m[:2] {
			if v := settings.Get(key); v != nil {
				ds = append(ds, v.Errorf("generate-content-config", "%s does not belong in generate_content_config: %s", key, m[2]))
				break
			}
		}
	}
	for _, options := range []string{"http_options", "httpOptions"} {
		for _, key := range []string{"base_url", "baseUrl"} {
			if v := settings.Get(options).Get(key); v != nil {
				ds = append(ds, v.Errorf("generate-content-config", "%s does not belong in %s: base_url: of the model, under models: in app.yaml, is the place for it", key, options))
			}
		}
	}
	ds = append(ds, c.checkOutputSchemaConflicts(settings)...)
	ds = append(ds, checkRanges(settings)...)
	return append(ds, c.checkInstruction(n)...)
}

// checkOutputSchemaConflicts reports settings that the agent's output_schema decides.
func (c *llmConfig) checkOutputSchemaConflicts(settings *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if c.OutputSchema.schema == nil {
		return nil
	}
	for _, key := range []string{"response_json_schema", "responseJsonSchema", "response_mime_type", "responseMimeType"} {
		if v := settings.Get(key); v != nil {
			ds = append(ds, v.Errorf("generate-content-config", "%s is decided by the agent's output_schema: leave it out", key))
		}
	}
	return ds
}

func newLLM(_ context.Context, env AgentEnv, c *llmConfig) (Agent, error) {
	provider, err := c.buildProvider()
	if err != nil {
		return nil, err
	}
	opts := &LLMOptions{
		Description: c.Common.Description,
		Model:       env.Model, SubAgents: env.SubAgents, Tools: env.Tools, Toolsets: env.Toolsets,
		Instruction:       newInstructionAt(c.Instruction),
		GlobalInstruction: newInstructionAt(c.GlobalInstruction),
		OutputKey:         c.OutputKey, IncludeContents: c.IncludeContents,
		OutputSchema: c.OutputSchema.schema, InputSchema: c.InputSchema.schema,
		DisallowTransferToParent: c.DisallowTransferToParent,
		DisallowTransferToPeers:  c.DisallowTransferToPeers,
		GenerateContentConfig:    c.GenerateContentConfig,
		Code:                     c.CodeExecutor.execution,
		Planner:                  c.Planner.planner,
	}
	opts.InstructionProvider = provider
	if c.StaticInstruction != nil {
		opts.StaticInstruction = c.StaticInstruction.Content
	}
	return NewLLM(c.Common.Name.Value, opts), nil
}

func newInstructionAt(t spec.Text) *Instruction {
	return NewInstruction(t.Value, t.At)
}

// LLMOptions are what an LLM agent may be given.
type LLMOptions struct {
	Description string
	// Model is nil to use that of the nearest agent above.
	Model             model.LLM
	Instruction       *Instruction
	GlobalInstruction *Instruction
	// StaticInstruction is sent as it is; Instruction then becomes a user content.
	StaticInstruction *genai.Content
	Tools             []tool.Tool
	// Toolsets have more tools, which are asked for in each run of the agent. Who
	// made them closes them.
	Toolsets  []tool.Set
	SubAgents []Agent
	// Code is nil when the model's code is text like any other.
	Code *CodeExecution
	// Planner is nil for none.
	Planner *Planner
	// OutputKey is the state key that keeps the text of the final answer.
	OutputKey string
	// OutputSchema, if set, is what the final answer must be; OutputKey then
	// keeps the value in place of its text.
	OutputSchema *tool.Schema
	// InputSchema has the parameters of the agent as a tool.
	InputSchema              *tool.Schema
	IncludeContents          IncludeContents
	DisallowTransferToParent bool
	DisallowTransferToPeers  bool
	GenerateContentConfig    *genai.GenerateContentConfig
	Callbacks                Callbacks

	// InstructionProvider, if set, takes the place of Instruction.
	InstructionProvider *InstructionProvider
}

// An LLMAgent asks a model, carries out the calls that it makes, and goes on
// until the model has its final say.
type LLMAgent struct {
	Base
	opts     LLMOptions
	identity string
}

// NewLLM makes an LLM agent; nil options are fine.
func NewLLM(name string, opts *LLMOptions) *LLMAgent {
	if opts == nil {
		opts = &LLMOptions{}
	}
	a := &LLMAgent{
		Base:     Base{AgentName: name, AgentDescription: opts.Description, Children: opts.SubAgents, Callbacks: opts.Callbacks},
		opts:     *opts,
		identity: identityText(name, opts.Description),
	}
	a.opts.Code = opts.Code.withDefaults()
	return a
}

// Run takes steps until one ends with a final event.
func (a *LLMAgent) Run(ctx context.Context, inv *Invocation) Events {
	return streamEvents(ctx, a, inv)
}

// run goes on where the agent was, if it was cut off, and ends also with a step
// that waits for somebody.
func (a *LLMAgent) run(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	s := &step{inv: inv, agent: a, sink: yield}
	goOn := true
	switch {
	case inv.frame != nil:
		goOn = s.resumeAgent(ctx)
	case inv.run.decisions != nil:
		goOn = s.executeDecisions(ctx)
	}
	for goOn && !s.hasPendingCalls() && !inv.hasEnded() {
		goOn = s.runOnce(ctx)
	}
	if !s.done {
		s.pauseIfPending()
	}
	return !s.done
}

// storeOutput puts the text of a final event under the agent's output key, so
// that it is stored with the event (adk-python llm_agent.py
// __maybe_save_output_to_state). With an output schema it is the value that is
// kept; the failure is that of a text that does not fit.
func (a *LLMAgent) storeOutput(s *tool.StateSchema, ev *session.Event) *RunError {
	if a.opts.OutputKey == "" || !ev.IsFinal() || ev.Content == nil {
		return nil
	}
	isSaid := func(p *genai.Part) bool { return p.Text != "" && !p.Thought }
	if !slices.ContainsFunc(ev.Content.Parts, isSaid) {
		return nil
	}
	text := model.TextOf(ev.Content)
	if a.opts.OutputSchema == nil {
		return a.storeOutputValue(s, ev, text)
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	v, failure := a.parseOutput(ev, text)
	if failure != nil {
		return failure
	}
	return a.storeOutputValue(s, ev, v)
}

// StaticContent is the YAML of a static instruction: a text, a part, a list of
// both, or a content with parts.
type StaticContent struct{ Content *genai.Content }

// DecodeSpec accepts each of the forms.
func (s *StaticContent) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Mapping && n.Get("parts") != nil {
		s.Content = &genai.Content{}
		return spec.Decode(n, s.Content)
	}
	s.Content = &genai.Content{}
	items := []*spec.Node{n}
	if n.Kind == spec.Sequence {
		items = n.Items
	}
	var ds spec.Diagnostics
	for _, item := range items {
		p := &genai.Part{Text: item.Value}
		if item.Kind != spec.Scalar {
			ds = append(ds, spec.Decode(item, p)...)
		}
		s.Content.Parts = append(s.Content.Parts, p)
	}
	return ds
}

// SchemaSpec describes the forms.
func (s *StaticContent) SchemaSpec() map[string]any {
	return map[string]any{"type": []string{"string", "object", "array"}}
}

func joinNames(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
