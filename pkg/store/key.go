package store

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"agenthost/pkg/session"
)

// The longest ids in characters. Four of them make the widest index of the
// schema, which must stay below the 3072 bytes of MySQL at 4 bytes each.
const (
	maxApp  = 128
	maxUser = 255
	maxID   = 128
	maxKey  = 255
)

// checkOwner says what is wrong with an app and user id.
func checkOwner(app, user string) error {
	if app == "" || user == "" {
		return fmt.Errorf("app and user are required: %w", session.ErrInvalid)
	}
	if err := checkText("app", app, maxApp); err != nil {
		return err
	}
	return checkText("user id", user, maxUser)
}

// checkSession says what is wrong with the key of a stored session.
func checkSession(key session.Key) error {
	if err := checkOwner(key.App, key.User); err != nil {
		return err
	}
	if key.ID == "" {
		return fmt.Errorf("session id is required: %w", session.ErrInvalid)
	}
	return checkText("session id", key.ID, maxID)
}

// checkText refuses what some database would refuse or change.
func checkText(what, text string, most int) error {
	switch {
	case len(text) > most && utf8.RuneCountInString(text) > most:
		return fmt.Errorf("%s is longer than %d characters: %w", what, most, session.ErrInvalid)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s %q is not UTF-8: %w", what, text, session.ErrInvalid)
	case strings.IndexByte(text, 0) >= 0:
		return fmt.Errorf("%s %q holds a NUL: %w", what, text, session.ErrInvalid)
	default:
		return nil
	}
}

func errNotFound(id string) error { return fmt.Errorf("session %w: %s", session.ErrNotFound, id) }

func errExists(id string) error { return fmt.Errorf("session %w: %s", session.ErrExists, id) }

func errStale(id string, read, now int64) error {
	return fmt.Errorf("session %s %w: it was at version %d, now it is at %d", id, session.ErrStale, read, now)
}

func errFenced(id string) error { return fmt.Errorf("session %s %w", id, session.ErrFenced) }
