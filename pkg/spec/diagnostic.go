package spec

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// A Severity states whether a problem prevents an app from loading.
type Severity int

// Severities.
const (
	// Error prevents the document from being used.
	Error Severity = iota
	// Warning is reported; the document is still used.
	Warning
)

// String returns "error" or "warning".
func (s Severity) String() string {
	if s == Warning {
		return "warning"
	}
	return "error"
}

// A Diagnostic is one problem and its position.
type Diagnostic struct {
	Pos      Pos
	Severity Severity
	// Rule identifies the check that found the problem, such as unknown-field.
	Rule    string
	Message string
	// Hint is an optional instruction that resolves the problem ("did you mean …").
	Hint string
	// Source is the line at Pos, without its line break.
	Source string
	// Fix is an optional automatic fix.
	Fix Fix
	// Also lists the other positions of a merged problem; see [Diagnostics.Merge].
	Also []Place
}

// A Place is a position in a document and its source line.
type Place struct {
	Pos    Pos
	Source string
}

// MarshalJSON encodes file, line and column.
func (p Place) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"file": p.Pos.File, "line": p.Pos.Line, "column": p.Pos.Col})
}

// String returns "file:line:col: message [rule]"; warnings have "warning: " before the
// message.
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

// WithHint returns the diagnostic with a hint.
func (d Diagnostic) WithHint(format string, args ...any) Diagnostic {
	d.Hint = fmt.Sprintf(format, args...)
	return d
}

// withSuggestion adds the hint "did you mean" if a name is similar to a mistyped one.
func (d Diagnostic) withSuggestion(name string, names []string) Diagnostic {
	if near := Suggest(name, names); near != "" {
		d.Hint = fmt.Sprintf("did you mean %q?", near)
	}
	return d
}

// MarshalJSON encodes file, line, column, severity, rule and message, and the optional
// hint, source, fix and also.
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

// Diagnostics is a list of problems.
type Diagnostics []Diagnostic

// HasErrors reports whether any problem is an error.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return d.Severity == Error })
}

// Err returns the list as an error, or nil if it contains no error.
func (ds Diagnostics) Err() error {
	if !ds.HasErrors() {
		return nil
	}
	return ds
}

// Error returns all problems, one per line.
func (ds Diagnostics) Error() string { return strings.Join(ds.Strings(), "\n") }

// Strings returns one line per problem, without snippets and hints.
func (ds Diagnostics) Strings() []string {
	lines := make([]string, len(ds))
	for i, d := range ds {
		lines[i] = d.String()
	}
	return lines
}

// MarshalJSON encodes a list; nil is the empty list.
func (ds Diagnostics) MarshalJSON() ([]byte, error) {
	return json.Marshal(append([]Diagnostic{}, ds...))
}

// Sort orders the problems by file and position and removes duplicates.
func (ds *Diagnostics) Sort() {
	slices.SortStableFunc(*ds, Diagnostic.compareTo)
	*ds = slices.CompactFunc(*ds, func(d, e Diagnostic) bool { return d.Equal(e) })
}

// Equal reports whether both have the same rule, message and position.
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

// Merge combines problems of the given rules that differ only in position into the first
// one. Its message states the number of other places, and Also lists them. The list must
// be sorted. Problems with a [Fix] are not merged.
func (ds Diagnostics) Merge(rules ...string) Diagnostics {
	type mergeKey struct {
		severity            Severity
		rule, message, hint string
	}
	first := map[mergeKey]int{}
	var merged Diagnostics
	for _, d := range ds {
		if !slices.Contains(rules, d.Rule) || d.Fix != (Fix{}) {
			merged = append(merged, d)
			continue
		}
		key := mergeKey{d.Severity, d.Rule, d.Message, d.Hint}
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

// Split undoes [Diagnostics.Merge]: it returns one problem per position, each with the
// merged message.
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
