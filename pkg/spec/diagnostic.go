package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Severity says whether a problem keeps an app from being loaded.
type Severity int

// The severities.
const (
	// Error keeps the document from being used.
	Error Severity = iota
	// Warning is told, and the document is used.
	Warning
)

// String is the word that people and programs read: error or warning.
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// A Diagnostic is one problem, with its place.
type Diagnostic struct {
	Pos      Pos
	Severity Severity
	// Rule names the check that found it, such as unknown-field.
	Rule    string
	Message string
	// Hint is the way out, where there is one ("did you mean …").
	Hint string
	// Source is the line of the file that Pos points into, without line feed.
	Source string
	// Fix repairs the problem, where that is safe.
	Fix Fix
}

// String is file:line:col: message [rule], with "warning: " before the message
// of a warning.
func (d Diagnostic) String() string {
	var b strings.Builder
	if at := d.Pos.String(); at != "" {
		b.WriteString(at + ": ")
	}
	if d.Severity == Warning {
		b.WriteString("warning: ")
	}
	b.WriteString(d.Message)
	if d.Rule != "" {
		b.WriteString(" [" + d.Rule + "]")
	}
	return b.String()
}

// WithHint returns the diagnostic with a way out.
func (d Diagnostic) WithHint(format string, args ...any) Diagnostic {
	d.Hint = fmt.Sprintf(format, args...)
	return d
}

// withNear adds what a mistyped name may have meant.
func (d Diagnostic) withNear(name string, names []string) Diagnostic {
	if near := Suggest(name, names); near != "" {
		d.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return d
}

// MarshalJSON writes file, line, column, severity, rule and message, and where
// there are any hint, source and fix.
func (d Diagnostic) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		File     string `json:"file"`
		Line     int    `json:"line"`
		Column   int    `json:"column"`
		Severity string `json:"severity"`
		Rule     string `json:"rule"`
		Message  string `json:"message"`
		Hint     string `json:"hint,omitempty"`
		Source   string `json:"source,omitempty"`
		Fix      Fix    `json:"fix,omitzero"`
	}{d.Pos.File, d.Pos.Line, d.Pos.Col, d.Severity.String(), d.Rule, d.Message, d.Hint, d.Source, d.Fix})
}

// Diagnostics is a list of problems. All problems are reported at once.
type Diagnostics []Diagnostic

// HasErrors says whether any of them is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// Err returns the list as an error, or nil when it holds no error.
func (ds Diagnostics) Err() error {
	if !ds.HasErrors() {
		return nil
	}
	return ds
}

// Error is the text of all problems, one a line.
func (ds Diagnostics) Error() string { return strings.Join(ds.Strings(), "\n") }

// Strings returns one line for each problem, without snippets and hints.
func (ds Diagnostics) Strings() []string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return lines
}

// MarshalJSON writes a list, also for nil.
func (ds Diagnostics) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]Diagnostic{}, ds...))
}

// Sort orders the problems by file and place and drops those that are there
// twice.
func (ds *Diagnostics) Sort() {
	slices.SortStableFunc(*ds, Diagnostic.compare)
	*ds = slices.CompactFunc(*ds, func(d, e Diagnostic) bool { return d.compare(e) == 0 })
}

func (d Diagnostic) compare(e Diagnostic) int {
	return cmp.Or(
		cmp.Compare(d.Pos.File, e.Pos.File),
		cmp.Compare(d.Pos.Line, e.Pos.Line),
		cmp.Compare(d.Pos.Col, e.Pos.Col),
		cmp.Compare(d.Rule, e.Rule),
		cmp.Compare(d.Message, e.Message),
	)
}
