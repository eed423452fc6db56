package sqlstore

import (
	"context"
	"fmt"

	"gorm.io/gorm/clause"
)

// Ping writes what a turn writes (a session, an event and a state key, without
// app and user) and deletes them in the same transaction.
func (b *Database) Ping(ctx context.Context) error {
	return b.writers[0].runWrite(ctx, func(w *writer) error {
		if err := w.writeProbe(b.owner); err != nil {
			return fmt.Errorf("writing a probe: %w", err)
		}
		return nil
	})
}

func (w *writer) writeProbe(owner string) error {
	row := sessionRow{Session: owner, Initial: "{}"}
	if err := w.orm.Create(&row).Error; err != nil {
		return err
	}
	state := stateRow{Session: owner, Key: "probe", Value: "1"}
	for _, of := range []any{&eventRow{SessionID: row.ID, Seq: 1, ID: "probe", Event: "{}"}, &state} {
		if err := w.orm.Omit(clause.Associations).Create(of).Error; err != nil {
			return err
		}
	}
	// The events go with their session.
	if err := w.orm.Where("pk = ?", row.ID).Delete(&sessionRow{}).Error; err != nil {
		return err
	}
	return w.orm.Where("app_name = '' AND user_id = '' AND session_id = ?", owner).Delete(&stateRow{}).Error
}
