package sqlstore

import (
	"fmt"
	"testing"

	"agenthost/pkg/session"
)

// Events that are appended together share transactions; one after the other, each has its own.
func TestAppendAllTransactions(t *testing.T) {
	eachDatabase(t, func(t *testing.T, url string) {
		const n = 600
		s := openStore(t, url, nil)
		count := func(appendAll func(sess *session.Session, events []*session.Event) error) int64 {
			sess := createSession(t, s, session.Key{App: "app", User: "u"}, nil)
			var events []*session.Event
			for i := range n {
				events = append(events, textEvent("user", fmt.Sprint(i)))
			}
			before := s.Stats().Transactions
			if err := appendAll(sess, events); err != nil {
				t.Fatal(err)
			}
			return s.Stats().Transactions - before
		}
		together := count(func(sess *session.Session, events []*session.Event) error {
			return s.Sessions.AppendAll(t.Context(), sess, events)
		})
		single := count(func(sess *session.Session, events []*session.Event) error {
			for _, ev := range events {
				appendEvent(t, s, sess, ev)
			}
			return nil
		})
		if together != 3 || single != n {
			t.Errorf("%d events took %d transactions together and %d one by one, want 3 and %d", n, together, single, n)
		}
	})
}
