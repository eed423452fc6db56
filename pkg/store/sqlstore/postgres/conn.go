package postgres

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"agenthost/pkg/store/sqlstore/internal/engine"
)

// A target is a PostgreSQL database's parsed URL.
type target struct {
	config *pgx.ConnConfig
	// searchPath lists schemas; empty uses the server's setting.
	searchPath string
	// modeGiven reports that the URL sets the statement mode.
	modeGiven bool
}

func parseTarget(u *engine.URL) (*target, error) {
	connect, err := u.RemoveSeconds("connect_timeout", engine.ConnectTimeout)
	if err != nil {
		return nil, err
	}
	u.RemoveParam("pool_size")
	p := &target{}
	p.searchPath, _ = u.RemoveParam("search_path")
	if err := p.readMode(u); err != nil {
		return nil, err
	}
	values := url.Values{}
	for name, value := range u.Params {
		values.Set(name, value)
	}
	if values.Get("application_name") == "" {
		values.Set("application_name", "agenthost")
	}
	dsn := url.URL{Scheme: "postgres", User: u.User, Path: "/" + u.Name, RawQuery: values.Encode()}
	if u.Host != "" {
		dsn.Host = net.JoinHostPort(u.Host, u.Port)
	}
	p.config, err = pgx.ParseConfig(dsn.String())
	var parse *pgconn.ParseConfigError
	switch {
	case errors.As(err, &parse) && errors.Unwrap(parse) != nil:
		// The outer error's message contains the URL.
		return nil, errors.Unwrap(parse)
	case err != nil:
		return nil, errors.New("invalid value of a URL parameter or of a PG… environment variable")
	}
	p.config.ConnectTimeout = connect
	p.config.DialFunc = u.Dial
	return p, nil
}

// readMode reads the statement mode. A statement cache with size 0, which pgx rejects, means that
// no statement is prepared.
func (p *target) readMode(u *engine.URL) error {
	mode, given := u.Params["default_query_exec_mode"]
	if given && !slices.Contains(execModes(), mode) {
		return fmt.Errorf("default_query_exec_mode=%s is not one of %s", mode, strings.Join(execModes(), ", "))
	}
	p.modeGiven = given
	text, ok := u.Params["statement_cache_capacity"]
	if !ok {
		return nil
	}
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0 || n > 100_000:
		return fmt.Errorf("statement_cache_capacity=%s is not a number of statements from 0 to 100000", text)
	case n == 0 && mode == "cache_statement":
		return errors.New("statement_cache_capacity=0 contradicts default_query_exec_mode=cache_statement")
	case n == 0 && !given:
		u.Params["default_query_exec_mode"], p.modeGiven = "cache_describe", true
	}
	return nil
}

// execModes returns pgx's statement modes. Only the first one relies on the server session, in
// which it prepares statements by name.
func execModes() []string {
	return []string{"cache_statement", "cache_describe", "describe_exec", "exec", "simple_protocol"}
}

// A connector opens connections to PostgreSQL, directly or through a transaction pooler such as
// PgBouncer. No statement relies on a server connection's session: behind a pooler statements are
// not prepared by name, and tables are qualified with their schema, so that search_path does not
// matter.
type connector struct {
	direct, pooled driver.Connector
	names          *schemaQualifier
	// behindPooler is set once and stays set: unprepared statements also work
	// on a direct connection.
	behindPooler atomic.Bool
	// readOnly makes direct connections' sessions read-only. A pooler keeps no session setting.
	readOnly bool
}

// newConnector uses the URL's mode if it is set, and else detects on each connection which mode
// works.
func newConnector(p *target, names *schemaQualifier) *connector {
	pooled := p.config.Copy()
	pooled.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	c := &connector{direct: stdlib.GetConnector(*p.config), names: names}
	c.pooled = stdlib.GetConnector(*pooled)
	if p.modeGiven {
		c.pooled = c.direct
		c.behindPooler.Store(true)
	}
	return c
}

// Connect opens a connection.
func (c *connector) Connect(ctx context.Context) (driver.Conn, error) {
	if !c.behindPooler.Load() {
		conn, err := c.direct.Connect(ctx)
		if err != nil {
			return nil, err
		}
		own := conn.(*stdlib.Conn)
		direct, err := isDirect(ctx, own.Conn())
		if err == nil && direct && c.readOnly {
			_, err = own.ExecContext(ctx, "SET default_transaction_read_only = on", nil)
		}
		if err == nil && direct {
			return &qualifiedConn{own, c.names}, nil
		}
		if err := errors.Join(err, own.Close()); err != nil {
			return nil, err
		}
		c.behindPooler.Store(true)
	}
	conn, err := c.pooled.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &qualifiedConn{conn.(*stdlib.Conn), c.names}, nil
}

