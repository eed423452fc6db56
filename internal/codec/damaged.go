package codec

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

// WrapReadError wraps the error of a read. If a row is damaged, it adds the
// complete session key, so that an operator can find the row.
func WrapReadError(key session.Key, err error) error {
	var bad *DamagedError
	if errors.As(err, &bad) {
		return fmt.Errorf("session %s is damaged: %w", key, err)
	}
	return fmt.Errorf("reading session %s: %w", key.ID, err)
}
