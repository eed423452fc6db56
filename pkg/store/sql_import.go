package store

import (
	"context"
	"fmt"

	"gorm.io/gorm/clause"

	"agenthost/pkg/session"
)

// importSession writes what a plan found missing, all or nothing.
func (b *sqlBackend) importSession(ctx context.Context, p *plan) error {
	cells := cellsOf(p.state)
	for _, k := range p.gone {
		cells = append(cells, cell{k, session.ScopeSession, nil})
	}
	rows, err := stateRows(p.Key, cells)
	if err != nil {
		return err
	}
	initial, err := appendMap(nil, p.initial())
	if err != nil {
		return err
	}
	j := &job{}
	j.run = func(w *writer) error {
		pk := p.pk
		if pk == 0 {
			row := sessionRow{App: p.Key.App, User: p.Key.User, Session: p.Key.ID, Created: p.Created.UnixMicro(), Initial: string(initial)}
			res := w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
			if res.Error == nil && res.RowsAffected == 0 && j.unsure {
				return nil // was written before the connection was lost
			}
			if res.Error == nil && res.RowsAffected == 0 {
				return errExists(p.Key.ID)
			}
			if res.Error != nil {
				return res.Error
			}
			pk = row.ID
		}
		for i, ev := range p.Events[p.present:] {
			if err := w.importEvent(pk, p.last+int64(i)+1, ev); err != nil {
				return err
			}
		}
		return w.writeStates(rows)
	}
	return b.writer(p.Key).carry(ctx, j)
}

func (w *writer) importEvent(pk, seq int64, ev *session.Event) error {
	text, err := session.AppendEvent(nil, ev)
	if err != nil {
		return err
	}
	_, err = w.stmt.insert.ExecContext(context.Background(), pk, seq, ev.ID, ev.InvocationID, ev.Timestamp.UnixMicro(), string(text), 0)
	if err != nil {
		return fmt.Errorf("event %s: %w", ev.ID, err)
	}
	return nil
}
