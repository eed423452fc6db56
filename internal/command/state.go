package command

import (
	"fmt"
	"strings"

	"agenthost/pkg/session"
)

// ParseState parses KEY=VALUE pairs. A value that is not valid JSON is a string.
func ParseState(pairs []string) (map[string]any, error) {
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
