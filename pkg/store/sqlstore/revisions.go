package sqlstore

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// sqlRevisions stores revisions in an SQL database.
type sqlRevisions struct{ b *Database }

func (s sqlRevisions) PutRevision(ctx context.Context, rev *store.RevisionRecord, keep int) error {
	w := s.b.writerFor(session.Key{App: rev.App})
	return s.b.wrapError("keeping a revision", w.runWrite(ctx, func(w *writer) error { return writeRevision(w.orm, rev, keep) }))
}

func writeRevision(db *gorm.DB, rev *store.RevisionRecord, keep int) error {
	var newest revisionRow
	q := db.Select("id", "serve_time").Where("app_name = ?", rev.App).Order("serve_time DESC")
	if err := q.Limit(1).Find(&newest).Error; err != nil || newest.ID == rev.ID {
		return err
	}
	row := revisionRow{App: rev.App, ID: rev.ID, Served: store.NextServedTime(microsToTime(newest.Served), rev.Served).UnixMicro(), Files: rev.Files}
	there := db.Model(&revisionRow{}).Where("app_name = ? AND id = ?", rev.App, rev.ID).Update("serve_time", row.Served)
	if there.Error != nil {
		return there.Error
	}
	if there.RowsAffected == 0 {
		// Another process may have stored the same one meanwhile.
		if err := db.Clauses(clause.OnConflict{DoNothing: true}).Create(&row).Error; err != nil {
			return err
		}
	}
	return pruneRevisions(db, rev.App, keep)
}

// pruneRevisions deletes all but the newest keep revisions.
func pruneRevisions(db *gorm.DB, app string, keep int) error {
	var times []int64
	err := db.Model(&revisionRow{}).Where("app_name = ?", app).Order("serve_time DESC").Limit(keep).Pluck("serve_time", &times).Error
	if err != nil || len(times) < keep {
		return err
	}
	return db.Where("app_name = ? AND serve_time < ?", app, times[keep-1]).Delete(&revisionRow{}).Error
}

// Close does nothing: the sessions close the database.
func (sqlRevisions) Close() error { return nil }

func (s sqlRevisions) GetRevision(ctx context.Context, app, id string) (*store.RevisionRecord, error) {
	rows, err := s.queryRevisions(ctx, func(db *gorm.DB) *gorm.DB { return db.Where("app_name = ? AND id = ?", app, id) })
	if err == nil && len(rows) == 0 {
		err = backend.RevisionNotFound(app, id)
	}
	if err != nil {
		return nil, err
	}
	return rows[0], nil
}

func (s sqlRevisions) ListRevisions(ctx context.Context, app string) ([]*store.RevisionRecord, error) {
	return s.queryRevisions(ctx, func(db *gorm.DB) *gorm.DB {
		return db.Select("app_name", "id", "serve_time").Where("app_name = ?", app).Order("serve_time DESC")
	})
}

func (s sqlRevisions) queryRevisions(ctx context.Context, narrow func(*gorm.DB) *gorm.DB) ([]*store.RevisionRecord, error) {
	var rows []revisionRow
	err := s.b.retryRead(ctx, func(ctx context.Context) error { return narrow(s.b.readers.WithContext(ctx)).Find(&rows).Error })
	if err != nil {
		return nil, s.b.wrapError("reading revisions", err)
	}
	all := make([]*store.RevisionRecord, len(rows))
	for i, row := range rows {
		all[i] = &store.RevisionRecord{App: row.App, ID: row.ID, Served: microsToTime(row.Served), Files: row.Files}
	}
	return all, nil
}
