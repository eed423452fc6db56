// Package engine connects sqlstore to database engine drivers. Package sqlstore has all engines'
// SQL; packages sqlite, postgres and mysql have what needs a driver, so that a program links only
// the drivers that it names.
package engine

import (
	"context"
	"database/sql"
	"log/slog"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// A Kind selects an engine's SQL.
type Kind int

// Engine kinds. MariaDB is MySQL.
const (
	SQLite Kind = iota + 1
	Postgres
	MySQL
)

// An Engine is a database engine with its driver. Either File or Server is set.
type Engine struct {
	Kind Kind
	// Names are the URL schemes, the first one is canonical. Form is an example URL.
	Names []string
	Form  string
	// Classify returns what a driver error means.
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

// A Server opens databases on a server.
type Server struct {
	// Port is the default port.
	Port string
	// Params are the URL parameters.
	Params []Parameter
	// Prepare reads a URL's parameters and sends nothing.
	Prepare func(u *URL, s Settings) (Connect, error)
	// OpenPlain opens a pool without GORM and without a connection.
	OpenPlain func(u *URL) (*sql.DB, error)
}

// Settings are how a store uses a server's databases.
type Settings struct {
	// ReadOnly makes transactions read-only where the server can.
	ReadOnly bool
	// Tables are all table names.
	Tables []string
	Logger *slog.Logger
}

// Connect makes the first connection to a server, and closes it. The error for a server that cannot
// be reached comes from [NewUnreachableError].
type Connect func(ctx context.Context) (*Pools, error)

// Pools opens connection pools.
type Pools struct {
	Open func() (*gorm.DB, error)
	// Collation compares byte by byte; empty if all columns do.
	Collation string
}

// NewConfig returns the GORM configuration for all engines.
func NewConfig() *gorm.Config {
	return &gorm.Config{Logger: logger.Discard, SkipDefaultTransaction: true, DisableAutomaticPing: true}
}
