package store

import (
	"errors"
	"fmt"
	"slices"

	"agenthost/pkg/session"
)

// A damagedError is a row that does not decode, or one that is missing. Nobody who
// asked is to blame, so it is never a [session.ErrInvalid], which the decoders use.
type damagedError struct {
	row    string // which one, by what identifies it for people
	reason string
}

func newDamagedError(err error, format string, args ...any) error {
	return &damagedError{fmt.Sprintf(format, args...), err.Error()}
}

func (e *damagedError) Error() string { return e.row + ": " + e.reason }

// errMissing is the reason of a row that is not there.
var errMissing = errors.New("row is missing")

// wrapReadError is the error of a read, with the whole key when a row is damaged: then
// somebody has to find it.
func wrapReadError(key session.Key, err error) error {
	var bad *damagedError
	if errors.As(err, &bad) {
		return fmt.Errorf("session %s is damaged: %w", key, err)
	}
	return fmt.Errorf("reading session %s: %w", key.ID, err)
}

// checkSequence wants the numbers of events to lead up to last without a gap, the
// first of them right after since.
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
