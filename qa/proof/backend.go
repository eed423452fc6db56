package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/store"
)

// A backend is a database kind for sessions.
type backend struct {
	name string
	// driver is the name in database/sql, or empty for memory.
	driver string
	// env is the variable with a server's URL, and server the default URL. Both are empty for
	// backends without a server.
	env, server string
}

// allBackends returns the backends whose driver is compiled in.
func allBackends() []backend {
	all := []backend{
		{name: "memory"},
		{name: "sqlite", driver: "sqlite"},
		{"postgres", "pgx", "AGENTHOST_TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432/test"},
		{"mysql", "mysql", "AGENTHOST_TEST_MYSQL", "mysql://root@127.0.0.1:3306/test"},
	}
	return slices.DeleteFunc(all, func(p backend) bool {
		return p.driver != "" && !slices.Contains(sql.Drivers(), p.driver)
	})
}

// isDurable reports whether the data outlives the process.
func (p backend) isDurable() bool { return p.driver != "" }

// serverURL returns the server's URL.
func (p backend) serverURL() string {
	if fromEnv := os.Getenv(p.env); fromEnv != "" {
		return fromEnv
	}
	return p.server
}

// findBackends returns the available backends and a message for each skipped one. A
// configured server that is unavailable is an error.
func findBackends(ctx context.Context) (backends []backend, skipped []string, err error) {
	for _, p := range allBackends() {
		if p.server == "" {
			backends = append(backends, p)
			continue
		}
		pingErr := p.pingServer(ctx)
		switch {
		case pingErr == nil:
			backends = append(backends, p)
		case os.Getenv(p.env) != "":
			return nil, nil, fmt.Errorf("%s: %s server not available: %w", p.env, p.name, pingErr)
		default:
			skipped = append(skipped, fmt.Sprintf("skipping %s: no server available; hint: set %s", p.name, p.env))
		}
	}
	return backends, skipped, nil
}

func (p backend) pingServer(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	db, err := p.openAdmin()
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

func (p backend) openAdmin() (*sql.DB, error) {
	u, err := url.Parse(p.serverURL())
	if err != nil {
		return nil, err
	}
	return sql.Open(p.driver, formatDSN(p.driver, u))
}

// formatDSN converts a URL into a DSN for a database/sql driver.
func formatDSN(driver string, u *url.URL) string {
	if driver != "mysql" {
		return u.String()
	}
	user := u.User.Username()
	if password, ok := u.User.Password(); ok {
		user += ":" + password
	}
	return fmt.Sprintf("%s@tcp(%s)%s", user, u.Host, u.Path)
}

// A database is a temporary empty database.
type database struct {
	backend
	url        string
	file       string // SQLite file path
	serverName string // name on a server
}

// createDatabase creates a database in a folder or on the server.
func (p backend) createDatabase(ctx context.Context, dir string) (*database, error) {
	name := "agenthost_proof_" + strings.ToLower(rand.Text()[:10])
	d := &database{backend: p, url: "memory:"}
	switch {
	case p.driver == "":
	case p.server == "":
		d.file = filepath.Join(dir, name+".db")
		d.url = "sqlite:///" + d.file
	default:
		d.serverName = name
		u, err := url.Parse(p.serverURL())
		if err != nil {
			return nil, err
		}
		u.Path = "/" + name
		d.url = u.String()
		return d, p.runStatement(ctx, "CREATE DATABASE "+name)
	}
	return d, nil
}

func (p backend) runStatement(ctx context.Context, text string) error {
	db, err := p.openAdmin()
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, text); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// dropDatabase drops the database, even if the context is canceled.
func (d *database) dropDatabase(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	switch {
	case d.serverName != "" && d.driver == "pgx":
		return d.runStatement(ctx, "DROP DATABASE "+d.serverName+" WITH (FORCE)")
	case d.serverName != "":
		return d.runStatement(ctx, "DROP DATABASE "+d.serverName)
	case d.file == "":
		return nil
	}
	var errs []error
	for _, end := range []string{"", "-wal", "-shm", ".artifacts"} {
		errs = append(errs, os.RemoveAll(d.file+end))
	}
	return errors.Join(errs...)
}

// openStore opens a store on the database.
func (d *database) openStore(ctx context.Context) (*store.Store, error) {
	return openStoreAt(ctx, d.url)
}

// openStores opens n stores on the database, like replicas. Memory has only one.
func (d *database) openStores(ctx context.Context, n int) (stores []*store.Store, shut func() error, err error) {
	if !d.isDurable() {
		n = 1
	}
	shut = func() error {
		var errs []error
		for _, s := range stores {
			errs = append(errs, s.Close())
		}
		return errors.Join(errs...)
	}
	for range n {
		s, err := d.openStore(ctx)
		if err != nil {
			return nil, nil, errors.Join(err, shut())
		}
		stores = append(stores, s)
	}
	return stores, shut, nil
}

// openSQL opens the database without a store. It sets none of the store's SQLite options.
func (d *database) openSQL() (*sql.DB, error) {
	if d.file != "" {
		return sql.Open(d.driver, "file:"+(&url.URL{Path: d.file}).EscapedPath())
	}
	u, err := url.Parse(d.url)
	if err != nil {
		return nil, err
	}
	return sql.Open(d.driver, formatDSN(d.driver, u))
}
