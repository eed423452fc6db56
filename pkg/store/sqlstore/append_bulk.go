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
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// headForBulkSQL reads a session's last event and lease epoch, before a transaction inserts many
// events after it. With the dialect's lock no other append or lease comes in between.
const headForBulkSQL = `SELECT coalesce((SELECT m.seq FROM events m WHERE m.session_pk = s.pk ORDER BY m.seq DESC LIMIT 1), 0), s.lease_epoch
 FROM sessions s WHERE s.pk = $1`

// AppendEvents implements [store.BulkAppender].
func (b *Database) AppendEvents(ctx context.Context, recs []store.AppendRecord) ([]store.AppendResult, error) {
	first := &appendJob{AppendRecord: recs[0]}
	events, results := make([]fullEventRow, len(recs)), make([]store.AppendResult, len(recs))
	states := map[rowKey]stateRow{} // each key's last value
	for i, rec := range recs {
		events[i] = newEventRow(rec.Event, rec.Version+1, rec.Text, rec.Outcome)
		results[i] = store.AppendResult{Seq: rec.Version + 1, TextBytes: int64(len(rec.Text)), CacheBytes: estimateEventBytes(len(rec.Text))}
		cells, err := stateRows(rec.Key, rec.Writes)
		if err != nil {
			return nil, err
		}
		for _, c := range cells {
			states[c.rowKey()] = c
		}
	}
	cells := make([]stateRow, 0, len(states))
	for _, c := range states {
		cells = append(cells, c)
	}
	slices.SortFunc(cells, func(a, b stateRow) int { return a.compare(&b) })
	j := &job{}
	j.run = func(w *writer) error {
		pk, err := w.findSession(first)
		if err != nil {
			return err
		}
		done, err := w.checkBulk(j, pk, first, &events[len(events)-1])
		if done || err != nil {
			return err
		}
		if err := w.importEvents(pk, events); err != nil {
			return fmt.Errorf("appending to session %s: %w", first.Key.ID, err)
		}
		return w.writeStates(cells)
	}
	err := b.writerFor(first.Key).executeJob(ctx, j)
	if err != nil && b.dialect.hasFault(err, engine.Conflict) {
		err = fmt.Errorf("event %w: %w", session.ErrExists, err)
	}
	return results, err
}

// checkBulk checks a session's version and lease, and locks it. If the connection was lost, an
// earlier attempt may have stored the events.
func (w *writer) checkBulk(j *job, pk int64, a *appendJob, last *fullEventRow) (done bool, err error) {
	var version, epoch int64
	stmt, err := w.dialect.prepareStatement(w.ctx, w.conn, headForBulkSQL+w.dialect.lockRow)
	if err != nil {
		return false, err
	}
	defer stmt.Close()
	err = stmt.QueryRowContext(w.ctx, pk).Scan(&version, &epoch)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return false, backend.SessionNotFound(a.Key.ID)
	case err != nil:
		return false, fmt.Errorf("appending to session %s: %w", a.Key.ID, err)
	case a.Epoch != 0 && a.Epoch != epoch:
		return false, backend.SessionFenced(a.Key.ID)
	case version == a.Version:
		return false, nil
	case j.maybeDone:
		var n int64
		err := w.orm.Model(&eventRow{}).Where("session_pk = ? AND seq = ? AND id = ?", pk, last.Seq, last.ID).Count(&n).Error
		if n > 0 || err != nil {
			return n > 0, err
		}
	}
	return false, backend.SessionStale(a.Key.ID, a.Version, version)
}

// newEventRow returns an event's row, without its session.
func newEventRow(ev *session.Event, seq int64, text, outcome []byte) fullEventRow {
	provenance, counted := string(ev.Provenance.Append(nil)), string(outcome)
	return fullEventRow{
		Seq: seq, ID: ev.ID, Invocation: ev.InvocationID, Time: ev.Timestamp.UnixMicro(),
		Event: string(text), Provenance: &provenance, Outcome: &counted,
	}
}
