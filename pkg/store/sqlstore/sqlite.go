package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

func openSQLiteURL(ctx context.Context, e *Engine, rest string, o *Options) (*Database, error) {
	u, err := parseSQLite(rest)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(u.path); o.Existing && errors.Is(err, fs.ErrNotExist) {
		return nil, missingFile(u.path)
	}
	if o.Access == store.AccessRead {
		return openSQLiteReaders(ctx, e, u, o)
	}
	return openSQLite(ctx, e, u, o)
}

// A missingFile is the error for a missing database file.
type missingFile string

func (f missingFile) Error() string { return "there is no file " + string(f) }

// Unwrap implements [store.SessionBackend].
func (missingFile) Unwrap() error { return fs.ErrNotExist }

// A sqliteURL is a parsed URL in the forms of SQLAlchemy: sqlite:///relative.db
// or sqlite:////absolute.db.
type sqliteURL struct {
	path        string
	synchronous string
	// timeout is the deadline of a request, and of a lock.
	timeout time.Duration
}

func parseSQLite(rest string) (sqliteURL, error) {
	u := sqliteURL{synchronous: "FULL", timeout: defaultTimeout}
	rest, query, _ := strings.Cut(rest, "?")
	path, ok := strings.CutPrefix(rest, "///")
	switch {
	case !ok:
		return u, errors.New("write sqlite:///FILE for a relative path, sqlite:////FILE for an absolute path")
	case path == "" || path == ":memory:":
		return u, errors.New("a database file is required; write memory: for sessions in memory")
	case strings.HasSuffix(path, "/"):
		return u, fmt.Errorf("%s is a folder: name the database file in it", path)
	}
	u.path = filepath.Clean(path)
	params, err := url.ParseQuery(query)
	if err != nil {
		return u, errUnreadableParams()
	}
	for name, values := range params {
		value := values[len(values)-1]
		switch name {
		case "synchronous":
			u.synchronous = strings.ToUpper(value)
			if u.synchronous != "FULL" && u.synchronous != "NORMAL" {
				return u, fmt.Errorf("synchronous must be full (the default: survives a power failure) or normal, got %s", value)
			}
		case "timeout":
			if u.timeout, err = engine.ParseSeconds(name, value); err != nil {
				return u, err
			}
		default:
			return u, fmt.Errorf("unknown parameter %q: supported are synchronous=full (the default), synchronous=normal and timeout=SECONDS", name)
		}
	}
	return u, nil
}

