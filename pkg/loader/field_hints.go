package loader

import "agenthost/pkg/spec"

// appFieldHints says, for keys that people bring from elsewhere, what app.yaml has in
// their place.
func appFieldHints() map[string]string {
	return map[string]string{
		"session":    "the host says where sessions are kept: --session-db; how long, says retention: 30d",
		"sessions":   "the host says where sessions are kept: --session-db; how long, says retention: 30d",
		"artifacts":  "the host says where artifacts are kept: --artifacts",
		"memory":     "the host says where memories are kept: --memory",
		"sub_agents": "agents stand below the root agent: in root_agent.yaml, or under root_agent:",
		"model":      "a model is named by agents: under root_agent:, or for all under defaults: {LlmAgent: {model: NAME}}",
		"env":        "references put values of the environment in: ${env:NAME}",
		"version":    "there is one version of the language",
	}
}

// agentFieldHints is the same for agents.
func agentFieldHints() map[string]string {
	const class, text = "the field is agent_class, such as agent_class: SequentialAgent", "the field is instruction"
	return map[string]string{
		"type": class, "kind": class, "class": class,
		"prompt": text, "system": text, "system_prompt": text, "system_message": text,
		"output": "the field is output_key: the state key that keeps the answer",
		"models": "models stand in app.yaml", "plugins": "plugins stand in app.yaml", "run_config": "run_config stands in app.yaml",
		"temperature": "it stands in generate_content_config", "max_tokens": "it is max_output_tokens in generate_content_config",
	}
}

// addFieldHints adds to unknown fields of a mapping what stands in their place.
func addFieldHints(ds spec.Diagnostics, n *spec.Node, advice map[string]string) spec.Diagnostics {
	known := map[spec.Pos]string{}
	for _, e := range n.Entries {
		if text := advice[e.Key.Value]; text != "" {
			known[e.Key.Pos] = text
		}
	}
	for i, d := range ds {
		if text := known[d.Pos]; text != "" && d.Rule == "unknown-field" {
			ds[i] = d.WithHint("%s", text)
		}
	}
	return ds
}
