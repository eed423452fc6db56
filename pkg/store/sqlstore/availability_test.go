package sqlstore

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A ping writes to the session tables, and fails while they cannot be written. When they can again,
// it succeeds, without a new start. Nothing is left of it.
func TestPingWrites(t *testing.T) {
	for _, tt := range []struct{ be, breaks, repairs, want string }{
		{"sqlite", "ALTER TABLE events RENAME TO gone", "ALTER TABLE gone RENAME TO events", "no such table: events"},
		{"postgres", "ALTER TABLE events RENAME TO gone", "ALTER TABLE gone RENAME TO events", "does not exist"},
		{"mysql", "RENAME TABLE events TO gone", "RENAME TABLE gone TO events", "doesn't exist"},
		{"postgres", "REVOKE INSERT ON events FROM %[1]s", "GRANT INSERT ON events TO %[1]s", "permission denied for table events"},
		{"postgres", "ALTER ROLE %[1]s SET default_transaction_read_only = on", "ALTER ROLE %[1]s SET default_transaction_read_only = off", "session store: database not writable: ERROR: cannot execute INSERT in a read-only transaction"},
	} {
		t.Run(tt.be+" "+strings.ReplaceAll(tt.breaks, "%[1]s", "ROLE"), func(t *testing.T) {
			url, admin, role := namedBackend(t, tt.be), "", ""
			admin = url
			if tt.be == "postgres" {
				url, role = roleOf(t, url, -1)
			}
			s := openStore(t, url, nil)
			mustSucceed(t, "a ping", s.Ping(t.Context()))
			execSQL(t, admin, formatRole(tt.breaks, role))
			drop(t, s) // a role's setting applies to new connections
			if err := s.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Ping() = %v, want %q", err, tt.want)
			}
			execSQL(t, admin, formatRole(tt.repairs, role))
			drop(t, s)
			mustSucceed(t, "a ping after the repair", s.Ping(t.Context()))
			for _, table := range []string{"sessions", "events", "states"} {
				var n int
				query := "SELECT count(*) FROM " + table
				if err := s.db.reads.QueryRowContext(t.Context(), query).Scan(&n); err != nil || n != 0 {
					t.Errorf("%s has %d rows, %v", table, n, err)
				}
			}
		})
	}
}

// A full disk is reported as such.
func TestFullDatabaseFile(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	sess := createSession(t, s, alice, nil)
	limit := func(pages string) {
		t.Helper()
		w := s.db.writers[0]
		mustSucceed(t, "limiting the file", w.runWrite(t.Context(), func(w *writer) error {
			return w.orm.Exec("PRAGMA max_page_count = " + pages).Error
		}))
	}
	limit("1") // SQLite takes the size that the file has
	var err error
	for n := 0; err == nil && n < 1000; n++ {
		err = s.Sessions.Append(t.Context(), sess, textEvent("user", strings.Repeat("x", 2000)))
	}
	wantErr(t, "an append to a full file", err, session.ErrUnavailable, "session store: database not writable: ")
	limit("100000")
	appendEvent(t, s, sess, textEvent("user", "hi"))
}

// A database file that is removed or replaced while it is open is noticed by the
// first write: nothing is acknowledged, or read, until the file is back.
func TestDatabaseFileReplaced(t *testing.T) {
	for _, name := range []string{"removed", "replaced", "journal removed"} {
		t.Run(name, func(t *testing.T) {
			url := sqliteFile(t)
			path := strings.TrimPrefix(url, "sqlite:///")
			var log strings.Builder
			s := openStore(t, url, &store.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			sess := createSession(t, s, alice, nil)
			appendEvent(t, s, sess, textEvent("user", "one"))
			taken := path
			if name == "journal removed" {
				taken = path + "-wal"
			}
			mustSucceed(t, "moving the file", os.Rename(taken, taken+".away"))
			if name == "replaced" {
				mustSucceed(t, "replacing the file", os.WriteFile(path, nil, 0o600))
			}
			const text = "session store: database file removed or replaced"
			for what, err := range map[string]error{
				"Append": s.Sessions.Append(t.Context(), sess, textEvent("user", "two")),
				"Ping":   s.Ping(t.Context()),
			} {
				wantErr(t, what, err, session.ErrUnavailable, text)
			}
			_, err := s.Sessions.Get(t.Context(), alice, nil)
			wantErr(t, "Get", err, session.ErrUnavailable, text)
			if sess.Version != 1 {
				t.Errorf("version %d is seen", sess.Version)
			}
			if n := strings.Count(log.String(), "database file removed or replaced"); n != 1 || !strings.Contains(log.String(), filepath.Base(taken)) {
				t.Errorf("log: %s", log.String())
			}
			mustSucceed(t, "moving the file back", os.Rename(taken+".away", taken))
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("Ping() = %v after the file is back", err)
			}
		})
	}
}

