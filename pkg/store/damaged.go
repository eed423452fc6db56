package store

import (
	"errors"
	"fmt"
	"slices"

	"agenthost/pkg/session"
)

// A damagedError reports a row that does not decode or is missing. The caller
// is not at fault, so it is never a [session.ErrInvalid], which the decoders
// return.
type damagedError struct {
	row    string // identifies the row for people
	reason string
}

func newDamagedError(err error, format string, args ...any) error {
	return &damagedError{fmt.Sprintf(format, args...), err.Error()}
}

func (e *damagedError) Error() string { return e.row + ": " + e.reason }

// errMissing is the reason for a missing row.
var errMissing = errors.New("row is missing")

// wrapReadError wraps the error of a read. If a row is damaged, it adds the
// complete session key, so that an operator can find the row.
func wrapReadError(key session.Key, err error) error {
	var bad *damagedError
	if errors.As(err, &bad) {
		return fmt.Errorf("session %s is damaged: %w", key, err)
	}
	return fmt.Errorf("reading session %s: %w", key.ID, err)
}

// checkSequence checks that the numbers of events run from since+1 to last
// without a gap.
func checkSequence(events []storedEvent, since, last int64) error {
	for _, e := range slices.Backward(events) {
		if e.event.Seq != last {
			break
		}
		last--
	}
	if since != last {
		return newDamagedError(errMissing, "event %d", last)
	}
	return nil
}
