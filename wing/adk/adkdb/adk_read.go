package adkdb

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agenthost/internal/modelapi"
	"agenthost/pkg/session"
	"agenthost/pkg/store/sqlstore"
)

// listSessions also records each session's event IDs.
func (s *adkSource) listSessions(ctx context.Context) ([]sessionHead, error) {
	if err := s.listEvents(ctx); err != nil {
		return nil, err
	}
	var all []sessionHead
	err := s.Each(ctx, func(rows *sql.Rows) error {
		var app, user, id sql.NullString
		var created any
		if err := rows.Scan(&app, &user, &id, &created); err != nil {
			return err
		}
		h := sessionHead{key: session.Key{App: app.String, User: user.String, ID: id.String}}
		if h.created, h.err = readTime(created, time.UTC); h.err != nil {
			h.err = fmt.Errorf("column create_time: %w", h.err)
		}
		all = append(all, h)
		return nil
	}, "SELECT s.app_name, s.user_id, s.id, "+s.Plain("s.create_time")+" FROM sessions s ORDER BY "+s.tieOrder("s"))
	slices.SortStableFunc(all, func(a, b sessionHead) int { return a.created.Compare(b.created) })
	return all, err
}

// tieOrder returns the column that orders rows with equal timestamps.
func (s *adkSource) tieOrder(table string) string {
	column, _ := s.Tie()
	return table + "." + column
}

// listEvents records all event IDs. Events are then read by ID, because not every kind has an
// index by session.
func (s *adkSource) listEvents(ctx context.Context) error {
	return s.Each(ctx, func(rows *sql.Rows) error {
		var app, user, id, event sql.NullString
		if err := rows.Scan(&app, &user, &id, &event); err != nil {
			return err
		}
		key := session.Key{App: app.String, User: user.String, ID: id.String}
		s.events[key] = append(s.events[key], event.String)
		return nil
	}, "SELECT e.app_name, e.user_id, e.session_id, e.id FROM events e ORDER BY "+s.tieOrder("e"))
}

// loadSession reads a whole session. It adds unreadable parts to the report, and
// returns nil if the session itself is unreadable.
func (s *adkSource) loadSession(ctx context.Context, h sessionHead, r *Report) (*sqlstore.Import, error) {
	var text any
	err := s.Each(ctx, func(rows *sql.Rows) error { return rows.Scan(&text) },
		"SELECT s.state FROM sessions s WHERE s.app_name = ? AND s.user_id = ? AND s.id = ?", h.key.App, h.key.User, h.key.ID)
	if err != nil {
		return nil, err
	}
	state, bad := decodeState(text)
	if bad = cmp.Or(h.err, bad); bad != nil {
		n := len(s.events[h.key])
		r.Events.Read += n
		r.omitSession(h.key, n, 0, bad.Error())
		return nil, nil
	}
	imp := &sqlstore.Import{Key: h.key, Created: h.created, State: r.ownState(h.key, state)}
	imp.Events, err = s.loadEvents(ctx, h.key, r)
	return imp, err
}

func decodeState(v any) (map[string]any, error) {
	text := bytesOf(v)
	if len(text) == 0 {
		return map[string]any{}, nil
	}
	state, err := session.DecodeMap(text)
	if err != nil {
		return nil, fmt.Errorf("state must be a JSON object: %w", err)
	}
	return state, nil
}

// eventsPerQuery is how many events one query reads.
const eventsPerQuery = 200

// loadEvents reads a session's events, ordered by time and then by insertion.
func (s *adkSource) loadEvents(ctx context.Context, key session.Key, r *Report) ([]*session.Event, error) {
	found := map[string]*session.Event{}
	ids := uniqueIDs(s.events[key])
	for part := range slices.Chunk(ids, eventsPerQuery) {
		err := s.readEvents(ctx, key, part, func(id string, ev *session.Event, text []byte, err error) {
			switch {
			case err != nil:
				r.omitEvent(key, id, err.Error())
			case found[id] != nil:
				r.omitEvent(key, id, "duplicate event ID in the session")
			default:
				found[id] = ev
				if err := session.UnknownField(text); err != nil {
					r.addOmission("event "+id+" of session "+key.String(), "imported without a field: "+err.Error())
				}
			}
		})
		if err != nil {
			return nil, err
		}
	}
	all := []*session.Event{}
	for _, id := range ids {
		if ev := found[id]; ev != nil {
			all = append(all, ev)
		}
	}
	slices.SortStableFunc(all, func(a, b *session.Event) int { return a.Timestamp.Compare(b.Timestamp) })
	if _, known := s.Tie(); !known {
		s.tiedEvents += countTied(all)
	}
	return all, nil
}

// countTied counts the events with the same time as their predecessor.
func countTied(events []*session.Event) (n int) {
	for i := 1; i < len(events); i++ {
		if events[i].Timestamp.Equal(events[i-1].Timestamp) {
			n++
		}
	}
	return n
}

