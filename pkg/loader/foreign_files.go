package loader

import (
	"slices"

	"agenthost/pkg/spec"
)

// A foreignFile is another program's file, known by the keys at its top.
type foreignFile struct {
	keys       []string
	name, hint string
}

// foreignFiles returns the table. An agent has a name or an agent_class, so that it is none of them.
func foreignFiles() []foreignFile {
	const agent = "write an agent here: name, model, instruction, tools and sub_agents"
	return []foreignFile{
		{[]string{"agents", "version"}, "a file of docker-agent", "write the agent root as this file's agent, with name: root, and the others under its sub_agents; toolsets are tools, and models are declared in app.yaml"},
		{[]string{"agents", "models"}, "a file of docker-agent", "write the agent root as this file's agent, with name: root, and the others under its sub_agents; toolsets are tools, and models are declared in app.yaml"},
		{[]string{"graphs", "dependencies"}, "LangGraph's configuration, which names Python code", agent},
		{[]string{"apiVersion", "kind"}, "a Kubernetes resource", agent},
		{[]string{"services"}, "a Compose file", agent},
		{[]string{"openapi", "paths"}, "an OpenAPI document", "move it to another file, and name it in a tool: - openapi: {spec: FILE}"},
		{[]string{"mcpServers"}, "a configuration of MCP servers", "write an agent here, and each server under its tools: - mcp: {command: [PROGRAM, ARGUMENT]}, or - mcp: {url: URL}"},
	}
}

// reportForeignFile reports a file of another program that was opened as an agent's, as one problem.
func (r *declarationReader) reportForeignFile(n *spec.Node) bool {
	keys := n.Keys()
	if slices.Contains(keys, "name") || slices.Contains(keys, "agent_class") || len(keys) == 0 {
		return false
	}
	for _, f := range foreignFiles() {
		if !slices.ContainsFunc(f.keys, func(key string) bool { return !slices.Contains(keys, key) }) {
			r.report(n.Errorf("required", "this is %s, not an agent", f.name).WithHint("%s", f.hint))
			return true
		}
	}
	// crewAI's agents have a role and a goal, under their names.
	if first := n.Entries[0]; first.Value.Get("role") != nil && first.Value.Get("goal") != nil {
		r.report(first.Key.Errorf("required", "this is crewAI's list of agents, not an agent").
			WithHint("write name: %s, and its role, goal and backstory as one text, the instruction; further agents go under sub_agents", first.Key.Value))
		return true
	}
	return false
}
