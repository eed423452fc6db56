package sqlstore

import (
	"context"
	"fmt"

	"agenthost/pkg/store"
	"agenthost/pkg/store/internal/codec"

	"gorm.io/gorm/clause"

	"agenthost/pkg/session"
)

// importSession atomically writes what the plan found missing.
func (b *Database) importSession(ctx context.Context, p *importPlan) error {
	cells := store.SplitState(p.state)
	for _, k := range p.removedKeys {
		cells = append(cells, store.StateWrite{Key: k, Scope: session.ScopeSession, Value: nil})
	}
	states, err := stateRows(p.Key, cells)
	if err != nil {
		return err
	}
	initial, err := codec.AppendMap(nil, p.initialState())
	if err != nil {
		return err
	}
	events, err := eventRows(p)
	if err != nil {
		return err
	}
	j := &job{}
	j.run = func(w *writer) error {
		// An earlier attempt may have committed before the connection was lost.
		if done, err := w.wasImported(j, p); done || err != nil {
			return err
		}
		pk, err := w.importHead(b.dialect, p, string(initial))
		if err == nil {
			err = w.importEvents(pk, events)
		}
		if err == nil {
			err = w.writeStates(states)
		}
		return err
	}
	err = b.writerFor(p.Key).executeJob(ctx, j)
	if err != nil && b.dialect.isConflict(err) {
		err = fmt.Errorf("%w: %w", session.ErrStale, err)
	}
	return err
}

// importHead creates the session, or renews its lease, so that no one else can
// acquire it until the transaction ends.
func (w *writer) importHead(d dialect, p *importPlan, initial string) (pk int64, err error) {
	if p.pk != 0 {
		g := &p.lease
		n, err := execAffected(w.stmt.renewLease, d.appendClock(g, g.Term.Microseconds(), g.ID, g.Epoch))
		if err == nil && n == 0 {
			err = store.SessionFenced(p.Key.ID)
		}
		return p.pk, err
	}
	row := sessionRow{App: p.Key.App, User: p.Key.User, Session: p.Key.ID, Created: p.Created.UnixMicro(), Initial: initial}
	res := w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
	if res.Error == nil && res.RowsAffected == 0 {
		return 0, store.SessionExists(p.Key.ID)
	}
	return row.ID, res.Error
}

// wasImported reports whether an earlier attempt of the job was committed.
func (w *writer) wasImported(j *job, p *importPlan) (bool, error) {
	if !j.maybeDone {
		return false, nil
	}
	var head sessionRow
	k := p.Key
	res := w.orm.Where("app_name = ? AND user_id = ? AND id = ?", k.App, k.User, k.ID).Limit(1).Find(&head)
	if res.Error != nil || res.RowsAffected == 0 || len(p.Events) == 0 {
		return res.RowsAffected > 0, res.Error
	}
	var n int64
	last := p.Events[len(p.Events)-1]
	err := w.orm.Model(&eventRow{}).Where("session_pk = ? AND seq = ? AND id = ?", head.ID, len(p.Events), last.ID).Count(&n).Error
	return n > 0, err
}

// eventRows returns the rows of the missing events, without their session.
func eventRows(p *importPlan) ([]fullEventRow, error) {
	rows := make([]fullEventRow, 0, len(p.Events)-p.present)
	for i, ev := range p.Events[p.present:] {
		text, err := session.AppendEvent(nil, ev)
		if err != nil {
			return nil, fmt.Errorf("event %s: %w", ev.ID, err)
		}
		provenance := string(ev.Provenance.Append(nil))
		rows = append(rows, fullEventRow{
			Seq: int64(p.present + i + 1), ID: ev.ID, Invocation: ev.InvocationID, Time: ev.Timestamp.UnixMicro(),
			Event: string(text), Provenance: &provenance,
		})
	}
	return rows, nil
}

// importEvents inserts events in statements that fit into a server's packet.
func (w *writer) importEvents(pk int64, rows []fullEventRow) error {
	bytes, from := 0, 0
	for i := range rows {
		rows[i].SessionID = pk
		bytes += len(rows[i].Event)
		if i+1 == len(rows) || i+1-from == rowsAtOnce || bytes+len(rows[i+1].Event) > packetBytes {
			some := rows[from : i+1]
			if err := w.orm.Create(&some).Error; err != nil {
				return err
			}
			bytes, from = 0, i+1
		}
	}
	return nil
}
