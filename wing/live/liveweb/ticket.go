package liveweb

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"sync"
	"time"

	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// Tickets open one live socket without an Authorization header, which browsers cannot send
// with a WebSocket.
const (
	ticketLifetime = time.Minute
	maxTickets     = 10_000
	// maxUserTickets is how many unused tickets a user may have; a new one replaces the oldest, so
	// that no user exhausts everyone's tickets.
	maxUserTickets = 50
)

// A ticketStore holds the tickets that this process has issued and that are not used. Only
// their hashes are kept. It is safe for concurrent use.
type ticketStore struct {
	clock func() time.Time

	mu      sync.Mutex
	tickets map[[sha256.Size]byte]ticket
}

// A ticket allows its caller to open one live socket for one session.
type ticket struct {
	key     session.Key
	caller  *server.Principal
	user    string
	expires time.Time
}

// issueTicket returns a new ticket. It fails when too many are unused.
func (t *ticketStore) issueTicket(key session.Key, caller *server.Principal) (string, error) {
	text := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock()
	user := key.User
	if caller != nil {
		user = caller.UserID
	}
	t.dropTickets(user, now)
	if len(t.tickets) >= maxTickets {
		return "", errTooManyLiveSockets
	}
	if t.tickets == nil {
		t.tickets = map[[sha256.Size]byte]ticket{}
	}
	t.tickets[sha256.Sum256([]byte(text))] = ticket{key, caller, user, now.Add(ticketLifetime)}
	return text, nil
}

// dropTickets drops expired tickets, and the oldest one if a user has too many.
func (t *ticketStore) dropTickets(user string, now time.Time) {
	count := 0
	var oldest [sha256.Size]byte
	var expires time.Time
	for hash, one := range t.tickets {
		switch {
		case !now.Before(one.expires):
			delete(t.tickets, hash)
		case one.user == user:
			if count++; count == 1 || one.expires.Before(expires) {
				oldest, expires = hash, one.expires
			}
		}
	}
	if count >= maxUserTickets {
		delete(t.tickets, oldest)
	}
}

// redeemTicket returns a ticket's caller for a session. The first attempt uses up a ticket,
// whatever its session is.
func (t *ticketStore) redeemTicket(text string, key session.Key) (*server.Principal, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	hash := sha256.Sum256([]byte(text))
	found, ok := t.tickets[hash]
	delete(t.tickets, hash)
	if !ok || !t.clock().Before(found.expires) || found.key != key {
		return nil, server.NewError(http.StatusUnauthorized, "Not authenticated")
	}
	return found.caller, nil
}

// handleLiveTicket issues a ticket for the session in the query.
func (s *handlers) handleLiveTicket(w http.ResponseWriter, r *http.Request) error {
	q, r, err := s.readLiveRequest(r)
	if err != nil {
		return err
	}
	caller, err := s.Authenticate(r)
	if err != nil {
		return err
	}
	asked := (&liveQuery{values: r.URL.Query()}).readText("user_id") // as in the handshake
	text, err := s.tickets.issueTicket(session.Key{App: q.App, User: asked, ID: q.SessionID}, caller)
	if err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	return server.WriteJSON(w, map[string]any{"ticket": text, "expiresIn": int(ticketLifetime.Seconds())})
}

// liveSubprotocol is the WebSocket subprotocol that the server selects if the client offers
// it. A client that cannot send headers offers it next to bearer.TOKEN, with the token in
// base64url.
const liveSubprotocol = "adk"

// liveAuthorization returns the Authorization header that is offered as a
// subprotocol, or an empty string.
func liveAuthorization(r *http.Request) string {
	for _, line := range r.Header.Values("Sec-Websocket-Protocol") {
		for offer := range splitList(line) {
			if encoded, ok := cutBearer(offer); ok {
				if token, err := base64.RawURLEncoding.DecodeString(encoded); err == nil {
					return "Bearer " + string(token)
				}
			}
		}
	}
	return ""
}
