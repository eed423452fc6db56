package sqlstore

import (
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agenthost/internal/testdb"
	"agenthost/pkg/session"
)

// hangTimeout is the timeout for the stores below, and muchLater less than two in a row.
const (
	hangTimeout = 4 * time.Second
	muchLater   = 2*hangTimeout - time.Second
)

// Server hangs, by what the proxy swallows.
var (
	hangAll     = hangKind(func(_, _ bool) bool { return true })
	hangOld     = hangKind(func(isNew, _ bool) bool { return !isNew })
	hangNew     = hangKind(func(isNew, _ bool) bool { return isNew })
	hangAnswers = hangKind(func(_, isAnswer bool) bool { return isAnswer })
)

// eachHanging runs a test on each server and on a pooler, behind a proxy.
func eachHanging(t *testing.T, test func(t *testing.T, p *proxy, s *hangStore)) {
	eachHangingFor(t, hangTimeout, test)
}

// eachHangingFor is eachHanging with another store timeout.
func eachHangingFor(t *testing.T, timeout time.Duration, test func(t *testing.T, p *proxy, s *hangStore)) {
	eachServer(t, func(t *testing.T, url string) {
		t.Parallel()
		p, proxied := startProxy(t, url)
		separator := "?"
		if strings.Contains(url, "?") {
			separator = "&"
		}
		s := newHangStore(t, url, openStore(t, fmt.Sprintf("%s%stimeout=%d", proxied, separator, timeout/time.Second), nil))
		for i := range 48 {
			createSession(t, s.testStore, hangKey(i), nil)
		}
		test(t, p, s)
	})
}

// A hangStore is a store behind a proxy, with its server's URL and its schema there.
type hangStore struct {
	*testStore
	server, schema string
}

func newHangStore(t *testing.T, url string, s *testStore) *hangStore {
	t.Helper()
	if strings.HasPrefix(url, "mysql") {
		return &hangStore{s, url, url[strings.LastIndex(url, "/")+1:]}
	}
	_, schema, _ := strings.Cut(url, "search_path=")
	return &hangStore{s, engineURL(t, "postgres").String(), schema}
}

// awaitNoneBlocked waits until the server executes no statement that waits for a lock.
func awaitNoneBlocked(t *testing.T, s *hangStore) {
	t.Helper()
	query := "SELECT query FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%" + s.schema + "%'"
	if strings.HasPrefix(s.server, "mysql") {
		query = "SELECT info FROM information_schema.processlist WHERE db = '" + s.schema + "' AND command = 'Query' AND time > 1"
	}
	db, err := testdb.Open(s.server)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for began := time.Now(); ; {
		var blocked sql.NullString
		err := db.QueryRowContext(t.Context(), query).Scan(&blocked)
		switch {
		case errors.Is(err, sql.ErrNoRows):
			return
		case err != nil:
			t.Fatal(err)
		case time.Since(began) > time.Minute:
			t.Fatalf("the server still executes %s", blocked.String)
		}
	}
}

func hangKey(i int) session.Key { return session.Key{App: "app", User: "u", ID: fmt.Sprint(i)} }

// callAtOnce reads and writes with more callers than connections. It counts failed calls, and fails
// the test if one has waited for two timeouts, or failed otherwise.
func callAtOnce(t *testing.T, s *hangStore) (failed int) {
	t.Helper()
	var mu sync.Mutex
	runConcurrently(t, 48, func(i int) error {
		began := time.Now()
		sess, err := s.Sessions.Get(t.Context(), hangKey(i), nil)
		if err == nil && i%2 == 0 {
			err = s.Sessions.Append(t.Context(), sess, textEvent("user", "hi"))
		}
		if held := time.Since(began); held > 2*s.db.breaker.timeout-time.Second {
			return fmt.Errorf("held for %s: %w", held, err)
		}
		if err != nil && !errors.Is(err, session.ErrUnavailable) {
			return err
		}
		if err != nil {
			mu.Lock()
			defer mu.Unlock()
			failed++
		}
		return nil
	})
	return failed
}

