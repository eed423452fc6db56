package sqlstore

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// Every test in the suite runs behind a pooler too; see backends. These are the rules that only
// poolers have.

// Two replicas share a pooler that has one, two or many connections to the
// server, which are killed again and again: every event that was acknowledged is
// stored, once, and every lease is held by one replica at a time.
func TestPoolerConnectionsKilled(t *testing.T) {
	for _, size := range []int{1, 2, 10} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			direct := postgresSchema(t)
			name := "kills" + direct[strings.Index(direct, "search_path=")+12:][:20]
			kill := "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '" + name + "'"
			url := startPooler(t, direct, size) + "&application_name=" + name
			replicas := []*testStore{openStore(t, url, nil), openStore(t, url, nil)}
			key := func(i int) session.Key { return session.Key{App: "app", User: "u", ID: fmt.Sprint(i)} }
			for i := range 3 {
				createSession(t, replicas[0], key(i), nil)
			}
			var count atomic.Int64
			runConcurrently(t, 6, func(i int) error {
				for n := range 12 {
					if count.Add(1)%20 == 0 {
						execSQL(t, direct, kill)
					}
					s := replicas[(i+n)%2].Sessions
					if err := runOnce(t, s, key(i/2)); err != nil {
						return err
					}
				}
				return nil
			})
			for i := range 3 {
				replicas[0].dropCache()
				if n := getSession(t, replicas[0], key(i), nil).History.Len(); n != 48 {
					t.Errorf("session %d has %d events, want 48", i, n)
				}
			}
		})
	}
}

// runOnce is a turn: two events under a lease.
func runOnce(t *testing.T, s *store.Sessions, key session.Key) error {
	_, release, err := s.Acquire(t.Context(), key, time.Minute)
	if err != nil {
		return err
	}
	defer release()
	sess, err := s.Get(t.Context(), key, nil)
	for i := 0; i < 2 && err == nil; i++ {
		err = s.Append(t.Context(), sess, stateEvent(map[string]any{"k": i, "app:k": key.ID}))
	}
	return err
}

// On a direct connection statements are prepared once; behind a pooler they are not
// prepared by name, unless the URL sets the mode.
func TestPoolerDetection(t *testing.T) {
	const prepared = "SELECT count(*) > 0 FROM pg_prepared_statements"
	for _, tt := range []struct {
		name   string
		pooled bool
		params string
		want   bool
	}{
		{"direct", false, "", true},
		{"behind a pooler", true, "", false},
		{"direct without a cache", false, "&statement_cache_capacity=0", false},
		{"direct with a small cache", false, "&statement_cache_capacity=2", true},
		{"direct with a mode", false, "&default_query_exec_mode=exec", false},
		{"pooler with a mode", true, "&default_query_exec_mode=simple_protocol", false},
		{"pooler with another mode", true, "&default_query_exec_mode=describe_exec", false},
		{"pooler without a cache", true, "&statement_cache_capacity=0", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			url := postgresSchema(t)
			if tt.pooled {
				url = startPooler(t, url, 2)
			}
			s := openStore(t, url+tt.params, nil)
			sess := createSession(t, s, alice, map[string]any{"k": 1})
			appendEvent(t, s, sess, stateEvent(map[string]any{"k": nil, "app:k": "语", "user:k": int64(1)<<53 + 1}))
			s.dropCache()
			diff(t, "stored", plainState(t, sess), plainState(t, getSession(t, s, alice, nil)))
			b := s.db
			var got bool
			if err := b.writers[0].conn.QueryRowContext(t.Context(), prepared).Scan(&got); err != nil || got != tt.want {
				t.Errorf("%s = %t, %v, want %t", prepared, got, err, tt.want)
			}
		})
	}
}

// A session setting is refused where it would not last.
func TestPoolerRefusesSessionSettings(t *testing.T) {
	url := startPooler(t, postgresSchema(t), 2) + "&synchronous_commit=off"
	s, err := allEngines().Open(t.Context(), url, nil)
	if err == nil {
		s.Close()
	}
	const want = "synchronous_commit cannot be set through a connection pooler: set it on the server with ALTER ROLE or ALTER DATABASE"
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open = %v, want %q", err, want)
	}
}
