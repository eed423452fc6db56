package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"slices"
	"strings"

	driver "github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite" // the driver "sqlite"
)

// A readEngine holds what differs between SQL engines for read-only access. The
// result of a query is the first column of its first row.
type readEngine struct {
	// scheme is the first URL scheme of the engine.
	scheme string
	// file reports that the database is a file.
	file bool
	// open gets the URL after the colon.
	open func(rest string) (*sql.DB, error)
	// enter applies URL settings to the transaction of a view; nil does
	// nothing.
	enter func(ctx context.Context, tx *sql.Tx, rest string) error
	// numbered reports that parameters are written $1, $2 instead of ?.
	numbered bool
	version  string // query: the engine's name and version
	bytes    string // query: what the database takes on the disk
	tables   string // query: the names of all tables, a row each
	// integrity are queries that return a row for each defect of the database;
	// a row that ends with "ok" means no defect.
	integrity []integrityQuery
	// tie orders rows with equal times by insertion, or else in a stable order.
	tie string
	// arbitraryTie reports that the insertion order is unknown.
	arbitraryTie bool
	// plain is a prefix for columns whose stored value is needed.
	plain string
}

// An integrityQuery is an integrity check of the engine.
type integrityQuery struct {
	rule, query string
	// ownConn reports that the query would end the view, and needs a separate
	// connection.
	ownConn bool
}

// readEngines returns all readable engines.
func readEngines() []readEngine {
	return []readEngine{sqliteReadEngine(), postgresReadEngine(), mysqlReadEngine()}
}

// findReadEngine returns the engine of a URL and the rest after the colon.
func findReadEngine(url string) (e readEngine, rest string, err error) {
	if strings.HasPrefix(url, "memory:") {
		return e, "", errors.New("memory: cannot be read by another process: name a database")
	}
	s, rest, err := findScheme(url)
	if err != nil {
		return e, "", err
	}
	i := slices.IndexFunc(readEngines(), func(e readEngine) bool { return e.scheme == s.names[0] })
	if i < 0 {
		return e, "", fmt.Errorf("%s cannot be read by another process: name a database", s.form)
	}
	return readEngines()[i], rest, nil
}

func sqliteReadEngine() readEngine {
	return readEngine{
		scheme:  "sqlite",
		file:    true,
		open:    openSQLiteReadOnly,
		version: "SELECT 'SQLite ' || sqlite_version()",
		bytes:   "SELECT c.page_count * s.page_size FROM pragma_page_count() c, pragma_page_size() s",
		tables:  "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'",
		integrity: []integrityQuery{
			{rule: "integrity", query: "SELECT integrity_check FROM pragma_integrity_check"},
			{rule: "foreign keys", query: "SELECT 'a row of ' || \"table\" || ' has no partner in ' || parent FROM pragma_foreign_key_check"},
		},
		tie:   "rowid",
		plain: "+",
	}
}

func openSQLiteReadOnly(rest string) (*sql.DB, error) {
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

// A missingFile is the error for a missing database file.
type missingFile string

func (f missingFile) Error() string { return "there is no file " + string(f) }

// Unwrap is a method of [store.SessionBackend].
func (missingFile) Unwrap() error { return fs.ErrNotExist }

func postgresReadEngine() readEngine {
	return readEngine{
		scheme:   "postgres",
		open:     openPostgresReadOnly,
		enter:    enterSearchPath,
		numbered: true,
		version:  "SELECT 'PostgreSQL ' || split_part(current_setting('server_version'), ' ', 1)",
		bytes: `SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c
 JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND c.relkind = 'r'`,
		tables: "SELECT t.tablename FROM pg_tables t WHERE t.schemaname = current_schema()",
		integrity: []integrityQuery{
			{rule: "indexes", query: `SELECT 'index ' || c.relname || ' is not valid' FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
 JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = current_schema() AND NOT (i.indisvalid AND i.indisready)`},
			{rule: "constraints", query: `SELECT 'constraint ' || c.conname || ' was never validated' FROM pg_constraint c
 JOIN pg_namespace n ON n.oid = c.connamespace WHERE n.nspname = current_schema() AND NOT c.convalidated`},
			{rule: "checksums of pages", query: `SELECT d.checksum_failures || ' failed, the last at ' || d.checksum_last_failure
 FROM pg_stat_database d WHERE d.datname = current_database() AND d.checksum_failures > 0`},
		},
		tie: "ctid",
	}
}

// openPostgresReadOnly opens a pool without response timeouts: one result may
// be a whole table.
func openPostgresReadOnly(rest string) (*sql.DB, error) {
	u, err := parseServer(rest, "5432", postgresParams())
	if err != nil {
		return nil, err
	}
	p, err := parsePostgres(u)
	if err != nil {
		return nil, err
	}
	p.config.DialFunc = dialWithDeadlines
	if !p.modeGiven {
		// A view runs each query once.
		p.config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return stdlib.OpenDB(*p.config), nil
}

// enterSearchPath sets the search_path of a URL in a transaction.
func enterSearchPath(ctx context.Context, tx *sql.Tx, rest string) error {
	u, err := parseServer(rest, "5432", postgresParams())
	if err != nil {
		return err
	}
	path, ok := u.removeParam("search_path")
	if !ok {
		return nil
	}
	_, err = tx.ExecContext(ctx, setSearchPath, path)
	return err
}

func mysqlReadEngine() readEngine {
	return readEngine{
		scheme: "mysql",
		open:   openMySQLReadOnly,
		version: `SELECT CASE WHEN version() LIKE '%MariaDB%' THEN concat('MariaDB ', substring_index(version(), '-', 1))
 ELSE concat('MySQL ', version()) END`,
		bytes:  "SELECT cast(coalesce(sum(t.data_length + t.index_length), 0) AS signed) FROM information_schema.tables t WHERE t.table_schema = database()",
		tables: "SELECT t.table_name FROM information_schema.tables t WHERE t.table_schema = database() AND t.table_type = 'BASE TABLE'",
		integrity: []integrityQuery{
			{rule: "integrity", query: "CHECK TABLE " + strings.Join(append(tableNames(), migrationRow{}.TableName()), ", "), ownConn: true},
		},
		tie:          "id",
		arbitraryTie: true,
	}
}

func openMySQLReadOnly(rest string) (*sql.DB, error) {
	u, err := parseServer(rest, "3306", mysqlParams())
	if err != nil {
		return nil, err
	}
	config, err := mysqlConfig(u)
	if err != nil {
		return nil, err
	}
	config.ReadTimeout = 0
	connector, err := driver.NewConnector(config)
	if err != nil {
		return nil, err
	}
	return sql.OpenDB(connector), nil
}
