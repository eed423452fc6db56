package store_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func openStore(t testing.TB, opts *store.Options) *store.Store {
	t.Helper()
	s := memstore.New(opts)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

var alice = session.Key{App: "app", User: "alice", ID: "s"}

func createSession(t testing.TB, s *store.Store, key session.Key, state map[string]any) *session.Session {
	t.Helper()
	sess, err := s.Sessions.Create(t.Context(), key, state)
	if err != nil {
		t.Fatalf("Create(%v) = %v", key, err)
	}
	return sess
}

func getSession(t testing.TB, s *store.Store, key session.Key, o *store.GetOptions) *session.Session {
	t.Helper()
	sess, err := s.Sessions.Get(t.Context(), key, o)
	if err != nil {
		t.Fatalf("Get(%v) = %v", key, err)
	}
	return sess
}

func appendEvent(t testing.TB, s *store.Store, sess *session.Session, ev *session.Event) *session.Event {
	t.Helper()
	if err := s.Sessions.Append(t.Context(), sess, ev); err != nil {
		t.Fatalf("Append(%v) = %v", sess.Key, err)
	}
	return ev
}

func textEvent(author, text string) *session.Event {
	content := model.UserText(text)
	if author != session.UserAuthor {
		content = model.ModelText(text)
	}
	return &session.Event{InvocationID: "e-1", Author: author, Response: model.Response{Content: content}}
}

func diff(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func acquire(t *testing.T, s *store.Sessions, key session.Key) func() {
	t.Helper()
	_, release, err := s.Acquire(t.Context(), key, time.Minute)
	if err != nil {
		t.Fatalf("Acquire(%v) = %v", key, err)
	}
	return release
}

func wantErr(t testing.TB, what string, err, want error, text string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s = %v, want %v with %q", what, err, want, text)
	}
}
