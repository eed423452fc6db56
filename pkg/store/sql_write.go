package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"agenthost/pkg/session"
)

// errDuplicate: the session has an event with this id already.
var errDuplicate = errors.New("event id is taken")

// writeStatements are prepared on the writer's connection.
type writeStatements struct {
	begin, commit, rollback *sql.Stmt
	find, advance, insert   *sql.Stmt
	explain                 *sql.Stmt
	upsert, deleteState     *sql.Stmt
}

// The statements of an append. The session's head is moved on first: where
// many may write at once, it is the lock.
const (
	findSQL    = `SELECT s.pk FROM sessions s WHERE s.app_name = $1 AND s.user_id = $2 AND s.id = $3`
	advanceSQL = `UPDATE sessions SET version = version + 1, update_time = $1 WHERE pk = $2 AND version = $3`
	insertSQL  = `INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event) VALUES ($1, $2, $3, $4, $5, $6)`
	explainSQL = `SELECT s.version, e.seq FROM sessions s LEFT JOIN events e ON e.session_pk = s.pk AND e.id = $4
 WHERE s.app_name = $1 AND s.user_id = $2 AND s.id = $3`
	deleteStateSQL = `DELETE FROM states
 WHERE states.app_name = $1 AND states.user_id = $2 AND states.session_id = $3 AND states.key = $4`
)

func prepareWrites(ctx context.Context, conn *sql.Conn, d dialect) (writeStatements, error) {
	var s writeStatements
	for _, p := range []struct {
		stmt **sql.Stmt
		text string
	}{
		{&s.begin, d.begin},
		{&s.commit, "COMMIT"},
		{&s.rollback, "ROLLBACK"},
		{&s.find, findSQL},
		{&s.advance, advanceSQL},
		{&s.insert, insertSQL},
		{&s.explain, explainSQL},
		{&s.upsert, d.upsert},
		{&s.deleteState, deleteStateSQL},
	} {
		var err error
		if *p.stmt, err = conn.PrepareContext(ctx, p.text); err != nil {
			return s, fmt.Errorf("preparing %q: %w", p.text, err)
		}
	}
	return s, nil
}

// An appendJob is a record in the form of its rows.
type appendJob struct {
	*record
	text  string
	cells []stateRow
	seq   int64 // the outcome
}

func (b *sqlBackend) append(ctx context.Context, rec *record) (placed, error) {
	text, err := session.AppendEvent(nil, rec.event)
	if err != nil {
		return placed{}, fmt.Errorf("%w: %w", err, session.ErrInvalid)
	}
	a := &appendJob{record: rec, text: string(text)}
	if a.cells, err = stateRows(rec.key, rec.cells); err != nil {
		return placed{}, err
	}
	err = b.writer.do(ctx, func(w *writer) error { return w.append(a, b.dialect) })
	if errors.Is(err, errDuplicate) {
		err = b.writer.do(ctx, func(w *writer) error { return w.explain(a) })
	}
	return placed{a.seq, eventBytes(len(text))}, err
}

func (w *writer) append(a *appendJob, d dialect) error {
	id, err := w.find(a)
	if err != nil {
		return err
	}
	ctx, ev := context.Background(), a.event
	at := ev.Timestamp.UnixMicro()
	res, err := w.stmt.advance.ExecContext(ctx, at, id, a.version)
	if err != nil {
		return fmt.Errorf("appending to session %s: %w", a.key.ID, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(err, w.explain(a))
	}
	_, err = w.stmt.insert.ExecContext(ctx, id, a.version+1, ev.ID, ev.InvocationID, at, a.text)
	if err != nil && d.duplicate(err) {
		return errDuplicate
	}
	if err != nil {
		return fmt.Errorf("appending to session %s: %w", a.key.ID, err)
	}
	a.seq = a.version + 1
	return w.writeStates(a.cells)
}

// find returns the id of the session's head.
func (w *writer) find(a *appendJob) (id int64, err error) {
	if a.id != 0 {
		return a.id, nil
	}
	k := a.key
	err = w.stmt.find.QueryRowContext(context.Background(), k.App, k.User, k.ID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, errNotFound(k.ID)
	}
	return id, err
}

// explain says why a session could not be moved on: it has the event already,
// which is well, or it is at another version, or it is gone.
func (w *writer) explain(a *appendJob) error {
	k := a.key
	var version int64
	var seq sql.NullInt64
	err := w.stmt.explain.QueryRowContext(context.Background(), k.App, k.User, k.ID, a.event.ID).Scan(&version, &seq)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return errNotFound(k.ID)
	case err != nil:
		return fmt.Errorf("appending to session %s: %w", k.ID, err)
	case !seq.Valid:
		return errStale(k.ID, a.version, version)
	default:
		a.seq = seq.Int64
		return nil
	}
}

// stateRows makes cells the rows of their scopes; a cell that is taken away
// has no value.
func stateRows(key session.Key, cells []cell) ([]stateRow, error) {
	if len(cells) == 0 {
		return nil, nil
	}
	rows := make([]stateRow, len(cells))
	for i, c := range cells {
		r := stateRow{App: key.App, User: key.User, Session: key.ID, Key: c.key[len(c.scope.Prefix()):]}
		switch c.scope {
		case session.ScopeApp:
			r.User, r.Session = "", ""
		case session.ScopeUser:
			r.Session = ""
		}
		if c.value != nil {
			var err error
			if r.Value, err = encodeValue(c.value); err != nil {
				return nil, fmt.Errorf("state key %q: %w", c.key, err)
			}
		}
		rows[i] = r
	}
	return rows, nil
}

func (w *writer) writeStates(rows []stateRow) error {
	ctx := context.Background()
	for _, r := range rows {
		var err error
		if r.Value == "" {
			_, err = w.stmt.deleteState.ExecContext(ctx, r.App, r.User, r.Session, r.Key)
		} else {
			_, err = w.stmt.upsert.ExecContext(ctx, r.App, r.User, r.Session, r.Key, r.Value)
		}
		if err != nil {
			return fmt.Errorf("writing state key %q: %w", r.scope().Prefix()+r.Key, err)
		}
	}
	return nil
}

func (b *sqlBackend) create(ctx context.Context, key session.Key, cells []cell, now time.Time) error {
	rows, err := stateRows(key, cells)
	if err != nil {
		return err
	}
	return b.writer.do(ctx, func(w *writer) error {
		at := now.UnixMicro()
		row := sessionRow{App: key.App, User: key.User, Session: key.ID, Created: at, Updated: at}
		res := w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
		if res.Error != nil {
			return fmt.Errorf("creating session %s: %w", key.ID, res.Error)
		}
		if res.RowsAffected == 0 {
			return errExists(key.ID)
		}
		return w.writeStates(rows)
	})
}

func (b *sqlBackend) remove(ctx context.Context, key session.Key) error {
	return b.writer.do(ctx, func(w *writer) error {
		one := func() *gorm.DB {
			return w.orm.Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID)
		}
		err := errors.Join(
			w.orm.Where("session_pk IN (?)", one().Model(&sessionRow{}).Select("pk")).Delete(&eventRow{}).Error,
			w.orm.Where("app_name = ? AND user_id = ? AND session_id = ?", key.App, key.User, key.ID).Delete(&stateRow{}).Error,
			one().Delete(&sessionRow{}).Error,
		)
		if err != nil {
			return fmt.Errorf("deleting session %s: %w", key.ID, err)
		}
		return nil
	})
}
