package codec

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"agenthost/pkg/session"
)

// The maximum id lengths in characters. The schema's widest index has four of them and must stay
// below MySQL's limit of 3072 bytes, at 4 bytes each.
const (
	MaxApp  = 128
	MaxUser = 255
	MaxID   = 128
	MaxKey  = 255
)

// CheckOwner validates an app name and a user id.
func CheckOwner(app, user string) error {
	switch {
	case app == "":
		return missingError("app")
	case user == "":
		return missingError("user")
	}
	if err := CheckText("app", app, MaxApp); err != nil {
		return err
	}
	return CheckText("user id", user, MaxUser)
}

// A missingError names the key part that is missing. It is a [session.ErrInvalid].
type missingError string

// Error returns the message.
func (e missingError) Error() string { return string(e) + " is required" }

// Unwrap returns the error's class.
func (e missingError) Unwrap() error { return session.ErrInvalid }

// CheckSession validates a stored session's key.
func CheckSession(key session.Key) error {
	if err := CheckOwner(key.App, key.User); err != nil {
		return err
	}
	if key.ID == "" {
		return fmt.Errorf("session id is required: %w", session.ErrInvalid)
	}
	return CheckText("session id", key.ID, MaxID)
}

// IsStorable reports whether a database can have the strings in its keys: others are in no row.
func IsStorable(texts ...string) bool {
	for _, text := range texts {
		if CheckText("key", text, MaxUser) != nil {
			return false
		}
	}
	return true
}

// CheckText rejects strings that a database would reject or change.
func CheckText(what, text string, most int) error {
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
