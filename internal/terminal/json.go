package terminal

import (
	"encoding/json"
	"fmt"
	"strings"
)

// maxAbbreviated is the most bytes of [AbbreviateJSON].
const maxAbbreviated = 200

// AbbreviateJSON formats a call's arguments or response as JSON in one line. It cuts the line
// between characters after 200 bytes.
func AbbreviateJSON(v map[string]any) string {
	line := CompactJSON(v)
	if len(line) > maxAbbreviated {
		return strings.ToValidUTF8(line[:maxAbbreviated], "") + "…"
	}
	return line
}

// CompactJSON formats a value as JSON in one line, with all of it: a person who approves a call must
// see all of its arguments. A nil mapping is {}.
func CompactJSON(v any) string {
	if m, ok := v.(map[string]any); ok && m == nil {
		return "{}"
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Sprint(v)
	}
	return strings.TrimSuffix(b.String(), "\n")
}
