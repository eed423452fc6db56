package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agenthost/pkg/session"
)

// servers returns the backends that are database servers.
func servers() []testBackend { return backends()[2:] }

func eachServer(t *testing.T, test func(t *testing.T, url string)) {
	for _, be := range servers() {
		t.Run(be.name, func(t *testing.T) { test(t, be.url(t)) })
	}
}

// A proxy forwards connections between a store and its server, and can drop them.
type proxy struct {
	to string

	mu       sync.Mutex
	listener net.Listener
	conns    []net.Conn
	wg       sync.WaitGroup
	// deaf counts the answers that still come through; at 1, the connection ends
	// instead. Zero lets all through.
	deaf atomic.Int64
	// hang is what the proxy swallows; see hangKinds.
	hang atomic.Pointer[hangKind]
}

// A hangKind reports whether bytes of a connection are swallowed: isNew of one that was opened
// during the hang, and isAnswer of bytes from the server. Such a connection stays open, and forwards
// nothing from then on.
type hangKind func(isNew, isAnswer bool) bool

// startProxy puts a proxy before a URL's server.
func startProxy(t *testing.T, text string) (*proxy, string) {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{to: u.Host}
	p.listen(t, "127.0.0.1:0")
	u.Host = p.listener.Addr().String()
	t.Cleanup(func() { p.cut(); p.wg.Wait() })
	return p, u.String()
}

func (p *proxy) listen(t *testing.T, addr string) {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	p.listener = l
	p.wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			p.join(c)
		}
	})
}

func (p *proxy) join(c net.Conn) {
	s, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", p.to)
	if err != nil {
		c.Close()
		return
	}
	p.mu.Lock()
	p.conns = append(p.conns, c, s)
	p.mu.Unlock()
	isNew := p.hang.Load() != nil
	dead := &atomic.Bool{}
	p.wg.Go(func() { defer s.Close(); p.forward(s, c, func() bool { return p.swallows(isNew, false, dead) }) })
	p.wg.Go(func() {
		defer c.Close()
		p.forward(c, s, func() bool { return p.swallows(isNew, true, dead) })
	})
}

// swallows reports whether bytes of a connection are swallowed, and from then on all of them.
func (p *proxy) swallows(isNew, isAnswer bool, dead *atomic.Bool) bool {
	if h := p.hang.Load(); h != nil && (*h)(isNew, isAnswer) {
		dead.Store(true)
	}
	return dead.Load()
}

// forward copies bytes until one side ends.
func (p *proxy) forward(to, from net.Conn, swallowed func() bool) {
	isAnswer := from.RemoteAddr().String() == p.to
	b := make([]byte, 1<<16)
	for {
		n, err := from.Read(b)
		if err != nil || isAnswer && p.deaf.Load() > 0 && p.deaf.Add(-1) == 0 {
			return
		}
		if swallowed() {
			continue
		}
		if _, err := to.Write(b[:n]); err != nil {
			return
		}
	}
}

// cut takes the server away.
func (p *proxy) cut() {
	p.listener.Close()
	p.sever()
}

// sever ends all connections; new ones are taken.
func (p *proxy) sever() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = nil
}

// Dead connections are replaced without an error.
func TestConnectionReplaced(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		p, url := startProxy(t, url)
		s := openStore(t, url, nil)
		sess := createSession(t, s, alice, nil)
		for i := range 3 {
			appendEvent(t, s, sess, stateEvent(map[string]any{"k": i}))
			p.sever()
			s.dropCache()
			if n := getSession(t, s, alice, nil).History.Len(); n != i+1 {
				t.Errorf("%d events, want %d", n, i+1)
			}
			p.sever()
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("Ping() = %v", err)
		}
	})
}

// Opening a database ends after connect_timeout, also at a server that accepts connections and
// sends nothing.
func TestOpenSilentServer(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() // the system accepts the connections
	for _, scheme := range []string{"postgres", "mysql"} {
		db, err := allEngines().Open(t.Context(), scheme+"://root@"+l.Addr().String()+"/test?connect_timeout=1", nil)
		if err == nil {
			t.Fatalf("%s: Open succeeded: %v", scheme, db.Close())
		}
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: Open = %v, want a deadline exceeded", scheme, err)
		}
	}
}

