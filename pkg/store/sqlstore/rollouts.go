package sqlstore

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// sqlRollouts stores rollouts in an SQL database.
type sqlRollouts struct{ b *Database }

// GetRollout implements [store.RolloutBackend].
func (s sqlRollouts) GetRollout(ctx context.Context, app string) (*store.Rollout, error) {
	if s.b.noRollouts {
		return nil, backend.RolloutNotFound(app)
	}
	var rows []rolloutRow
	err := s.b.retryRead(ctx, func(ctx context.Context) error {
		return s.b.readers.WithContext(ctx).Where("app_name = ?", app).Find(&rows).Error
	})
	if err != nil {
		return nil, s.b.wrapError("reading the rollout of app "+app, err)
	}
	if len(rows) == 0 {
		return nil, backend.RolloutNotFound(app)
	}
	return &rows[0].toRecord().Rollout, nil
}

// SaveRollout implements [store.RolloutBackend]. The update compares the version, so that only one
// of two hosts succeeds.
func (s sqlRollouts) SaveRollout(ctx context.Context, r *store.RolloutRecord) error {
	w := s.b.writerFor(session.Key{App: r.App})
	return s.b.wrapError("storing a rollout", w.runWrite(ctx, func(w *writer) error { return writeRollout(w.orm, r) }))
}

func writeRollout(db *gorm.DB, r *store.RolloutRecord) error {
	row := newRolloutRow(r)
	var res *gorm.DB
	if r.Version == 1 {
		res = db.Clauses(clause.OnConflict{DoNothing: true}).Create(row)
	} else {
		res = db.Model(&rolloutRow{}).Where("app_name = ? AND version = ?", row.App, row.Version-1).
			Updates(map[string]any{"version": row.Version, "data": row.Data, "change_time": row.Changed, "save_id": row.SaveID})
	}
	if res.Error != nil || res.RowsAffected == 1 {
		return res.Error
	}
	var stored rolloutRow
	if err := db.Where("app_name = ?", r.App).Limit(1).Find(&stored).Error; err != nil {
		return err
	}
	if r.IsSaved(stored.toRecord()) {
		return nil // the connection was lost after the commit
	}
	return backend.RolloutStale(r.App, r.Version-1, stored.Version)
}

func newRolloutRow(r *store.RolloutRecord) *rolloutRow {
	return &rolloutRow{App: r.App, Version: r.Version, Data: r.Data, Changed: r.Changed.UnixMicro(), SaveID: r.SaveID}
}

func (r *rolloutRow) toRecord() *store.RolloutRecord {
	return &store.RolloutRecord{
		Rollout: store.Rollout{App: r.App, Version: r.Version, Data: r.Data, Changed: microsToTime(r.Changed)}, SaveID: r.SaveID,
	}
}
