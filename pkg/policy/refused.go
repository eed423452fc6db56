package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// A Refused is something that the host does not let an app do.
type Refused struct {
	App string
	// Action is what the app may not do, such as "reach 10.0.0.5:8080".
	Action string
	// Reason is why, or empty where only a grant is missing.
	Reason string
	// Line is the line of policy.yaml that would grant it, under grants; empty
	// when nothing grants it.
	Line string
	// file is the policy file of the host; empty is none.
	file string
}

// Message says what is refused, and why.
func (e *Refused) Message() string {
	text := fmt.Sprintf("app %s may not %s", e.App, e.Action)
	if e.Reason != "" {
		text += " (" + e.Reason + ")"
	}
	return text
}

// Error says what is refused, and which line would grant it. Clients may read it:
// it names no file of the host.
func (e *Refused) Error() string {
	if e.Line == "" {
		return e.Message()
	}
	return e.Message() + "; a grant in the file of --policy allows it: " + e.Line
}

// Hint says to the owner of the host how to grant it; empty when nothing does.
func (e *Refused) Hint() string {
	switch {
	case e.Line == "":
		return ""
	case e.file == "":
		return "write this line under grants: in policy.yaml, and pass --policy policy.yaml: " + e.Line
	}
	return "write this line under grants: in " + e.file + " (--policy): " + e.Line
}

// newRefused makes a refusal; grant is the part of its line after the app.
func (p *Policy) newRefused(app, action, reason, grant string) *Refused {
	e := &Refused{App: app, Action: action, Reason: reason}
	if grant != "" {
		e.Line = fmt.Sprintf("- {apps: [%s], %s}", app, grant)
	}
	if p.hasFile() {
		e.file = p.file
	}
	return e
}

// quoteList is a list of texts as YAML, in which nothing is read as anything else.
func quoteList(texts ...string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		_ = enc.Encode(text) // a text can always be written
		quoted[i] = strings.TrimSuffix(b.String(), "\n")
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}
