package session

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The kinds of failure that programs act on. They come wrapped, with what was
// asked for in the text.
var (
	// ErrNotFound: there is no such session, artifact or invocation.
	ErrNotFound = errors.New("not found")
	// ErrExists: a session with this id is there already.
	ErrExists = errors.New("already exists")
	// ErrStale: the session was changed by somebody else since it was read.
	ErrStale = errors.New("changed since it was read")
	// ErrFenced: another host has taken the session over in the middle of a run.
	// It is an ErrStale.
	ErrFenced = fmt.Errorf("was taken over by another host in the middle of this turn: %w", ErrStale)
	// ErrInvalid: what was given can never be accepted.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: a limit of the store is exceeded. It comes as a [LimitError].
	ErrTooLarge = errors.New("too large")
	// ErrBusy: another run holds the session, and waiting took too long.
	ErrBusy = errors.New("busy with another run")
	// ErrUnavailable: the store cannot be used at the moment. The same request may
	// succeed later.
	ErrUnavailable = errors.New("unavailable")
)

// A FieldError says where in a JSON value something is wrong. It is an
// [ErrInvalid].
type FieldError struct {
	// Path holds the keys (string) and indexes (int) that lead there, from the
	// outside in.
	Path []any
	// Message says what is wrong.
	Message string
}

// Error says path and message: `parts[0].txt: unknown key (did you mean "text"?)`.
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

// nestUnder returns the same error as seen from further out.
func (e *FieldError) nestUnder(keys ...any) *FieldError {
	return &FieldError{Path: slices.Concat(keys, e.Path), Message: e.Message}
}
