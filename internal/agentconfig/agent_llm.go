package agentconfig

import (
	"context"
	"errors"
	"fmt"
	"reflect"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// llmConfig is an LlmAgent's YAML. Fields and meaning are ADK's (adk-python
// agents/llm_agent_config.py).
type llmConfig struct {
	Common CommonConfig `yaml:",inline"`

	Model             spec.Text       `yaml:"model" doc:"The model: a name from models, provider/model, or a Gemini model. Default: the model of the nearest ancestor that has one."`
	ModelCode         *spec.Node      `yaml:"model_code" doc:"ADK's name for a model in code, instead of model; functions in app.yaml declares its replacement."`
	Instruction       instructionText `yaml:"instruction" doc:"The instruction for the model; {key} is replaced by the value in the session state. It can be a prompt of an MCP server: {mcp_prompt: {server: …, name: …}}. Required unless instruction_provider is set."`
	StaticInstruction *staticContent  `yaml:"static_instruction" doc:"Fixed system instruction without placeholders; instruction is then sent as user content."`
	GlobalInstruction spec.Text       `yaml:"global_instruction" doc:"On the root agent: instruction for every agent of the tree, sent first."`
	Tools             []ToolRef       `yaml:"tools" doc:"The tools that the agent can call."`

	CodeExecutor codeConfig `yaml:"code_executor" doc:"Runs code that the model writes: built_in is Gemini's sandbox, expr evaluates expressions, {executors}other names are executors of the program."`

	Planner plannerConfig `yaml:"planner" doc:"Makes the model plan before it acts: plan_react, or built_in with a thinking_config."`

	OutputKey                string                  `yaml:"output_key" doc:"State key that receives the text of the agent's final answer, or with output_schema its value."`
	OutputSchema             outputSchema            `yaml:"output_schema" doc:"Schema of the final answer, as a short schema or a JSON Schema."`
	Mode                     runtime.Mode            `yaml:"mode" enum:"chat|task|single_turn" doc:"How the agent works for its parent: chat (the default) takes over the conversation; task is a parent's tool that talks with the user until it calls finish_task; single_turn is a tool of the parent that sees its input and no history, and is the default of nodes of a Workflow."`
	InputSchema              inputSchema             `yaml:"input_schema" doc:"Schema of the parameters when the agent is called as a tool, as a short schema or a JSON Schema."`
	IncludeContents          runtime.IncludeContents `yaml:"include_contents" enum:"default|none" doc:"The part of the conversation that the model sees: all (the default), or only the current turn. A Workflow node sees only its input unless this is set to default."`
	DisallowTransferToParent bool                    `yaml:"disallow_transfer_to_parent" doc:"Do not allow transfers to the parent agent."`
	DisallowTransferToPeers  bool                    `yaml:"disallow_transfer_to_peers" doc:"Do not allow transfers to sibling agents."`

	Worker workerConfig `yaml:",inline"`

	InstructionProvider spec.Expr `yaml:"instruction_provider" doc:"Expression that computes the whole instruction; inject(text) replaces placeholders, file(path) returns an app file's text."`

	GenerateContentConfig *genai.GenerateContentConfig `yaml:"generate_content_config" doc:"Settings of the model call, named as in the Gemini API: temperature, max_output_tokens, safety_settings and so on."`

	Callbacks llmCallbackLists `yaml:",inline"`

	// files maps the paths that InstructionProvider uses to their text.
	files map[string]string
}

func (c *llmConfig) AgentRefs() []*AgentRef { return c.Common.AgentRefs() }

// ToolRefs returns the agent's tools.
func (c *llmConfig) ToolRefs() []*ToolRef {
	refs := make([]*ToolRef, len(c.Tools))
	for i := range c.Tools {
		refs[i] = &c.Tools[i]
	}
	return refs
}

// BindExecutor resolves the code executor.
func (c *llmConfig) BindExecutor(kinds ExecutorKinds, f *Functions) spec.Diagnostics {
	return c.CodeExecutor.bindExecutor(kinds, f)
}

// ExecutorPlan returns the code executor if it is of a kind, or nil.
func (c *llmConfig) ExecutorPlan() *ExecutorPlan { return c.CodeExecutor.plan }

// BuiltInCode returns the node that selects the model's own sandbox, or nil.
func (c *llmConfig) BuiltInCode(n *spec.Node) *spec.Node {
	if !c.CodeExecutor.builtIn {
		return nil
	}
	return n.Get("code_executor")
}

// ModelName returns the agent's model; its Value is empty when it has none.
func (c *llmConfig) ModelName() spec.Text { return c.Model }

// ModelCodeNode returns model_code's value, or nil.
func (c *llmConfig) ModelCodeNode() *spec.Node { return c.ModelCode }

// Instructions returns the texts with placeholders for state keys.
func (c *llmConfig) Instructions() []spec.Text {
	return []spec.Text{c.Instruction.Text, c.GlobalInstruction}
}

// PromptRef returns the prompt that is the instruction, or nil.
func (c *llmConfig) PromptRef() *PromptRef { return c.Instruction.prompt }

// ReadFiles reads the files that the instruction provider names, so that the
// app keeps the versions that it was loaded with.
func (c *llmConfig) ReadFiles(read func(path string) (string, error)) spec.Diagnostics {
	var ds spec.Diagnostics
	c.files = map[string]string{}
	for _, call := range template.Calls(c.InstructionProvider.Value, "file") {
		if !call.Literal {
			ds = append(ds, c.InstructionProvider.Errorf(call.Offset, "file", `file requires a literal string, such as file("prompts/pt.md"): files are read when the app is loaded`))
			continue
		}
		text, err := read(call.Text)
		if err != nil {
			ds = append(ds, c.InstructionProvider.Errorf(call.Offset, "file", "%s", err))
		}
		c.files[call.Text] = text
	}
	return ds
}

// misplacedSettings lists the settings that ADK rejects inside
// generate_content_config, in both spellings, and what to use instead.
func misplacedSettings() [][3]string {
	return [][3]string{
		{"tools", "tools", "use tools of the agent"},
		{"system_instruction", "systemInstruction", "use instruction or static_instruction of the agent"},
		{"cached_content", "cachedContent", "use context_cache_config in app.yaml"},
		{"response_schema", "responseSchema", "use output_schema of the agent"},
	}
}

// Check reports settings that ADK rejects inside generate_content_config.
func (c *llmConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	settings := n.Get("generate_content_config")
	for _, m := range misplacedSettings() {
		for _, key := range m[:2] {
			if v := settings.Get(key); v != nil {
				ds = append(ds, v.Errorf("generate-content-config", "%s is not allowed in generate_content_config: %s", key, m[2]))
				break
			}
		}
	}
	for _, options := range []string{"http_options", "httpOptions"} {
		for _, key := range []string{"base_url", "baseUrl"} {
			if v := settings.Get(options).Get(key); v != nil {
				ds = append(ds, v.Errorf("generate-content-config", "%s is not allowed in %s: set base_url of the model under models in app.yaml", key, options))
			}
		}
	}
	if c.OutputSchema.schema != nil {
		for _, key := range []string{"response_json_schema", "responseJsonSchema", "response_mime_type", "responseMimeType"} {
			if v := settings.Get(key); v != nil {
				ds = append(ds, v.Errorf("generate-content-config", "%s must not be set: the agent's output_schema determines it", key))
			}
		}
	}
	ds = append(ds, checkRanges(settings)...)
	ds = append(ds, c.Worker.checkWorker(n)...)
	return append(ds, c.checkInstruction(n)...)
}

// checkInstruction requires either instruction or instruction_provider.
func (c *llmConfig) checkInstruction(n *spec.Node) spec.Diagnostics {
	at := n.Get("instruction_provider")
	switch {
	case at.IsNull() && n.Get("instruction").IsNull():
		return spec.Diagnostics{n.Errorf("required", "missing field %q", "instruction")}
	case at.IsNull():
		return nil
	case !n.Get("instruction").IsNull():
		return spec.Diagnostics{at.Errorf("instruction", "instruction and instruction_provider are mutually exclusive")}
	}
	_, ds := compileExpr(c.InstructionProvider, providerEnv(), template.Compile)
	return ds
}

// settingRange is the valid range for a setting in generate_content_config, from Gemini's API
// documentation.
type settingRange struct {
	name, camel string
	least, most float64
}

// checkRanges warns about settings that models reject.
func checkRanges(settings *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	for _, r := range []settingRange{
		{"temperature", "temperature", 0, 2},
		{"top_p", "topP", 0, 1},
		{"presence_penalty", "presencePenalty", -2, 2},
		{"frequency_penalty", "frequencyPenalty", -2, 2},
	} {
		for _, key := range []string{r.name, r.camel} {
			at := settings.Get(key)
			if v, ok := parseNumber(at); ok && (v < r.least || v > r.most) {
				ds = append(ds, at.Warnf("generate-range", "%s %s must be between %v and %v: models reject other values", key, at.Value, r.least, r.most))
				break
			}
		}
	}
	for _, key := range []string{"max_output_tokens", "maxOutputTokens"} {
		at := settings.Get(key)
		if v, ok := parseNumber(at); ok && v < 1 {
			ds = append(ds, at.Warnf("generate-range", "%s %s leaves no tokens for an answer", key, at.Value))
		}
	}
	return ds
}

func parseNumber(n *spec.Node) (float64, bool) {
	if n.IsNull() || n.Kind != spec.Scalar {
		return 0, false
	}
	switch v := n.Any().(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	}
	return 0, false
}

func newLLM(_ context.Context, env AgentEnv, c *llmConfig) (runtime.Agent, error) {
	var provider runtime.InstructionFunc
	if c.InstructionProvider.Value != "" {
		compiled, ds := compileExpr(c.InstructionProvider, providerEnv(), template.Compile)
		if err := ds.Err(); err != nil {
			return nil, err
		}
		p := &instructionProvider{expr: compiled, files: c.files, at: c.InstructionProvider.At(0)}
		provider = p.computeText
	}
	if c.Instruction.prompt != nil {
		provider = newPromptProvider(c.Instruction.prompt, env.Prompts)
	}
	opts := &runtime.LLMOptions{
		Description: c.Common.Description,
		Model:       env.Model, SubAgents: env.SubAgents, Tools: env.Tools, Toolsets: env.Toolsets,
		Instruction:       newInstructionAt(c.Instruction.Text),
		GlobalInstruction: newInstructionAt(c.GlobalInstruction),
		OutputKey:         c.OutputKey, IncludeContents: c.IncludeContents,
		OutputSchema: c.OutputSchema.schema, InputSchema: c.InputSchema.schema,
		Mode:                     c.Mode,
		DisallowTransferToParent: c.DisallowTransferToParent,
		DisallowTransferToPeers:  c.DisallowTransferToPeers,
		GenerateContentConfig:    c.GenerateContentConfig,
		Code:                     c.CodeExecutor.withExecutor(env.Executor),
		Planner:                  c.Planner.planner,
		InstructionProvider:      provider,
	}
	if c.StaticInstruction != nil {
		opts.StaticInstruction = c.StaticInstruction.Content
	}
	agent := runtime.NewLLM(c.Common.Name.Value, opts)
	c.Worker.applyTo(&agent.Base)
	return agent, nil
}

func newInstructionAt(t spec.Text) *runtime.Instruction {
	return runtime.NewInstruction(t.Value, t.At)
}

// providerEnv declares the names available to an instruction provider.
func providerEnv() template.Env {
	env := runtime.ExprEnv()
	env["inject"] = func(string) (string, error) { return "", nil }
	env["file"] = func(string) (string, error) { return "", nil }
	return env
}

// An instructionProvider computes a whole instruction: ADK's function with that name as an
// expression.
type instructionProvider struct {
	expr  *template.Expr
	files map[string]string
	at    spec.Pos
}

func (p *instructionProvider) computeText(ctx context.Context, inv *runtime.Invocation) (string, error) {
	vars := inv.ExprVars()
	vars["inject"] = func(text string) (string, error) {
		return runtime.NewInstruction(text, func(int) spec.Pos { return p.at }).Render(ctx, inv)
	}
	vars["file"] = func(path string) (string, error) {
		text, ok := p.files[path]
		if !ok {
			return "", fmt.Errorf("file %s was not read when the app was loaded", path)
		}
		return text, nil
	}
	v, err := p.expr.Eval(ctx, vars)
	var runErr *runtime.RunError
	if errors.As(err, &runErr) {
		return "", runErr
	}
	if err != nil {
		return "", invalidRequest(err, "instruction_provider of agent %s: %s", inv.Agent().Name(), err)
	}
	text, ok := v.(string)
	if !ok && v != nil {
		return "", invalidRequest(nil, "instruction_provider of agent %s must return a string, got %s", inv.Agent().Name(), template.String(v))
	}
	return text, nil
}

func invalidRequest(err error, format string, args ...any) error {
	return &runtime.RunError{Code: runtime.CodeInvalidRequest, Message: spec.HidePaths(fmt.Sprintf(format, args...), err), Err: err}
}

// staticContent is a static instruction's YAML: a string, a part, a list of both, or a content with
// parts.
type staticContent struct{ Content *genai.Content }

// DecodeSpec accepts all forms.
func (s *staticContent) DecodeSpec(n *spec.Node) spec.Diagnostics {
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
func (s *staticContent) SchemaSpec() map[string]any {
	return map[string]any{"type": []string{"string", "object", "array"}}
}

// plannerConfig is a planner's YAML: plan_react, or built_in with a thinking_config. Planners
// written in code are not supported.
type plannerConfig struct{ planner *runtime.Planner }

type builtInPlannerConfig struct {
	ThinkingConfig *genai.ThinkingConfig `yaml:"thinking_config" required:"true" doc:"include_thoughts, thinking_budget and thinking_level, as in the Gemini API."`
}

// DecodeSpec accepts both forms.
func (c *plannerConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Scalar && n.Value == "plan_react" {
		c.planner = &runtime.Planner{PlanReact: true}
		return nil
	}
	settings := n.Get("built_in")
	if settings == nil || len(n.Entries) != 1 {
		return spec.Diagnostics{n.Errorf("type", "a planner must be plan_react or {built_in: {thinking_config: {…}}}")}
	}
	var built builtInPlannerConfig
	ds := spec.Decode(settings, &built)
	c.planner = &runtime.Planner{Thinking: built.ThinkingConfig}
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
