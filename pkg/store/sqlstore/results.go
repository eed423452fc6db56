package sqlstore

import (
	"context"

	"gorm.io/gorm"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// sqlResults stores evaluation results in an SQL database.
type sqlResults struct{ b *Database }

func (s sqlResults) PutResult(ctx context.Context, r *store.Result, keep int) error {
	w := s.b.writerFor(session.Key{App: r.App})
	return s.b.wrapError("storing a result", w.runWrite(ctx, func(w *writer) error { return writeResult(w.orm, newResultRow(r), keep) }))
}

// writeResult replaces a result, and deletes all but the app's newest keep results.
func writeResult(db *gorm.DB, full *fullResultRow, keep int) error {
	row := &full.Row
	if err := db.Where("app_name = ? AND id = ?", row.App, row.ID).Delete(&resultRow{}).Error; err != nil {
		return err
	}
	if err := db.Create(full).Error; err != nil {
		return err
	}
	var ids []string
	err := db.Model(&resultRow{}).Where("app_name = ?", row.App).Order("store_time DESC, id DESC").Offset(keep).Limit(keep).Pluck("id", &ids).Error
	if err != nil || len(ids) == 0 {
		return err
	}
	return db.Where("app_name = ? AND id IN ?", row.App, ids).Delete(&resultRow{}).Error
}

func (s sqlResults) DeleteResult(ctx context.Context, app, id string) error {
	w := s.b.writerFor(session.Key{App: app})
	return s.b.wrapError("deleting a result", w.runWrite(ctx, func(w *writer) error {
		return w.orm.Where("app_name = ? AND id = ?", app, id).Delete(&resultRow{}).Error
	}))
}

func (s sqlResults) GetResult(ctx context.Context, app, id string) (*store.Result, error) {
	all, err := s.queryResults(ctx, func(db *gorm.DB) *gorm.DB { return db.Where("app_name = ? AND id = ?", app, id) })
	if err == nil && len(all) == 0 {
		err = backend.ResultNotFound(app, id)
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

func (s sqlResults) ListResults(ctx context.Context, app string) ([]*store.Result, error) {
	if s.b.noResults {
		return nil, nil
	}
	columns := []string{"app_name", "id", "set_id", "revision", "model", "store_time"}
	if !s.b.noCases {
		columns = append(columns, "cases", "passed")
	}
	return s.queryResults(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Select(columns).Where("app_name = ?", app).Order("store_time DESC, id DESC")
	})
}

func (s sqlResults) queryResults(ctx context.Context, narrow func(*gorm.DB) *gorm.DB) ([]*store.Result, error) {
	var rows []fullResultRow
	err := s.b.retryRead(ctx, func(ctx context.Context) error { return narrow(s.b.readers.WithContext(ctx)).Find(&rows).Error })
	if err != nil {
		return nil, s.b.wrapError("reading results", err)
	}
	var all []*store.Result
	for _, full := range rows {
		row := &full.Row
		all = append(all, &store.Result{
			App: row.App, ID: row.ID, SetID: row.SetID, Revision: row.Revision, Model: row.Model, Stored: microsToTime(row.Stored), Content: row.Content,
			Cases: full.Cases, Passed: full.Passed,
		})
	}
	return all, nil
}

// Close does nothing: the sessions close the database.
func (sqlResults) Close() error { return nil }

func newResultRow(r *store.Result) *fullResultRow {
	return &fullResultRow{
		Row:   resultRow{App: r.App, ID: r.ID, SetID: r.SetID, Revision: r.Revision, Model: r.Model, Stored: r.Stored.UnixMicro(), Content: r.Content},
		Cases: r.Cases, Passed: r.Passed,
	}
}
