package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// Sessions returns an agenthost database's sessions in creation order, with only key and time.
func (r *ReadOnly) Sessions(ctx context.Context) ([]*Import, error) {
	var all []*Import
	err := r.Each(ctx, func(rows *sql.Rows) error {
		imp := &Import{}
		var created int64
		err := rows.Scan(&imp.Key.App, &imp.Key.User, &imp.Key.ID, &created)
		imp.Created = microsToTime(created)
		all = append(all, imp)
		return err
	}, "SELECT s.app_name, s.user_id, s.id, s.create_time FROM sessions s ORDER BY s.pk")
	return all, err
}

// Fill reads the rest of a session from an agenthost database. It skips events that do not decode
// and passes them to bad; state that does not decode is ErrInvalid.
func (r *ReadOnly) Fill(ctx context.Context, imp *Import, bad func(event string, err error)) error {
	var pk int64
	var broken error
	complete := true
	imp.State, imp.Events, imp.Outcomes, imp.Feedback = map[string]any{}, []*session.Event{}, nil, nil
	k := imp.Key
	err := r.Each(ctx, func(rows *sql.Rows) error {
		var text []byte
		if err := rows.Scan(&pk, &text); err != nil {
			return err
		}
		var err error
		if imp.Initial, err = session.DecodeMap(text); err != nil {
			broken = fmt.Errorf("initial state: %w: %w", err, session.ErrInvalid)
		}
		return nil
	}, "SELECT s.pk, s.initial FROM sessions s WHERE s.app_name = ? AND s.user_id = ? AND s.id = ?", k.App, k.User, k.ID)
	if err != nil {
		return err
	}
	if err := r.eachStateCell(ctx, k, func(row stateRow, v any, err error) {
		if err != nil {
			broken = fmt.Errorf("state key %q: %w: %w", row.Key, err, session.ErrInvalid)
		}
		imp.State[row.Key] = v
	}); err != nil {
		return err
	}
	err = r.Each(ctx, func(rows *sql.Rows) error {
		var seq int64
		var id string
		var text, provenance []byte
		var outcome string
		if err := rows.Scan(&seq, &id, &text, &provenance, &outcome); err != nil {
			return err
		}
		if ev, err := decodeEvent(text, seq, provenance); err != nil {
			complete = false
			bad(id, err)
		} else {
			ev.Seq = 0
			imp.Events, imp.Outcomes = append(imp.Events, ev), append(imp.Outcomes, outcome)
		}
		return nil
	}, "SELECT e.seq, e.id, e.event, "+r.provenanceColumn()+", "+r.outcomeColumn()+" FROM events e WHERE e.session_pk = ? ORDER BY e.seq", pk)
	if !complete {
		imp.Outcomes = nil // they name events by number, which now change
	}
	if err == nil {
		err = r.eachFeedback(ctx, pk, func(row feedbackRow) { imp.Feedback = append(imp.Feedback, row.toFeedback()) })
	}
	return errors.Join(err, broken)
}

// eachFeedback calls each for the feedback on a session. Older schemas have none.
func (r *ReadOnly) eachFeedback(ctx context.Context, pk int64, each func(feedbackRow)) error {
	if r.schema > 0 && r.schema < outcomeVersion {
		return nil
	}
	return r.Each(ctx, func(rows *sql.Rows) error {
		row := feedbackRow{SessionID: pk}
		err := rows.Scan(&row.Invocation, &row.Caller, &row.Revision, &row.Score, &row.Comment, &row.Time)
		if err == nil {
			each(row)
		}
		return err
	}, `SELECT f.invocation_id, f.caller, f.revision, f.score, f.comment, f.store_time FROM session_feedback f
 WHERE f.session_pk = ? ORDER BY f.invocation_id, f.caller`, pk)
}

// eachStateCell reads a session's state keys, or the users' and apps' if the key is empty.
func (r *ReadOnly) eachStateCell(ctx context.Context, key session.Key, each func(row stateRow, v any, err error)) error {
	where, args := "t.session_id = '' ORDER BY t.app_name, t.user_id", []any{}
	if key.ID != "" {
		where, args = "t.app_name = ? AND t.user_id = ? AND t.session_id = ?", []any{key.App, key.User, key.ID}
	}
	return r.Each(ctx, func(rows *sql.Rows) error {
		var row stateRow
		if err := rows.Scan(&row.App, &row.User, &row.Key, &row.Value); err != nil {
			return err
		}
		v, err := backend.DecodeValue([]byte(row.Value))
		each(row, v, err)
		return nil
	}, "SELECT t.app_name, t.user_id, t.key, t.value FROM states t WHERE "+where, args...)
}

// A SharedKey is a state key for an app, or for one of its users, without its prefix. Err is set if
// its value does not decode.
type SharedKey struct {
	App, User, Key string
	Value          any
	Err            error
}

