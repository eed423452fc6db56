// Package doctor finds what would keep a host from serving well: apps with problems, models without keys, a database that
// is unreachable, old, slow or read-only, a clock that is wrong, and a machine with too little room.
package doctor

import (
	"fmt"
)

// A State is how bad a finding is.
type State string

// The states.
const (
	OK      State = "ok"
	Warning State = "warning"
	Error   State = "error"
)

// A Finding is one check's result.
type Finding struct {
	// Check names what was checked: apps, models, database, clock, notifications, files, memory or disk.
	Check string `json:"check"`
	State State  `json:"state"`
	Text  string `json:"text"`
	// Hint is what to do; empty for OK.
	Hint string `json:"hint,omitempty"`
}

// A Report has all findings, in the order in which they were made. The zero value is empty. One goroutine may use it at a time.
type Report struct{ Findings []Finding }

// Worst returns the worst state.
func (r *Report) Worst() State {
	worst := OK
	for _, f := range r.Findings {
		if f.State == Error || f.State == Warning && worst == OK {
			worst = f.State
		}
	}
	return worst
}

func (r *Report) addOK(check, format string, args ...any) {
	r.Findings = append(r.Findings, Finding{check, OK, fmt.Sprintf(format, args...), ""})
}

func (r *Report) addWarning(check, text, hint string) {
	r.Findings = append(r.Findings, Finding{check, Warning, text, hint})
}

func (r *Report) addError(check, text, hint string) {
	r.Findings = append(r.Findings, Finding{check, Error, text, hint})
}
