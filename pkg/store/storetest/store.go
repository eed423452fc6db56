package storetest

import (
	"context"
	"strings"
	"testing"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

func (su *Suite) testStoreClosed(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	closeStore(t, s)
	closeStore(t, s)
	ctx := t.Context()
	calls := map[string]func() error{
		"Create":        func() error { _, err := s.Sessions.Create(ctx, alice, nil); return err },
		"Get":           func() error { _, err := s.Sessions.Get(ctx, alice, nil); return err },
		"List":          func() error { _, err := s.Sessions.List(ctx, "app", ""); return err },
		"Delete":        func() error { return s.Sessions.Delete(ctx, alice) },
		"Append":        func() error { return s.Sessions.Append(ctx, sess, textEvent("user", "hi")) },
		"Ping":          func() error { return s.Ping(ctx) },
		"Artifacts":     func() error { _, err := s.Artifacts.Keys(ctx, alice); return err },
		"Save":          func() error { _, err := s.Artifacts.Save(ctx, alice, "a", textPart("x")); return err },
		"Load":          func() error { _, err := s.Artifacts.Load(ctx, alice, "a", -1); return err },
		"Versions":      func() error { _, err := s.Artifacts.Versions(ctx, alice, "a"); return err },
		"DeleteAnother": func() error { return s.Artifacts.Delete(ctx, alice, "a") },
	}
	for name, call := range calls {
		wantErr(t, name+" of a closed store", call(), wantedError{store.ErrClosed, "store is closed"})
	}
	if sess.Version != 0 || sess.History.Len() != 0 {
		t.Errorf("after a failed append: version %d, %d events", sess.Version, sess.History.Len())
	}
}

func (su *Suite) testContextCancelled(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	calls := map[string]func() error{
		"Create": func() error { _, err := s.Sessions.Create(ctx, alice, nil); return err },
		"Get":    func() error { _, err := s.Sessions.Get(ctx, alice, nil); return err },
		"List":   func() error { _, err := s.Sessions.List(ctx, "app", ""); return err },
		"Delete": func() error { return s.Sessions.Delete(ctx, alice) },
		"Append": func() error { return s.Sessions.Append(ctx, sess, stateEvent(map[string]any{"k": 1})) },
		"Save":   func() error { _, err := s.Artifacts.Save(ctx, alice, "a", textPart("x")); return err },
		"Acquire": func() error {
			_, _, err := s.Sessions.Acquire(ctx, alice, 0)
			return err
		},
	}
	for name, call := range calls {
		wantErr(t, name+" with a cancelled context", call(), wantedError{context.Canceled, ""})
	}
	diff(t, "state after a failed append", map[string]any{}, sess.State.All())
	if sess.Version != 0 || sess.History.Len() != 0 {
		t.Errorf("after a failed append: version %d, %d events", sess.Version, sess.History.Len())
	}
	if got := getSession(t, s, alice, nil); got.Version != 0 {
		t.Errorf("stored version = %d, want 0", got.Version)
	}
}

func (su *Suite) testInvalidKeys(t *testing.T) {
	long := strings.Repeat("x", 300)
	tests := []struct {
		name string
		key  session.Key
		want string
	}{
		{"no app", session.Key{User: "u", ID: "s"}, "app and user are required"},
		{"no user", session.Key{App: "a", ID: "s"}, "app and user are required"},
		{"long app", session.Key{App: long, User: "u", ID: "s"}, "app exceeds the limit of 128 characters"},
		{"long user", session.Key{App: "a", User: long, ID: "s"}, "user id exceeds the limit of 255 characters"},
		{"long id", session.Key{App: "a", User: "u", ID: long}, "session id exceeds the limit of 128 characters"},
		{"not UTF-8", session.Key{App: "a", User: "\xff", ID: "s"}, `user id "\xff" is not UTF-8`},
		{"NUL", session.Key{App: "a", User: "u", ID: "a\x00b"}, `session id "a\x00b" contains a NUL byte`},
	}
	s := su.open(t, nil)
	for _, tt := range tests {
		_, err := s.Sessions.Create(t.Context(), tt.key, nil)
		wantErr(t, "Create with "+tt.name, err, wantedError{session.ErrInvalid, tt.want})
		_, err = s.Sessions.Get(t.Context(), tt.key, nil)
		wantErr(t, "Get with "+tt.name, err, wantedError{session.ErrInvalid, tt.want})
		wantErr(t, "Delete with "+tt.name, s.Sessions.Delete(t.Context(), tt.key), wantedError{session.ErrInvalid, tt.want})
	}
	_, err := s.Sessions.Get(t.Context(), session.Key{App: "a", User: "u"}, nil)
	wantErr(t, "Get without id", err, wantedError{session.ErrInvalid, "session id is required"})
	_, err = s.Sessions.List(t.Context(), "", "u")
	wantErr(t, "List without app", err, wantedError{session.ErrInvalid, "app is required"})
	_, err = s.Sessions.List(t.Context(), "a\x00b", "u")
	wantErr(t, "List of an app with a NUL", err, wantedError{session.ErrInvalid, `app "a\x00b" contains a NUL byte`})
	_, err = s.Sessions.List(t.Context(), "a", "\xff")
	wantErr(t, "List of a user that is not UTF-8", err, wantedError{session.ErrInvalid, `user id "\xff" is not UTF-8`})
	createSession(t, s, session.Key{App: "a", User: strings.Repeat("語", 255), ID: "s"}, nil)
}

func (su *Suite) testCreateSessionID(t *testing.T) {
	s := su.open(t, nil)
	if got := createSession(t, s, session.Key{App: "a", User: "u", ID: " \tx\n"}, nil).ID; got != "x" {
		t.Errorf("id = %q, want x", got)
	}
	a, b := createSession(t, s, session.Key{App: "a", User: "u", ID: "  "}, nil), createSession(t, s, session.Key{App: "a", User: "u"}, nil)
	if a.ID == "" || a.ID == b.ID {
		t.Errorf("new ids = %q, %q", a.ID, b.ID)
	}
	_, err := s.Sessions.Create(t.Context(), session.Key{App: "a", User: "u", ID: "x"}, nil)
	wantErr(t, "second Create", err, wantedError{session.ErrExists, "session already exists: x"})
	_, err = s.Sessions.Get(t.Context(), session.Key{App: "a", User: "u", ID: "X"}, nil)
	wantErr(t, "Get of another case", err, wantedError{session.ErrNotFound, "session not found: X"})
}

// IDs are compared bytewise: case, accents, trailing blanks and Unicode forms are
// significant.
func (su *Suite) testIDsCompareBytewise(t *testing.T) {
	ids := []string{"a", "A", "a ", " a", "ä", "a\u0308", "Ä", "ss", "ß", "a\t", "ａ", "🙂", "🙃"}
	s := su.open(t, nil)
	for i, id := range ids {
		sess := createSession(t, s, session.Key{App: id, User: "u", ID: "s"}, map[string]any{"app:" + id: i})
		for _, ev := range ids {
			e := textEvent("user", "hi")
			e.ID = ev
			appendEvent(t, s, sess, e)
		}
		createSession(t, s, session.Key{App: "app", User: id, ID: "s"}, map[string]any{"app:" + id: i, "user:k": i})
	}
	for i, id := range ids {
		sess := getSession(t, s, session.Key{App: id, User: "u", ID: "s"}, nil)
		diff(t, "state of the app "+id, map[string]any{"app:" + id: int64(i)}, sess.State.All())
		diff(t, "events", len(ids), sess.History.Len())
		sess = getSession(t, s, session.Key{App: "app", User: id, ID: "s"}, nil)
		v, _ := sess.State.Get("user:k")
		diff(t, "state of the user "+id, int64(i), v)
		diff(t, "keys", len(ids)+1, len(sess.State.All()))
		list, err := s.Sessions.List(t.Context(), "app", id)
		if err != nil || len(list) != 1 {
			t.Errorf("user %q has %d sessions, %v", id, len(list), err)
		}
	}
}
