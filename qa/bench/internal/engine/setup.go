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
	_ "modernc.org/sqlite" // the engine "sqlite" for database/sql
)

// A Setup configures adk-go's sessions.
type Setup struct {
	Name   string
	driver string
	conns  int // 0 means no limit
}

// Setups returns the configurations to try. SQLite's C engine is available if the
// program was built with cgo.
func (e Engine) Setups() []Setup {
	if e.server != "" {
		return []Setup{{"16 connections", e.driver(), 16}, {"32 connections", e.driver(), 32}}
	}
	all := []Setup{
		{"1 connection", "sqlite", 1},
		{"many connections", "sqlite", 0},
	}
	if HasC() {
		all = append(all, Setup{"C, 1 connection", "sqlite3", 1}, Setup{"C, many connections", "sqlite3", 2 * runtime.NumCPU()})
	}
	return all
}

// Open opens adk-go's sessions and their connection pool.
func (d *Database) Open(s Setup) (adk.Service, *sql.DB, error) {
	pool, err := d.pool(s.driver)
	if err != nil {
		return nil, nil, err
	}
	pool.SetMaxOpenConns(s.conns)
	pool.SetMaxIdleConns(max(s.conns, 64))
	// A server's connections are limited, and other sides need them in their rounds.
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

// HasC reports whether SQLite's C engine is available.
func HasC() bool { return cgo && slices.Contains(sql.Drivers(), "sqlite3") }

// OpenC opens a SQLite file with SQLite's C engine.
func (d *Database) OpenC() (*sql.DB, error) { return d.pool("sqlite3") }
