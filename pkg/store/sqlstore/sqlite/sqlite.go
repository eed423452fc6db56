// Package sqlite opens SQLite databases for sqlstore, without C.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"strings"

	"gorm.io/gorm"
	driver "modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"agenthost/pkg/store/sqlstore/internal/engine"
)

// Engine returns the engine for sqlite: URLs.
func Engine() *engine.Engine {
	return &engine.Engine{
		Kind:     engine.SQLite,
		Names:    []string{"sqlite", "sqlite+aiosqlite"},
		Form:     "sqlite:///file.db",
		Classify: classifyError,
		File: &engine.File{
			Open:      openPool,
			OpenPlain: func(dsn string) (*sql.DB, error) { return sql.Open("sqlite", dsn) },
		},
	}
}

// openPool opens a pool with its first connection, which reads the file.
func openPool(ctx context.Context, dsn string) (*gorm.DB, error) {
	pool, err := sql.Open("sqlite", dsn)
	if err != nil {
		return nil, err
	}
	if err := pool.PingContext(ctx); err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	db, err := gorm.Open(dialector{pool}, engine.NewConfig())
	if err != nil {
		return nil, errors.Join(err, pool.Close())
	}
	return db, nil
}

func classifyError(err error) (f engine.Fault) {
	var e *driver.Error
	if !errors.As(err, &e) {
		return 0
	}
	switch e.Code() {
	case sqlite3.SQLITE_CONSTRAINT_UNIQUE, sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY,
		sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY, sqlite3.SQLITE_CONSTRAINT_NOTNULL:
		f |= engine.Conflict
	case sqlite3.SQLITE_IOERR_SHORT_READ, sqlite3.SQLITE_IOERR_CORRUPTFS:
		f |= engine.Damaged
	case sqlite3.SQLITE_INTERRUPT:
		f |= engine.Interrupted
	}
	switch e.Code() & 0xff {
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		f |= engine.Damaged
	case sqlite3.SQLITE_BUSY:
		f |= engine.Busy | engine.Unwritable
	case sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN:
		f |= engine.Unwritable
	}
	if text := e.Error(); strings.Contains(text, "no such table") || strings.Contains(text, "no such column") {
		f |= engine.Damaged
	}
	return f
}
