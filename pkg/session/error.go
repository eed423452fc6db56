package session

import (
	"errors"
	"fmt"

	"agenthost/internal/adkjson"
)

// The error kinds that programs check with errors.Is. They are wrapped with
// details.
var (
	// ErrNotFound means that a session, artifact or invocation does not exist.
	ErrNotFound = errors.New("not found")
	// ErrExists means that a session with this id already exists.
	ErrExists = errors.New("already exists")
	// ErrStale means that the session, or a row such as a rollout, changed since it was read.
	ErrStale = errors.New("changed since it was read")
	// ErrFenced means that another host took over the session during a run.
	// It is an ErrStale.
	ErrFenced = fmt.Errorf("was taken over by another host in the middle of this turn: %w", ErrStale)
	// ErrInvalid means that the input is invalid; a retry cannot succeed.
	ErrInvalid = errors.New("invalid")
	// ErrTooLarge: a store limit is exceeded. It comes as a [LimitError].
	ErrTooLarge = errors.New("too large")
	// ErrBusy means that waiting for another run of the session timed out.
	ErrBusy = errors.New("busy with another run")
	// ErrUnavailable means that the store is temporarily unavailable. A retry may
	// succeed.
	ErrUnavailable = errors.New("unavailable")
)

// A FieldError reports an invalid field in a JSON value. It is an [ErrInvalid].
type FieldError struct {
	// Path holds the field's keys (string) and indexes (int), outermost first.
	Path []any
	// Message describes the error.
	Message string
}

// Error returns path and message: `parts[0].txt: unknown key (did you mean
// "text"?)`.
func (e *FieldError) Error() string { return (*adkjson.Error)(e).Error() }

// Unwrap returns ErrInvalid.
func (e *FieldError) Unwrap() error { return ErrInvalid }

// A LimitError reports that a part of a session exceeds a size limit. It is an
// [ErrTooLarge] and an [ErrInvalid].
type LimitError struct {
	// Part names the part, such as "state of the user".
	Part string
	// Limit is in Unit, which is bytes if it is empty.
	Limit int64
	Unit  string
	// Hint is an instruction for the user; it may be empty.
	Hint string
}

// Error returns "state of the user exceeds the limit of 4 MiB: " and the hint.
func (e *LimitError) Error() string {
	size := formatBytes(e.Limit)
	if e.Unit != "" {
		size = fmt.Sprintf("%d %s", e.Limit, e.Unit)
	}
	text := e.Part + " exceeds the limit of " + size
	if e.Hint != "" {
		text += ": " + e.Hint
	}
	return text
}

// Unwrap returns ErrTooLarge and ErrInvalid.
func (e *LimitError) Unwrap() []error { return []error{ErrTooLarge, ErrInvalid} }

// formatBytes formats a byte count in the largest unit that divides it.
func formatBytes(n int64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := int64(1) << (30 - 10*i); n >= size && n%size == 0 {
			return fmt.Sprintf("%d %s", n/size, unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