// A server that swallows what it gets, or only its answers, holds no request for longer than one
// timeout, however many wait for a connection. Then requests and readiness fail at once, until it
// answers again.
func TestHangingServer(t *testing.T) {
	for name, kind := range map[string]*hangKind{"everything": &hangAll, "answers": &hangAnswers} {
		t.Run(name, func(t *testing.T) {
			eachHanging(t, func(t *testing.T, p *proxy, s *hangStore) {
				p.hang.Store(kind)
				if n := callAtOnce(t, s); n != 48 {
					t.Errorf("%d calls failed, want all", n)
				}
				for what, call := range map[string]func() error{
					"Ping": func() error { return s.Ping(t.Context()) },
					"Get":  func() error { _, err := s.Sessions.Get(t.Context(), hangKey(0), nil); return err },
					"Create": func() error {
						_, err := s.Sessions.Create(t.Context(), session.Key{App: "app", User: "u"}, nil)
						return err
					},
					"List": func() error { _, err := s.Sessions.List(t.Context(), "app", ""); return err },
				} {
					wantErr(t, what+" while the breaker is open", call(), session.ErrUnavailable, "session store: database does not answer")
				}
				p.hang.Store(nil)
				awaitAnswering(t, s.testStore)
				if n := callAtOnce(t, s); n != 0 {
					t.Errorf("%d calls failed after the hang", n)
				}
			})
		})
	}
}

// awaitAnswering waits until the breaker is closed.
func awaitAnswering(t *testing.T, s *testStore) {
	t.Helper()
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for s.db.breaker.checkClosed() != nil {
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatal("the breaker stays open")
		}
	}
}

// After a failover that swallows what old connections send, requests are executed again on new
// connections: none fails. The timeout leaves a busy machine time for the new connections, which
// come after silenceLimit.
func TestFailoverSwallowsOldConnections(t *testing.T) {
	eachHangingFor(t, 5*hangTimeout, func(t *testing.T, p *proxy, s *hangStore) {
		callAtOnce(t, s)
		p.hang.Store(&hangOld)
		if n := callAtOnce(t, s); n != 0 {
			t.Errorf("%d calls failed", n)
		}
		for i := range 48 {
			s.dropCache()
			if got, want := getSession(t, s.testStore, hangKey(i), nil).History.Len(), 2*((i+1)%2); got != want {
				t.Errorf("session %d has %d events, want %d", i, got, want)
			}
		}
	})
}

// When the breaker opens, the writes fail that still wait for others. Only those that the server
// may have got wait until their deadline.
func TestWaitingWritesEndWhenBreakerOpens(t *testing.T) {
	eachHanging(t, func(t *testing.T, p *proxy, s *hangStore) {
		sessions := make([]*session.Session, 48)
		for i := range sessions {
			sessions[i] = getSession(t, s.testStore, hangKey(i), nil)
		}
		p.hang.Store(&hangAll)
		var silent, late atomic.Int64
		runConcurrently(t, len(sessions), func(i int) error {
			switch err := s.Sessions.Append(t.Context(), sessions[i], textEvent("user", "hi")); {
			case errors.Is(err, errSilent):
				silent.Add(1)
			case errors.Is(err, errTimeout):
				late.Add(1)
			default:
				return fmt.Errorf("append %d: %w", i, err)
			}
			return nil
		})
		if silent.Load() < 24 || late.Load() == 0 {
			t.Errorf("%d writes ended when the breaker opened, %d at their deadline", silent.Load(), late.Load())
		}
	})
}