// openSQLite opens a database file. It creates a missing file and its folder.
func openSQLite(ctx context.Context, e *Engine, u sqliteURL, o *Options) (*Database, error) {
	// Only its owner can read the file, because it contains conversations.
	if err := os.MkdirAll(filepath.Dir(u.path), 0o700); err != nil {
		return nil, fmt.Errorf("creating database folder: %w", err)
	}
	f, err := os.OpenFile(u.path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening database: %w", err)
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	writers, err := openPool(ctx, e, u, url.Values{"_txlock": {"immediate"}, "_journal_mode": {"WAL"}})
	if err != nil {
		return nil, err
	}
	readers, err := openPool(ctx, e, u, url.Values{"_query_only": {"1"}})
	if err != nil {
		return nil, errors.Join(err, closePool(writers))
	}
	d := sqliteDialect(e.Classify)
	if u.synchronous == "FULL" {
		d.relaxedSQL, d.durableSQL = "PRAGMA synchronous = NORMAL", "PRAGMA synchronous = FULL"
	}
	b, err := newSQLBackend(ctx, pools{readers, writers}, newBreaker(d, u.timeout, &connSet{}, o.Logger), d, o)
	if err != nil {
		return nil, err
	}
	b.setUpFile(u)
	// A file system without WAL mode has neither the performance nor the durability that is promised.
	var mode string
	if err = b.reads.QueryRowContext(ctx, "PRAGMA journal_mode").Scan(&mode); err != nil {
		err = fmt.Errorf("reading journal mode: %w", err)
	} else if mode != "wal" {
		err = fmt.Errorf("journal mode must be wal, got %s: put the database on a local disk", mode)
	}
	if err == nil {
		b.liveness, err = acquireLivenessLock(u.path, o.Owner)
	}
	if err == nil {
		b.fileWatch, err = newFileWatch(u.path, o.Logger)
		b.writers[0].fileWatch = b.fileWatch
	}
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// setUpFile sets the default place of artifacts, and the number of readers.
func (b *Database) setUpFile(u sqliteURL) {
	b.artifactFolder = u.path + ".artifacts"
	n := max(4, runtime.GOMAXPROCS(0))
	b.reads.SetMaxOpenConns(n)
	b.reads.SetMaxIdleConns(n)
}

// openSQLiteReaders opens an existing database file that no statement can change.
func openSQLiteReaders(ctx context.Context, e *Engine, u sqliteURL, o *Options) (*Database, error) {
	readers, err := openPool(ctx, e, u, url.Values{"mode": {"ro"}, "_query_only": {"1"}})
	if err != nil {
		return nil, err
	}
	b, err := newSQLBackend(ctx, pools{readers: readers}, newBreaker(sqliteDialect(e.Classify), u.timeout, &connSet{}, o.Logger), sqliteDialect(e.Classify), o)
	if err != nil {
		return nil, err
	}
	b.setUpFile(u)
	return b, nil
}

// openPatience is how long opening waits for another program that initializes
// the same database.
const openPatience = 10 * time.Second

// openPool opens a pool. Switching to WAL mode does not wait for locks as
// statements do, so it is retried for a while.
func openPool(ctx context.Context, e *Engine, u sqliteURL, params url.Values) (*gorm.DB, error) {
	params.Set("_busy_timeout", formatMillis(u.timeout))
	params.Set("_foreign_keys", "1")
	params.Set("_synchronous", u.synchronous)
	params.Set("_pragma", "journal_size_limit(67108864)")
	dsn := "file:" + (&url.URL{Path: u.path}).EscapedPath() + "?" + params.Encode()
	ctx, cancel := context.WithTimeout(ctx, openPatience)
	defer cancel()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for {
		db, err := e.File.Open(ctx, dsn)
		if err == nil {
			return db, nil
		}
		err = fmt.Errorf("opening database %s: %w", u.path, err)
		if !e.Classify(err).Has(engine.Busy) {
			return nil, err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil, err
		}
	}
}

func formatMillis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

func sqliteDialect(classify func(error) engine.Fault) dialect {
	return dialect{
		classify: classify,
		begin:    "BEGIN IMMEDIATE",
		// A CASE without ELSE is null, which seq rejects; for an INSERT … SELECT
		// with a WHERE, SQLite would fill a temporary table first.
		insert: `INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance, outcome) VALUES ($1,
 CASE WHEN coalesce((SELECT max(h.seq) FROM events h WHERE h.session_pk = $1), 0) = $2 - 1
 AND EXISTS (SELECT 1 FROM sessions s WHERE s.pk = $1 AND $7 IN (s.lease_epoch, 0)) THEN $2 END, $3, $4, $5, $6, $8, $9)`,
		upsert: `INSERT INTO states (app_name, user_id, session_id, key, value) VALUES ($1, $2, $3, $4, $5)
 ON CONFLICT (app_name, user_id, session_id, key) DO UPDATE SET value = excluded.value`,
		tableOptions: func(table string) string {
			switch table {
			case (sessionRow{}).TableName(), (memoryOwnerRow{}).TableName(), (memoryRow{}).TableName():
				return " STRICT"
			}
			// Saves one B-tree, and stores the rows of a session next to each other.
			return " STRICT, WITHOUT ROWID"
		},
		closeSQL: "PRAGMA wal_checkpoint(TRUNCATE)",
	}
}

// A fileWatch detects that the database files that SQLite has open were removed
// or replaced. Commits to an unlinked file are lost when the process ends, so
// they must not be acknowledged. A check takes a few microseconds; every commit
// and every read makes one.
type fileWatch struct {
	files    []watchedFile
	logger   *slog.Logger
	replaced atomic.Bool // and already logged
}

// A watchedFile is a path and the file at this path when the database was
// opened.
type watchedFile struct {
	path string
	info os.FileInfo
}

// newFileWatch watches a database file and its write-ahead log.
func newFileWatch(path string, logger *slog.Logger) (*fileWatch, error) {
	f := &fileWatch{logger: logger}
	for _, path := range []string{path, path + "-wal"} {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("watching database file: %w", err)
		}
		f.files = append(f.files, watchedFile{path, info})
	}
	return f, nil
}

// checkReplaced returns errReplaced if a path no longer names the open file.
func (f *fileWatch) checkReplaced() error {
	if f == nil {
		return nil
	}
	for _, open := range f.files {
		if info, err := os.Stat(open.path); err == nil && os.SameFile(info, open.info) {
			continue
		}
		if !f.replaced.Swap(true) {
			f.logger.Error("database file removed or replaced; writes fail until it is restored or the server restarts", "path", open.path)
		}
		return fmt.Errorf("%w: %s", errReplaced, open.path)
	}
	if f.replaced.Load() && f.replaced.Swap(false) {
		f.logger.Warn("database file restored", "path", f.files[0].path)
	}
	return nil
}

// A livenessLock shows other processes that have the same database file open
// that this store is alive: a lock on one byte of a file next to the database,
// which the operating system releases when the process ends. So other processes
// take over the leases of a killed host without waiting for their expiry.
type livenessLock struct{ file *os.File }

// acquireLivenessLock locks the byte of an owner.
func acquireLivenessLock(path, owner string) (*livenessLock, error) {
	f, err := os.OpenFile(path+".hosts", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the liveness lock file: %w", err)
	}
	place, ok := ownerOffset(owner)
	if ok {
		err = lockByte(f, place)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("locking the liveness lock file %s: %w", f.Name(), err)
	}
	return &livenessLock{f}, nil
}

// isOwnerDead reports whether the process of an owner has certainly ended.
func (p *livenessLock) isOwnerDead(owner string) bool {
	place, ok := ownerOffset(owner)
	return p != nil && ok && isUnlocked(p.file, place)
}

func (p *livenessLock) close() error {
	if p == nil {
		return nil
	}
	return p.file.Close()
}

func ownerOffset(owner string) (int64, bool) {
	digits := owner[strings.LastIndex(owner, "/")+1:]
	place, err := strconv.ParseInt(digits, 16, 64)
	return place, err == nil && len(digits) == store.OwnerDigits
}
