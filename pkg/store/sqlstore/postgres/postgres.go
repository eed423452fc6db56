// Package postgres opens PostgreSQL databases for sqlstore, directly or through a pooler.
package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"gorm.io/driver/postgres"
	"gorm.io/gorm"
	"gorm.io/gorm/migrator"
	"gorm.io/gorm/schema"

	"agenthost/pkg/store/sqlstore/internal/engine"
)

// Engine returns the engine for postgres: and postgresql: URLs, also with SQLAlchemy's driver
// names.
func Engine() *engine.Engine {
	return &engine.Engine{
		Kind:     engine.Postgres,
		Names:    []string{"postgres", "postgresql", "postgresql+asyncpg", "postgresql+psycopg", "postgresql+psycopg2"},
		Form:     "postgres://user@host/database",
		Classify: classifyError,
		Server:   &engine.Server{Port: "5432", Params: urlParams(), Prepare: prepareConnect, OpenPlain: openPlain},
	}
}

// urlParams returns a URL's parameters. All but pool_size have their libpq meaning; ssl is
// asyncpg's name for sslmode.
func urlParams() []engine.Parameter {
	return []engine.Parameter{
		{"sslmode", "ssl"},
		{"sslrootcert"},
		{"sslcert"},
		{"sslkey"},
		{"connect_timeout"},
		{"application_name"},
		{"search_path"},
		{"synchronous_commit"},
		{"target_session_attrs"},
		{"default_query_exec_mode"},
		{"statement_cache_capacity"},
		{"host"},
		{"pool_size"},
		{"timeout"},
	}
}

// prepareConnect reads a URL's parameters.
func prepareConnect(u *engine.URL, s engine.Settings) (engine.Connect, error) {
	place, err := parseTarget(u)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (*engine.Pools, error) {
		schema, err := findSchema(ctx, place)
		if err != nil {
			return nil, err
		}
		connector := newConnector(place, newSchemaQualifier(schema, s.Tables))
		connector.readOnly = s.ReadOnly
		return &engine.Pools{Open: func() (*gorm.DB, error) { return openPool(connector) }}, nil
	}, nil
}

func openPool(connector driver.Connector) (*gorm.DB, error) {
	pool := sql.OpenDB(connector)
	db, err := gorm.Open(dialector{postgres.Dialector{Config: &postgres.Config{Conn: pool}}}, engine.NewConfig())
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return db, nil
}

// openPlain opens a pool without GORM.
func openPlain(u *engine.URL) (*sql.DB, error) {
	p, err := parseTarget(u)
	if err != nil {
		return nil, err
	}
	if !p.modeGiven {
		// A view runs each query once.
		p.config.DefaultQueryExecMode = pgx.QueryExecModeCacheDescribe
	}
	return stdlib.OpenDB(*p.config), nil
}

// dialector makes ids compare and sort byte by byte, so that indexes do not depend on the operating
// system's collations, which change.
type dialector struct{ postgres.Dialector }

// DataTypeOf returns a column's type.
func (d dialector) DataTypeOf(f *schema.Field) string {
	t := d.Dialector.DataTypeOf(f)
	if strings.HasPrefix(t, "varchar") {
		t += ` COLLATE "C"`
	}
	return t
}

// Migrator migrates tables with this dialector's types.
func (d dialector) Migrator(db *gorm.DB) gorm.Migrator {
	return postgres.Migrator{Migrator: migrator.Migrator{Config: migrator.Config{
		DB: db, Dialector: d, CreateIndexAfterCreateTable: true,
	}}}
}

func classifyError(err error) (f engine.Fault) {
	if errors.Is(err, pgconn.ErrConnClosed) {
		f |= engine.Lost
	}
	if e := (*pgconn.PgError)(nil); errors.As(err, &e) {
		f |= classifyCode(e)
	}
	if connect := (*pgconn.ConnectError)(nil); errors.As(err, &connect) && !f.Has(engine.Limited) {
		f |= engine.Lost
	}
	return f
}

func classifyCode(e *pgconn.PgError) (f engine.Fault) {
	if e.Code != "" {
		f |= engine.Answered
	}
	switch e.Code {
	case "23505", "23503", "23502":
		f |= engine.Conflict
	case "25006": // a former primary that became read-only
		f |= engine.Unwritable | engine.Lost
	case "53100":
		f |= engine.Unwritable
	case "57P01", "57P02", "57P03": // a server that stops or starts
		f |= engine.Lost
	case "53300", "53400": // the server's and the role's limits
		f |= engine.Limited
	case "40001", "40P01":
		f |= engine.Aborted
	case "XX001", "XX002", "22021", "42P01", "42703":
		f |= engine.Damaged
	case "3D000":
		f |= engine.NoDatabase
	case "28P01", "28000":
		f |= engine.Denied
	}
	if strings.HasPrefix(e.Code, "08") {
		f |= engine.Lost
	}
	// PgBouncer has no error code for its limit.
	if strings.HasPrefix(e.Message, "no more connections allowed") {
		f |= engine.Limited
	}
	return f
}