// A ping succeeds while one writer connection is not answered, also if that has locked a ping's
// rows: requests on the other connections succeed. It does not wait until the connection is
// replaced.
func TestPingOneSilentConnection(t *testing.T) {
	eachHanging(t, func(t *testing.T, p *proxy, s *hangStore) {
		for answers := range 4 {
			var n atomic.Int64
			one := hangKind(func(isNew, isAnswer bool) bool {
				return isAnswer && !isNew && n.Add(1) == int64(answers+1)
			})
			p.hang.Store(&one)
			began := time.Now()
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("Ping() = %v after %d answers", err, answers)
			}
			if held := time.Since(began); held >= silenceLimit {
				t.Errorf("Ping() took %s after %d answers", held, answers)
			}
			p.hang.Store(nil)
			s.db.writers[0].borrowConn(func() { _ = s.db.writers[0].dropConn() })
		}
	})
}

// While only new connections are swallowed, the old ones serve requests.
func TestNewConnectionsSwallowed(t *testing.T) {
	eachHanging(t, func(t *testing.T, p *proxy, s *hangStore) {
		p.hang.Store(&hangNew)
		for i := range 10 {
			sess := getSession(t, s.testStore, hangKey(i), nil)
			appendEvent(t, s.testStore, sess, textEvent("user", "hi"))
		}
		s.db.breaker.startProber(time.Now())
		<-time.After(silenceLimit + probeInterval)
		if err := s.db.breaker.checkClosed(); err != nil {
			t.Errorf("the breaker opened though nothing waits: %v", err)
		}
		appendEvent(t, s.testStore, getSession(t, s.testStore, hangKey(0), nil), textEvent("user", "hi"))
	})
}

// While only new connections are swallowed, one blocked statement opens nothing either, and it is
// not executed twice: an idle connection is answered.
func TestNewConnectionsSwallowedWhileBlocked(t *testing.T) {
	eachHanging(t, func(t *testing.T, p *proxy, s *hangStore) {
		callAtOnce(t, s)
		sess := getSession(t, s.testStore, hangKey(1), nil)
		unlock := lockSession(t, s, hangKey(1))
		p.hang.Store(&hangNew)
		appended := make(chan error, 1)
		go func() { appended <- s.Sessions.Append(t.Context(), sess, textEvent("user", "hi")) }()
		select {
		case <-s.db.breaker.openChannel():
			t.Error("the breaker opened because of one blocked statement")
		case err := <-appended:
			t.Errorf("Append() = %v", err)
		case <-time.After(hangTimeout - time.Second/4):
		}
		unlock()
		if err := <-appended; err != nil {
			t.Errorf("Append() = %v", err)
		}
	})
}

