package loader

import "agenthost/pkg/spec"

// appFieldHints maps keys that other frameworks use to hints about their
// equivalent in app.yaml.
func appFieldHints() map[string]string {
	return map[string]string{
		"session":    "configure the session store with --session-db, and the retention with retention: 30d",
		"sessions":   "configure the session store with --session-db, and the retention with retention: 30d",
		"artifacts":  "configure the artifact store with --artifacts",
		"memory":     "configure the memory store with --memory",
		"sub_agents": "write sub_agents into the root agent: in root_agent.yaml, or under root_agent:",
		"model":      "set model on an agent, or for all agents: defaults: {LlmAgent: {model: NAME}}",
		"env":        "reference environment variables where you need them: ${env:NAME}",
		"version":    "remove it: the language has no versions",
	}
}

// agentFieldHints does the same for agents.
func agentFieldHints() map[string]string {
	const class, text = "use agent_class, such as agent_class: SequentialAgent", "use instruction"
	return map[string]string{
		"type": class, "kind": class, "class": class,
		"prompt": text, "system": text, "system_prompt": text, "system_message": text,
		"output": "use output_key, the state key that stores the response",
		"models": "move models to app.yaml", "plugins": "move plugins to app.yaml", "run_config": "move run_config to app.yaml",
		"temperature": "move it into generate_content_config", "max_tokens": "use max_output_tokens in generate_content_config",
	}
}

// addFieldHints adds hints to the problems about unknown fields of a mapping.
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
