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
type place struct {
	name string
	// driver is its name in database/sql; memory has none.
	driver string
	// env names the variable with the URL of a server, and server is what
	// stands in for it. Both are empty where no server is needed.
	env, server string
}

// places lists all that are tried. A server whose driver is not part of the
// program is left out.
func places() []place {
	all := []place{
		{name: "memory"},
		{name: "sqlite", driver: "sqlite"},
		{"postgres", "pgx", "AGENTHOST_TEST_POSTGRES", "postgres://postgres@127.0.0.1:5432/test"},
		{"mysql", "mysql", "AGENTHOST_TEST_MYSQL", "mysql://root@127.0.0.1:3306/test"},
	}
	return slices.DeleteFunc(all, func(p place) bool {
		return p.driver != "" && !slices.Contains(sql.Drivers(), p.driver)
	})
}

// durable says whether what is kept outlives the process.
func (p place) durable() bool { return p.driver != "" }

// at is the URL of the server.
func (p place) at() string {
	if given := os.Getenv(p.env); given != "" {
		return given
	}
	return p.server
}

// reachable returns the places that can be tried, and a line for each of the
// others. A server that was named and does not answer is an error.
func reachable(ctx context.Context) (there []place, absent []string, err error) {
	for _, p := range places() {
		if p.server == "" {
			there = append(there, p)
			continue
		}
		why := p.ping(ctx)
		switch {
		case why == nil:
			there = append(there, p)
		case os.Getenv(p.env) != "":
			return nil, nil, fmt.Errorf("%s names no %s server that answers: %w", p.env, p.name, why)
		default:
			absent = append(absent, fmt.Sprintf("%s is left out: no server answers; %s can name one", p.name, p.env))
		}
	}
	return there, absent, nil
}

func (p place) ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	db, err := p.admin()
	if err != nil {
		return err
	}
	defer db.Close()
	return db.PingContext(ctx)
}

func (p place) admin() (*sql.DB, error) {
	u, err := url.Parse(p.at())
	if err != nil {
		return nil, err
	}
	return sql.Open(p.driver, dsn(p.driver, u))
}

// dsn is a URL in the form that a driver of database/sql takes.
func dsn(driver string, u *url.URL) string {
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
	place
	url  string
	file string // of SQLite
	made string // its name on a server
}

// fresh makes a database in a folder or on the server.
func (p place) fresh(ctx context.Context, dir string) (*database, error) {
	name := "agenthost_proof_" + strings.ToLower(rand.Text()[:10])
	d := &database{place: p, url: "memory:"}
	switch {
	case p.driver == "":
	case p.server == "":
		d.file = filepath.Join(dir, name+".db")
		d.url = "sqlite:///" + d.file
	default:
		d.made = name
		u, err := url.Parse(p.at())
		if err != nil {
			return nil, err
		}
		u.Path = "/" + name
		d.url = u.String()
		return d, p.command(ctx, "CREATE DATABASE "+name)
	}
	return d, nil
}

func (p place) command(ctx context.Context, text string) error {
	db, err := p.admin()
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, text); err != nil {
		return fmt.Errorf("%s: %w", text, err)
	}
	return nil
}

// drop throws the database away, also when everything else was called off.
func (d *database) drop(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	switch {
	case d.made != "" && d.driver == "pgx":
		return d.command(ctx, "DROP DATABASE "+d.made+" WITH (FORCE)")
	case d.made != "":
		return d.command(ctx, "DROP DATABASE "+d.made)
	case d.file == "":
		return nil
	}
	var errs []error
	for _, end := range []string{"", "-wal", "-shm", ".artifacts"} {
		errs = append(errs, os.RemoveAll(d.file+end))
	}
	return errors.Join(errs...)
}

// open opens a store on the database.
func (d *database) open(ctx context.Context) (*store.Store, error) {
	return store.Open(ctx, d.url, &store.Options{Artifacts: "memory:"})
}

// openMany opens as many stores on the database as replicas would. Memory has
// only one.
func (d *database) openMany(ctx context.Context, n int) (stores []*store.Store, shut func() error, err error) {
	if !d.durable() {
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
		s, err := d.open(ctx)
		if err != nil {
			return nil, nil, errors.Join(err, shut())
		}
		stores = append(stores, s)
	}
	return stores, shut, nil
}

// raw opens the database without any store. For SQLite it sets nothing that
// the store sets.
func (d *database) raw() (*sql.DB, error) {
	if d.file != "" {
		return sql.Open(d.driver, "file:"+(&url.URL{Path: d.file}).EscapedPath())
	}
	u, err := url.Parse(d.url)
	if err != nil {
		return nil, err
	}
	return sql.Open(d.driver, dsn(d.driver, u))
}
