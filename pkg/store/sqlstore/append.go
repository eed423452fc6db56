package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// AppendEvent implements [store.SessionBackend].
func (b *Database) AppendEvent(ctx context.Context, rec store.AppendRecord) (at store.AppendResult, err error) {
	appendRecord := b.appendPlain
	if len(rec.Updates) > 0 {
		appendRecord = b.appendUpdates
	}
	err = b.breaker.runRequest(ctx, func(ctx context.Context) error {
		at, err = appendRecord(ctx, rec)
		return err
	})
	return at, err
}

func (b *Database) appendPlain(ctx context.Context, rec store.AppendRecord) (store.AppendResult, error) {
	// One string for all texts. The record's buffer has room after its text, which belongs to it.
	text := rec.Event.Provenance.Append(rec.Text)
	end := len(text)
	all := string(append(text, rec.Outcome...))
	a := &appendJob{AppendRecord: rec, text: all[:len(rec.Text)], provenance: all[len(rec.Text):end], outcome: all[end:]}
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
		err = w.executeJob(ctx, &job{deadline: j.deadline, run: func(w *writer) error { return w.explainConflict(a) }})
		b.checkLag(ctx, a, err)
	}
	return store.AppendResult{Seq: a.seq, TextBytes: int64(len(a.text)), CacheBytes: estimateEventBytes(len(a.text))}, err
}

// errConflict means that an event could not be inserted: its number or id is in
// use, or its session is gone. explainConflict distinguishes the cases.
var errConflict = errors.New("event cannot be inserted")

// Append statements. An event is inserted only directly after the last one, and the primary key
// (session, number) prevents two writers from inserting the same number. So no append has to update
// a head row. It is inserted only under the session's latest lease, unless it names none. Each
// dialect has its own statement, insert.
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
		{&s.head, d.hintRead(fmt.Sprintf(headSQL, outcomeExpr))},
		{&s.findLease, d.hintRead(d.insertClock(findLeaseSQL, 3))},
		{&s.takeLease, d.insertClock(takeLeaseSQL, 4)},
		{&s.renewLease, d.insertClock(renewLeaseSQL, 3)},
		{&s.endLease, endLeaseSQL},
		{&s.takeSweep, d.insertClock(takeSweepSQL, 3)},
	} {
		if p.text == "" {
			continue
		}
		var err error
		if *p.stmt, err = d.prepareStatement(ctx, conn, p.text); err != nil {
			return s, fmt.Errorf("preparing %q: %w", p.text, err)
		}
		s.all = append(s.all, *p.stmt)
	}
	return s, nil
}

// closeAll closes the statements before their connection. database/sql does not close those of
// a [sql.Conn], and SQLite keeps a connection with open statements, with its -wal file.
func (s *writeStatements) closeAll() error {
	var errs []error
	for _, stmt := range s.all {
		errs = append(errs, stmt.Close())
	}
	s.all = nil
	return errors.Join(errs...)
}

func (w *writer) insertEvent(a *appendJob, d dialect) error {
	id, err := w.findSession(a)
	if err != nil {
		return err
	}
	ev := a.Event
	res, err := w.stmt.insert.ExecContext(w.ctx, id, a.Version+1, ev.ID, ev.InvocationID, ev.Timestamp.UnixMicro(), a.text, a.Epoch, a.provenance, a.outcome)
	if err != nil && d.hasFault(err, engine.Conflict) {
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

// findSession returns a session's head id.
func (w *writer) findSession(a *appendJob) (id int64, err error) {
	if a.ID != 0 {
		return a.ID, nil
	}
	k := a.Key
	err = w.stmt.find.QueryRowContext(w.ctx, k.App, k.User, k.ID).Scan(&id)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, backend.SessionNotFound(k.ID)
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
	err := w.stmt.explain.QueryRowContext(w.ctx, k.App, k.User, k.ID, a.Event.ID).Scan(&version, &epoch, &seq)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return backend.SessionNotFound(k.ID)
	case err != nil:
		return fmt.Errorf("appending to session %s: %w", k.ID, err)
	case !seq.Valid && a.Epoch != 0 && a.Epoch != epoch:
		return backend.SessionFenced(k.ID)
	case !seq.Valid:
		a.stored = version
		return backend.SessionStale(k.ID, a.Version, version)
	default:
		a.seq = seq.Int64
		return nil
	}
}

// stateRows converts cells to rows. A deleted cell's row has no value.
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
			if r.Value, err = backend.EncodeValue(c.Value); err != nil {
				return nil, fmt.Errorf("state key %q: %w", c.Key, err)
			}
		}
		rows[i] = r
	}
	return rows, nil
}

