// Package testdb creates databases for tests: SQLite files, and schemas or databases on local
// servers or on the servers in AGENTHOST_TEST_POSTGRES and AGENTHOST_TEST_MYSQL.
package testdb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-sql-driver/mysql"
	"github.com/google/uuid"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	_ "modernc.org/sqlite"             // the driver "sqlite"
)

// ErrAbsent means that no server is available.
var ErrAbsent = errors.New("SKIPPED: no server")

// An Engine is a database engine.
type Engine struct {
	// Name is sqlite, postgres or mysql.
	Name string
	// env is the variable with a server's URL, and server the default URL.
	env, server string
	// create and drop are the statements that create and drop a schema or database.
	create, drop string
}

// Engines returns the engines that store sessions.
func Engines() []Engine {
	return []Engine{
		{Name: "sqlite"},
		{
			"postgres", "AGENTHOST_TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432/test",
			"CREATE SCHEMA %s", "DROP SCHEMA %s CASCADE",
		},
		{
			"mysql", "AGENTHOST_TEST_MYSQL", "mysql://root@127.0.0.1:3306/test",
			"CREATE DATABASE %s", "DROP DATABASE %s",
		},
	}
}

// Server returns the server's URL, or nil for files. If no server is configured and the default one
// is unavailable, it returns ErrAbsent.
func (e Engine) Server(ctx context.Context) (*url.URL, error) {
	if e.server == "" {
		return nil, nil
	}
	u, err := url.Parse(cmp.Or(os.Getenv(e.env), e.server))
	if err != nil {
		return nil, fmt.Errorf("%s must be a URL", e.env)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil && os.Getenv(e.env) != "" {
		return nil, fmt.Errorf("%s: server not available: %w", e.env, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w for %s: %w", ErrAbsent, e.env, err)
	}
	return u, conn.Close()
}

// Fresh creates an empty database and returns its URL and a function that drops it. A
// SQLite file in the folder is created on first use.
func (e Engine) Fresh(ctx context.Context, dir string) (at string, drop func() error, err error) {
	name := "t" + strings.ReplaceAll(uuid.NewString(), "-", "")
	if e.server == "" {
		return "sqlite:///" + filepath.Join(dir, name+".db"), func() error { return nil }, nil
	}
	u, err := e.Server(ctx)
	if err != nil {
		return "", nil, err
	}
	server := u.String()
	if e.Name == "mysql" {
		u.Path = "/" + name
	} else {
		q := u.Query()
		q.Set("search_path", name)
		q.Set("pool_size", "8") // other tests need connections too
		u.RawQuery = q.Encode()
	}
	drop = func() error { return Exec(context.WithoutCancel(ctx), server, fmt.Sprintf(e.drop, name)) }
	return u.String(), drop, Exec(ctx, server, fmt.Sprintf(e.create, name))
}

// Open opens the database at a URL.
func Open(at string) (*sql.DB, error) {
	if file, ok := strings.CutPrefix(at, "sqlite:///"); ok {
		return sql.Open("sqlite", file)
	}
	u, err := url.Parse(at)
	if err != nil {
		return nil, err
	}
	q := u.Query()
	q.Del("pool_size")
	u.RawQuery = q.Encode()
	if u.Scheme != "mysql" {
		return sql.Open("pgx", u.String())
	}
	c := mysql.NewConfig()
	c.User, c.Net, c.Addr, c.DBName = u.User.Username(), "tcp", u.Host, strings.TrimPrefix(u.Path, "/")
	c.Passwd, _ = u.User.Password()
	c.MultiStatements = true
	return sql.Open("mysql", c.FormatDSN())
}

// Exec executes SQL statements in the database at a URL.
func Exec(ctx context.Context, at, text string) error {
	db, err := Open(at)
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, text); err != nil {
		return fmt.Errorf("%.60s: %w", text, err)
	}
	return nil
}
