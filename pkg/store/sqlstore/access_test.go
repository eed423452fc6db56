package sqlstore

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agenthost/internal/testdb"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// dumpSchema describes a database schema.
func dumpSchema(t *testing.T, url string) string {
	t.Helper()
	text, err := testdb.DumpDatabase(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func downgrade(t *testing.T, url string, version int64) {
	t.Helper()
	if err := testdb.Downgrade(t.Context(), url, version); err != nil {
		t.Fatal(err)
	}
}

// Opening to read or to write never changes an older version's schema: it reads what the version
// has, or names the version and db migrate. Opening as a host does migrates, and logs it before and
// after.
func TestAccessKeepsSchema(t *testing.T) {
	for _, be := range backends()[1:4] {
		t.Run(be.name, func(t *testing.T) {
			url := be.url(t)
			s := openStore(t, url, nil)
			sess := createSession(t, s, alice, map[string]any{"k": 1})
			for range 3 {
				appendEvent(t, s, sess, textEvent("user", "hi"))
			}
			storeRevision(t, s, "app", "r1", 5)
			addToMemory(t, s, sess)
			closeStore(t, s)
			for version := newestVersion() - 1; version > 0; version-- {
				downgrade(t, url, version)
				before := dumpSchema(t, url)
				if _, err := allEngines().Open(t.Context(), url, &Options{Access: store.AccessWrite}); err == nil || !strings.Contains(err.Error(), "this command requires") || !strings.Contains(err.Error(), "hint: run agenthost db migrate") {
					t.Errorf("opening version %d to write = %v", version, err)
				}
				readOldSchema(t, url, version)
				diff(t, "schema", before, dumpSchema(t, url))
			}
			var log strings.Builder
			d, err := allEngines().Open(t.Context(), url, &Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
			if err != nil {
				t.Fatal(err)
			}
			mustSucceed(t, "closing", d.Close())
			if !strings.Contains(log.String(), "cannot start on it afterwards\" from=1 to=") || !strings.Contains(log.String(), "migrated the database schema\" from=1 to=") {
				t.Errorf("the log has %s", log.String())
			}
		})
	}
}

// readOldSchema reads a session in an older schema, or expects the error for a version without a
// revision table.
func readOldSchema(t *testing.T, url string, version int64) {
	t.Helper()
	d, err := allEngines().Open(t.Context(), url, &Options{Access: store.AccessRead})
	if version < oldestReadable() {
		if err == nil || !strings.Contains(err.Error(), "commands that only read require 5 or later; hint: run agenthost db migrate") {
			t.Errorf("opening version %d to read = %v", version, err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	b := d.Backends()
	b.Artifacts = nil
	s := store.New(b, nil)
	defer d.Close()
	last := 2
	for _, o := range []*store.GetOptions{nil, {NumRecentEvents: &last}} {
		sess, err := s.Sessions.Get(t.Context(), alice, o)
		if err != nil || len(sess.Events()) < last {
			t.Fatalf("reading version %d = %v", version, err)
		}
		err = s.Sessions.Append(t.Context(), sess, textEvent("user", "more"))
		wantErr(t, "appending", err, errReadOnly, "opened only for reading")
	}
	if all, err := s.Revisions.List(t.Context(), "app"); err != nil || len(all) != 1 {
		t.Errorf("revisions = %v, %v", all, err)
	}
	_, err = s.Rollouts.Get(t.Context(), "app")
	wantErr(t, "rollout", err, session.ErrNotFound, "rollout of app app is not stored")
	if found, err := s.Memories.Search(t.Context(), "app", "alice", store.MemoryQuery{Text: "hi"}); err != nil || len(found) == 0 {
		t.Errorf("memories = %v, %v", found, err)
	}
}

// A reader's connections reject statements that write.
func TestAccessReadRejectsWrites(t *testing.T) {
	for _, be := range backends()[1:4] {
		t.Run(be.name, func(t *testing.T) {
			url := be.url(t)
			closeStore(t, openStore(t, url, nil))
			d, err := allEngines().Open(t.Context(), url, &Options{Access: store.AccessRead})
			if err != nil {
				t.Fatal(err)
			}
			defer d.Close()
			for _, text := range []string{"DELETE FROM states", "CREATE TABLE t (a int)", "DROP TABLE states"} {
				if _, err := d.reads.ExecContext(t.Context(), text); err == nil {
					t.Errorf("%s succeeded", text)
				}
			}
		})
	}
}

// A reader rejects a missing or empty database, and does not create it.
func TestAccessReadWithoutDatabase(t *testing.T) {
	dir := t.TempDir()
	for _, file := range []string{"missing.db", "empty.db"} {
		path := filepath.Join(dir, "sub", file)
		if file == "empty.db" {
			mustSucceed(t, "creating a folder", os.Mkdir(filepath.Dir(path), 0o700))
			mustSucceed(t, "creating a file", os.WriteFile(path, nil, 0o600))
		}
		_, err := allEngines().Open(t.Context(), "sqlite:///"+path, &Options{Access: store.AccessRead})
		wantErr(t, file, err, fs.ErrNotExist, "")
	}
	if all, err := os.ReadDir(filepath.Join(dir, "sub")); err != nil || len(all) != 1 {
		t.Errorf("the folder has %v, %v", all, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "sub", "missing.db")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("the file was created")
	}
}