func uniqueIDs(ids []string) []string {
	var all []string
	seen := map[string]bool{}
	for _, id := range ids {
		if !seen[id] {
			seen[id] = true
			all = append(all, id)
		}
	}
	return all
}

// readEvents reads events by ID, in any order.
func (s *adkSource) readEvents(ctx context.Context, key session.Key, ids []string, each func(id string, ev *session.Event, text []byte, err error)) error {
	columns := []string{"e.id", "e.invocation_id", s.Plain("e.timestamp")}
	for i, c := range s.kind.columns {
		if s.present[i] {
			columns = append(columns, "e."+c)
		}
	}
	args := []any{key.App, key.User, key.ID}
	for _, id := range ids {
		args = append(args, id)
	}
	query := "SELECT " + strings.Join(columns, ", ") + " FROM events e WHERE e.app_name = ? AND e.user_id = ? AND e.session_id = ? AND e.id IN (?" +
		strings.Repeat(", ?", len(ids)-1) + ")"
	return s.Each(ctx, func(rows *sql.Rows) error {
		values := make([]any, len(columns))
		into := make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		if err := rows.Scan(into...); err != nil {
			return err
		}
		id := string(bytesOf(values[0]))
		ev, text, err := s.decodeEvent(values)
		each(id, ev, text, err)
		return nil
	}, query, args...)
}

// decodeEvent decodes a row. ID, invocation and time come from the columns, except
// that a time in the JSON takes precedence over a column without a time zone.
func (s *adkSource) decodeEvent(row []any) (*session.Event, []byte, error) {
	values := make([]any, len(s.kind.columns))
	next := 3
	for i := range values {
		if s.present[i] {
			values[i] = row[next]
			next++
		}
	}
	at, err := readTime(row[2], s.kind.zone)
	if err != nil {
		return nil, nil, fmt.Errorf("column timestamp: %w", err)
	}
	text, err := s.kind.event(values)
	if err != nil {
		return nil, nil, err
	}
	ev := &session.Event{}
	if err := ev.UnmarshalJSON(text); err != nil {
		return nil, nil, err
	}
	if s.kind.zone != time.Local {
		ev.Timestamp = at
	} else if ev.Timestamp.IsZero() {
		ev.Timestamp = at
		s.zonelessEvents++
	}
	ev.ID, ev.InvocationID = string(bytesOf(row[0])), string(bytesOf(row[1]))
	ev.Actions.StateDelta = session.WithoutTemp(ev.Actions.StateDelta)
	modelapi.MarkClaudeThoughts(ev.Content, ev.ModelVersion)
	switch {
	case ev.ID == "":
		return nil, nil, errors.New("the event has no ID")
	case ev.Partial:
		return nil, nil, errors.New("partial event of a streamed response; partial events are not stored")
	}
	return ev, text, nil
}

func (s *adkSource) listSharedStates(ctx context.Context) ([]sharedState, error) {
	var all []sharedState
	for _, query := range []string{
		"SELECT a.app_name, '', a.state FROM app_states a ORDER BY a.app_name",
		"SELECT u.app_name, u.user_id, u.state FROM user_states u ORDER BY u.app_name, u.user_id",
	} {
		err := s.Each(ctx, func(rows *sql.Rows) error {
			var app, user sql.NullString
			var text any
			if err := rows.Scan(&app, &user, &text); err != nil {
				return err
			}
			sh := sharedState{app: app.String, user: user.String}
			sh.keys, sh.err = decodeState(text)
			all = append(all, sh)
			return nil
		}, query)
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// importRest reports events without a session; an ADK database has nothing else.
func (s *adkSource) importRest(_ context.Context, m *importer, known map[session.Key]bool) error {
	r := m.report
	for _, key := range slices.SortedFunc(maps.Keys(s.events), func(a, b session.Key) int { return cmp.Compare(a.String(), b.String()) }) {
		if !known[key] && m.includesApp(key.App) {
			n := len(s.events[key])
			r.Events.Read += n
			r.Events.LeftOut += n
			r.addOmission(fmt.Sprintf("%s of session %s", pluralize(n, "event"), key), "session not found in the source")
		}
	}
	if s.zonelessEvents > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("timestamps of %s have no time zone and are read as %s: set TZ if they were written in another zone",
			pluralize(s.zonelessEvents, "event"), localZoneName()))
	}
	if s.tiedEvents > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%s with the same timestamp as their predecessor: %s does not record their order, so they are ordered by ID", pluralize(s.tiedEvents, "event"), s.Engine))
	}
	return nil
}

func localZoneName() string {
	name, _ := time.Now().Zone()
	if l := time.Local.String(); l != "Local" && l != "" {
		name = l
	}
	return name
}
