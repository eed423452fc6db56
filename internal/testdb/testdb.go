// Package testdb makes databases for tests: files of SQLite, and schemas or
// databases on the servers of the machine, or those that
// AGENTHOST_TEST_POSTGRES and AGENTHOST_TEST_MYSQL name.
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

// ErrAbsent: there is no server to try.
var ErrAbsent = errors.New("SKIPPED: no server")

// An Engine is where tests make databases.
type Engine struct {
	// Name is sqlite, postgres or mysql.
	Name string
	// env names the variable with the URL of a server, and server is what
	// stands in for it.
	env, server string
	// create and drop make a place for tables on the server, and take it away.
	create, drop string
}

// Engines are all that sessions are kept in.
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

// Server is the URL of the engine's server. One that does not answer is
// ErrAbsent, unless it was named; files need none.
func (e Engine) Server(ctx context.Context) (*url.URL, error) {
	if e.server == "" {
		return nil, nil
	}
	u, err := url.Parse(cmp.Or(os.Getenv(e.env), e.server))
	if err != nil {
		return nil, fmt.Errorf("%s is no URL", e.env)
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", u.Host)
	if err != nil && os.Getenv(e.env) != "" {
		return nil, fmt.Errorf("%s names a server that does not answer: %w", e.env, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w of %s: %w", ErrAbsent, e.env, err)
	}
	return u, conn.Close()
}

// Fresh makes an empty database and returns its URL, and what takes it away.
// One of SQLite is a file in the folder that is not made yet.
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

// Open opens the database of a URL by its driver.
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

// Exec carries out SQL statements in the database of a URL.
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
