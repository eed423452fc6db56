package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agenthost/pkg/store"
)

// A ReadOnly is a consistent read-only view of a database. It is not safe for
// concurrent use: the rows of one query must be read to the end before the next
// query.
type ReadOnly struct {
	// Engine is the name of the database engine, Version its version.
	Engine, Version string

	engine readEngine
	db     *sql.DB
	tx     *sql.Tx
}

// OpenReadOnly opens the database of a URL in the forms of [Open], also one of
// another program. It creates and changes nothing. A missing database is
// [fs.ErrNotExist].
func OpenReadOnly(ctx context.Context, url string) (*ReadOnly, error) {
	e, rest, err := findReadEngine(url)
	var db *sql.DB
	if err == nil {
		db, err = e.open(rest)
	}
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", store.Redacted(url), err)
	}
	r := &ReadOnly{engine: e, db: db}
	if err := r.beginSnapshot(ctx, rest); err != nil {
		return nil, errors.Join(fmt.Errorf("opening %q: %w", store.Redacted(url), err), r.Close())
	}
	return r, nil
}

// beginSnapshot begins the transaction and runs the first query.
func (r *ReadOnly) beginSnapshot(ctx context.Context, rest string) (err error) {
	if r.tx, err = r.db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true, Isolation: sql.LevelRepeatableRead}); err != nil {
		return err
	}
	if r.engine.enter != nil {
		if err = r.engine.enter(ctx, r.tx, rest); err != nil {
			return err
		}
	}
	var version string
	if err = r.scanFirst(ctx, r.engine.version, &version); err != nil {
		return err
	}
	r.Engine, r.Version, _ = strings.Cut(version, " ")
	_, err = r.Tables(ctx) // fails if the file is not a database
	return err
}

// Close closes the view.
func (r *ReadOnly) Close() error {
	var err error
	// A cancelled context has already rolled back.
	if r.tx != nil {
		if err = r.tx.Rollback(); errors.Is(err, sql.ErrTxDone) {
			err = nil
		}
	}
	return errors.Join(err, r.db.Close())
}

// Query runs a query with ? for each parameter on every engine.
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

// Each runs a query and calls scan for each row.
func (r *ReadOnly) Each(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := r.Query(ctx, query, args...)
	if err != nil {
		return err
	}
	return scanRows(rows, scan)
}

// eachOnOwnConn is Each on a separate connection, which does not affect the
// view.
func (r *ReadOnly) eachOnOwnConn(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := r.db.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	return scanRows(rows, scan)
}

func scanRows(rows *sql.Rows, scan func(*sql.Rows) error) error {
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}

// scanFirst reads the first row of a query; without a row it returns
// [sql.ErrNoRows].
func (r *ReadOnly) scanFirst(ctx context.Context, query string, into ...any) error {
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

// Tables returns the sorted names of all tables.
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

// Columns returns the column names of a table.
func (r *ReadOnly) Columns(ctx context.Context, table string) ([]string, error) {
	rows, err := r.Query(ctx, "SELECT * FROM "+table+" WHERE 1 = 0")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	return rows.Columns()
}

// Tie returns the column that orders rows with equal times. If known is false,
// it is not the insertion order, but a stable one.
func (r *ReadOnly) Tie() (column string, known bool) { return r.engine.tie, !r.engine.arbitraryTie }

// Plain returns an expression for the stored value of a column, where the
// driver would convert it.
func (r *ReadOnly) Plain(column string) string { return r.engine.plain + column }
