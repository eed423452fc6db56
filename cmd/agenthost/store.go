package main

import (
	"os"

	"agenthost/internal/command"
	"agenthost/pkg/spec"
)

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
