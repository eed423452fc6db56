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
	// Also are the other places with the same problem; see [Diagnostics.Merge].
	Also []Place
}

// A Place is a position in a document, with its line.
type Place struct {
	Pos    Pos
	Source string
}

// MarshalJSON writes file, line and column.
func (p Place) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"file": p.Pos.File, "line": p.Pos.Line, "column": p.Pos.Col})
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

// withSuggestion adds what a mistyped name may have meant.
func (d Diagnostic) withSuggestion(name string, names []string) Diagnostic {
	if near := Suggest(name, names); near != "" {
		d.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return d
}

// MarshalJSON writes file, line, column, severity, rule and message, and where
// there are any hint, source, fix and also.
func (d Diagnostic) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		File     string  `json:"file"`
		Line     int     `json:"line"`
		Column   int     `json:"column"`
		Severity string  `json:"severity"`
		Rule     string  `json:"rule"`
		Message  string  `json:"message"`
		Hint     string  `json:"hint,omitempty"`
		Source   string  `json:"source,omitempty"`
		Fix      Fix     `json:"fix,omitzero"`
		Also     []Place `json:"also,omitempty"`
	}{d.Pos.File, d.Pos.Line, d.Pos.Col, d.Severity.String(), d.Rule, d.Message, d.Hint, d.Source, d.Fix, d.Also})
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
	slices.SortStableFunc(*ds, Diagnostic.compareTo)
	*ds = slices.CompactFunc(*ds, func(d, e Diagnostic) bool { return d.Equal(e) })
}

// Equal says whether both are the same problem: rule, message and place.
func (d Diagnostic) Equal(e Diagnostic) bool { return d.compareTo(e) == 0 }

func (d Diagnostic) compareTo(e Diagnostic) int {
	return cmp.Or(
		cmp.Compare(d.Pos.File, e.Pos.File),
		cmp.Compare(d.Pos.Line, e.Pos.Line),
		cmp.Compare(d.Pos.Col, e.Pos.Col),
		cmp.Compare(d.Rule, e.Rule),
		cmp.Compare(d.Message, e.Message),
	)
}

// Merge joins the problems of these rules that have the same words into the
// first of them, which says how many other places have it and which. The list
// must be sorted. A problem with a [Fix] stays by itself.
func (ds Diagnostics) Merge(rules ...string) Diagnostics {
	type words struct {
		severity            Severity
		rule, message, hint string
	}
	first := map[words]int{}
	var merged Diagnostics
	for _, d := range ds {
		if !slices.Contains(rules, d.Rule) || d.Fix != (Fix{}) {
			merged = append(merged, d)
			continue
		}
		key := words{d.Severity, d.Rule, d.Message, d.Hint}
		if i, ok := first[key]; ok {
			merged[i].Also = append(merged[i].Also, Place{d.Pos, d.Source})
			continue
		}
		first[key] = len(merged)
		merged = append(merged, d)
	}
	for i, d := range merged {
		switch n := len(d.Also); n {
		case 0:
		case 1:
			merged[i].Message += "; also at 1 other place"
		default:
			merged[i].Message += fmt.Sprintf("; also at %d other places", n)
		}
	}
	return merged
}

// Split undoes [Diagnostics.Merge]: each place has a problem of its own, with the
// words of all.
func (ds Diagnostics) Split() Diagnostics {
	var split Diagnostics
	for _, d := range ds {
		also := d.Also
		d.Also = nil
		split = append(split, d)
		for _, p := range also {
			d.Pos, d.Source = p.Pos, p.Source
			split = append(split, d)
		}
	}
	return split
}
