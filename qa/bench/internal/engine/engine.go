// Package engine creates empty databases with the same settings for each side in a comparison, and
// opens adk-go's sessions on them.
package engine

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
)

// An Engine is a database kind.
type Engine struct {
	// Name is the scheme in agenthost's URLs.
	Name string
	// variable is the environment variable with a server's URL, and server the default URL.
	variable, server string
}

// SQLite stores a database in a file.
func SQLite() Engine { return Engine{Name: "sqlite"} }

// Postgres is the server from AGENTHOST_TEST_POSTGRES or a local one.
func Postgres() Engine {
	return Engine{"postgres", "AGENTHOST_TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432/test"}
}

// MySQL is the server from AGENTHOST_TEST_MYSQL or a local one.
func MySQL() Engine {
	return Engine{"mysql", "AGENTHOST_TEST_MYSQL", "mysql://root@127.0.0.1:3306/test"}
}

// A Database is one side's database.
type Database struct {
	Engine
	file string   // SQLite file path
	at   *url.URL // a server's URL
}

// Create creates a database and returns a function that drops it. SQLite files are in
// the folder.
func (e Engine) Create(ctx context.Context, dir string) (*Database, func(), error) {
	name := "agenthost_bench_" + strings.ToLower(rand.Text()[:10])
	if e.server == "" {
		file := filepath.Join(dir, name+".db")
		return &Database{Engine: e, file: file}, func() {
			for _, end := range []string{"", "-wal", "-shm"} {
				os.Remove(file + end)
			}
		}, nil
	}
	at, err := url.Parse(cmp.Or(os.Getenv(e.variable), e.server))
	if err != nil {
		return nil, nil, err
	}
	d := &Database{Engine: e, at: at}
	db, err := d.pool(e.driver())
	if err != nil {
		return nil, nil, err
	}
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		db.Close()
		return nil, nil, err
	}
	own := *at
	own.Path = "/" + name
	d.at = &own
	return d, func() {
		if _, err := db.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE "+name); err != nil {
			fmt.Fprintln(os.Stderr, "dropping a database:", err)
		}
		db.Close()
	}, nil
}

// URL returns the URL for agenthost.
func (d *Database) URL() string {
	if d.file != "" {
		return "sqlite:///" + d.file + "?synchronous=full"
	}
	return d.at.String()
}

// Parse returns the database at a URL.
func Parse(text string) (*Database, error) {
	at, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	for _, e := range []Engine{SQLite(), Postgres(), MySQL()} {
		switch {
		case e.Name != at.Scheme:
		case e.server == "":
			return &Database{Engine: e, file: strings.TrimPrefix(at.Path, "/")}, nil
		default:
			return &Database{Engine: e, at: at}, nil
		}
	}
	return nil, fmt.Errorf("unknown database URL %q", text)
}

func (e Engine) driver() string {
	if e.Name == "postgres" {
		return "pgx"
	}
	return e.Name
}

// pool opens the database with fast settings for adk-go: SQLite uses WAL and immediate
// transactions.
func (d *Database) pool(driver string) (*sql.DB, error) {
	switch {
	case d.file != "":
		return sql.Open(driver, "file:"+d.file+
			"?_journal_mode=WAL&_busy_timeout=10000&_txlock=immediate&_foreign_keys=on&_time_format=sqlite&_synchronous=FULL")
	case driver == "mysql":
		return sql.Open(driver, fmt.Sprintf("%s@tcp(%s)%s?parseTime=true", d.at.User, d.at.Host, d.at.Path))
	default:
		return sql.Open(driver, d.at.String())
	}
}
