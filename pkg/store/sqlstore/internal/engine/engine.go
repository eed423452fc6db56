// Package engine connects sqlstore to the drivers of database engines. Package sqlstore has
// the SQL of all engines; packages sqlite, postgres and mysql have what needs a driver, so
// that a program links only the drivers that it names.
package engine

import (
	"context"
	"database/sql"
	"log/slog"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// A Kind selects the SQL of an engine.
type Kind int

// The kinds of engines. MariaDB is MySQL.
const (
	SQLite Kind = iota + 1
	Postgres
	MySQL
)

// An Engine is a database engine with its driver. Either File or Server is set.
type Engine struct {
	Kind Kind
	// Names are the schemes of URLs, the first one is the canonical one. Form is an example
	// of a URL.
	Names []string
	Form  string
	// Classify returns what an error of the driver means.
	Classify func(error) Fault
	File     *File
	Server   *Server
}

// A File opens database files.
type File struct {
	// Open opens a pool with its first connection.
	Open func(ctx context.Context, dsn string) (*gorm.DB, error)
	// OpenPlain opens a pool without GORM and without a connection.
	OpenPlain func(dsn string) (*sql.DB, error)
}

// A Server opens databases of a server.
type Server struct {
	// Port is the default port.
	Port string
	// Params are the parameters of URLs.
	Params []Parameter
	// Prepare reads the parameters of a URL and sends nothing.
	Prepare func(u *URL, s Settings) (Connect, error)
	// OpenPlain opens a pool without GORM and without a connection.
	OpenPlain func(u *URL) (*sql.DB, error)
}

// Settings are how a store uses the databases of a server.
type Settings struct {
	// ReadOnly makes transactions read-only where the server can.
	ReadOnly bool
	// Tables are the names of all tables.
	Tables []string
	Logger *slog.Logger
}

// Connect makes the first connection to a server, and closes it. The error for a server
// that cannot be reached is that of [NewUnreachableError].
type Connect func(ctx context.Context) (*Pools, error)

// Pools opens pools of connections.
type Pools struct {
	Open func() (*gorm.DB, error)
	// Collation compares byte by byte; empty if all columns do.
	Collation string
}

// NewConfig returns the configuration of GORM for all engines.
func NewConfig() *gorm.Config {
	return &gorm.Config{Logger: logger.Discard, SkipDefaultTransaction: true, DisableAutomaticPing: true}
}