func (w *writer) writeStates(rows []stateRow) error {
	for _, r := range rows {
		var err error
		if r.Value == "" {
			_, err = w.stmt.deleteState.ExecContext(w.ctx, r.App, r.User, r.Session, r.Key)
		} else {
			_, err = w.stmt.upsert.ExecContext(w.ctx, r.App, r.User, r.Session, r.Key, r.Value)
		}
		if err != nil {
			return fmt.Errorf("writing state key %q: %w", r.scope().Prefix()+r.Key, err)
		}
	}
	return nil
}

// appendBatch inserts many jobs' events, ordered by session, so that two programs with the same
// sessions do not deadlock.
func (w *writer) appendBatch(jobs []*job) error {
	slices.SortStableFunc(jobs, func(a, b *job) int {
		one, other := a.append.Key, b.append.Key
		return cmp.Or(strings.Compare(one.App, other.App), strings.Compare(one.User, other.User), strings.Compare(one.ID, other.ID))
	})
	known := jobs[:0:0]
	for _, j := range jobs {
		j.err = nil
		id, err := w.findSession(j.append)
		switch {
		case errors.Is(err, session.ErrNotFound):
			j.err = err
		case err != nil:
			return err
		default:
			j.append.head = id
			known = append(known, j)
		}
	}
	if len(known) == 0 {
		return nil
	}
	err := w.dialect.server.appendBatch(w, known)
	if err != nil && len(known) == 1 && w.dialect.hasFault(err, engine.Conflict) {
		return fmt.Errorf("%w: %w", errConflict, err)
	}
	if err != nil {
		return fmt.Errorf("appending events: %w", err)
	}
	return nil
}

// cellRow is an append's cell in a batch.
type cellRow struct {
	*stateRow
	job int // index in the batch
}

// collectCellRows returns the jobs' cells ordered by key. Each key occurs once, with the last job's
// value.
func collectCellRows(jobs []*job) []cellRow {
	var all []cellRow
	for i, j := range jobs {
		for n := range j.append.cells {
			all = append(all, cellRow{&j.append.cells[n], i})
		}
	}
	slices.SortStableFunc(all, func(a, b cellRow) int { return a.compare(b.stateRow) })
	return all
}

// lockedStates are the rows that a transaction has locked, with their current
// values in the transaction. A missing row is nil.
type lockedStates map[rowKey]any

// A rowKey is a state row's primary key.
type rowKey struct{ app, user, session, key string }

func (r *stateRow) rowKey() rowKey { return rowKey{r.App, r.User, r.Session, r.Key} }

// appendUpdates appends an event whose state delta depends on stored values. It locks the shared
// state rows first, so that no other append changes them before this one is durable.
func (b *Database) appendUpdates(ctx context.Context, rec store.AppendRecord) (store.AppendResult, error) {
	u := &updateJob{appendJob: appendJob{AppendRecord: rec, provenance: string(rec.Event.Provenance.Append(nil)), outcome: string(rec.Outcome)}}
	var err error
	if u.plain, err = stateRows(rec.Key, rec.Writes); err != nil {
		return store.AppendResult{}, err
	}
	targets := make([]store.StateWrite, len(rec.Updates)) // without values
	for i, one := range rec.Updates {
		targets[i] = store.StateWrite{Key: one.Key, Scope: one.Scope}
	}
	if u.rows, err = stateRows(rec.Key, targets); err != nil {
		return store.AppendResult{}, err
	}
	w := b.writerFor(rec.Key)
	j := &job{update: u}
	err = w.executeJob(ctx, j)
	if errors.Is(err, errConflict) {
		err = w.executeJob(ctx, &job{deadline: j.deadline, run: func(w *writer) error { return w.explainConflict(&u.appendJob) }})
		if err == nil { // an earlier attempt stored it
			u.event, u.text, err = b.readStoredEvent(ctx, rec.Key, u.seq)
		}
	}
	if err != nil {
		return store.AppendResult{}, err
	}
	rec.Event.Actions.StateDelta = u.event.Actions.StateDelta
	return store.AppendResult{Seq: u.seq, TextBytes: int64(len(u.text)), CacheBytes: estimateEventBytes(len(u.text))}, nil
}