// An unavailable database is reported as such, and used again once it is back.
func TestServerRestart(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		p, url := startProxy(t, url)
		s := openStore(t, url, nil)
		sess := createSession(t, s, alice, nil)
		addr := p.listener.Addr().String()
		p.cut()
		ev := textEvent("user", "hi")
		const text = "session store: database "
		calls := []func() error{
			func() error { return s.Sessions.Append(t.Context(), sess, ev) },
			func() error { _, err := s.Sessions.Get(t.Context(), alice, nil); return err },
			func() error { _, err := s.Sessions.List(t.Context(), "app", ""); return err },
			func() error { return s.Ping(t.Context()) },
		}
		runConcurrently(t, len(calls), func(i int) error {
			if err := calls[i](); !errors.Is(err, errUnreachable) && !errors.Is(err, errSilent) || strings.Count(err.Error(), text) != 1 {
				return fmt.Errorf("it answers %w", err)
			}
			return nil
		})
		p.listen(t, addr)
		awaitAnswering(t, s)
		appendEvent(t, s, sess, ev)
		if n := getSession(t, s, alice, nil).History.Len(); n != 1 || ev.Seq != 1 {
			t.Errorf("%d events, seq %d", n, ev.Seq)
		}
	})
}

// If the connection is lost before a response, the outcome is unknown; a retry
// applies every write exactly once.
func TestLostResponse(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		p, url := startProxy(t, url)
		s := openStore(t, url, nil)
		for lost := range int64(7) {
			key := session.Key{App: "app", User: "u", ID: fmt.Sprint(lost)}
			p.deaf.Store(lost + 1)
			sess := createSession(t, s, key, map[string]any{"k": 0})
			p.deaf.Store(lost + 1)
			appendEvent(t, s, sess, stateEvent(map[string]any{"k": lost, "app:k": lost, "user:gone": nil}))
			p.deaf.Store(lost + 1)
			appendEvent(t, s, sess, textEvent("user", "hi"))
			p.deaf.Store(0)
			s.dropCache()
			again := getSession(t, s, key, nil)
			if again.History.Len() != 2 || again.Version != 2 {
				t.Errorf("answer %d lost: %d events, version %d, want 2", lost, again.History.Len(), again.Version)
			}
			diff(t, "state", map[string]any{"k": lost, "app:k": lost}, again.State.All())
			diff(t, "live and stored", plainState(t, sess), plainState(t, again))
		}
	})
}

// The connection ends again and again under many writers: every event that was
// acknowledged is there, once.
func TestConnectionLossUnderLoad(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		p, url := startProxy(t, url)
		s := openStore(t, url, nil)
		var count atomic.Int64
		runConcurrently(t, 8, func(i int) error {
			key := session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}
			sess, err := s.Sessions.Create(t.Context(), key, nil)
			for n := 0; n < 30 && err == nil; n++ {
				if count.Add(1)%40 == 0 {
					p.sever()
				}
				err = s.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{"app:k": n}))
			}
			return err
		})
		s.dropCache()
		for i := range 8 {
			if n := getSession(t, s, session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}, nil).History.Len(); n != 30 {
				t.Errorf("session %d has %d events", i, n)
			}
		}
	})
}

// Two programs that write the same keys and sessions in opposite orders do not
// report deadlocks.
func TestTwoStoresOnOneServer(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		stores := []*testStore{openStore(t, url, nil), openStore(t, url, nil)}
		for i := range 4 {
			createSession(t, stores[0], session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}, nil)
		}
		var stored atomic.Int64
		runConcurrently(t, 16, func(i int) error {
			s := stores[i%2]
			for n := range 20 {
				sess, err := s.Sessions.Get(t.Context(), session.Key{App: "app", User: "u", ID: fmt.Sprint((i + n) % 4)}, nil)
				if err != nil {
					return err
				}
				var value any = i
				if (i+n)%3 == 0 {
					value = nil
				}
				delta := map[string]any{fmt.Sprint("app:k", n%3): value, fmt.Sprint("user:k", (i+n)%3): i, fmt.Sprint("app:k", (n+1)%3): i}
				err = s.Sessions.Append(t.Context(), sess, stateEvent(delta))
				if err == nil {
					stored.Add(1)
				} else if !errors.Is(err, session.ErrStale) {
					return err
				}
			}
			return nil
		})
		var events int64
		for i := range 4 {
			key := session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}
			stores[0].dropCache()
			events += int64(getSession(t, stores[0], key, nil).History.Len())
		}
		if events != stored.Load() {
			t.Errorf("%d events, %d were acknowledged", events, stored.Load())
		}
	})
}

// Many replicas start at once on an empty database.
func TestConcurrentOpenServer(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		runConcurrently(t, 8, func(int) error {
			s, err := allEngines().Open(t.Context(), url, nil)
			if err != nil {
				return err
			}
			return s.Close()
		})
	})
}

func TestNewerServerSchemaIsRefused(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := openStore(t, url, nil)
		row := migrationRow{Version: 99, Name: "future"}
		w := s.db.writers[0]
		if err := w.runWrite(t.Context(), func(w *writer) error { return w.orm.Create(&row).Error }); err != nil {
			t.Fatal(err)
		}
		_, err := allEngines().Open(t.Context(), url, nil)
		if err == nil || !strings.Contains(err.Error(), "database has schema version 99, this program supports versions up to") {
			t.Errorf("Open = %v", err)
		}
	})
}