// SharedKeys returns app and user state keys in an agenthost database.
func (r *ReadOnly) SharedKeys(ctx context.Context) ([]SharedKey, error) {
	var all []SharedKey
	err := r.eachStateCell(ctx, session.Key{}, func(row stateRow, v any, err error) {
		all = append(all, SharedKey{row.App, row.User, row.Key, v, err})
	})
	return all, err
}

// A Remembered is a memory with its session id, which may be empty.
type Remembered struct {
	Key    session.Key
	ID     string
	Memory *session.Memory
	// Err is set if the memory does not decode.
	Err error
}

// Memories calls each for each memory in an agenthost database, by user and session in insertion
// order. No other query can run meanwhile.
func (r *ReadOnly) Memories(ctx context.Context, each func(Remembered) error) error {
	return r.Each(ctx, func(rows *sql.Rows) error {
		var m Remembered
		var text string
		if err := rows.Scan(&m.Key.App, &m.Key.User, &m.Key.ID, &m.ID, &text); err != nil {
			return err
		}
		m.Memory, m.Err = store.DecodeMemory(text)
		return each(m)
	}, `SELECT o.app_name, o.user_id, m.session_id, m.id, m.memory
 FROM memories m JOIN memory_owners o ON o.pk = m.owner_pk ORDER BY m.owner_pk, m.session_id, m.pk`)
}

// A PackedResult is a stored evaluation result.
type PackedResult struct {
	row fullResultRow
	App string
}

// Results calls each for each result in an agenthost database. No other query can run meanwhile.
// Older schemas have no results.
func (r *ReadOnly) Results(ctx context.Context, each func(PackedResult) error) error {
	if r.schema > 0 && !slices.Contains(tableNamesAt(r.schema), resultRow{}.TableName()) {
		return nil
	}
	cases := "r.cases, r.passed"
	if r.schema > 0 && r.schema < caseVersion {
		cases = "0, 0"
	}
	return r.Each(ctx, func(rows *sql.Rows) error {
		var row fullResultRow
		if err := rows.Scan(&row.Row.App, &row.Row.ID, &row.Row.SetID, &row.Row.Revision, &row.Row.Model, &row.Row.Stored, &row.Row.Content, &row.Cases, &row.Passed); err != nil {
			return err
		}
		return each(PackedResult{row, row.Row.App})
	}, `SELECT r.app_name, r.id, r.set_id, r.revision, r.model, r.store_time, r.content, `+cases+`
 FROM eval_results r ORDER BY r.app_name, r.store_time`)
}

// A PackedRevision is an app's stored revision.
type PackedRevision struct {
	row revisionRow
	App string
}

// Revisions calls each for each revision in an agenthost database. No other query can run
// meanwhile.
func (r *ReadOnly) Revisions(ctx context.Context, each func(PackedRevision) error) error {
	return r.Each(ctx, func(rows *sql.Rows) error {
		var row revisionRow
		if err := rows.Scan(&row.App, &row.ID, &row.Served, &row.Files); err != nil {
			return err
		}
		return each(PackedRevision{row, row.App})
	}, "SELECT v.app_name, v.id, v.serve_time, v.files FROM revisions v ORDER BY v.app_name, v.serve_time")
}

// A PackedRollout is an app's stored rollout.
type PackedRollout struct {
	row rolloutRow
	App string
}

// Rollouts calls each for each rollout in an agenthost database. No other query can run meanwhile.
// Older schemas have no rollouts.
func (r *ReadOnly) Rollouts(ctx context.Context, each func(PackedRollout) error) error {
	if r.schema > 0 && r.schema < rolloutVersion {
		return nil
	}
	return r.Each(ctx, func(rows *sql.Rows) error {
		var row rolloutRow
		if err := rows.Scan(&row.App, &row.Version, &row.Data, &row.Changed, &row.SaveID); err != nil {
			return err
		}
		return each(PackedRollout{row, row.App})
	}, "SELECT o.app_name, o.version, o.data, o.change_time, o.save_id FROM rollouts o ORDER BY o.app_name")
}

// A PackedOutcomeDay has the outcomes of an app's deleted sessions on a day.
type PackedOutcomeDay struct {
	row outcomeDayRow
	App string
	// Day is in days since 1970-01-01 UTC.
	Day int64
}

// OutcomeDays calls each for each day with outcomes of deleted sessions in an agenthost database. No other
// query can run meanwhile. Older schemas have none.
func (r *ReadOnly) OutcomeDays(ctx context.Context, each func(PackedOutcomeDay) error) error {
	if r.schema > 0 && r.schema < outcomeDayVersion {
		return nil
	}
	return r.Each(ctx, func(rows *sql.Rows) error {
		var row outcomeDayRow
		if err := rows.Scan(&row.App, &row.Day, &row.Totals); err != nil {
			return err
		}
		return each(PackedOutcomeDay{row, row.App, row.Day})
	}, "SELECT d.app_name, d.day, d.totals FROM outcome_days d ORDER BY d.app_name, d.day")
}
