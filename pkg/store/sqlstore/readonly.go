package sqlstore

import (
	"cmp"
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

	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// A ReadOnly is a consistent read-only database view. It is not safe for concurrent use: one
// query's rows must be read to the end before the next query.
type ReadOnly struct {
	// Engine names the database engine, Version its version.
	Engine, Version string

	engine *readEngine
	rest   string // the URL after the colon
	db     *sql.DB
	tx     *sql.Tx
	// schema is the schema version that [ReadOnly.checkSchema] has read; 0 is
	// this program's.
	schema int64
}

// OpenReadOnly opens the database at a URL in the [Engines.Open] forms, also another program's. It
// creates and changes nothing. A missing database is [fs.ErrNotExist].
func (all Engines) OpenReadOnly(ctx context.Context, url string) (*ReadOnly, error) {
	r, err := all.openReadOnly(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("opening %q: %w", store.Redacted(url), err)
	}
	return r, nil
}

func (all Engines) openReadOnly(ctx context.Context, url string) (*ReadOnly, error) {
	e, rest, err := all.findReadEngine(url)
	var db *sql.DB
	if err == nil {
		db, err = e.open(rest)
	}
	if err != nil {
		return nil, err
	}
	r := &ReadOnly{engine: e, rest: rest, db: db}
	if err := r.beginSnapshot(ctx, rest); err != nil {
		return nil, errors.Join(e.contextError(ctx, err), r.Close())
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
	// A canceled context has already rolled back.
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
	rows, err := r.tx.QueryContext(ctx, query, args...)
	return rows, r.engine.contextError(ctx, err)
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
	return r.engine.contextError(ctx, scanRows(rows, scan))
}

// eachOnOwnConn is Each on a separate connection, which does not affect the
// view.
func (r *ReadOnly) eachOnOwnConn(ctx context.Context, scan func(*sql.Rows) error, query string, args ...any) error {
	rows, err := r.db.QueryContext(ctx, query, args...)
	if err == nil {
		err = scanRows(rows, scan)
	}
	return r.engine.contextError(ctx, err)
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

// scanFirst reads a query's first row; without a row it returns [sql.ErrNoRows].
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

// Tables returns all table names, sorted.
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

// Columns returns a table's column names.
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

// Plain returns an expression for a column's stored value, where the driver would convert it.
func (r *ReadOnly) Plain(column string) string { return r.engine.plain + column }

// Ours reports whether agenthost created the database. A schema version that
// cannot be read is an error.
func (r *ReadOnly) Ours(ctx context.Context) (bool, error) {
	err := r.checkSchema(ctx, store.AccessRead)
	if foreign := (*foreignError)(nil); errors.As(err, &foreign) || errors.Is(err, emptyDatabase{}) {
		return false, nil
	}
	return err == nil, err
}

// refuseForeignFile checks a database file before it is opened, because opening
// changes the journal mode. A server's database is not changed before the check
// in [Engines.Open].
func (all Engines) refuseForeignFile(ctx context.Context, url string) error {
	if e, _, err := all.findReadEngine(url); err != nil || !e.file {
		return nil // opening returns the error
	}
	r, err := all.OpenReadOnly(ctx, url)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = r.readSchemaVersion(ctx)
	return errors.Join(err, r.Close())
}

// checkSchema reads the schema version, and rejects those that cannot be used
// with an access.
func (r *ReadOnly) checkSchema(ctx context.Context, a store.Access) (err error) {
	if r.schema, err = r.readSchemaVersion(ctx); err != nil {
		return err
	}
	return checkVersion(a, r.schema)
}

// provenanceColumn returns an expression for an event row's provenance.
func (r *ReadOnly) provenanceColumn() string {
	if r.schema > 0 && r.schema < provenanceVersion {
		return "NULL"
	}
	return "e.provenance"
}

// outcomeColumn returns an expression for an event row's outcome.
func (r *ReadOnly) outcomeColumn() string {
	if r.schema > 0 && r.schema < outcomeVersion {
		return "''"
	}
	return "coalesce(e.outcome, '')"
}

// readSchemaVersion returns the database's schema version, 0 without tables.
func (r *ReadOnly) readSchemaVersion(ctx context.Context) (at int64, err error) {
	tables, err := r.Tables(ctx)
	if err != nil {
		return 0, fmt.Errorf("listing the tables: %w", err)
	}
	if !slices.Contains(tables, migrationRow{}.TableName()) {
		return 0, checkForeignTables(func(name string) bool { return slices.Contains(tables, name) })
	}
	if columns, err := r.Columns(ctx, migrationRow{}.TableName()); err != nil || !slices.Contains(columns, "apply_time") {
		return 0, cmp.Or(err, errForeign([]string{migrationRow{}.TableName()}))
	}
	err = r.scanFirst(ctx, "SELECT coalesce(max(m.version), 0) FROM schema_migrations m", &at)
	if err != nil {
		return 0, fmt.Errorf("reading the schema version: %w", err)
	}
	return at, nil
}

// A readEngine holds what differs between SQL engines for read-only access. A query's result is its
// first row's first column.
type readEngine struct {
	// classify returns what a driver error means.
	classify func(error) engine.Fault
	// file reports that the database is a file.
	file bool
	// open gets the URL after the colon.
	open func(rest string) (*sql.DB, error)
	// enter applies URL settings to a view's transaction; nil does nothing.
	enter func(ctx context.Context, tx *sql.Tx, rest string) error
	// numbered reports that parameters are written $1, $2 instead of ?.
	numbered bool
	version  string // query: the engine's name and version
	bytes    string // query: what the database takes on the disk
	tables   string // query: all table names, a row each
	clock    string // query: the server's time in microseconds since 1970; empty for a file
	// estimate returns a query with the engine's estimate of a table's rows; nil without estimates.
	estimate func(table string) string
	// integrity returns queries with a row for each defect in our tables, or in the whole database;
	// a row that ends with "ok" means no defect.
	integrity func(tables []string) []integrityQuery
	// backupTool and restoreTool are the commands that copy a database on a server.
	backupTool, restoreTool string
	// tie orders rows with equal times by insertion, or else in a stable order.
	tie string
	// arbitraryTie reports that the insertion order is unknown.
	arbitraryTie bool
	// plain is a prefix for columns whose stored value is needed.
	plain string
}

// An integrityQuery is one of the engine's integrity checks.
type integrityQuery struct {
	rule, query string
	// ownConn reports that the query would end the view, and needs a separate
	// connection.
	ownConn bool
}

// findReadEngine returns a URL's engine and the rest after the colon.
func (all Engines) findReadEngine(url string) (r *readEngine, rest string, err error) {
	if strings.HasPrefix(url, "memory:") {
		return nil, "", errors.New("memory: cannot be read by another process: name a database")
	}
	e, rest, err := all.findEngine(url)
	if err != nil {
		return nil, "", err
	}
	switch e.Kind {
	case engine.SQLite:
		r = sqliteReadEngine(e)
	case engine.MySQL:
		r = mysqlReadEngine(e)
	default:
		r = postgresReadEngine(e)
	}
	r.classify = e.Classify
	return r, rest, nil
}

// contextError returns an ended context's error instead of SQLite's "interrupted", which its driver
// returns from some statements that an ended context stopped. Other errors are returned unchanged.
func (e *readEngine) contextError(ctx context.Context, err error) error {
	if ctx.Err() != nil && e.classify(err).Has(engine.Interrupted) {
		return ctx.Err()
	}
	return err
}

func sqliteReadEngine(e *Engine) *readEngine {
	return &readEngine{
		file:    true,
		open:    func(rest string) (*sql.DB, error) { return openSQLiteReadOnly(e.File, rest) },
		version: "SELECT 'SQLite ' || sqlite_version()",
		bytes:   "SELECT c.page_count * s.page_size FROM pragma_page_count() c, pragma_page_size() s",
		tables:  "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
		integrity: func([]string) []integrityQuery {
			return []integrityQuery{
				{rule: "integrity", query: "SELECT integrity_check FROM pragma_integrity_check"},
				{rule: "foreign keys", query: "SELECT 'a row of ' || \"table\" || ' has no partner in ' || parent FROM pragma_foreign_key_check"},
			}
		},
		tie:   "rowid",
		plain: "+",
	}
}

func openSQLiteReadOnly(e *engine.File, rest string) (*sql.DB, error) {
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
	params := url.Values{"mode": {"ro"}, "_query_only": {"1"}, "_busy_timeout": {formatMillis(u.timeout)}}
	return e.OpenPlain("file:" + (&url.URL{Path: u.path}).EscapedPath() + "?" + params.Encode())
}

func postgresReadEngine(e *Engine) *readEngine {
	return &readEngine{
		open: func(rest string) (*sql.DB, error) { return openServerReadOnly(e.Server, rest) },
		enter: func(ctx context.Context, tx *sql.Tx, rest string) error {
			return enterSearchPath(ctx, tx, e.Server, rest)
		},
		numbered: true,
		version:  "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)",
		bytes: `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
 JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'`,
		tables: "SELECT t.tablename FROM pg_tables t WHERE t.schemaname = current_schema()",
		clock:  "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint",
		// Partitions have their own estimates.
		estimate: func(table string) string {
			return `SELECT coalesce(sum(greatest(c.reltuples, 0)), 0)::bigint FROM pg_class c WHERE c.relkind = 'r' AND (c.oid = '` + table + `'::regclass
 OR c.oid IN (SELECT p.relid FROM pg_partition_tree('` + table + `') p WHERE p.isleaf))`
		},
		integrity:   func([]string) []integrityQuery { return postgresIntegrity() },
		backupTool:  "pg_dump --format=custom --file=FILE DATABASE",
		restoreTool: "createdb NEW && pg_restore --dbname=NEW FILE",
		tie:         "ctid",
	}
}

func postgresIntegrity() []integrityQuery {
	return []integrityQuery{
		{rule: "indexes", query: `SELECT 'index ' || c.relname || ' is not valid' FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
 JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND NOT (i.indisvalid AND i.indisready)`},
		{rule: "constraints", query: `SELECT 'constraint ' || c.conname || ' was never validated' FROM pg_constraint c
 JOIN pg_namespace n ON n.oid = c.connamespace WHERE n.nspname = current_schema() AND NOT c.convalidated`},
		{rule: "checksums of pages", query: `SELECT d.checksum_failures || ' failed, the last at ' || d.checksum_last_failure
 FROM pg_stat_database d WHERE d.datname = current_database() AND d.checksum_failures > 0`},
	}
}

func openServerReadOnly(e *engine.Server, rest string) (*sql.DB, error) {
	u, err := parseServer(rest, e)
	if err != nil {
		return nil, err
	}
	return e.OpenPlain(&u.URL)
}

// enterSearchPath sets a URL's search_path in a transaction.
func enterSearchPath(ctx context.Context, tx *sql.Tx, e *engine.Server, rest string) error {
	u, err := parseServer(rest, e)
	if err != nil {
		return err
	}
	path, ok := u.RemoveParam("search_path")
	if !ok {
		return nil
	}
	_, err = tx.ExecContext(ctx, "SELECT set_config('search_path', $1, true)", path)
	return err
}

func mysqlReadEngine(e *Engine) *readEngine {
	return &readEngine{
		open: func(rest string) (*sql.DB, error) { return openServerReadOnly(e.Server, rest) },
		version: `SELECT CASE WHEN version() LIKE '%MariaDB%' THEN concat('MariaDB ', substring_index(version(), '-', 1))
 ELSE concat('MySQL ', version()) END`,
		bytes:  "SELECT cast(coalesce(sum(t.data_length + t.index_length), 0) AS signed) FROM information_schema.tables t WHERE t.table_schema = database()",
		tables: "SELECT t.table_name FROM information_schema.tables t WHERE t.table_schema = database() AND t.table_type = 'BASE TABLE'",
		clock:  "SELECT CAST(unix_timestamp(sysdate(6)) * 1000000 AS SIGNED)",
		estimate: func(table string) string {
			return "SELECT coalesce(sum(t.table_rows), 0) FROM information_schema.tables t WHERE t.table_schema = database() AND t.table_name = '" + table + "'"
		},
		integrity: func(tables []string) []integrityQuery {
			return []integrityQuery{{rule: "integrity", query: "CHECK TABLE " + strings.Join(tables, ", "), ownConn: true}}
		},
		backupTool:   "mariadb-dump --single-transaction DATABASE > FILE",
		restoreTool:  "mariadb NEW < FILE",
		tie:          "id",
		arbitraryTie: true,
	}
}
