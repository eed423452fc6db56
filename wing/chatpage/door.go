package chatpage

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"regexp"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// guestHeader has a guest's secret: 128 random bits that the browser has generated and keeps.
const guestHeader = "X-Chat-Guest"

var guestSecret = regexp.MustCompile(`^[0-9a-f]{32}$`)

// guestPrefix begins the user IDs of guests.
const guestPrefix = "guest-"

var errNoGuest = server.NewError(http.StatusBadRequest, "The header "+guestHeader+" must be 32 hexadecimal digits")

// A visit is a request of one user to one app's chat.
type visit struct {
	// key has the session in the path, or no ID.
	key  session.Key
	app  *runtime.App
	chat *Settings
}

// openDoor identifies the caller. A token's user is the one that the host's authentication
// returns; administrators, too, reach only their own conversations. A guest's user ID is the secret's
// hash: an ID in a log or in the store does not let anyone act as the guest, and no guest can name
// another user.
func (h *handlers) openDoor(r *http.Request) (*visit, error) {
	app, chat, err := h.findChat(r)
	if err != nil {
		return nil, err
	}
	v := &visit{key: server.PathKey(r), app: app, chat: chat}
	if h.HasAuth() && (r.Header.Get("Authorization") != "" || !chat.Guests) {
		caller, err := h.Authenticate(r)
		if err != nil {
			return nil, err
		}
		if !caller.MayUse(r.Context(), v.key.App) {
			return nil, server.ErrPermissionDenied
		}
		v.key.User = caller.UserID
		return v, nil
	}
	secret := r.Header.Get(guestHeader)
	if !guestSecret.MatchString(secret) {
		return nil, errNoGuest
	}
	sum := sha256.Sum256([]byte("agenthost chat guest\x00" + secret))
	v.key.User = guestPrefix + hex.EncodeToString(sum[:16])
	return v, nil
}

// plainError returns an error for people: the cause, which may name models, tools or state, is only
// in the log.
func (h *handlers) plainError(r *http.Request, key session.Key, err error) error {
	if err == nil || errors.Is(err, server.ErrPermissionDenied) || errors.Is(err, server.ErrAuthUnavailable) {
		return err
	}
	own := (*server.Error)(nil)
	if errors.As(err, &own) && own.Status != http.StatusInternalServerError {
		return err
	}
	cause := h.LogError(r, server.WithSessionKey(key, err))
	plain := &server.Error{Status: cause.Status, Code: kindOf(cause.Status), Detail: http.StatusText(cause.Status), RetryAfter: cause.RetryAfter}
	if plain.Detail == "" {
		plain.Detail = "Error"
	}
	return plain
}

// The failure kinds that the page puts into words.
const (
	failedBusy        = "busy"
	failedLimit       = "limit"
	failedLarge       = "large"
	failedMissing     = "missing"
	failedTime        = "time"
	failedUnavailable = "unavailable"
	failedOther       = "failed"
)

func kindOf(status int) string {
	switch status {
	case http.StatusConflict:
		return failedBusy
	case http.StatusTooManyRequests:
		return failedLimit
	case http.StatusRequestEntityTooLarge:
		return failedLarge
	case http.StatusNotFound:
		return failedMissing
	case http.StatusGatewayTimeout:
		return failedTime
	case http.StatusServiceUnavailable:
		return failedUnavailable
	}
	return failedOther
}
