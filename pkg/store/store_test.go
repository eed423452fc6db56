package store

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/session"
)

// A testBackend is a row of the table that the whole suite runs over.
type testBackend struct {
	name string
	url  func(t testing.TB) string
}

func backends() []testBackend {
	return []testBackend{
		{"memory", func(testing.TB) string { return "memory:" }},
		{"sqlite", sqliteFile},
		{"postgres", postgresSchema},
		{"mysql", mysqlDatabase},
		{"pgbouncer", poolerSchema},
	}
}

// eachBackend runs a test of the suite on an empty store of each backend.
func eachBackend(t *testing.T, test func(t *testing.T, s *Store)) {
	for _, be := range backends() {
		t.Run(be.name, func(t *testing.T) { test(t, openStore(t, be.url(t), nil)) })
	}
}

func openStore(t testing.TB, url string, o *Options) *Store {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	if o.Artifacts == "" && strings.Contains(url, "@") {
		with := *o
		with.Artifacts = "dir:" + t.TempDir()
		o = &with
	}
	s, err := Open(t.Context(), url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

func closeStore(t testing.TB, s *Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

var alice = session.Key{App: "app", User: "alice", ID: "s"}

func createSession(t testing.TB, s *Store, key session.Key, state map[string]any) *session.Session {
	t.Helper()
	sess, err := s.Sessions.Create(t.Context(), key, state)
	if err != nil {
		t.Fatalf("Create(%v) = %v", key, err)
	}
	return sess
}

func getSession(t testing.TB, s *Store, key session.Key, o *GetOptions) *session.Session {
	t.Helper()
	sess, err := s.Sessions.Get(t.Context(), key, o)
	if err != nil {
		t.Fatalf("Get(%v) = %v", key, err)
	}
	return sess
}

func appendEvent(t testing.TB, s *Store, sess *session.Session, ev *session.Event) *session.Event {
	t.Helper()
	if err := s.Sessions.Append(t.Context(), sess, ev); err != nil {
		t.Fatalf("Append(%v) = %v", sess.Key, err)
	}
	return ev
}

// stateEvent is an event that only changes the state.
func stateEvent(delta map[string]any) *session.Event {
	ev := &session.Event{InvocationID: "e-1", Author: "agent"}
	ev.Actions.StateDelta = delta
	return ev
}

func wantErr(t testing.TB, what string, err, want error, text string) {
	t.Helper()
	if !errors.Is(err, want) || !strings.Contains(err.Error(), text) {
		t.Errorf("%s = %v, want %v with %q", what, err, want, text)
	}
}

func diff(t testing.TB, what string, want, got any) {
	t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("%s (-want +got):\n%s", what, d)
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	nameless := func(engine string) string {
		u := engineURL(t, engine)
		u.Path = "/nameless"
		return u.String()
	}
	tests := []struct{ name, url, artifacts, want string }{
		{"no scheme", "sessions.db", "", `opening store "sessions.db": unknown scheme "sessions.db": supported are memory:, sqlite:///file.db, postgres://user@host/database and mysql://user@host/database`},
		{"unknown scheme", "redis://host", "", `unknown scheme "redis": supported are memory:, sqlite:///file.db, postgres://user@host/database and mysql://user@host/database`},
		{"memory with a path", "memory:x", "", `memory: has no path, got "x"`},
		{"no slashes", "sqlite:x.db", "", "write sqlite:///FILE for a relative path, sqlite:////FILE for an absolute path"},
		{"two slashes", "sqlite://x.db", "", "write sqlite:///FILE"},
		{"no file", "sqlite:///", "", "a database file is required; write memory: for sessions in memory"},
		{"sqlite in memory", "sqlite:///:memory:", "", "write memory: for sessions in memory"},
		{"a folder", "sqlite:////var/", "", "/var/ is a folder: name the database file in it"},
		{"unknown parameter", "sqlite:///x.db?cache=shared", "", `unknown parameter "cache": supported are synchronous=full (the default) and synchronous=normal`},
		{"bad value", "sqlite:///x.db?synchronous=off", "", "synchronous must be full"},
		{"bad escape", "sqlite:///x.db?%zz=1", "", `invalid parameters after ?: write name=value`},
		{"not a database", "sqlite:///" + dir, "", "opening database"},
		{"unknown artifacts", "memory:", "ftp://host", `opening artifacts "ftp://host": unknown scheme "ftp": supported are memory:, dir:///folder, gs://bucket/prefix and s3://bucket/prefix`},
		{"artifacts in memory with a path", "memory:", "memory:x", `memory: has no path, got "x"`},
		{"no bucket", "memory:", "gs://", "a bucket is required: gs://bucket or gs://bucket/prefix"},
		{"no bucket's slashes", "memory:", "gs:bucket", "a bucket is required: gs://bucket or gs://bucket/prefix"},
		{"bad bucket", "memory:", "gs://Bucket_", `invalid bucket name "Bucket_": use lower case letters, digits, dots and dashes`},
		{"bad prefix", "memory:", "s3://bucket/a/../b", `prefix "a/../b": write it as folders, such as s3://bucket/agents/prod`},
		{"gs with parameters", "memory:", "gs://bucket?region=x", "gs: URLs have no parameters"},
		{"s3 with an unknown parameter", "memory:", "s3://bucket?zone=x", `unknown parameter "zone": supported are region= and endpoint=`},
		{"s3 without keys", "memory:", "s3://bucket", "no credentials for S3: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY for the host"},
		{"server without slashes", "postgres:host", "", `write //USER:PASSWORD@HOST:PORT/DATABASE, with %XX for special characters in user and password`},
		{"odd password after a number", "mysql://u:1/secret@host/db", "", `opening store "mysql://***@host/db": write //USER`},
		{"odd password after a database", "mysql://u:1/x?secret@host/db", "", `opening store "mysql://***@host/db": write //USER`},
		{"no database", "postgres://u:secret@host", "", `opening store "postgres://***@host": name one database: //HOST/DATABASE`},
		{"odd password", "postgres://u:se/cr@et@host/db", "", `opening store "postgres://***@host/db": write //USER`},
		{"odd password with ?", "mysql://u:se?cret@host/db", "", `opening store "mysql://***@host/db": write //USER`},
		{"unknown scheme with a password", "postgre://u:secret@host/db", "", `opening store "postgre://***@host/db": unknown scheme "postgre"`},
		{"unknown parameter of postgres", "postgresql+asyncpg://u:secret@host/db?password=secret", "", `opening store "postgresql+asyncpg://***@host/db?…": unknown parameter "password": supported are application_name, connect_timeout, default_query_exec_mode, host, pool_size, search_path, sslcert, sslkey, sslmode, sslrootcert, statement_cache_capacity, synchronous_commit, target_session_attrs`},
		{"unknown parameter of mysql", "mysql+pymysql://u:secret@host/db?parseTime=true", "", `unknown parameter "parseTime": supported are charset, connect_timeout, pool_size, ssl_ca, tls, unix_socket`},
		{"parameter twice", "postgres://u@host/db?sslmode=require&ssl=require", "", `parameter "sslmode" appears more than once`},
		{"parameters unreadable", "postgres://u@host/db?a=%zz", "", `invalid parameters after ?`},
		{"pool too small", "mysql://u@host/db?pool_size=1", "", "pool_size=1 is not a number of connections from 2 to 1000"},
		{"no seconds", "mysql://u@host/db?connect_timeout=1s", "", "connect_timeout=1s is not a number of seconds from 1 to 3600"},
		{"bad sslmode", "postgres://u:secret@host/db?sslmode=on", "", `opening store "postgres://***@host/db?…": sslmode is invalid`},
		{"bad mode", "postgres://u:secret@host/db?default_query_exec_mode=fast", "", "default_query_exec_mode=fast is not one of cache_statement, cache_describe, describe_exec, exec, simple_protocol"},
		{"bad charset", "mysql://u@host/db?charset=latin1", "", "charset must be utf8mb4, got latin1"},
		{"bad tls", "mysql://u@host/db?tls=maybe", "", "tls must be false (the default), true, skip-verify or preferred, got maybe"},
		{"no authority", "mysql://u@host/db?ssl_ca=" + dir + "/none.pem", "", "ssl_ca: open "},
		{"authority without tls", "mysql://u@host/db?tls=false&ssl_ca=x", "", "ssl_ca cannot be used with tls=false"},
		{"no server", "postgres://u:secret@127.0.0.1:1/db", "", `opening store "postgres://***@127.0.0.1:1/db": database unreachable: dial tcp 127.0.0.1:1: connect: connection refused; check that the server is running, and the host and port in the URL`},
		{"no server of mysql", "mariadb://u:secret@127.0.0.1:1/db", "", `opening store "mariadb://***@127.0.0.1:1/db": database unreachable: dial tcp 127.0.0.1:1: connect: connection refused; check that the server is running, and the host and port in the URL`},
		{"no database of postgres", nameless("postgres"), "", `database unreachable: FATAL: database "nameless" does not exist (SQLSTATE 3D000); create the database first, or name one that exists in the URL`},
		{"no database of mysql", nameless("mysql"), "", `database unreachable: Error 1049 (42000): Unknown database 'nameless'; create the database first, or name one that exists in the URL`},
		{"no such cache", "postgres://u:secret@host/db?statement_cache_capacity=many", "", "statement_cache_capacity=many is not a number of statements from 0 to 100000"},
		{"no cache, but its mode", "postgres://u:secret@host/db?statement_cache_capacity=0&default_query_exec_mode=cache_statement", "", "statement_cache_capacity=0 contradicts default_query_exec_mode=cache_statement"},
		{"artifacts with a key", "memory:", "s3://key:secret@bucket", `opening artifacts "s3://***@bucket": credentials are not allowed in the URL: s3://bucket reads them from the environment`},
		{"artifacts without folder", "memory:", "dir:", "a folder is required: dir:///folder"},
		{"artifacts of a host", "memory:", "dir://tmp/x", "write dir:///tmp/x for an absolute path, dir:tmp/x for a relative path"},
		{"artifacts with parameters", "memory:", "dir:///tmp/x?a=b", "dir: has no parameters"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s, err := Open(t.Context(), tt.url, &Options{Artifacts: tt.artifacts, Lookup: lookup(nil)})
			if err == nil {
				closeStore(t, s)
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
				t.Errorf("Open(%q) = %v, want %q", tt.url, err, tt.want)
			}
		})
	}
}

func TestOpenURLForms(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, url := range []string{
		"memory:",
		"memory://",
		"sqlite:///relative.db",
		"sqlite:///new/folder/x.db",
		"sqlite+aiosqlite:///relative.db",
		"sqlite:///relative.db?synchronous=NORMAL",
		"sqlite:///" + filepath.Join(t.TempDir(), "odd name?no", "50%.db#x"),
	} {
		t.Run(url, func(t *testing.T) {
			url = strings.Replace(url, "?no", "", 1)
			s := openStore(t, url, nil)
			createSession(t, s, session.Key{App: "app", User: "u"}, nil)
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("Ping() = %v", err)
			}
		})
	}
}

func TestStoreClosed(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
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
			wantErr(t, name+" of a closed store", call(), errClosed, "store is closed")
		}
		if sess.Version != 0 || sess.History.Len() != 0 {
			t.Errorf("after a failed append: version %d, %d events", sess.Version, sess.History.Len())
		}
	})
}

