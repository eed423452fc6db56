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
type kind struct {
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
func pythonV1() kind {
	return kind{name: "adk-python, DatabaseSessionService, schema 1", columns: []string{"invocation_id", "event_data"}, zone: time.Local, event: dataEvent}
}

func pythonSQLite() kind {
	return kind{name: "adk-python, SqliteSessionService", columns: []string{"invocation_id", "event_data"}, zone: time.UTC, event: dataEvent}
}

func golang() kind {
	return kind{name: "adk-go", columns: columnNames(goFields()), zone: time.UTC, event: columnEvent(goFields())}
}

// A source is a database of an ADK, read at one moment.
type source struct {
	*store.ReadOnly
	kind kind
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
	zoneless, tied int
}

// newSource finds out which ADK's it is.
func newSource(ctx context.Context, r *store.ReadOnly) (*source, error) {
	s := &source{ReadOnly: r, tables: map[string][]string{}, events: map[session.Key][]string{}}
	return s, s.detect(ctx)
}

// detect finds the kind by the tables and their columns.
func (s *source) detect(ctx context.Context) error {
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
	if err := s.want(); err != nil {
		return err
	}
	if s.kind, err = s.kindOf(ctx); err != nil {
		return err
	}
	s.present = make([]bool, len(s.kind.columns))
	for i, c := range s.kind.columns {
		s.present[i] = s.has("events", c)
	}
	return nil
}

const metadataTable = "adk_internal_metadata"

func (s *source) has(table, column string) bool { return slices.Contains(s.tables[table], column) }

// want refuses a database without the tables and columns that all kinds have.
func (s *source) want() error {
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
			if !s.has(t.table, c) {
				missing = append(missing, "column "+t.table+"."+c)
			}
		}
	}
	if missing != nil {
		return fmt.Errorf("it is no session database of adk-python or adk-go: there is no %s", strings.Join(missing, ", no "))
	}
	return nil
}

func (s *source) kindOf(ctx context.Context) (kind, error) {
	switch {
	case s.tables[metadataTable] != nil:
		return s.versioned(ctx)
	case s.has("events", "event_data"):
		number, err := s.numericTimes(ctx)
		if err != nil || number {
			return pythonSQLite(), err
		}
		return pythonV1(), nil
	case !s.has("events", "actions"):
		return kind{}, errors.New("its table events has neither event_data nor actions: no known version of adk-python or adk-go wrote it")
	case s.has("events", "node_info_json"), s.has("events", "routes_json"):
		return golang(), nil
	case s.has("events", "input_transcription"):
		return kind{}, errPickled
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
	return golang(), err
}

// versioned reads the version that adk-python writes down.
func (s *source) versioned(ctx context.Context) (kind, error) {
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
		return kind{}, fmt.Errorf("table %s: %w", metadataTable, err)
	case version == "":
		return kind{}, fmt.Errorf("its table %s has no schema_version", metadataTable)
	case version != "1":
		return kind{}, fmt.Errorf("its schema version is %s: this program knows 1, and the one before it without a number", version)
	case !s.has("events", "event_data"):
		return kind{}, errors.New("its schema version is 1, but its table events has no event_data")
	}
	return pythonV1(), nil
}

// numericTimes says whether times are numbers, as one of adk-python's two
// services writes them.
func (s *source) numericTimes(ctx context.Context) (bool, error) {
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
