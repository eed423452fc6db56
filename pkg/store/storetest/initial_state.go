package storetest

import (
	"testing"

	"agenthost/pkg/session"
)

// The initial state of a session is preserved unchanged, regardless of later writes.
func (su *Suite) testInitial(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, map[string]any{
		"n": 1, "f": 1.0, "m": map[string]any{"l": []any{int64(2)}}, "none": nil,
		"user:u": 1, "app:a": 1, "temp:t": 1,
	})
	ev := textEvent("user", "hi")
	ev.Actions.StateDelta = map[string]any{"n": 2, "f": nil, "later": true}
	appendEvent(t, s, sess, ev)
	got, err := s.Sessions.Initial(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	diff(t, "initial", map[string]any{"n": int64(1), "f": 1.0, "m": map[string]any{"l": []any{int64(2)}}}, got)
	_, err = s.Sessions.Initial(t.Context(), session.Key{App: "a", User: "u", ID: "none"})
	wantErr(t, "no such session", err, wantedError{session.ErrNotFound, "session not found: none"})
}