// Driver returns pgx's driver.
func (c *connector) Driver() driver.Driver { return c.direct.Driver() }

// isDirect compares the process id from the connection handshake with the process that executes
// statements. A pooler cannot pass on the server's id, because a cancel request for it would reach
// whichever client has the server connection by then; PgBouncer sends a random one.
func isDirect(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && !classifyError(err).Has(engine.Lost) {
		return false, nil
	}
	return pid == conn.PgConn().PID(), err
}

// A qualifiedConn qualifies table names with the schema.
type qualifiedConn struct {
	*stdlib.Conn
	names *schemaQualifier
}

// PrepareContext forwards the qualified statement to the driver.
func (c *qualifiedConn) PrepareContext(ctx context.Context, query string) (driver.Stmt, error) {
	return c.Conn.PrepareContext(ctx, c.names.qualifyTables(query))
}

// ExecContext forwards the qualified statement to the driver.
func (c *qualifiedConn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	return c.Conn.ExecContext(ctx, c.names.qualifyTables(query), args)
}

// QueryContext forwards the qualified statement to the driver.
func (c *qualifiedConn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	return c.Conn.QueryContext(ctx, c.names.qualifyTables(query), args)
}

// maxQualified limits the statements that a schemaQualifier caches. The store
// has about fifty; those of lists and imports vary with their lengths.
const maxQualified = 256

// A schemaQualifier qualifies our table names where a statement uses them as
// tables, and replaces current_schema().
type schemaQualifier struct {
	schema, text string // as an identifier and as a literal
	tableUse     *regexp.Regexp

	mu    sync.RWMutex
	known map[string]string
}

func newSchemaQualifier(schema string, tables []string) *schemaQualifier {
	return &schemaQualifier{
		tableUse: regexp.MustCompile(`(?i)\b(FROM|JOIN|INTO|UPDATE|TABLE|ON|REFERENCES)(\s+)("?)(` + strings.Join(tables, "|") + `)\b("?)`),
		schema:   pgx.Identifier{schema}.Sanitize(), text: "'" + strings.ReplaceAll(schema, "'", "''") + "'",
		known: map[string]string{},
	}
}

var schemaUse = regexp.MustCompile(`(?i)\bcurrent_schema\(\)`)

func (q *schemaQualifier) qualifyTables(query string) string {
	q.mu.RLock()
	text, ok := q.known[query]
	q.mu.RUnlock()
	if ok {
		return text
	}
	text = q.tableUse.ReplaceAllString(query, "$1$2"+strings.ReplaceAll(q.schema, "$", "$$")+".$3$4$5")
	text = schemaUse.ReplaceAllLiteralString(text, q.text)
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.known) < maxQualified {
		q.known[strings.Clone(query)] = text
	}
	return text
}

// findSchema returns the tables' schema: the first existing one in the search_path. It reports an
// unreachable database or an unsupported setting early.
func findSchema(ctx context.Context, p *target) (string, error) {
	plain := p.config.Copy()
	delete(plain.RuntimeParams, syncCommit)
	conn, err := pgx.ConnectConfig(ctx, plain)
	if err != nil {
		return "", engine.NewUnreachableError(err, classifyError(err))
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if p.config.RuntimeParams[syncCommit] != "" {
		switch direct, err := isDirect(ctx, conn); {
		case err != nil:
			return "", engine.NewUnreachableError(err, classifyError(err))
		case !direct:
			return "", errPooledSetting(syncCommit)
		}
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return "", engine.NewUnreachableError(err, classifyError(err))
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
	if p.searchPath != "" {
		if _, err := tx.Exec(ctx, setSearchPath, pgx.QueryExecModeExec, p.searchPath); err != nil {
			return "", fmt.Errorf("search_path %q: %w", p.searchPath, err)
		}
	}
	var schema *string
	if err := tx.QueryRow(ctx, "SELECT current_schema()", pgx.QueryExecModeSimpleProtocol).Scan(&schema); err != nil {
		return "", fmt.Errorf("reading schema name: %w", err)
	}
	if schema == nil {
		return "", fmt.Errorf("no schema of search_path %q exists: create it with CREATE SCHEMA, or name an existing one", p.searchPath)
	}
	return *schema, nil
}

// setSearchPath sets the search_path for the transaction.
const setSearchPath = "SELECT set_config('search_path', $1, true)"

// syncCommit is the only URL parameter that is a session setting.
const syncCommit = "synchronous_commit"

// errPooledSetting reports a session setting, which a pooler does not preserve.
func errPooledSetting(name string) error {
	return fmt.Errorf("%s cannot be set through a connection pooler: set it on the server with ALTER ROLE or ALTER DATABASE", name)
}