func TestContextCancelled(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
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
			wantErr(t, name+" with a cancelled context", call(), context.Canceled, "")
		}
		diff(t, "state after a failed append", map[string]any{}, sess.State.All())
		if sess.Version != 0 || sess.History.Len() != 0 {
			t.Errorf("after a failed append: version %d, %d events", sess.Version, sess.History.Len())
		}
		if got := getSession(t, s, alice, nil); got.Version != 0 {
			t.Errorf("stored version = %d, want 0", got.Version)
		}
	})
}

func TestInvalidKeys(t *testing.T) {
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
	eachBackend(t, func(t *testing.T, s *Store) {
		for _, tt := range tests {
			_, err := s.Sessions.Create(t.Context(), tt.key, nil)
			wantErr(t, "Create with "+tt.name, err, session.ErrInvalid, tt.want)
			_, err = s.Sessions.Get(t.Context(), tt.key, nil)
			wantErr(t, "Get with "+tt.name, err, session.ErrInvalid, tt.want)
			wantErr(t, "Delete with "+tt.name, s.Sessions.Delete(t.Context(), tt.key), session.ErrInvalid, tt.want)
		}
		_, err := s.Sessions.Get(t.Context(), session.Key{App: "a", User: "u"}, nil)
		wantErr(t, "Get without id", err, session.ErrInvalid, "session id is required")
		_, err = s.Sessions.List(t.Context(), "", "u")
		wantErr(t, "List without app", err, session.ErrInvalid, "app is required")
		_, err = s.Sessions.List(t.Context(), "a\x00b", "u")
		wantErr(t, "List of an app with a NUL", err, session.ErrInvalid, `app "a\x00b" contains a NUL byte`)
		_, err = s.Sessions.List(t.Context(), "a", "\xff")
		wantErr(t, "List of a user that is not UTF-8", err, session.ErrInvalid, `user id "\xff" is not UTF-8`)
		createSession(t, s, session.Key{App: "a", User: strings.Repeat("語", 255), ID: "s"}, nil)
	})
}

