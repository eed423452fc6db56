package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"agenthost/pkg/store"
	"agenthost/pkg/store/internal/codec"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"agenthost/pkg/session"
)

// errConflict means that an event could not be inserted: its number or id is in
// use, or its session is gone. explainConflict distinguishes the cases.
var errConflict = errors.New("event cannot be inserted")

// writeStatements are prepared on the connection of a writer.
type writeStatements struct {
	begin, commit, rollback *statement
	find, insert, explain   *statement
	upsert, deleteState     *statement
	reserve, readState      *statement
	takeLease, renewLease   *statement
	endLease                *statement
	head, findLease         *statement // reads, see borrowConn
}

// The statements of an append. An event is inserted only directly after the last
// one, and the primary key (session, number) prevents two writers from inserting
// the same number. So no append has to update a head row. It is inserted only
// under the latest lease of the session, unless it names none. The statement
// depends on the dialect.
const (
	findSQL    = `SELECT s.pk FROM sessions s WHERE s.app_name = $1 AND s.user_id = $2 AND s.id = $3`
	explainSQL = `SELECT coalesce((SELECT max(h.seq) FROM events h WHERE h.session_pk = s.pk), 0), s.lease_epoch, e.seq
 FROM sessions s LEFT JOIN events e ON e.session_pk = s.pk AND e.id = $4
 WHERE s.app_name = $1 AND s.user_id = $2 AND s.id = $3`
	readStateSQL = `SELECT t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = $3 AND t.key = $4`
	deleteStateSQL = `DELETE FROM states
 WHERE states.app_name = $1 AND states.user_id = $2 AND states.session_id = $3 AND states.key = $4`
)

func prepareWrites(ctx context.Context, conn *sql.Conn, d dialect) (writeStatements, error) {
	var s writeStatements
	for _, p := range []struct {
		stmt **statement
		text string
	}{
		{&s.begin, d.begin},
		{&s.commit, "COMMIT"},
		{&s.rollback, "ROLLBACK"},
		{&s.find, findSQL},
		{&s.insert, d.insert},
		{&s.explain, explainSQL},
		{&s.upsert, d.upsert},
		{&s.deleteState, deleteStateSQL},
		{&s.reserve, d.reserve},
		{&s.readState, readStateSQL + d.lockRow},
		{&s.head, headSQL},
		{&s.findLease, d.insertClock(findLeaseSQL, 3)},
		{&s.takeLease, d.insertClock(takeLeaseSQL, 4)},
		{&s.renewLease, d.insertClock(renewLeaseSQL, 3)},
		{&s.endLease, endLeaseSQL},
	} {
		if p.text == "" {
			continue
		}
		var err error
		if *p.stmt, err = d.prepareStatement(ctx, conn, p.text); err != nil {
			return s, fmt.Errorf("preparing %q: %w", p.text, err)
		}
	}
	return s, nil
}

// An appendJob is a record as rows.
type appendJob struct {
	store.AppendRecord
	// text is the JSON of the event, provenance that of its provenance.
	text, provenance string

	cells []stateRow
	head  int64 // id of the session's head, once known
	seq   int64 // result: the number of the event
}

// AppendEvent is a method of [store.SessionBackend].
func (b *Database) AppendEvent(ctx context.Context, rec store.AppendRecord) (store.AppendResult, error) {
	if len(rec.Updates) > 0 {
		return b.appendUpdates(ctx, rec)
	}
	a := &appendJob{AppendRecord: rec, text: string(rec.Text), provenance: string(rec.Event.Provenance.Append(nil))}
	var err error
	if a.cells, err = stateRows(rec.Key, rec.Writes); err != nil {
		return store.AppendResult{}, err
	}
	j := &job{
		run:    func(w *writer) error { return w.insertEvent(a, b.dialect) },
		single: rec.ID != 0 && len(a.cells) == 0,
		append: a,
	}
	w := b.writerFor(rec.Key)
	err = w.executeJob(ctx, j)
	if errors.Is(err, errConflict) {
		err = w.runWrite(ctx, func(w *writer) error { return w.explainConflict(a) })
	}
	return store.AppendResult{Seq: a.seq, Text: int64(len(a.text)), Cost: estimateEventBytes(len(a.text))}, err
}

func (w *writer) insertEvent(a *appendJob, d dialect) error {
	id, err := w.findSession(a)
	if err != nil {
		return err
	}
	ev := a.Event
	res, err := w.stmt.insert.ExecContext(context.Background(), id, a.Version+1, ev.ID, ev.InvocationID, ev.Timestamp.UnixMicro(), a.text, a.Epoch, a.provenance)
	if err != nil && d.isConflict(err) {
		return errConflict
	}
	if err != nil {
		return fmt.Errorf("appending to session %s: %w", a.Key.ID, err)
	}
	if n, err := res.RowsAffected(); err != nil || n == 0 {
		return errors.Join(errConflict, err)
	}
	a.seq = a.Version + 1
	return w.writeStates(a.cells)
}

