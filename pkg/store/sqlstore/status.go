package sqlstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/store"
)

// A Step is one migration of the schema.
type Step struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
}

// Status describes a database and its size.
type Status struct {
	// Database is the URL without its password.
	Database string `json:"database"`
	// Engine is the engine's name and version.
	Engine string `json:"engine"`
	// Schema is the schema version of the database, 0 if it is empty; Required is
	// the version of this program.
	Schema   int64 `json:"schema"`
	Required int64 `json:"required"`
	// Pending are the migrations from Schema to Required.
	Pending   []Step     `json:"pending"`
	Sessions  int64      `json:"sessions"`
	Events    int64      `json:"events"`
	StateKeys int64      `json:"stateKeys"`
	LastEvent *time.Time `json:"lastEvent"`
	Bytes     int64      `json:"bytes"`
}

// Newer reports that the schema is newer than this program, which therefore
// rejects the database.
func (s *Status) Newer() bool { return s.Schema > s.Required }

// ReadStatus reads the status of a database and changes nothing. A missing
// database is [fs.ErrNotExist]; a database with tables of another program is
// rejected.
func ReadStatus(ctx context.Context, url string) (*Status, error) {
	r, err := OpenReadOnly(ctx, url)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	s := &Status{Database: store.Redacted(url)}
	if s.Schema, err = r.readSchemaVersion(ctx); err != nil {
		return nil, err
	}
	all := migrations()
	s.Required, s.Pending = all[len(all)-1].version, pendingSteps(s.Schema)
	return s, s.measureDatabase(ctx, r)
}

func pendingSteps(at int64) []Step {
	steps := []Step{}
	for _, m := range migrations() {
		if m.version > at {
			steps = append(steps, Step{m.version, m.name})
		}
	}
	return steps
}

// readSchemaVersion returns the schema version of the database, 0 without
// tables.
func (r *ReadOnly) readSchemaVersion(ctx context.Context) (at int64, err error) {
	tables, err := r.Tables(ctx)
	if err != nil {
		return 0, fmt.Errorf("listing the tables: %w", err)
	}
	if !slices.Contains(tables, migrationRow{}.TableName()) {
		return 0, checkForeignTables(func(name string) bool { return slices.Contains(tables, name) })
	}
	if columns, err := r.Columns(ctx, migrationRow{}.TableName()); err != nil || !slices.Contains(columns, "apply_time") {
		return 0, cmp.Or(err, errForeign([]string{migrationRow{}.TableName()}))
	}
	err = r.scanFirst(ctx, "SELECT coalesce(max(m.version), 0) FROM schema_migrations m", &at)
	if err != nil {
		return 0, fmt.Errorf("reading the schema version: %w", err)
	}
	return at, nil
}

// checkForeignTables rejects tables with our names but without a schema
// version, because they belong to another program. Tables with other names may
// share the database.
func checkForeignTables(there func(table string) bool) error {
	if taken := slices.DeleteFunc(tableNames(), func(name string) bool { return !there(name) }); len(taken) > 0 {
		return errForeign(taken)
	}
	return nil
}

// errForeign is the error for a database of another program.
func errForeign(tables []string) error { return &foreignError{tables} }

// A foreignError names the tables of another program.
type foreignError struct{ tables []string }

func (e *foreignError) Error() string {
	return fmt.Sprintf("the database holds the tables of another program (%s): use a database of its own, and agenthost db import to take over the sessions of an ADK", strings.Join(e.tables, ", "))
}

func (s *Status) measureDatabase(ctx context.Context, r *ReadOnly) error {
	var last int64
	type ask struct {
		query string
		into  any
	}
	asks := []ask{{r.engine.bytes, &s.Bytes}}
	if s.Schema > 0 {
		asks = append(asks,
			ask{"SELECT count(*) FROM sessions s", &s.Sessions},
			ask{"SELECT count(*) FROM events e", &s.Events},
			ask{"SELECT coalesce(max(e.timestamp), 0) FROM events e", &last},
			ask{"SELECT count(*) FROM states t", &s.StateKeys},
		)
	}
	for _, a := range asks {
		if err := r.scanFirst(ctx, a.query, a.into); err != nil {
			return fmt.Errorf("measuring the database: %w", err)
		}
	}
	s.Engine = r.Engine + " " + r.Version
	if s.Events > 0 {
		at := microsToTime(last)
		s.LastEvent = &at
	}
	return nil
}

// refuseForeignFile checks a database file before it is opened, because opening
// changes the journal mode. A server's database is not changed before the check
// in Open.
func refuseForeignFile(ctx context.Context, url string) error {
	if e, _, err := findReadEngine(url); err != nil || !e.file {
		return nil // opening returns the error
	}
	r, err := OpenReadOnly(ctx, url)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = r.readSchemaVersion(ctx)
	return errors.Join(err, r.Close())
}

// Migrate migrates a database to this program's schema version, as [Open] does,
// and returns the applied steps. If several processes migrate concurrently,
// each step is applied once. A missing database file is created.
func Migrate(ctx context.Context, url string, opts *Options) ([]Step, error) {
	if err := refuseForeignFile(ctx, url); err != nil {
		return nil, err
	}
	steps := []Step{}
	o := opts.withDefaults()
	o.migrated = func(s Step) { steps = append(steps, s) }
	st, _, err := openPlainStore(ctx, url, o)
	if err != nil {
		return nil, err
	}
	return steps, st.Close()
}