// An append whose answer is lost in a hang is stored once when it is sent again.
func TestAppendAfterHang(t *testing.T) {
	eachHanging(t, func(t *testing.T, p *proxy, s *hangStore) {
		sess := getSession(t, s.testStore, hangKey(0), nil)
		ev := textEvent("user", "hi")
		p.hang.Store(&hangAnswers)
		wantErr(t, "Append", s.Sessions.Append(t.Context(), sess, ev), session.ErrUnavailable, "session store: database did not answer within 4s")
		p.hang.Store(nil)
		awaitAnswering(t, s.testStore)
		appendEvent(t, s.testStore, sess, ev)
		s.dropCache()
		if n := getSession(t, s.testStore, hangKey(0), nil).History.Len(); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
}

// A store on a server that hangs closes within one timeout and the connection limit.
func TestCloseWhileHanging(t *testing.T) {
	eachHanging(t, func(t *testing.T, p *proxy, s *hangStore) {
		release := acquire(t, s.Sessions, hangKey(0))
		p.hang.Store(&hangAll)
		release()
		began := time.Now()
		_ = s.Close()
		if held := time.Since(began); held > muchLater+closeLimit {
			t.Errorf("Close() took %s", held)
		}
	})
}

// lockSession locks a session's row from outside the store.
func lockSession(t *testing.T, s *hangStore, key session.Key) (unlock func()) {
	t.Helper()
	db, err := testdb.Open(s.server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.ExecContext(t.Context(), "UPDATE "+s.schema+".sessions SET initial = initial WHERE app_name = 'app' AND user_id = 'u' AND id = '"+key.ID+"'"); err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}
}

// A statement that another process blocks ends at its request's deadline, also at the server. Other
// requests are not affected.
func TestBlockedStatement(t *testing.T) {
	eachHanging(t, func(t *testing.T, _ *proxy, s *hangStore) {
		unlock := lockSession(t, s, hangKey(0))
		sess := getSession(t, s.testStore, hangKey(0), nil)
		wantErr(t, "Append", s.Sessions.Append(t.Context(), sess, textEvent("user", "hi")), session.ErrUnavailable, "session store: database did not answer within 4s")
		if err := s.db.breaker.checkClosed(); err != nil {
			t.Error(err)
		}
		i := 1
		for s.db.writerFor(hangKey(i)) == s.db.writerFor(hangKey(0)) {
			i++
		}
		appendEvent(t, s.testStore, getSession(t, s.testStore, hangKey(i), nil), textEvent("user", "hi"))
		awaitNoneBlocked(t, s)
		unlock()
		appendEvent(t, s.testStore, getSession(t, s.testStore, hangKey(0), nil), textEvent("user", "hi"))
	})
}

// A statement also ends at a server that takes no new connections when its deadline passes.
// PostgreSQL needs no free connection to end one.
func TestBlockedStatementOfFullServer(t *testing.T) {
	eachHanging(t, func(t *testing.T, p *proxy, s *hangStore) {
		if !strings.HasPrefix(s.server, "mysql") {
			return
		}
		unlock := lockSession(t, s, hangKey(0))
		defer unlock()
		sess := getSession(t, s.testStore, hangKey(0), nil)
		p.hang.Store(&hangNew)
		wantErr(t, "Append", s.Sessions.Append(t.Context(), sess, textEvent("user", "hi")), session.ErrUnavailable, "session store: database did not answer within 4s")
		<-time.After(hangTimeout)
		p.hang.Store(nil)
		awaitNoneBlocked(t, s)
	})
}

// Long work has no deadline: it waits for a lock for longer than the timeout.
func TestLongWorkHasNoDeadline(t *testing.T) {
	eachHanging(t, func(t *testing.T, _ *proxy, s *hangStore) {
		unlock := lockSession(t, s, hangKey(0))
		deleted := make(chan error, 1)
		go func() { deleted <- s.Sessions.Delete(t.Context(), hangKey(0)) }()
		select {
		case err := <-deleted:
			t.Errorf("Delete() = %v while the row is locked", err)
		case <-time.After(hangTimeout + time.Second):
		}
		unlock()
		if err := <-deleted; err != nil {
			t.Errorf("Delete() = %v", err)
		}
	})
}

// While another process locks a database file, each write waits for one timeout, also those in
// the queue.
func TestLockedFile(t *testing.T) {
	url := sqliteFile(t)
	s := openStore(t, url+"?timeout=1", nil)
	sessions := make([]*session.Session, 8)
	for i := range sessions {
		sessions[i] = createSession(t, s, hangKey(i), nil)
	}
	db, err := testdb.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	var writes sync.WaitGroup
	began := time.Now()
	for i, sess := range sessions {
		writes.Go(func() {
			err := s.Sessions.Append(t.Context(), sess, textEvent("user", "hi"))
			if !errors.Is(err, session.ErrUnavailable) {
				t.Errorf("Append() to session %d = %v", i, err)
			}
		})
		<-time.After(50 * time.Millisecond) // a queue with several batches
	}
	writes.Wait()
	if held := time.Since(began); held > 3*time.Second {
		t.Errorf("writes were held for %s", held)
	}
	if _, err := conn.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	appendEvent(t, s, sessions[0], textEvent("user", "hi"))
}
