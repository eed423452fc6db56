package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"database/sql"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
)

// An engine is a kind of database, and what agenthost promises on it.
type engine struct {
	name string
	// appends is how many times more of them than adk-go agenthost has to make
	// with 64 sessions; 0 demands nothing.
	appends float64
	// The variable that names a server, and what stands in for it.
	variable, server string
}

func engines() []engine {
	return []engine{
		{name: "sqlite", appends: 10},
		{name: "postgres", appends: 4, variable: "AGENTHOST_TEST_POSTGRES", server: "postgres://postgres@127.0.0.1:5432/test"},
		{name: "mysql", variable: "AGENTHOST_TEST_MYSQL", server: "mysql://root@127.0.0.1:3306/test"},
	}
}

// A base is an empty database.
type base struct {
	engine
	file string   // of SQLite
	at   *url.URL // on a server
}

// base makes a database, and a function that throws it away.
func (e engine) base(ctx context.Context, dir string) (*base, func(), error) {
	name := "agenthost_bench_" + strings.ToLower(rand.Text()[:10])
	if e.server == "" {
		file := filepath.Join(dir, name+".db")
		return &base{engine: e, file: file}, func() {
			for _, end := range []string{"", "-wal", "-shm"} {
				os.Remove(file + end)
			}
		}, nil
	}
	at, err := url.Parse(cmp.Or(os.Getenv(e.variable), e.server))
	if err != nil {
		return nil, nil, err
	}
	b := &base{engine: e, at: at}
	db, err := b.pool(e.driver())
	if err != nil {
		return nil, nil, err
	}
	if _, err := db.ExecContext(ctx, "CREATE DATABASE "+name); err != nil {
		db.Close()
		return nil, nil, err
	}
	own := *at
	own.Path = "/" + name
	b.at = &own
	return b, func() {
		if _, err := db.ExecContext(context.WithoutCancel(ctx), "DROP DATABASE "+name); err != nil {
			fmt.Fprintln(os.Stderr, "stores:", err)
		}
		db.Close()
	}, nil
}

func (e engine) driver() string {
	if e.name == "postgres" {
		return "pgx"
	}
	return e.name
}

// ourURL is where agenthost finds the database.
func (b *base) ourURL() string {
	if b.file != "" {
		return "sqlite:///" + b.file + "?synchronous=full"
	}
	return b.at.String()
}

// pool opens the database as adk-go's users would for speed: SQLite writes
// ahead and takes the lock at once.
func (b *base) pool(driver string) (*sql.DB, error) {
	switch {
	case b.file != "":
		return sql.Open(driver, "file:"+b.file+
			"?_journal_mode=WAL&_busy_timeout=10000&_txlock=immediate&_foreign_keys=on&_time_format=sqlite&_synchronous=FULL")
	case driver == "mysql":
		return sql.Open(driver, fmt.Sprintf("%s@tcp(%s)%s?parseTime=true", b.at.User, b.at.Host, b.at.Path))
	default:
		return sql.Open(driver, b.at.String())
	}
}

// dialector is for GORM.
func (b *base) dialector(pool *sql.DB) gorm.Dialector {
	switch b.name {
	case "postgres":
		return postgres.New(postgres.Config{Conn: pool})
	case "mysql":
		return mysql.New(mysql.Config{Conn: pool})
	default:
		return sqlite.New(sqlite.Config{Conn: pool})
	}
}

// A setup is a way to open adk-go's sessions.
type setup struct {
	name, driver string
	conns        int // 0 is no bound
}

// setups are those that are tried. SQLite's engine in C is there when the
// program was built with cgo.
func (e engine) setups() []setup {
	if e.server != "" {
		return []setup{{"16 connections", e.driver(), 16}, {"32 connections", e.driver(), 32}}
	}
	all := []setup{
		{"1 connection", "sqlite", 1},
		{"many connections", "sqlite", 0},
	}
	if cgo && slices.Contains(sql.Drivers(), "sqlite3") {
		all = append(all, setup{"C, 1 connection", "sqlite3", 1}, setup{"C, many connections", "sqlite3", 2 * runtime.NumCPU()})
	}
	return all
}
