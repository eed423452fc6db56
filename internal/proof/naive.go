package main

import (
	"fmt"

	"gopkg.in/yaml.v3"
)

// naively loads damaged trees as the first forty lines of a loader would: it
// believes that what can be read is what was meant.
func (m *malformed) naively(d *damager, n int) {
	for range n {
		tree, _ := d.damaged(d.pick())
		m.trees++
		served, err := believe(tree)
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

// believe serves a tree whose files are YAML. The error is a panic.
func believe(tree files) (served bool, err error) {
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
	return walk(agents, agents["root_agent.yaml"], 0) != "", nil
}

func walk(agents map[string]map[string]any, agent map[string]any, depth int) string {
	if depth > 1000 {
		panic("stack overflow, which no program survives")
	}
	name := agent["name"].(string)
	subs, _ := agent["sub_agents"].([]any)
	for _, sub := range subs {
		if path, ok := sub.(map[string]any)["config_path"]; ok {
			name += walk(agents, agents[path.(string)], depth+1)
		}
	}
	return name
}
