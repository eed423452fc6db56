package main

import (
	"fmt"
	"os"
	"strings"

	"agenthost/internal/command"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// parseState parses KEY=VALUE pairs. A value that is not valid JSON is a string.
func parseState(pairs []string) (map[string]any, error) {
	state := map[string]any{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--state must be KEY=VALUE, got %q", p)
		}
		state[k] = v
		if m, err := session.DecodeMap([]byte(`{"v":` + v + `}`)); err == nil {
			state[k] = m["v"]
		}
	}
	return state, nil
}

// readState reads a JSON or YAML file with a mapping.
func readState(file string) (map[string]any, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, command.FailWithf("--state-file: %w", err)
	}
	n, ds := spec.Parse(file, b)
	if err := ds.Err(); err != nil {
		return nil, command.FailWithf("--state-file: %w", err)
	}
	state, ok := n.Any().(map[string]any)
	if !ok {
		return nil, command.FailWithf("--state-file %s must contain a mapping", file)
	}
	return state, nil
}
