package storeurl_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/fake/fakevertex"
	"agenthost/internal/testdb"
	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
)

func openStore(t testing.TB, url string, o *storeurl.Options) *store.Store {
	t.Helper()
	s, err := openURL(t, url, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	return s
}

// openURL opens a store with all engines' schemes; options may be nil.
func openURL(t testing.TB, url string, o *storeurl.Options) (*store.Store, error) {
	if o == nil {
		o = &storeurl.Options{}
	}
	o.Schemes = testenv.Schemes()
	return storeurl.Open(t.Context(), url, o)
}

func closeStore(t testing.TB, s *store.Store) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

// newFile returns a URL for a database file that does not exist.
func newFile(t testing.TB) string { return "sqlite:///" + filepath.Join(t.TempDir(), "x.db") }

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	nameless := func(engine string) string {
		u := serverURL(t, engine)
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
		{"unknown parameter", "sqlite:///x.db?cache=shared", "", `unknown parameter "cache": supported are synchronous=full (the default), synchronous=normal and timeout=SECONDS`},
		{"bad value", "sqlite:///x.db?synchronous=off", "", "synchronous must be full"},
		{"bad escape", "sqlite:///x.db?%zz=1", "", `invalid parameters after ?: write name=value`},
		{"not a database", "sqlite:///" + dir, "", "opening database"},
		{"unknown artifacts", "memory:", "ftp://host", `opening artifacts "ftp://host": unknown scheme "ftp": supported are memory:, dir:///folder, gs://bucket/prefix and s3://bucket/prefix`},
		{"artifacts in memory with a path", "memory:", "memory:x", `memory: has no path, got "x"`},
		{"agentengine without artifacts", "agentengine://77", "", `opening store "agentengine://77": agentengine: stores only sessions: set the artifact store (--artifacts), or memory: to lose artifacts on exit`},
		{"agentengine without memory", "agentengine://77", "memory:", "agentengine: stores only sessions: set a database for memories and revisions (--memory), or memory: to lose them on exit"},
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
		{"unknown parameter of postgres", "postgresql+asyncpg://u:secret@host/db?password=secret", "", `opening store "postgresql+asyncpg://***@host/db?…": unknown parameter "password": supported are application_name, connect_timeout, default_query_exec_mode, host, pool_size, search_path, sslcert, sslkey, sslmode, sslrootcert, statement_cache_capacity, synchronous_commit, target_session_attrs, timeout`},
		{"unknown parameter of mysql", "mysql+pymysql://u:secret@host/db?parseTime=true", "", `unknown parameter "parseTime": supported are charset, connect_timeout, pool_size, ssl_ca, timeout, tls, unix_socket`},
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
			s, err := openURL(t, tt.url, &storeurl.Options{Artifacts: tt.artifacts, Lookup: func(string) (string, bool) { return "", false }})
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
			if _, err := s.Sessions.Create(t.Context(), session.Key{App: "app", User: "u"}, nil); err != nil {
				t.Fatal(err)
			}
			if err := s.Ping(t.Context()); err != nil {
				t.Errorf("Ping() = %v", err)
			}
		})
	}
}

func TestArtifactFolderUnwritable(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := openURL(t, "sqlite:///"+filepath.Join(file, "x.db"), nil)
	if err == nil || !strings.Contains(err.Error(), "creating database folder") {
		t.Errorf("Open below a file = %v", err)
	}
	_, err = openURL(t, "memory:", &storeurl.Options{Artifacts: "dir://" + file})
	if err == nil || !strings.Contains(err.Error(), `opening artifacts "dir://`+file) {
		t.Errorf("artifacts in a file = %v", err)
	}
}

func TestOpenNegativeLease(t *testing.T) {
	_, err := openURL(t, "memory:", &storeurl.Options{Options: store.Options{Lease: -time.Second}})
	if err == nil || !strings.Contains(err.Error(), "lease must not be negative, got -1s") {
		t.Errorf("Open = %v", err)
	}
}