// findSession returns the head id of a session.
func (w *writer) findSession(a *appendJob) (id int64, err error) {
	if a.ID != 0 {
		return a.ID, nil
	}
	k := a.Key
	err = w.stmt.find.QueryRowContext(context.Background(), k.App, k.User, k.ID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, store.SessionNotFound(k.ID)
	}
	return id, err
}

// explainConflict returns why an append failed: the session already has the
// event (which is success), another store holds its lease, it is at another
// version, or it is gone.
func (w *writer) explainConflict(a *appendJob) error {
	k := a.Key
	var version, epoch int64
	var seq sql.NullInt64
	err := w.stmt.explain.QueryRowContext(context.Background(), k.App, k.User, k.ID, a.Event.ID).Scan(&version, &epoch, &seq)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return store.SessionNotFound(k.ID)
	case err != nil:
		return fmt.Errorf("appending to session %s: %w", k.ID, err)
	case !seq.Valid && a.Epoch != 0 && a.Epoch != epoch:
		return store.SessionFenced(k.ID)
	case !seq.Valid:
		return store.SessionStale(k.ID, a.Version, version)
	default:
		a.seq = seq.Int64
		return nil
	}
}

// stateRows converts cells to rows. The row of a deleted cell has no value.
func stateRows(key session.Key, cells []store.StateWrite) ([]stateRow, error) {
	if len(cells) == 0 {
		return nil, nil
	}
	rows := make([]stateRow, len(cells))
	for i, c := range cells {
		r := stateRow{App: key.App, User: key.User, Session: key.ID, Key: c.Key[len(c.Scope.Prefix()):]}
		switch c.Scope {
		case session.ScopeApp:
			r.User, r.Session = "", ""
		case session.ScopeUser:
			r.Session = ""
		}
		if c.Value != nil {
			var err error
			if r.Value, err = codec.EncodeValue(c.Value); err != nil {
				return nil, fmt.Errorf("state key %q: %w", c.Key, err)
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

// CreateSession is a method of [store.SessionBackend].
func (b *Database) CreateSession(ctx context.Context, key session.Key, cells []store.StateWrite, now time.Time, g *store.LeaseGrant) error {
	rows, err := stateRows(key, cells)
	if err != nil {
		return err
	}
	initial, err := codec.AppendMap(nil, store.SessionState(cells))
	if err != nil {
		return err
	}
	j := &job{}
	j.run = func(w *writer) error {
		at := now.UnixMicro()
		row := sessionRow{App: key.App, User: key.User, Session: key.ID, Created: at, Initial: string(initial)}
		res := w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
		if res.Error != nil {
			return fmt.Errorf("creating session %s: %w", key.ID, res.Error)
		}
		if res.RowsAffected == 0 {
			return w.explainExists(key, &row, j.maybeDone)
		}
		if g != nil {
			g.ID, g.Epoch = row.ID, 0
			if _, err := w.acquireUnchanged(b.dialect, g); err != nil {
				return err
			}
		}
		return w.writeStates(rows)
	}
	return b.writerFor(key).executeJob(ctx, j)
}

// explainExists returns ErrExists, unless this job created the session before
// its connection was lost.
func (w *writer) explainExists(key session.Key, want *sessionRow, unsure bool) error {
	if !unsure {
		return store.SessionExists(key.ID)
	}
	var got sessionRow
	err := w.orm.Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID).Take(&got).Error
	if err != nil {
		return fmt.Errorf("creating session %s: %w", key.ID, err)
	}
	if got.Created != want.Created || got.Initial != want.Initial {
		return store.SessionExists(key.ID)
	}
	return nil
}

// DeleteSession is a method of [store.SessionBackend].
func (b *Database) DeleteSession(ctx context.Context, key session.Key) error {
	return b.writerFor(key).runWrite(ctx, func(w *writer) error {
		one := func() *gorm.DB {
			return w.orm.Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID)
		}
		// First the session row, which cascades to its events: a concurrent append is
		// either waited for or finds no session.
		err := one().Delete(&sessionRow{}).Error
		if err == nil {
			err = w.orm.Where("app_name = ? AND user_id = ? AND session_id = ?", key.App, key.User, key.ID).Delete(&stateRow{}).Error
		}
		if err != nil {
			return fmt.Errorf("deleting session %s: %w", key.ID, err)
		}
		return nil
	})
}
