package sqlstore

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agenthost/pkg/session"
)

// A backup during writes is a sound database with all events that were acknowledged before it, and whole sessions
// only. Only its owner can read it, and nothing else stays in its folder.
func TestBackupWhileWriting(t *testing.T) {
	url := sqliteFile(t)
	s := openStore(t, url, nil)
	before := createSession(t, s, alice, nil)
	for range 20 {
		appendEvent(t, s, before, textEvent("user", "before"))
	}
	stop := make(chan struct{})
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			sess, err := s.Sessions.Create(t.Context(), session.Key{App: "app", User: "bob", ID: fmt.Sprint(i)}, nil)
			if err != nil {
				t.Error(err)
				return
			}
			appendEvent(t, s, sess, textEvent("user", "during"))
		}
	})
	dir := t.TempDir()
	for i := range 5 {
		path := filepath.Join(dir, fmt.Sprint(i, ".db"))
		v, err := allEngines().Backup(t.Context(), url, path)
		if err != nil {
			t.Fatal(err)
		}
		if !v.Sound() || v.Events < 20 {
			t.Errorf("backup %d: %+v", i, v)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("backup %d: %v, %v", i, info.Mode(), err)
		}
	}
	close(stop)
	writing.Wait()
	if files, err := os.ReadDir(dir); err != nil || len(files) != 5 {
		t.Errorf("the folder has %v, %v", files, err)
	}
	if _, err := allEngines().Backup(t.Context(), url, filepath.Join(dir, "0.db")); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a backup in place of another: %v", err)
	}
}

// A restored database has the sessions of the backup, and continues them. An existing database is
// renamed, if that is permitted, and one that a host has open stays.
func TestRestore(t *testing.T) {
	url := sqliteFile(t)
	path := strings.TrimPrefix(url, "sqlite:///")
	s := openStore(t, url, nil)
	sess := createSession(t, s, alice, map[string]any{"k": 1})
	appendEvent(t, s, sess, textEvent("user", "kept"))
	backup := filepath.Join(t.TempDir(), "backup.db")
	if _, err := allEngines().Backup(t.Context(), url, backup); err != nil {
		t.Fatal(err)
	}
	appendEvent(t, s, sess, textEvent("user", "lost"))
	if _, err := allEngines().Restore(t.Context(), backup, url, false); !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "--replace renames it") {
		t.Errorf("without --replace: %v", err)
	}
	if _, err := allEngines().Restore(t.Context(), backup, url, true); !errors.Is(err, ErrInUse) {
		t.Errorf("in use: %v", err)
	}
	appendEvent(t, s, sess, textEvent("user", "still served"))
	closeStore(t, s)
	r, err := allEngines().Restore(t.Context(), backup, url, true)
	if err != nil || r.Events != 1 || r.Sessions != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	if old, err := allEngines().Verify(t.Context(), "sqlite:///"+r.Replaced); err != nil || old.Events != 3 {
		t.Errorf("the database that was there: %+v, %v", old, err)
	}
	s = openStore(t, url, nil)
	got, err := s.Sessions.Get(t.Context(), alice, nil)
	if err != nil || len(got.Events()) != 1 {
		t.Fatalf("%v, %v", got, err)
	}
	appendEvent(t, s, got, textEvent("user", "continued"))
	closeStore(t, s)
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}

	// A damaged database is replaced, too, with its log.
	mustSucceed(t, "damaging", os.WriteFile(path, []byte("not a database, but longer than the header of one, which has a hundred bytes at the beginning of the file"), 0o600))
	if r, err = allEngines().Restore(t.Context(), backup, url, true); err != nil || r.Events != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
}

// A backup with damage, one with a newer schema, and one that is not there change nothing.
func TestRestoreRefuses(t *testing.T) {
	damaged := filepath.Join(t.TempDir(), "damaged.db")
	content := writeManySessions(t, 20)
	clear(content[5*4096 : 6*4096])
	mustSucceed(t, "writing", os.WriteFile(damaged, content, 0o600))
	newer := sqliteFile(t)
	closeStore(t, openStore(t, newer, nil))
	execSQL(t, newer, "INSERT INTO schema_migrations (version, name, apply_time) VALUES (999, 'future', 1)")
	target := filepath.Join(t.TempDir(), "target.db")
	for _, tt := range []struct{ path, want string }{
		{damaged, "has damage: agenthost db check sqlite:///" + damaged + " lists it"},
		{strings.TrimPrefix(newer, "sqlite:///"), "999"},
		{"missing.db", "there is no file missing.db"},
	} {
		if _, err := allEngines().Restore(t.Context(), tt.path, "sqlite:///"+target, false); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.path, err, tt.want)
		}
	}
	if files, err := os.ReadDir(filepath.Dir(target)); err != nil || len(files) != 0 {
		t.Errorf("the folder has %v, %v", files, err)
	}
}

// A database on a server is copied by the server's tool, which the error names.
func TestBackupOfServer(t *testing.T) {
	for _, tt := range []struct{ url, backup, restore string }{
		{"postgres://u:secret@h/d", "pg_dump --format=custom --file=FILE DATABASE", "createdb NEW && pg_restore --dbname=NEW FILE"},
		{"mysql://u:secret@h/d", "mariadb-dump --single-transaction DATABASE > FILE", "mariadb NEW < FILE"},
	} {
		if _, err := allEngines().Backup(t.Context(), tt.url, "x"); err == nil || !strings.HasSuffix(err.Error(), "/d is on a server, and its own tool copies it: "+tt.backup) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", tt.url, err)
		}
		if _, err := allEngines().Restore(t.Context(), "x", tt.url, true); err == nil || !strings.HasSuffix(err.Error(), tt.restore) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", tt.url, err)
		}
	}
}
