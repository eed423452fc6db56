package main

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// loadNaively loads damaged trees with a naive loader that trusts all parsed values.
func (m *malformedTrees) loadNaively(d *mutator, n int) {
	for range n {
		tree, _ := d.mutateTree(d.pickTree())
		m.trees++
		served, err := serveNaively(tree)
		switch {
		case err != nil:
			m.panics++
		case served:
			m.changed++
		default:
			m.refused++
		}
	}
}

// serveNaively loads a YAML file tree. The error is a recovered panic.
func serveNaively(tree files) (served bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	agents := map[string]map[string]any{}
	for name, text := range tree {
		var agent map[string]any
		if yaml.Unmarshal([]byte(text), &agent) != nil {
			return false, nil
		}
		agents[name] = agent
	}
	return joinAgentNames(agents, agents["root_agent.yaml"], 0) != "", nil
}

func joinAgentNames(agents map[string]map[string]any, agent map[string]any, depth int) string {
	if depth > 1000 {
		panic("stack overflow")
	}
	name := agent["name"].(string)
	subs, _ := agent["sub_agents"].([]any)
	for _, sub := range subs {
		if path, ok := sub.(map[string]any)["config_path"]; ok {
			name += joinAgentNames(agents, agents[path.(string)], depth+1)
		}
	}
	return name
}
