package conformance

import (
	"encoding/json"

	"agenthost/internal/textdiff"
)

// diffValues returns the unified diff between two values as sorted JSON.
func diffValues(from, to string, a, b any) string {
	return textdiff.FormatDiff(from, to, indentJSON(a), indentJSON(b))
}

func indentJSON(v any) []byte {
	if v == nil {
		return nil
	}
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return []byte(err.Error())
	}
	return append(b, '\n')
}
