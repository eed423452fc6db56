package adkjson

import (
	"fmt"
	"slices"
	"strings"
)

// An Error reports an invalid field in a JSON value.
type Error struct {
	// Path holds the field's keys (string) and indexes (int), outermost first.
	Path []any
	// Message describes the error.
	Message string
}

// Bounds for a path in a message: the sender of a value chooses its depth and its keys.
const (
	maxPathSteps = 20
	maxKeyBytes  = 100
)

// Error returns path and message: `parts[0].txt: unknown key (did you mean
// "text"?)`. A long path is cut.
func (e *Error) Error() string {
	if len(e.Path) == 0 {
		return e.Message
	}
	var b strings.Builder
	for i, step := range e.Path {
		if i == maxPathSteps {
			b.WriteString("…")
			break
		}
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			fmt.Fprintf(&b, "%.*s", maxKeyBytes, step)
		}
	}
	return b.String() + ": " + e.Message
}

// nestUnder returns the error with keys prepended to its path.
func (e *Error) nestUnder(keys ...any) *Error {
	return &Error{Path: slices.Concat(keys, e.Path), Message: e.Message}
}
