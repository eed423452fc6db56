package store

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"agenthost/pkg/session"
)

// The maximum lengths of ids in characters. The widest index of the schema has
// four of them and must stay below MySQL's limit of 3072 bytes, at 4 bytes each.
const (
	maxApp  = 128
	maxUser = 255
	maxID   = 128
	maxKey  = 255
)

// checkOwner validates an app name and a user id.
func checkOwner(app, user string) error {
	if app == "" || user == "" {
		return fmt.Errorf("app and user are required: %w", session.ErrInvalid)
	}
	if err := checkText("app", app, maxApp); err != nil {
		return err
	}
	return checkText("user id", user, maxUser)
}

// ValidateOwner reports whether sessions may belong to an app and a user: an error that
// is [session.ErrInvalid] names what is wrong.
func ValidateOwner(app, user string) error { return checkOwner(app, user) }

// checkSession validates the key of a stored session.
func checkSession(key session.Key) error {
	if err := checkOwner(key.App, key.User); err != nil {
		return err
	}
	if key.ID == "" {
		return fmt.Errorf("session id is required: %w", session.ErrInvalid)
	}
	return checkText("session id", key.ID, maxID)
}

// checkText rejects strings that a database would reject or change.
func checkText(what, text string, most int) error {
	switch {
	case len(text) > most && utf8.RuneCountInString(text) > most:
		return fmt.Errorf("%s exceeds the limit of %d characters: %w", what, most, session.ErrInvalid)
	case !utf8.ValidString(text):
		return fmt.Errorf("%s %q is not UTF-8: %w", what, text, session.ErrInvalid)
	case strings.IndexByte(text, 0) >= 0:
		return fmt.Errorf("%s %q contains a NUL byte: %w", what, text, session.ErrInvalid)
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