// A server that allows two connections, or three, serves every turn: the store
// makes do with those that it has.
func TestTooManyConnections(t *testing.T) {
	for _, be := range []string{"postgres", "mysql"} {
		for _, most := range []int{2, 3} {
			t.Run(fmt.Sprint(be, " ", most), func(t *testing.T) {
				url, _ := roleOf(t, namedBackend(t, be), most)
				s := openStore(t, url, nil)
				runConcurrently(t, 12, func(i int) error {
					key := session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}
					if _, err := s.Sessions.Create(t.Context(), key, nil); err != nil {
						return err
					}
					for range 3 {
						if err := runOnce(t, s.Sessions, key); err != nil {
							return err
						}
					}
					return nil
				})
				for i := range 12 {
					key := session.Key{App: "app", User: "u", ID: fmt.Sprint(i)}
					s.dropCache()
					if n := getSession(t, s, key, nil).History.Len(); n != 6 {
						t.Errorf("session %d has %d events", i, n)
					}
				}
			})
		}
	}
}

// Every operation on an unreachable database fails with ErrUnavailable.
func TestUnreachableIsUnavailable(t *testing.T) {
	eachServer(t, func(t *testing.T, url string) {
		p, url := startProxy(t, url)
		s := openStore(t, url, nil)
		sess := createSession(t, s, alice, nil)
		p.cut()
		err := s.Sessions.Append(t.Context(), sess, textEvent("user", "hi"))
		if !errors.Is(err, session.ErrUnavailable) || strings.Contains(err.Error(), "\n") {
			t.Errorf("Append() = %v", err)
		}
	})
}

func mustSucceed(t testing.TB, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func namedBackend(t *testing.T, name string) string {
	t.Helper()
	for _, be := range backends() {
		if be.name == name {
			return be.url(t)
		}
	}
	t.Fatalf("no backend %s", name)
	return ""
}

func formatRole(text, role string) string { return strings.ReplaceAll(text, "%[1]s", role) }

// drop ends a store's connections, which opens others.
func drop(t *testing.T, s *testStore) {
	t.Helper()
	b := s.db
	if b.dialect.server == nil {
		return
	}
	for _, w := range b.writers {
		w.borrowConn(func() { _ = w.dropConn() })
	}
	b.closeIdleReaders()
}

// roleOf returns a database URL for a new role with a connection limit; -1 means no limit.
func roleOf(t *testing.T, url string, most int) (as, role string) {
	t.Helper()
	role = "r" + strings.ReplaceAll(uuid.NewString(), "-", "")[:20]
	if strings.HasPrefix(url, "mysql") {
		database := url[strings.LastIndex(url, "/")+1:]
		execSQL(t, url, fmt.Sprintf("CREATE USER %[1]s@'%%' WITH MAX_USER_CONNECTIONS %[2]d; GRANT ALL ON %[3]s.* TO %[1]s@'%%'", role, most, database))
		t.Cleanup(func() { cleanUp(t, url, "DROP USER "+role+"@'%'") })
		return strings.Replace(url, "root@", role+"@", 1), role
	}
	schema := url[strings.Index(url, "search_path=")+len("search_path="):]
	execSQL(t, url, fmt.Sprintf("CREATE ROLE %[1]s LOGIN CONNECTION LIMIT %[2]d; GRANT ALL ON SCHEMA %[3]s TO %[1]s; ALTER DEFAULT PRIVILEGES IN SCHEMA %[3]s GRANT ALL ON TABLES TO %[1]s", role, most, schema))
	t.Cleanup(func() { cleanUp(t, url, "DROP OWNED BY "+role+"; DROP ROLE "+role) })
	return strings.Replace(strings.Replace(url, "postgres@", role+"@", 1), "pool_size=8", "pool_size=16", 1), role
}
