package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"agenthost/pkg/store"
	"agenthost/pkg/store/internal/codec"

	"agenthost/pkg/session"
)

// An updateJob is an append that updates shared state. Its results are computed
// again in each attempt.
type updateJob struct {
	appendJob
	plain []stateRow // rows of the cells
	rows  []stateRow // rows of the updates, without values
	event session.Event
}

// lockedStates are the rows that a transaction has locked, with their current
// values in the transaction. A missing row is nil.
type lockedStates map[rowKey]any

// A rowKey is the primary key of a state row.
type rowKey struct{ app, user, session, key string }

func (r *stateRow) rowKey() rowKey { return rowKey{r.App, r.User, r.Session, r.Key} }

// appendUpdates appends an event whose state delta depends on stored values. It
// locks the rows of shared state first, so that no other append changes them
// before this one is durable.
func (b *Database) appendUpdates(ctx context.Context, rec store.AppendRecord) (store.AppendResult, error) {
	u := &updateJob{appendJob: appendJob{AppendRecord: rec, provenance: string(rec.Event.Provenance.Append(nil))}}
	var err error
	if u.plain, err = stateRows(rec.Key, rec.Writes); err != nil {
		return store.AppendResult{}, err
	}
	if u.rows, err = stateRows(rec.Key, updateTargets(rec.Updates)); err != nil {
		return store.AppendResult{}, err
	}
	w := b.writerFor(rec.Key)
	err = w.executeJob(ctx, &job{update: u})
	if errors.Is(err, errConflict) {
		err = w.runWrite(ctx, func(w *writer) error { return w.explainConflict(&u.appendJob) })
		if err == nil { // an earlier attempt stored it
			u.event, u.text, err = b.readStoredEvent(ctx, rec.Key, u.seq)
		}
	}
	if err != nil {
		return store.AppendResult{}, err
	}
	rec.Event.Actions.StateDelta = u.event.Actions.StateDelta
	return store.AppendResult{Seq: u.seq, Text: int64(len(u.text)), Cost: estimateEventBytes(len(u.text))}, nil
}

// updateTargets returns the cells of updates, without values.
func updateTargets(updates []store.SharedUpdate) []store.StateWrite {
	cells := make([]store.StateWrite, len(updates))
	for i, u := range updates {
		cells[i] = store.StateWrite{Key: u.Key, Scope: u.Scope}
	}
	return cells
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

// runUpdateJobs locks all rows of a batch in the same order for all writers,
// which prevents deadlocks, and runs its jobs one after the other. An error of
// one job rolls back all, because rows were reserved for it.
func (w *writer) runUpdateJobs(batch []*job) (spoilt bool, err error) {
	states, err := w.lockStates(batch)
	if err != nil {
		return false, err
	}
	for _, j := range batch {
		if j.err = w.runUpdateJob(j.update, states); j.err != nil {
			return true, j.err
		}
	}
	return false, nil
}

// lockStates locks and reads the shared rows of a batch.
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
	ctx := context.Background()
	if w.stmt.reserve != nil {
		if _, err := w.stmt.reserve.ExecContext(ctx, r.App, r.User, r.Session, r.Key); err != nil {
			return nil, err
		}
	}
	var text []byte
	err := w.stmt.readState.QueryRowContext(ctx, r.App, r.User, r.Session, r.Key).Scan(&text)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return codec.DecodeValue(text)
}

// runUpdateJob computes the state delta of one event, and writes both.
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
	db := b.readers.WithContext(ctx)
	err := b.retryRead(ctx, func() error {
		of := db.Model(&sessionRow{}).Select("pk").Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID)
		return db.Where("session_pk = (?) AND seq = ?", of, seq).Take(&row).Error
	})
	if err != nil {
		return session.Event{}, "", fmt.Errorf("reading event %d of session %s: %w", seq, key.ID, err)
	}
	ev, err := decodeEvent([]byte(row.Event), seq, row.provenance())
	if err != nil {
		return session.Event{}, "", codec.WrapReadError(key, err)
	}
	return *ev, row.Event, nil
}
