package adkdb

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store/sqlstore"
)

// An adkKind is one ADK's database schema.
type adkKind struct {
	name string
	// columns are the event columns of the kind, besides keys and timestamp.
	columns []string
	// zone is the time zone of event times without an offset. Session times are
	// always UTC.
	zone *time.Location
	// event builds an event's JSON from column values.
	event func(values []any) ([]byte, error)
}

// errPickled rejects adk-python's first schema. A partial import would prevent a
// complete one later, because its events would already exist.
var errPickled = errors.New("unsupported adk-python schema 0: events are pickled Python objects, and unpickling runs code: migrate the database to schema 1 with adk migrate session, then import it")

// The supported databases.
func pythonV1Kind() adkKind {
	return adkKind{name: "adk-python, DatabaseSessionService, schema 1", columns: []string{"invocation_id", "event_data"}, zone: time.Local, event: eventFromData}
}

func pythonSQLiteKind() adkKind {
	return adkKind{name: "adk-python, SqliteSessionService", columns: []string{"invocation_id", "event_data"}, zone: time.UTC, event: eventFromData}
}

func goKind() adkKind {
	return adkKind{name: "adk-go", columns: columnNames(goColumns()), zone: time.UTC, event: eventFromColumns(goColumns())}
}

// An adkSource is a consistent snapshot of an ADK database.
type adkSource struct {
	*sqlstore.ReadOnly
	kind adkKind
	// present reports which of the kind's columns the database has; older versions
	// have fewer.
	present []bool
	// tables has each table's columns.
	tables map[string][]string
	// events has each session's event IDs, in insertion order.
	events map[session.Key][]string
	// zonelessEvents counts the events whose time has no time zone. tiedEvents counts
	// the events with the same time as their predecessor, in databases that do not
	// record the insertion order.
	zonelessEvents, tiedEvents int
}

// newADKSource detects which ADK wrote the database.
func newADKSource(ctx context.Context, r *sqlstore.ReadOnly) (*adkSource, error) {
	s := &adkSource{ReadOnly: r, tables: map[string][]string{}, events: map[session.Key][]string{}}
	return s, s.detectKind(ctx)
}

// detectKind detects the kind by the tables and their columns.
func (s *adkSource) detectKind(ctx context.Context) error {
	names, err := s.Tables(ctx)
	if err != nil {
		return err
	}
	for _, name := range []string{"sessions", "events", "app_states", "user_states", metadataTable} {
		if slices.Contains(names, name) {
			if s.tables[name], err = s.Columns(ctx, name); err != nil {
				return fmt.Errorf("table %s: %w", name, err)
			}
		}
	}
	if err := s.validateSchema(); err != nil {
		return err
	}
	if s.kind, err = s.kindByColumns(ctx); err != nil {
		return err
	}
	s.present = make([]bool, len(s.kind.columns))
	for i, c := range s.kind.columns {
		s.present[i] = s.hasColumn("events", c)
	}
	return nil
}

const metadataTable = "adk_internal_metadata"

func (s *adkSource) hasColumn(table, column string) bool {
	return slices.Contains(s.tables[table], column)
}

// validateSchema rejects a database without the tables and columns that all kinds
// have.
func (s *adkSource) validateSchema() error {
	var missing []string
	for _, t := range []struct{ table, columns string }{
		{"sessions", "app_name user_id id state create_time"},
		{"events", "app_name user_id session_id id invocation_id timestamp"},
		{"app_states", "app_name state"},
		{"user_states", "app_name user_id state"},
	} {
		if s.tables[t.table] == nil {
			missing = append(missing, "table "+t.table)
			continue
		}
		for c := range strings.FieldsSeq(t.columns) {
			if !s.hasColumn(t.table, c) {
				missing = append(missing, "column "+t.table+"."+c)
			}
		}
	}
	if missing != nil {
		return fmt.Errorf("not a session database of adk-python or adk-go: missing %s", strings.Join(missing, ", "))
	}
	return nil
}

func (s *adkSource) kindByColumns(ctx context.Context) (adkKind, error) {
	switch {
	case s.tables[metadataTable] != nil:
		return s.kindByVersion(ctx)
	case s.hasColumn("events", "event_data"):
		number, err := s.hasNumericTimes(ctx)
		if err != nil || number {
			return pythonSQLiteKind(), err
		}
		return pythonV1Kind(), nil
	case !s.hasColumn("events", "actions"):
		return adkKind{}, errors.New("unknown schema: table events has neither column event_data nor actions")
	case s.hasColumn("events", "node_info_json"), s.hasColumn("events", "routes_json"):
		return goKind(), nil
	case s.hasColumn("events", "input_transcription"):
		return adkKind{}, errPickled
	}
	// Early versions of adk-python and adk-go have the same columns.
	pickled := false
	err := s.Each(ctx, func(rows *sql.Rows) error {
		var actions any
		err := rows.Scan(&actions)
		pickled = pickled || isPickle(actions)
		return err
	}, "SELECT e.actions FROM events e WHERE e.actions IS NOT NULL LIMIT 1")
	if err == nil && pickled {
		err = errPickled
	}
	return goKind(), err
}

// kindByVersion returns the kind for adk-python's schema version.
func (s *adkSource) kindByVersion(ctx context.Context) (adkKind, error) {
	version := ""
	err := s.Each(ctx, func(rows *sql.Rows) error {
		var key, value string
		err := rows.Scan(&key, &value)
		if key == "schema_version" {
			version = value
		}
		return err
	}, "SELECT m.key, m.value FROM "+metadataTable+" m")
	switch {
	case err != nil:
		return adkKind{}, fmt.Errorf("table %s: %w", metadataTable, err)
	case version == "":
		return adkKind{}, fmt.Errorf("table %s has no schema_version", metadataTable)
	case version != "1":
		return adkKind{}, fmt.Errorf("unsupported schema version %s: supported are version 1 and databases without a version", version)
	case !s.hasColumn("events", "event_data"):
		return adkKind{}, errors.New("schema version is 1, but table events has no column event_data")
	}
	return pythonV1Kind(), nil
}

// hasNumericTimes reports whether times are stored as numbers, as adk-python's
// SqliteSessionService does.
func (s *adkSource) hasNumericTimes(ctx context.Context) (bool, error) {
	number := false
	err := s.Each(ctx, func(rows *sql.Rows) error {
		var at any
		err := rows.Scan(&at)
		switch at.(type) {
		case float64, int64:
			number = true
		}
		return err
	}, "SELECT "+s.Plain("x.create_time")+" FROM sessions x LIMIT 1")
	return number, err
}

func isPickle(v any) bool {
	b := bytesOf(v)
	return len(b) > 0 && b[0] != '{'
}

// bytesOf returns a string or bytes as bytes, and nil for other types.
func bytesOf(v any) []byte {
	switch v := v.(type) {
	case string:
		return []byte(v)
	case []byte:
		return v
	default:
		return nil
	}
}
