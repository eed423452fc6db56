package sqlstore

import (
	"sync/atomic"
	"testing"

	"agenthost/pkg/session"
)

// A turn of two events sends three statements to a server, also with its outcome: it reads the head,
// and appends each event. The lease of the session's last turn is used again.
func TestTurnRoundTrips(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		p, url := startProxy(t, url)
		s := openStore(t, url, nil)
		key := session.Key{App: "app", User: "user", ID: "s"}
		createSession(t, s, key, nil)
		for range 10 { // drivers prepare statements
			if err := runTurn(t.Context(), s.Sessions, key); err != nil {
				t.Fatal(err)
			}
		}
		const turns = 20
		var sent atomic.Int64
		count := hangKind(func(_, isAnswer bool) bool {
			if !isAnswer {
				sent.Add(1)
			}
			return false
		})
		p.hang.Store(&count)
		for range turns {
			if err := runTurn(t.Context(), s.Sessions, key); err != nil {
				t.Fatal(err)
			}
		}
		p.hang.Store(nil)
		if n := sent.Load(); n != 3*turns {
			t.Errorf("%d turns have %d round trips, want %d", turns, n, 3*turns)
		}
		var o session.Outcome
		if err := o.Decode(getSession(t, s, key, nil).Outcome); err != nil || o.Turns != 10+turns {
			t.Errorf("outcome %+v, %v", o, err)
		}
	})
}
