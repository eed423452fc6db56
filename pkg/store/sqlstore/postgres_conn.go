package sqlstore

import (
	"context"
	"database/sql/driver"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// A postgresConnector opens connections to PostgreSQL, directly or through a
// transaction pooler such as PgBouncer. No statement relies on the session of a
// server connection: behind a pooler statements are not prepared by name, and
// tables are qualified with their schema, so that search_path does not matter.
type postgresConnector struct {
	direct, pooled driver.Connector
	names          *schemaQualifier
	// behindPooler is set once and stays set: unprepared statements also work
	// on a direct connection.
	behindPooler atomic.Bool
}

// newPostgresConnector uses the mode of the URL if it is set, and else detects
// on each connection which mode works.
func newPostgresConnector(p *postgresTarget, schema string) *postgresConnector {
	pooled := p.config.Copy()
	pooled.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	c := &postgresConnector{direct: stdlib.GetConnector(*p.config), names: newSchemaQualifier(schema)}
	c.pooled = stdlib.GetConnector(*pooled)
	if p.modeGiven {
		c.pooled = c.direct
		c.behindPooler.Store(true)
	}
	return c
}

// Connect opens a connection.
func (c *postgresConnector) Connect(ctx context.Context) (driver.Conn, error) {
	if !c.behindPooler.Load() {
		conn, err := c.direct.Connect(ctx)
		if err != nil {
			return nil, err
		}
		own := conn.(*stdlib.Conn)
		direct, err := isDirect(ctx, own.Conn())
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
func (c *postgresConnector) Driver() driver.Driver { return c.direct.Driver() }

// isDirect compares the process id from the connection handshake with that of
// the process that executes statements. A pooler cannot pass on the server's
// id, because a cancel request for it would reach whichever client has the
// server connection by then; PgBouncer sends a random one.
func isDirect(ctx context.Context, conn *pgx.Conn) (bool, error) {
	var pid uint32
	err := conn.QueryRow(ctx, "SELECT pg_backend_pid()", pgx.QueryExecModeSimpleProtocol).Scan(&pid)
	var refused *pgconn.PgError
	if errors.As(err, &refused) && !isConnectionLostPostgres(err) {
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

	mu    sync.RWMutex
	known map[string]string
}

func newSchemaQualifier(schema string) *schemaQualifier {
	return &schemaQualifier{
		schema: pgx.Identifier{schema}.Sanitize(), text: "'" + strings.ReplaceAll(schema, "'", "''") + "'",
		known: map[string]string{},
	}
}

var (
	tableUse = sync.OnceValue(func() *regexp.Regexp {
		names := strings.Join(append(tableNames(), migrationRow{}.TableName()), "|")
		return regexp.MustCompile(`(?i)\b(FROM|JOIN|INTO|UPDATE|TABLE|ON|REFERENCES)(\s+)("?)(` + names + `)\b("?)`)
	})
	schemaUse = regexp.MustCompile(`(?i)\bcurrent_schema\(\)`)
)

func (q *schemaQualifier) qualifyTables(query string) string {
	q.mu.RLock()
	text, ok := q.known[query]
	q.mu.RUnlock()
	if ok {
		return text
	}
	text = tableUse().ReplaceAllString(query, "$1$2"+strings.ReplaceAll(q.schema, "$", "$$")+".$3$4$5")
	text = schemaUse.ReplaceAllLiteralString(text, q.text)
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.known) < maxQualified {
		q.known[strings.Clone(query)] = text
	}
	return text
}

// findSchema returns the schema of the tables: the first existing one of the
// search_path. It reports an unreachable database or an unsupported setting
// early.
func findSchema(ctx context.Context, p *postgresTarget) (string, error) {
	plain := p.config.Copy()
	delete(plain.RuntimeParams, syncCommit)
	conn, err := pgx.ConnectConfig(ctx, plain)
	if err != nil {
		return "", newUnreachableError(err)
	}
	defer conn.Close(context.WithoutCancel(ctx))
	if p.config.RuntimeParams[syncCommit] != "" {
		switch direct, err := isDirect(ctx, conn); {
		case err != nil:
			return "", newUnreachableError(err)
		case !direct:
			return "", errPooledSetting(syncCommit)
		}
	}
	tx, err := conn.Begin(ctx)
	if err != nil {
		return "", newUnreachableError(err)
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