func TestCreateSessionID(t *testing.T) {
	eachBackend(t, func(t *testing.T, s *Store) {
		if got := createSession(t, s, session.Key{App: "a", User: "u", ID: " \tx\n"}, nil).ID; got != "x" {
			t.Errorf("id = %q, want x", got)
		}
		a, b := createSession(t, s, session.Key{App: "a", User: "u", ID: "  "}, nil), createSession(t, s, session.Key{App: "a", User: "u"}, nil)
		if a.ID == "" || a.ID == b.ID {
			t.Errorf("new ids = %q, %q", a.ID, b.ID)
		}
		_, err := s.Sessions.Create(t.Context(), session.Key{App: "a", User: "u", ID: "x"}, nil)
		wantErr(t, "second Create", err, session.ErrExists, "session already exists: x")
		_, err = s.Sessions.Get(t.Context(), session.Key{App: "a", User: "u", ID: "X"}, nil)
		wantErr(t, "Get of another case", err, session.ErrNotFound, "session not found: X")
	})
}

// IDs are compared bytewise: case, accents, trailing blanks and Unicode forms are
// significant.
func TestIDsCompareBytewise(t *testing.T) {
	ids := []string{"a", "A", "a ", " a", "ä", "a\u0308", "Ä", "ss", "ß", "a\t", "ａ", "🙂", "🙃"}
	eachBackend(t, func(t *testing.T, s *Store) {
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
	})
}
