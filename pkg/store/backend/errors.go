// Package backend has what each backend of package store needs: the errors that callers
// distinguish, and state values as JSON. Anyone who writes a backend uses it, and tests the backend
// with package storetest. The functions may be called concurrently.
package backend

import (
	"errors"
	"fmt"

	"agenthost/pkg/session"
)

// A DamagedError reports a row that does not decode or is missing. The caller
// is not at fault, so it is never a [session.ErrInvalid], which the decoders
// return.
type DamagedError struct {
	row    string // identifies the row for people
	reason string
}

// NewDamagedError describes the row by the format.
func NewDamagedError(err error, format string, args ...any) error {
	return &DamagedError{fmt.Sprintf(format, args...), err.Error()}
}

// Error returns the row and the reason.
func (e *DamagedError) Error() string { return e.row + ": " + e.reason }

// WrapReadError wraps a read error. If a row is damaged, it adds the complete session key, so that
// an operator can find the row.
func WrapReadError(key session.Key, err error) error {
	var bad *DamagedError
	if errors.As(err, &bad) {
		return fmt.Errorf("session %s is damaged: %w", key, err)
	}
	return fmt.Errorf("reading session %s: %w", key.ID, err)
}

// SessionNotFound is the error for a missing session.
func SessionNotFound(id string) error { return fmt.Errorf("session %w: %s", session.ErrNotFound, id) }

// SessionExists is the error for a key that is in use.
func SessionExists(id string) error { return fmt.Errorf("session %w: %s", session.ErrExists, id) }

// SessionStale is the error for an append to a session that is no longer at the
// version that the writer has read.
func SessionStale(id string, read, now int64) error {
	return fmt.Errorf("session %s %w: it was at version %d, now it is at %d", id, session.ErrStale, read, now)
}

// SessionFenced is the error for a writer whose lease another store has taken over.
func SessionFenced(id string) error { return fmt.Errorf("session %s %w", id, session.ErrFenced) }

// ResultNotFound is the error for a missing result.
func ResultNotFound(app, id string) error {
	return fmt.Errorf("result %s of app %s is not stored: %w", id, app, session.ErrNotFound)
}

// RolloutNotFound is the error for an app without a rollout.
func RolloutNotFound(app string) error {
	return fmt.Errorf("rollout of app %s is not stored: %w", app, session.ErrNotFound)
}

// RolloutStale is the error for a save of a rollout that is no longer at the version that the caller
// has read; 0 is a rollout that is not stored.
func RolloutStale(app string, read, now int64) error {
	return fmt.Errorf("rollout of app %s %w: it was at version %d, now it is at %d", app, session.ErrStale, read, now)
}

// RevisionNotFound is the error for a missing revision.
func RevisionNotFound(app, id string) error {
	return fmt.Errorf("revision %s of app %s is not stored: %w", id, app, session.ErrNotFound)
}
