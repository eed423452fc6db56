package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A Refused is the error for an action that the policy denies.
type Refused struct {
	App string
	// Action is the denied action, such as "reach 10.0.0.5:8080".
	Action string
	// Reason is empty if only a grant is missing.
	Reason string
	// Line is the item for grants in policy.yaml that would allow the action. It is
	// empty if no grant can.
	Line string
	// file is the host's policy file, if any.
	file string
}

// Message returns the denied action and the reason.
func (e *Refused) Message() string {
	text := fmt.Sprintf("app %s may not %s", e.App, e.Action)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// Error returns the denied action and the line that would allow it. Clients can see it, so it
// contains none of the host's file names.
func (e *Refused) Error() string {
	if e.Line == "" {
		return e.Message()
	}
	return e.Message() + "; to allow it, add to grants in the --policy file: " + e.Line
}

// Hint returns how to grant the action. It is empty if no grant can allow it.
func (e *Refused) Hint() string {
	switch {
	case e.Line == "":
		return ""
	case e.file == "":
		return "add this line under grants: in policy.yaml, and pass --policy policy.yaml: " + e.Line
	}
	return "add this line under grants: in " + e.file + " (--policy): " + e.Line
}

// quoteYAMLList returns a YAML list with quoted strings.
func quoteYAMLList(texts ...string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(text) // cannot fail for a string
		quoted[i] = strings.TrimSuffix(b.String(), "\n")
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
