package jsonschema

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// The bounds for what is reported about one value, which a model gets as well.
const (
	maxProblems = 20
	// maxShown limits a message and a place, in characters.
	maxShown = 1000
	// maxShownNames limits the names in a message.
	maxShownNames = 100
)

// An InvalidError reports a value that does not match its schema.
type InvalidError struct{ found *problemList }

// Lines returns a line for each problem with its place; whole is the name for the value itself, or
// "".
func (e *InvalidError) Lines(whole string) []string { return e.found.formatLines(whole) }

// Error returns the problems.
func (e *InvalidError) Error() string { return strings.Join(e.Lines(""), "; ") }

// A problemList has the first problems with a value.
type problemList struct {
	problems []problem
	// hasMore is set if there are others.
	hasMore bool
}

type problem struct{ place, message string }

func (l *problemList) addProblem(p problem) {
	switch {
	case slices.Contains(l.problems, p):
	case len(l.problems) == maxProblems:
		l.hasMore = true
	default:
		l.problems = append(l.problems, p)
	}
}

// addCauses adds the library's innermost errors, when it validates schemas.
func (l *problemList) addCauses(e *jsonschema.ValidationError) {
	for _, cause := range e.Causes {
		if l.hasMore {
			return
		}
		l.addCauses(cause)
	}
	if len(e.Causes) == 0 {
		l.addProblem(problem{cutText(strings.Join(e.InstanceLocation, "."), maxShown), printKind(e.ErrorKind)})
	}
}

func (l *problemList) formatLines(whole string) []string {
	var lines []string
	for _, p := range l.problems {
		if place := cmp.Or(p.place, whole); place != "" {
			lines = append(lines, place+": "+p.message)
		} else {
			lines = append(lines, p.message)
		}
	}
	if l.hasMore {
		lines = append(lines, "further problems are not listed")
	}
	return lines
}

// A report collects the problems with the value's part at one place.
type report struct {
	found *problemList
	outer *report
	name  string
	inner map[string]*report
	// begun are the schemas that are explained here, each once.
	begun map[meeting]bool
}

func newReport(found *problemList) *report {
	return &report{found: found, begun: map[meeting]bool{}}
}

// reportAt returns a part's report; "" is the value itself.
func (r *report) reportAt(name string) *report {
	if name == "" {
		return r
	}
	if r.inner[name] == nil {
		if r.inner == nil {
			r.inner = map[string]*report{}
		}
		r.inner[name] = &report{found: r.found, outer: r, name: name, begun: map[meeting]bool{}}
	}
	return r.inner[name]
}

func (r *report) isFull() bool { return r.found.hasMore }

// beginSchema returns false for a schema that was explained before.
func (r *report) beginSchema(s *jsonschema.Schema, at *scope) bool {
	key := meeting{schema: s, scope: at}
	again := r.begun[key]
	r.begun[key] = true
	return !again
}

func (r *report) addKind(k jsonschema.ErrorKind) {
	var names []string
	for at := r; at.outer != nil; at = at.outer {
		names = append(names, at.name)
	}
	slices.Reverse(names)
	r.found.addProblem(problem{cutText(strings.Join(names, "."), maxShown), printKind(k)})
}

func printKind(k jsonschema.ErrorKind) string {
	return cutText(k.LocalizedString(message.NewPrinter(language.English)), maxShown)
}

// A longNumber reports a number that is too long to compute with.
type longNumber struct{}

// KeywordPath implements [jsonschema.ErrorKind].
func (*longNumber) KeywordPath() []string { return nil }

// LocalizedString implements [jsonschema.ErrorKind].
func (*longNumber) LocalizedString(*message.Printer) string {
	return fmt.Sprintf("the number has more than %d digits", maxDigits)
}

// cutText returns at most limit characters, and marks that there are more.
func cutText(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	count := 0
	for i := range text {
		if count == limit {
			return text[:i] + "…"
		}
		count++
	}
	return text
}
