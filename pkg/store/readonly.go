package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"
)

// A readEngine is what one SQL engine says otherwise than the others to those
// who only read. The first column of a query's first row is its answer.
type readEngine struct {
	name    string
	schemes []string
	// open gets what follows the colon of the URL.
	open func(rest string) (*sql.DB, error)
	// numbered says that parameters are written $1, $2 instead of ?.
	numbered bool
	version  string // query: the engine's version
	bytes    string // query: what the database takes on the disk
	tables   string // query: the names of all tables, a row each
	// sound are queries that each return a row for each thing that is wrong in
	// the database itself; a row "ok" says that nothing is.
	sound []soundQuery
	// tie is the order in which rows of one time were written.
	tie string
	// plain is put before a column whose values are wanted as they are stored.
	plain string
}

type soundQuery struct{ rule, query string }

// readEngines lists every engine that can be read.
func readEngines() []readEngine {
	return []readEngine{{
		name:    "SQLite",
		schemes: []string{"sqlite", "sqlite+aiosqlite"},
		open:    readSQLite,
		version: "SELECT sqlite_version()",
		bytes:   "SELECT c.page_count * s.page_size FROM pragma_page_count() c, pragma_page_size() s",
		tables:  "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
		sound: []soundQuery{
			{"integrity", "SELECT integrity_check FROM pragma_integrity_check"},
			{"foreign keys", "SELECT 'a row of ' || \"table\" || ' has no partner in ' || parent FROM pragma_foreign_key_check"},
		},
		tie:   "rowid",
		plain: "+",
	}}
}

// A ReadOnly is a view of a database at one moment, through which nothing can
// be written. It is for one goroutine, which reads the rows of one query to
// the end before the next.
type ReadOnly struct {
	// Engine is the name of the database engine.
	Engine string

	engine readEngine
	db     *sql.DB
	tx     *sql.Tx
}

// OpenReadOnly opens the database of a URL as [Open] takes them, also one of
// another program. It makes nothing and changes nothing. A database that is
// not there is [fs.ErrNotExist].
func OpenReadOnly(ctx context.Context, url string) (*ReadOnly, error) {
	name, rest, _ := strings.Cut(url, ":")
	i := slices.IndexFunc(readEngines(), func(e readEngine) bool { return slices.Contains(e.schemes, name) })
	if i < 0 && name == "memory" {
		return nil, errors.New("memory: holds nothing that another program could see: name a database")
	}
	if i < 0 {
		return nil, fmt.Errorf("opening %q: unknown scheme %q: a database is written sqlite:///file.db", Redacted(url), name)
	}
	e := readEngines()[i]
	db, err := e.open(rest)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", Redacted(url), err)
	}
	r := &ReadOnly{Engine: e.name, engine: e, db: db}
	r.tx, err = db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead})
	if err == nil {
		_, err = r.Tables(ctx) // a file that is no database is told at the first look
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("opening %q: %w", Redacted(url), err), r.Close())
	}
	return r, nil
}

func readSQLite(rest string) (*sql.DB, error) {
	u, err := parseSQLite(rest)
	if err != nil {
		return nil, err
	}
	switch info, err := os.Stat(u.path); {
	case errors.Is(err, fs.ErrNotExist):
		return nil, missingFile(u.path)
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a folder: name the database file in it", u.path)
	}
	params := url.Values{"mode": {"ro"}, "_query_only": {"1"}, "_busy_timeout": {busyMillis}}
	return sql.Open("sqlite", "file:"+(&url.URL{Path: u.path}).EscapedPath()+"?"+params.Encode())
}

// A missingFile is a database that is not there.
type missingFile string

func (f missingFile) Error() string { return "there is no file " + string(f) }

func (missingFile) Unwrap() error { return fs.ErrNotExist }

// Close ends the view.
func (r *ReadOnly) Close() error {
	var err error
	// A context that ended has ended the view.
	if r.tx != nil {
		if err = r.tx.Rollback(); errors.Is(err, sql.ErrTxDone) {
			err = nil
		}
	}
	return errors.Join(err, r.db.Close())
}

// Query asks with ? for each parameter, whatever the engine writes.
func (r *ReadOnly) Query(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	if r.engine.numbered {
		query = numberParameters(query)
	}
	return r.tx.QueryContext(ctx, query, args...)
}

func numberParameters(query string) string {
	var b strings.Builder
	parts := strings.Split(query, "?")
	for i, part := range parts {
		if i > 0 {
			b.WriteByte('$')
			b.WriteString(strconv.Itoa(i))
		}
		b.WriteString(part)
	}
	return b.String()
}

// Each calls scan for each row of an answer, and reads it to its end.
func (r *ReadOnly) Each(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := r.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// one reads the first row of an answer; without one it is [sql.ErrNoRows].
func (r *ReadOnly) one(ctx context.Context, query string, into ...any) error {
	found := false
	err := r.Each(ctx, func(rows *sql.Rows) error {
		if found {
			return nil
		}
		found = true
		return rows.Scan(into...)
	}, query)
	if err == nil && !found {
		err = sql.ErrNoRows
	}
	return err
}

// Tables are the names of all tables, sorted.
func (r *ReadOnly) Tables(ctx context.Context) ([]string, error) {
	var all []string
	err := r.Each(ctx, func(rows *sql.Rows) error {
		var name string
		err := rows.Scan(&name)
		all = append(all, name)
		return err
	}, r.engine.tables)
	slices.Sort(all)
	return all, err
}

// Columns are the names of a table's columns.
func (r *ReadOnly) Columns(ctx context.Context, table string) ([]string, error) {
	rows, err := r.Query(ctx, "SELECT * FROM "+table+" WHERE 1 = 0")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return rows.Columns()
}

// Tie names the column that tells in which order rows of one time were
// written.
func (r *ReadOnly) Tie() string { return r.engine.tie }

// Plain is the expression for a column's values as they are stored, where the
// driver would make something else of them.
func (r *ReadOnly) Plain(column string) string { return r.engine.plain + column }