// Memories may be kept elsewhere than the sessions.
func TestMemorySeparateDatabase(t *testing.T) {
	sessions, memory := newFile(t), newFile(t)
	s := openStore(t, sessions, &storeurl.Options{Memory: memory})
	if err := s.Memories.Add(t.Context(), "app", "alice", &session.Memory{Content: model.UserText("kept")}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	expectMemory(t, "with the sessions", openStore(t, sessions, nil), "")
	expectMemory(t, "elsewhere", openStore(t, "memory:", &storeurl.Options{Memory: memory}), "kept")
	expectMemory(t, "the same place", openStore(t, memory, &storeurl.Options{Memory: memory}), "kept")
	expectMemory(t, "in memory", openStore(t, memory, &storeurl.Options{Memory: "memory:"}), "")

	for url, want := range map[string]string{
		"redis:":  `opening memories "redis:": unknown scheme "redis": supported are memory:, sqlite:///file.db, postgres://user@host/database and mysql://user@host/database`,
		"sqlite:": `opening memories "sqlite:": write sqlite:///FILE`,
	} {
		if _, err := openURL(t, newFile(t), &storeurl.Options{Memory: url}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Open with memories %s = %v, want %q", url, err, want)
		}
	}
}

func expectMemory(t *testing.T, what string, s *store.Store, want string) {
	t.Helper()
	found, err := s.Memories.Search(t.Context(), "app", "alice", store.MemoryQuery{Text: "kept"})
	var got string
	for _, m := range found {
		got += m.Text()
	}
	if err != nil || got != want {
		t.Errorf("%s: %q, %v, want %q", what, got, err, want)
	}
}

// The default artifact folder is next to the database file.
func TestDefaultArtifacts(t *testing.T) {
	url := newFile(t)
	s := openStore(t, url, nil)
	key := session.Key{App: "app", User: "alice", ID: "s"}
	if _, err := s.Artifacts.Save(t.Context(), key, "a.txt", &genai.Part{Text: "kept"}); err != nil {
		t.Fatal(err)
	}
	closeStore(t, s)
	part, err := openStore(t, url, nil).Artifacts.Load(t.Context(), key, "a.txt", -1)
	if err != nil || part.Text != "kept" {
		t.Errorf("Load = %v, %v", part, err)
	}
	if _, err := os.Stat(strings.TrimPrefix(url, "sqlite:///") + ".artifacts/app"); err != nil {
		t.Error(err)
	}
}

// serverURL is an answering server's URL; without one the test is skipped.
func serverURL(t testing.TB, engine string) *url.URL {
	t.Helper()
	i := slices.IndexFunc(testdb.Engines(), func(e testdb.Engine) bool { return e.Name == engine })
	u, err := testdb.Engines()[i].Server(t.Context())
	if errors.Is(err, testdb.ErrAbsent) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// Sessions are in Vertex AI, memories in a database or in a Vertex AI service, and everything else
// in a database.
func TestOpenVertex(t *testing.T) {
	fake := &fakevertex.Server{Project: "p", Number: "1", Location: "l", Engines: []string{"77"}, Corpora: []string{"5"}}
	server := httptest.NewServer(fake)
	defer server.Close()
	env := map[string]string{"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "l", "GOOGLE_VERTEX_BASE_URL": server.URL}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	for _, tt := range []struct{ sessions, memory, revisions string }{
		{"agentengine://77", "memory:", ""},
		{"agentengine://77", newFile(t), ""},
		{"agentengine://77", "memory:", newFile(t)},
		{"agentengine://77", "rag://5", "memory:"},
		{"agentengine://77", "agentengine://77?add=generate", newFile(t)},
		{"memory:", "rag://5", ""},
		{newFile(t), "agentengine://77", ""},
	} {
		s := openStore(t, tt.sessions, &storeurl.Options{Artifacts: "memory:", Memory: tt.memory, Revisions: tt.revisions, Lookup: lookup})
		sess, err := s.Sessions.Create(t.Context(), session.Key{App: "app", User: "u"}, nil)
		if err != nil {
			t.Error(err)
			continue
		}
		ev := &session.Event{ID: "e1" + sess.ID, Author: session.UserAuthor, Timestamp: time.Now(), Response: model.Response{Content: model.UserText("I like tea.")}}
		if err := s.Memories.AddEvents(t.Context(), sess.Key, []*session.Event{ev}); err != nil {
			t.Error(err)
		}
		found, err := s.Memories.Search(t.Context(), "app", "u", store.MemoryQuery{Text: "tea"})
		if err != nil || len(found) == 0 {
			t.Errorf("%v: Search() = %v, %v", tt, found, err)
		}
		_, err = s.Rollouts.Get(t.Context(), "app")
		want := session.ErrNotFound
		if tt.sessions == "agentengine://77" {
			want = store.ErrNoRollouts
		}
		if !errors.Is(err, want) {
			t.Errorf("%v: rollout: %v, want %v", tt, err, want)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
	}
	fake.Fault = func(*http.Request) *fakevertex.Fault {
		return &fakevertex.Fault{Code: 403, Status: "PERMISSION_DENIED"}
	}
	_, err := openURL(t, "agentengine://77", &storeurl.Options{Artifacts: "memory:", Memory: "memory:", Lookup: lookup})
	if err == nil || !strings.Contains(err.Error(), `opening store "agentengine://77": sessions of projects/p/locations/l/reasoningEngines/77: 403 PERMISSION_DENIED; hint: check that the project exists, and grant the host's account the role roles/aiplatform.user`) {
		t.Errorf("Open = %v", err)
	}
	for _, tt := range []struct{ sessions, memory, revisions, want string }{
		{"memory:", "rag://5", "", `opening memories "rag://5": memories of projects/p/locations/l/ragCorpora/5: 403 PERMISSION_DENIED; hint: check that the project exists`},
		{"agentengine://77", "rag://5", "", `opening store "agentengine://77": agentengine: stores only sessions: set a database for revisions (--revisions), or memory: to lose them on exit`},
		{"memory:", "", "memory:", `opening store "memory:": a database of sessions also stores revisions: omit the other database (--revisions)`},
	} {
		_, err := openURL(t, tt.sessions, &storeurl.Options{Artifacts: "memory:", Memory: tt.memory, Revisions: tt.revisions, Lookup: lookup})
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("Open(%v) = %v", tt, err)
		}
	}
}
