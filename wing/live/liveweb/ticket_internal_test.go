package liveweb

import (
	"errors"
	"testing"
	"time"

	"agenthost/internal/auth"
	"agenthost/pkg/session"
)

// A user that asks for tickets without end replaces its own; other users' tickets stay valid until
// they expire.
func TestTicketsPerUser(t *testing.T) {
	now := time.Unix(1000, 0)
	store := &ticketStore{clock: func() time.Time { return now }}
	issue := func(user string) string {
		text, err := store.issueTicket(session.Key{App: "a", User: user, ID: "s"}, &auth.Principal{UserID: user})
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	redeem := func(user, text string) error {
		_, err := store.redeemTicket(text, session.Key{App: "a", User: user, ID: "s"})
		return err
	}
	first, late, first2 := issue("u"), issue("u"), issue("v")
	now = now.Add(time.Second)
	for range maxUserTickets + 1 {
		issue("v")
	}
	if len(store.tickets) != 2+maxUserTickets {
		t.Errorf("%d tickets", len(store.tickets))
	}
	if err := redeem("u", first); err != nil {
		t.Error(err)
	}
	if redeem("v", first2) == nil {
		t.Error("the oldest ticket was not replaced")
	}
	if now = now.Add(ticketLifetime - time.Second); redeem("u", late) == nil {
		t.Error("an expired ticket is accepted")
	}
	for i := range maxTickets {
		store.tickets[[32]byte{byte(i), byte(i >> 8)}] = ticket{expires: now.Add(time.Second)}
	}
	if _, err := store.issueTicket(session.Key{App: "a", User: "w", ID: "s"}, nil); !errors.Is(err, errTooManyLiveSockets) {
		t.Errorf("one ticket too many: %v", err)
	}
}
