package agentconfig

import "agenthost/pkg/spec"

// Advice lists the fields that other programs' agents have.
func (c *CommonConfig) Advice() spec.Advice {
	const class = "use agent_class, such as agent_class: SequentialAgent"
	const condition = "use when, with an expression such as state.tier == \"gold\""
	const agents = "use sub_agents, with inline agents, {use: NAME} or {config_path: FILE}"
	return spec.Advice{
		Fields: map[string]string{
			"type": class, "kind": class, "class": class,
			"handoffs": agents, "handoff": agents, "children": agents, "members": agents, "steps": agents,
			"condition": condition, "if": condition,
			"models": "move models to app.yaml", "plugins": "move plugins to app.yaml", "run_config": "move run_config to app.yaml",
			"mcpServers": serversHint, "mcp_servers": serversHint,
			"env": envHint,
		},
		Shapes: map[string]string{
			"sub_agents: {}": "write a list of agents, each after a dash: - name: NAME, with its fields below",
		},
	}
}

// serversHint leads from the usual configuration of MCP servers to a tool.
const serversHint = "write each server as a tool, under tools: - mcp: {command: [PROGRAM, ARGUMENT]}, or - mcp: {url: URL}"

// envHint leads from lists of variables to references.
const envHint = "write ${env:NAME} where a variable is needed"

// Advice lists the settings that other programs' model agents have.
func (c *llmConfig) Advice() spec.Advice {
	const config, schema = "move it into generate_content_config", "use output_schema, with a schema such as {score: integer}"
	const model = "write it in the model's name, such as model: openai/gpt-4o, or declare the model with its settings under models: in app.yaml"
	const tools = "move the entries to tools:, each with its kind: - mcp: {…}, - http: {…}, or - name: NAME for a built-in tool"
	return spec.Advice{
		Fields: map[string]string{
			"prompt": "instruction", "system": "instruction", "system_prompt": "instruction", "system_message": "instruction",
			"systemMessage": "instruction", "systemPrompt": "instruction", "system_instruction": "instruction", "instructions": "instruction",
			"goal": rolesHint, "role": rolesHint, "backstory": rolesHint,
			"llm": "model", "model_name": "model", "model_id": "model", "modelConfig": "model",
			"provider": model, "base_url": model, "api_key": model, "api_base": model, "model_settings": model,
			"temperature": config, "top_p": config, "top_k": config, "seed": config, "stop_sequences": config,
			"max_tokens": "use max_output_tokens in generate_content_config", "max_output_tokens": config,
			"output":      "use output_key, the state key that stores the response",
			"output_type": schema, "response_format": schema, "output_pydantic": schema, "output_json": schema, "structured_output": schema,
			"toolsets": tools, "functions": tools, "plugins": "move plugins to app.yaml",
			"guardrails": "use before_model_callbacks and after_model_callbacks, or a plugin in app.yaml",
			"max_iter":   "limit the model calls with run_config: {max_llm_calls: N} in app.yaml", "max_turns": "limit the model calls with run_config: {max_llm_calls: N} in app.yaml",
			"thinking_budget": "use planner: {built_in: {thinking_config: {thinking_budget: N}}}",
		},
		Shapes: map[string]string{
			"model: {}":       "write model: PROVIDER/NAME, such as model: openai/gpt-4o; a model with more settings is declared under models: in app.yaml, and model: is its name there",
			"model: []":       "name one model here; declare it with a fallback: list under models: in app.yaml",
			"tools: {}":       "write a list of tools, each after a dash: - http: {…}, or - name: NAME for a built-in tool",
			"tools: text":     "write a list of tools: tools: [{name: NAME}] for built-in tools, [{use: NAME}] for those under tools: in app.yaml",
			"instruction: []": "write one text, as a block under instruction: |",
		},
	}
}

// rolesHint leads from crewAI's three texts to one.
const rolesHint = "write role, goal and backstory into one text: instruction"