// splitUpdates separates the jobs that update shared state from the others.
func splitUpdates(batch []*job) (plain, updates []*job) {
	if !slices.ContainsFunc(batch, func(j *job) bool { return j.update != nil }) {
		return batch, nil
	}
	for _, j := range batch {
		if j.update != nil {
			updates = append(updates, j)
		} else {
			plain = append(plain, j)
		}
	}
	return plain, updates
}

// lockStates locks and reads a batch's shared rows.
func (w *writer) lockStates(batch []*job) (lockedStates, error) {
	var rows []*stateRow
	for _, j := range batch {
		for _, list := range [][]stateRow{j.update.plain, j.update.rows} {
			for i := range list {
				if list[i].Session == "" {
					rows = append(rows, &list[i])
				}
			}
		}
	}
	slices.SortFunc(rows, (*stateRow).compare)
	states := lockedStates{}
	for _, r := range rows {
		if _, locked := states[r.rowKey()]; locked {
			continue
		}
		v, err := w.lockState(r)
		if err != nil {
			return nil, fmt.Errorf("locking state key %q: %w", r.scope().Prefix()+r.Key, err)
		}
		states[r.rowKey()] = v
	}
	return states, nil
}

func (w *writer) lockState(r *stateRow) (any, error) {
	if w.stmt.reserve != nil {
		if _, err := w.stmt.reserve.ExecContext(w.ctx, r.App, r.User, r.Session, r.Key); err != nil {
			return nil, err
		}
	}
	var text []byte
	err := w.stmt.readState.QueryRowContext(w.ctx, r.App, r.User, r.Session, r.Key).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return backend.DecodeValue(text)
}

// runUpdateJob computes one event's state delta, and writes both.
func (w *writer) runUpdateJob(u *updateJob, states lockedStates) error {
	u.event = *u.AppendRecord.Event
	at := map[string]rowKey{}
	for i, one := range u.Updates {
		at[one.Key] = u.rows[i].rowKey()
	}
	cells, text, err := u.AppendRecord.ComputeUpdates(&u.event, func(one *store.SharedUpdate) any { return states[at[one.Key]] })
	if err != nil {
		return err
	}
	rows, err := stateRows(u.Key, cells)
	if err != nil {
		return err
	}
	u.text, u.appendJob.cells = string(text), slices.Concat(u.plain, rows)
	if err := w.insertEvent(&u.appendJob, w.dialect); err != nil {
		return err
	}
	for i, c := range cells {
		states[rows[i].rowKey()] = c.Value
	}
	for i, c := range u.AppendRecord.Writes {
		states[u.plain[i].rowKey()] = c.Value
	}
	return nil
}

// readStoredEvent reads one event with its JSON.
func (b *Database) readStoredEvent(ctx context.Context, key session.Key, seq int64) (session.Event, string, error) {
	var row fullEventRow
	err := b.retryRead(ctx, func(ctx context.Context) error {
		db := b.readers.WithContext(ctx)
		of := db.Model(&sessionRow{}).Select("pk").Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID)
		return db.Where("session_pk = (?) AND seq = ?", of, seq).Take(&row).Error
	})
	if err != nil {
		return session.Event{}, "", fmt.Errorf("reading event %d of session %s: %w", seq, key.ID, err)
	}
	ev, err := decodeEvent([]byte(row.Event), seq, row.provenance())
	if err != nil {
		return session.Event{}, "", backend.WrapReadError(key, err)
	}
	return *ev, row.Event, nil
}

func (r *stateRow) scope() session.Scope {
	switch {
	case r.User == "":
		return session.ScopeApp
	case r.Session == "":
		return session.ScopeUser
	default:
		return session.ScopeSession
	}
}

// compare defines the order in which rows are written in every batch.
func (r *stateRow) compare(o *stateRow) int {
	return cmp.Or(
		strings.Compare(r.App, o.App), strings.Compare(r.User, o.User),
		strings.Compare(r.Session, o.Session), strings.Compare(r.Key, o.Key),
	)
}
