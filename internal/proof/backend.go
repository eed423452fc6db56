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

// A place is a kind of database that keeps sessions.
type backend struct {
	name string
	// driver is its name in database/sql; memory has none.
	driver string
	// env names the variable with the URL of a server, and server is what
	// stands in for it. Both are empty where no server is needed.
	env, server string
}

// allBackends lists all that are tried. A server whose driver is not part of the
// program is left out.
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

// isDurable says whether what is kept outlives the process.
func (p backend) isDurable() bool { return p.driver != "" }

// serverURL is the URL of the server.
func (p backend) serverURL() string {
	if fromEnv := os.Getenv(p.env); fromEnv != "" {
		return fromEnv
	}
	return p.server
}

// findBackends returns the places that can be tried, and a line for each of the
// others. A server that was named and does not answer is an error.
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
			return nil, nil, fmt.Errorf("%s names no %s server that answers: %w", p.env, p.name, pingErr)
		default:
			skipped = append(skipped, fmt.Sprintf("%s is left out: no server answers; %s can name one", p.name, p.env))
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

// formatDSN is a URL in the form that a driver of database/sql takes.
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

// A database is an empty one that is thrown away in the end.
type database struct {
	backend
	url        string
	file       string // of SQLite
	serverName string // its name on a server
}

// createDatabase makes a database in a folder or on the server.
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

// dropDatabase throws the database away, also when everything else was called off.
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
	return store.Open(ctx, d.url, &store.Options{Artifacts: "memory:"})
}

// openStores opens as many stores on the database as replicas would. Memory has
// only one.
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

// openSQL opens the database without any store. For SQLite it sets nothing that
// the store sets.
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
