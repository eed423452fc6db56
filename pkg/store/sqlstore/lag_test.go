package sqlstore

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// openLagging opens a store on two databases with the same session: it writes to the first one, and the reads that
// are not on a writer's connection see the second one, which has only the session's first event.
func openLagging(t *testing.T, primary, standby string, opts *store.Options) *testStore {
	t.Helper()
	s := openStore(t, primary, opts)
	late := openStore(t, standby, nil)
	s.db.head, s.db.events, s.db.leases = late.db.head, late.db.events, late.db.leases
	if s.db.headReader != nil {
		s.db.headReader.read = late.db.queryHeads
	}
	t.Cleanup(func() { // each store closes its own statements
		s.db.head, s.db.events, s.db.leases = nil, nil, nil
	})
	return s
}

// newLaggingPair returns a server's two databases, with a session of two events and a copy that has one.
func newLaggingPair(t *testing.T, be testBackend) (primary, standby string) {
	t.Helper()
	primary, standby = be.url(t), be.url(t)
	for i, url := range []string{primary, standby} {
		s := openStore(t, url, nil)
		sess := createSession(t, s, alice, nil)
		first := textEvent("user", "one")
		first.ID = "first"
		appendEvent(t, s, sess, first)
		if i == 0 {
			appendEvent(t, s, sess, textEvent("user", "two"))
		}
	}
	return primary, standby
}

// eachDirectServer runs a test for each server without a pooler.
func eachDirectServer(t *testing.T, test func(t *testing.T, be testBackend)) {
	for _, be := range backends() {
		if be.name == "postgres" || be.name == "mysql" {
			t.Run(be.name, func(t *testing.T) { test(t, be) })
		}
	}
}

const lagMessage = "the database answers reads from a replica that lags: sessions are read on the connections that write from now on"

// A store sees what it has written even if the server answers reads from a replica that lags. The
// replica is named in the log, once, and not taken for a database that was restored.
func TestReadsOwnWrites(t *testing.T) {
	eachDirectServer(t, func(t *testing.T, be testBackend) {
		primary, standby := newLaggingPair(t, be)
		log := &logged{}
		s := openLagging(t, primary, standby, &store.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		old := getSession(t, s, alice, nil) // nothing shows yet that it is old
		diff(t, "texts of the standby", []string{"one"}, sessionTexts(old))

		// Another run of this store has the newer events in the cache.
		s.dropCache()
		s.db.lag.found.Store(true)
		getSession(t, s, alice, nil)
		s.db.lag.found.Store(false)
		for range 2 {
			diff(t, "texts", []string{"one", "two"}, sessionTexts(getSession(t, s, alice, nil)))
		}
		if text := log.String(); strings.Count(text, lagMessage) != 1 || strings.Contains(text, "restored") {
			t.Errorf("log:\n%s", text)
		}
	})
}

// A turn that began with an older state fails once. From then on runs read what is stored.
func TestStaleAppendFindsLag(t *testing.T) {
	eachDirectServer(t, func(t *testing.T, be testBackend) {
		primary, standby := newLaggingPair(t, be)
		log := &logged{}
		s := openLagging(t, primary, standby, &store.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
		turn := func(text string) error {
			_, release, err := s.Sessions.Acquire(t.Context(), alice, time.Minute)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			return s.Sessions.Append(t.Context(), getSession(t, s, alice, nil), textEvent("user", text))
		}
		if err := turn("lost"); !errors.Is(err, session.ErrStale) {
			t.Errorf("the first turn = %v, want stale", err)
		}
		if err := turn("three"); err != nil {
			t.Errorf("the next turn = %v", err)
		}
		diff(t, "texts", []string{"one", "two", "three"}, sessionTexts(getSession(t, s, alice, nil)))
		if text := log.String(); strings.Count(text, lagMessage) != 1 {
			t.Errorf("log:\n%s", text)
		}
	})
}