// Foreign tables are not changed.
func TestForeignTablesAreRefused(t *testing.T) {
	for _, be := range backends()[1:] {
		t.Run(be.name, func(t *testing.T) {
			url := be.url(t)
			s := openStore(t, url, nil)
			w := s.db.writers[0]
			err := w.runWrite(t.Context(), func(w *writer) error {
				for _, text := range []string{"DROP TABLE schema_migrations", "DROP TABLE session_feedback", "DROP TABLE events", "DROP TABLE sessions", "CREATE TABLE sessions (id varchar(9))"} {
					if _, err := w.conn.ExecContext(context.Background(), text); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			closeStore(t, s)
			_, err = allEngines().Open(t.Context(), url, nil)
			if err == nil || !strings.Contains(err.Error(), "the database holds the tables of another program (sessions") {
				t.Errorf("Open = %v", err)
			}
		})
	}
}

// A server that stopped between two tables of the first migration, where each
// is a transaction by itself.
func TestInterruptedMigration(t *testing.T) {
	url := mysqlDatabase(t)
	s := openStore(t, url, nil)
	w := s.db.writers[0]
	err := w.runWrite(t.Context(), func(w *writer) error {
		_, err := w.conn.ExecContext(context.Background(), "DROP TABLE states")
		if err == nil {
			_, err = w.conn.ExecContext(context.Background(), "DELETE FROM schema_migrations")
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	createSession(t, openStore(t, url, nil), alice, map[string]any{"k": 1})
}

// Nothing depends on statements that are prepared, or on the parameters' order.
func TestServerURLParameters(t *testing.T) {
	for _, tt := range []struct {
		be     testBackend
		params string
		ask    string
		want   string
	}{
		{servers()[0], "default_query_exec_mode=exec&ssl=disable", "SHOW application_name", "agenthost"},
		{servers()[0], "default_query_exec_mode=describe_exec&application_name=me&connect_timeout=3", "SHOW application_name", "me"},
		{servers()[0], "synchronous_commit=off", "SHOW synchronous_commit", "off"},
		{servers()[1], "charset=utf8mb4&pool_size=3&connect_timeout=3&tls=preferred", "SELECT @@sql_mode", "STRICT_ALL_TABLES"},
	} {
		t.Run(tt.be.name+" "+tt.params, func(t *testing.T) {
			url := tt.be.url(t)
			separator := "?"
			if strings.Contains(url, "?") {
				separator = "&"
			}
			s := openStore(t, url+separator+tt.params, nil)
			sess := createSession(t, s, alice, map[string]any{"k": 1})
			appendEvent(t, s, sess, stateEvent(map[string]any{"k": nil, "app:k": "语", "user:k": int64(1)<<53 + 1}))
			appendEvent(t, s, sess, textEvent("user", "hi"))
			s.dropCache()
			diff(t, "stored", plainState(t, sess), plainState(t, getSession(t, s, alice, nil)))
			var got string
			b := s.db
			if err := b.reads.QueryRowContext(t.Context(), tt.ask).Scan(&got); err != nil || got != tt.want {
				t.Errorf("%s = %q, %v, want %q", tt.ask, got, err, tt.want)
			}
		})
	}
}

// If no schema of the search path exists, the error names the missing one.
func TestMissingSchema(t *testing.T) {
	url := engineURL(t, "postgres")
	url.RawQuery = "search_path=absent"
	_, err := allEngines().Open(t.Context(), url.String(), nil)
	if err == nil || !strings.Contains(err.Error(), `no schema of search_path "absent" exists: create it with CREATE SCHEMA, or name an existing one`) {
		t.Errorf("Open = %v", err)
	}
}

// Events of several megabytes, also many in one batch, stay below the packet limit of
// the server.
func TestLargeEvents(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := openStore(t, url, nil)
		text := strings.Repeat("x", 3<<20)
		runConcurrently(t, 8, func(i int) error {
			sess, err := s.Sessions.Create(t.Context(), session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}, nil)
			if err == nil {
				err = s.Sessions.Append(t.Context(), sess, textEvent("user", text))
			}
			return err
		})
	})
}

// The schema has the columns of the row types, and long texts.
func TestServerSchema(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		s := openStore(t, url, nil)
		db := s.db.readers
		for _, row := range []table{&sessionRow{}, &fullEventRow{}, &stateRow{}, &migrationRow{}} {
			if there, err := hasTable(db, row); !there || err != nil {
				t.Errorf("table %s: %v, %v", row.TableName(), there, err)
			}
		}
		var kind string
		err := db.Raw("SELECT data_type FROM information_schema.columns WHERE table_name = 'events' AND column_name = 'event' LIMIT 1").Scan(&kind).Error
		if err != nil || kind != "text" && kind != "longtext" {
			t.Errorf("column event is %q, %v", kind, err)
		}
	})
}
