package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The error kinds that programs check with errors.Is. They are wrapped with
// details.
var (
	// ErrNotFound means that a session, artifact or invocation does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists means that a session with this id already exists.
	ErrExists = errors.New("already exists")
	// ErrStale means that the session changed since it was read.
	ErrStale = errors.New("changed since it was read")
	// ErrFenced means that another host took over the session during a run.
	// It is an ErrStale.
	ErrFenced = fmt.Errorf("was taken over by another host in the middle of this turn: %w", ErrStale)
	// ErrInvalid means that the input is invalid; a retry cannot succeed.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: a limit of the store is exceeded. It comes as a [LimitError].
	ErrTooLarge = errors.New("too large")
	// ErrBusy means that waiting for another run of the session timed out.
	ErrBusy = errors.New("busy with another run")
	// ErrUnavailable means that the store is temporarily unavailable. A retry may
	// succeed.
	ErrUnavailable = errors.New("unavailable")
)

// A FieldError reports an invalid field of a JSON value. It is an [ErrInvalid].
type FieldError struct {
	// Path holds the keys (string) and indexes (int) of the field, outermost
	// first.
	Path []any
	// Message describes the error.
	Message string
}

// Error returns path and message: `parts[0].txt: unknown key (did you mean
// "text"?)`.
func (e *FieldError) Error() string {
	if len(e.Path) == 0 {
		return e.Message
	}
	var b strings.Builder
	for i, step := range e.Path {
		switch step := step.(type) {
		case int:
			fmt.Fprintf(&b, "[%d]", step)
		default:
			if i > 0 {
				b.WriteByte('.')
			}
			fmt.Fprint(&b, step)
		}
	}
	return b.String() + ": " + e.Message
}

// Unwrap returns ErrInvalid.
func (e *FieldError) Unwrap() error { return ErrInvalid }

// nestUnder returns the error with keys prepended to its path.
func (e *FieldError) nestUnder(keys ...any) *FieldError {
	return &FieldError{Path: slices.Concat(keys, e.Path), Message: e.Message}
}
