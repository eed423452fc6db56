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
	"agenthost/pkg/store"
)

// A kind is a program that keeps sessions, and how it does.
type adkKind struct {
	name string
	// columns are those of events that the kind must have beside the keys and
	// the time.
	columns []string
	// zone is where times without an offset were written. Those of sessions are
	// always UTC.
	zone *time.Location
	// event makes the JSON form of an event of the values in columns.
	event func(values []any) ([]byte, error)
}

// errPickled is the answer to adk-python's first schema. What could be read of it
// would keep the whole of it away afterwards: its events would be there already.
var errPickled = errors.New("it is of adk-python's first schema, whose events are pickled Python objects, and to unpickle is to run a program: bring it to schema 1 with adk migrate session, and import that")

// The databases that can be read.
func pythonV1Kind() adkKind {
	return adkKind{name: "adk-python, DatabaseSessionService, schema 1", columns: []string{"invocation_id", "event_data"}, zone: time.Local, event: eventFromData}
}

func pythonSQLiteKind() adkKind {
	return adkKind{name: "adk-python, SqliteSessionService", columns: []string{"invocation_id", "event_data"}, zone: time.UTC, event: eventFromData}
}

func goKind() adkKind {
	return adkKind{name: "adk-go", columns: columnNames(goColumns()), zone: time.UTC, event: eventFromColumns(goColumns())}
}

// A source is a database of an ADK, read at one moment.
type adkSource struct {
	*store.ReadOnly
	kind adkKind
	// present are the kind's columns that the database has; older versions have
	// fewer.
	present []bool
	// tables has the columns of each.
	tables map[string][]string
	// events are the ids of each session's events, as they were written.
	events map[session.Key][]string
	// zoneless counts the events whose time does not tell its zone, and tied
	// those of a time that another of their session has, where rows do not tell
	// their order.
	zonelessEvents, tiedEvents int
}

// newADKSource finds out which ADK's it is.
func newADKSource(ctx context.Context, r *store.ReadOnly) (*adkSource, error) {
	s := &adkSource{ReadOnly: r, tables: map[string][]string{}, events: map[session.Key][]string{}}
	return s, s.detectKind(ctx)
}

// detectKind finds the kind by the tables and their columns.
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

func (s *adkSource) hasColumn(table, column string) bool { return slices.Contains(s.tables[table], column) }

// validateSchema refuses a database without the tables and columns that all kinds have.
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
		return fmt.Errorf("it is no session database of adk-python or adk-go: there is no %s", strings.Join(missing, ", no "))
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
		return adkKind{}, errors.New("its table events has neither event_data nor actions: no known version of adk-python or adk-go wrote it")
	case s.hasColumn("events", "node_info_json"), s.hasColumn("events", "routes_json"):
		return goKind(), nil
	case s.hasColumn("events", "input_transcription"):
		return adkKind{}, errPickled
	}
	// Early versions of both have the same columns.
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

// kindByVersion reads the version that adk-python writes down.
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
		return adkKind{}, fmt.Errorf("its table %s has no schema_version", metadataTable)
	case version != "1":
		return adkKind{}, fmt.Errorf("its schema version is %s: this program knows 1, and the one before it without a number", version)
	case !s.hasColumn("events", "event_data"):
		return adkKind{}, errors.New("its schema version is 1, but its table events has no event_data")
	}
	return pythonV1Kind(), nil
}

// hasNumericTimes says whether times are numbers, as one of adk-python's two
// services writes them.
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

// bytesOf is a text or bytes; anything else is nil.
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
