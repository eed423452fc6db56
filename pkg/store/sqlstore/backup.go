package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// ErrInUse reports that another process has a database file open.
var ErrInUse = errors.New("another process has it open")

// errServerBackup reports that a database is on a server, whose own tools copy it.
type errServerBackup struct{ url, tool string }

func (e *errServerBackup) Error() string {
	return fmt.Sprintf("%s is on a server, and its own tool copies it: %s", e.url, e.tool)
}

// Backup writes a consistent copy of a database file to path, also while hosts write to it, and checks
// the copy by [Engines.Verify]. Only its owner can read it. The copy is there whole or not at all, and a file at path is
// [fs.ErrExist]. A copy with damage is written nevertheless, because no better one may be possible. A database
// on a server is an error that names the server's tool.
func (all Engines) Backup(ctx context.Context, address, path string) (*Verification, error) {
	e, rest, err := all.findReadEngine(address)
	if err != nil {
		return nil, err
	}
	if !e.file {
		return nil, &errServerBackup{store.Redacted(address), e.backupTool}
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, fmt.Errorf("%s: %w: name another file", path, fs.ErrExist)
	}
	copied, err := newPartialFile(path)
	if err != nil {
		return nil, err
	}
	defer copied.removePart()
	if err := e.copyFile(ctx, rest, copied.path); err != nil {
		return nil, fmt.Errorf("copying %q: %w", store.Redacted(address), e.contextError(ctx, err))
	}
	v, err := all.Verify(ctx, "sqlite:///"+copied.path)
	if err != nil {
		return nil, fmt.Errorf("checking the copy: %w", err)
	}
	return v, copied.publishFile(path)
}

// copyFile copies a database file to an empty one. It changes nothing in the former, which is open read-only.
func (e *readEngine) copyFile(ctx context.Context, rest, path string) error {
	db, err := e.open(rest)
	if err != nil {
		return err
	}
	defer db.Close()
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ExecContext(ctx, "PRAGMA query_only = 0"); err != nil { // the copy is a write, too
		return err
	}
	_, err = conn.ExecContext(ctx, "VACUUM INTO ?", path)
	return err
}

// A Restored describes a restored database.
type Restored struct {
	*Verification
	// Replaced is where the file is that was there before; empty without one.
	Replaced string `json:"replaced,omitempty"`
}

// Restore copies a database file that [Engines.Backup] has written to a database's URL, after it has
// checked it: a backup with damage, or with a schema that is newer than this program's, is an error. With
// replace, a database file at the URL is renamed and not removed; otherwise it is [fs.ErrExist]. One that another process has open is
// [ErrInUse], and stays.
func (all Engines) Restore(ctx context.Context, path, address string, replace bool) (*Restored, error) {
	e, _, err := all.findReadEngine(address)
	if err != nil {
		return nil, err
	}
	if !e.file {
		return nil, &errServerBackup{store.Redacted(address), e.restoreTool}
	}
	target, err := parseSQLite(strings.TrimPrefix(address, "sqlite:"))
	if err != nil {
		return nil, err
	}
	v, err := all.Verify(ctx, "sqlite:///"+path)
	switch {
	case err != nil:
		return nil, fmt.Errorf("checking the backup: %w", err)
	case !v.Sound():
		return nil, fmt.Errorf("%s has damage: agenthost db check sqlite:///%s lists it", path, path)
	}
	if err := os.MkdirAll(filepath.Dir(target.path), 0o700); err != nil {
		return nil, fmt.Errorf("creating database folder: %w", err)
	}
	copied, err := newPartialFile(target.path)
	if err != nil {
		return nil, err
	}
	defer copied.removePart()
	if err := copied.copyFrom(path); err != nil {
		return nil, fmt.Errorf("copying %s: %w", path, err)
	}
	r := &Restored{Verification: v}
	if r.Replaced, err = all.moveAway(ctx, target, replace); err != nil {
		return nil, err
	}
	err = copied.publishFile(target.path)
	if err != nil && r.Replaced != "" {
		err = errors.Join(err, os.Rename(r.Replaced, target.path))
	}
	return r, err
}

// moveAway renames a database file, and returns its new name; empty if there is none.
func (all Engines) moveAway(ctx context.Context, u sqliteURL, replace bool) (string, error) {
	switch _, err := os.Lstat(u.path); {
	case errors.Is(err, fs.ErrNotExist):
		return "", nil
	case err != nil:
		return "", err
	case !replace:
		return "", fmt.Errorf("%s: %w: --replace renames it", u.path, fs.ErrExist)
	}
	if err := all.closeJournal(ctx, u); err != nil {
		return "", err
	}
	old := u.path + ".replaced-" + time.Now().UTC().Format("20060102T150405.000Z")
	for _, suffix := range []string{"", "-wal", "-shm"} { // the latter are there if the file has damage
		err := os.Rename(u.path+suffix, old+suffix)
		if err != nil && (suffix == "" || !errors.Is(err, fs.ErrNotExist)) {
			return "", err
		}
	}
	return old, nil
}

// closeJournal moves a database's write-ahead log into its file. That fails if another process has it open.
func (all Engines) closeJournal(ctx context.Context, u sqliteURL) error {
	e, _, err := all.findEngine("sqlite:///" + u.path)
	if err != nil {
		return err
	}
	db, err := e.File.OpenPlain("file:" + (&url.URL{Path: u.path}).EscapedPath() + "?mode=rw&_busy_timeout=1000")
	if err != nil {
		return err
	}
	defer db.Close()
	_, err = db.ExecContext(ctx, "PRAGMA journal_mode = DELETE")
	switch {
	case err == nil, e.Classify(err).Has(engine.Damaged):
		return nil // what has damage is renamed as it is
	case e.Classify(err).Has(engine.Busy):
		return fmt.Errorf("%s: %w: stop agenthost serve first", u.path, ErrInUse)
	}
	return err
}

// A partialFile is a file next to its later place, which only its owner can read.
type partialFile struct{ path string }

func newPartialFile(place string) (*partialFile, error) {
	f, err := os.CreateTemp(filepath.Dir(place), "."+filepath.Base(place)+".part-*")
	if err != nil {
		return nil, err
	}
	return &partialFile{f.Name()}, f.Close()
}

func (p *partialFile) removePart() { _ = os.Remove(p.path) } // it has been renamed

func (p *partialFile) copyFrom(path string) error {
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(p.path, os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}

// publishFile gives the file its place, unless there is one, and makes both durable.
func (p *partialFile) publishFile(place string) error {
	if err := syncFile(p.path, os.O_RDWR); err != nil {
		return err
	}
	if _, err := os.Lstat(place); err == nil {
		return fmt.Errorf("%s: %w", place, fs.ErrExist)
	}
	if err := os.Rename(p.path, place); err != nil {
		return err
	}
	return syncFile(filepath.Dir(place), os.O_RDONLY)
}

// syncFile makes a file, or a folder's entries, durable.
func syncFile(path string, mode int) error {
	f, err := os.OpenFile(path, mode, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
