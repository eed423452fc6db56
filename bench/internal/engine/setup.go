package engine

import (
	"database/sql"
	"errors"
	"runtime"
	"slices"
	"time"

	adk "google.golang.org/adk/v2/session"
	"google.golang.org/adk/v2/session/database"
	"gorm.io/driver/mysql"
	"gorm.io/driver/postgres"
	"gorm.io/driver/sqlite"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
	_ "modernc.org/sqlite" // the engine "sqlite" of database/sql
)

// A Setup is a way to open adk-go's sessions.
type Setup struct {
	Name   string
	driver string
	conns  int // 0 is no bound
}

// Setups are those that are tried. SQLite's engine in C is there when the
// program was built with cgo.
func (e Engine) Setups() []Setup {
	if e.server != "" {
		return []Setup{{"16 connections", e.driver(), 16}, {"32 connections", e.driver(), 32}}
	}
	all := []Setup{
		{"1 connection", "sqlite", 1},
		{"many connections", "sqlite", 0},
	}
	if cgo && slices.Contains(sql.Drivers(), "sqlite3") {
		all = append(all, Setup{"C, 1 connection", "sqlite3", 1}, Setup{"C, many connections", "sqlite3", 2 * runtime.NumCPU()})
	}
	return all
}

// Open opens adk-go's sessions, and the connections that they use.
func (d *Database) Open(s Setup) (adk.Service, *sql.DB, error) {
	pool, err := d.pool(s.driver)
	if err != nil {
		return nil, nil, err
	}
	pool.SetMaxOpenConns(s.conns)
	pool.SetMaxIdleConns(max(s.conns, 64))
	// A server has only so many, and others wait for their rounds.
	pool.SetConnMaxIdleTime(time.Second)
	service, err := database.NewSessionService(d.dialector(pool), &gorm.Config{PrepareStmt: true, Logger: logger.Discard})
	if err == nil {
		err = database.AutoMigrate(service)
	}
	if err != nil {
		return nil, nil, errors.Join(err, pool.Close())
	}
	return service, pool, nil
}

// dialector is for GORM.
func (d *Database) dialector(pool *sql.DB) gorm.Dialector {
	switch d.Name {
	case "postgres":
		return postgres.New(postgres.Config{Conn: pool})
	case "mysql":
		return mysql.New(mysql.Config{Conn: pool})
	default:
		return sqlite.New(sqlite.Config{Conn: pool})
	}
}
