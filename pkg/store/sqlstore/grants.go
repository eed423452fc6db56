package sqlstore

import (
	"context"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"agenthost/pkg/connection"
	"agenthost/pkg/session"
)

// sqlGrants stores what users have authorized in an SQL database. Its rows' content is encrypted.
type sqlGrants struct{ b *Database }

// GetGrant implements [connection.GrantStore].
func (s sqlGrants) GetGrant(ctx context.Context, id string) (*connection.Grant, error) {
	var rows []grantRow
	// A writer reads its own rows: a replicated server's reader may lag.
	err := s.runGrantWrite(ctx, "reading a grant", func(db *gorm.DB) error {
		rows = nil
		return db.Where("id = ?", id).Find(&rows).Error
	})
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	r := rows[0]
	return &connection.Grant{
		ID: r.ID, User: connection.User{App: r.App, UserID: r.User}, Connection: r.Connection, Version: r.Version,
		BusyUntil: grantTime(r.BusyUntil), Expires: grantTime(r.Expires), Sealed: r.Sealed,
	}, nil
}

// SwapGrant implements [connection.GrantStore]. The update compares the version, so that only one
// of two replicas succeeds.
func (s sqlGrants) SwapGrant(ctx context.Context, g *connection.Grant) (bool, error) {
	row := &grantRow{
		ID: g.ID, App: g.User.App, User: g.User.UserID, Connection: g.Connection, Version: g.Version,
		BusyUntil: grantMicros(g.BusyUntil), Expires: grantMicros(g.Expires), Sealed: g.Sealed,
	}
	stored := false
	err := s.runGrantWrite(ctx, "storing a grant", func(db *gorm.DB) error {
		stored = false
		if g.Version > 1 {
			res := db.Model(&grantRow{}).Where("id = ? AND version = ?", row.ID, row.Version-1).
				Updates(map[string]any{"version": row.Version, "busy_until": row.BusyUntil, "expire_time": row.Expires, "sealed": row.Sealed})
			stored = res.RowsAffected == 1
			return res.Error
		}
		res := db.Clauses(clause.OnConflict{DoNothing: true}).Create(row)
		stored = res.RowsAffected == 1
		return res.Error
	})
	return stored && err == nil, err
}

// DeleteGrant implements [connection.GrantStore].
func (s sqlGrants) DeleteGrant(ctx context.Context, id string, version int64) (bool, error) {
	deleted := false
	err := s.runGrantWrite(ctx, "deleting a grant", func(db *gorm.DB) error {
		res := db.Where("id = ? AND version = ?", id, version).Delete(&grantRow{})
		deleted = res.RowsAffected == 1
		return res.Error
	})
	return deleted && err == nil, err
}

// DeleteExpired implements [connection.GrantStore].
func (s sqlGrants) DeleteExpired(ctx context.Context, before time.Time) error {
	return s.runGrantWrite(ctx, "deleting expired grants", func(db *gorm.DB) error {
		return db.Where("expire_time > 0 AND expire_time < ?", before.UnixMicro()).Delete(&grantRow{}).Error
	})
}

func (s sqlGrants) runGrantWrite(ctx context.Context, what string, run func(db *gorm.DB) error) error {
	w := s.b.writerFor(session.Key{})
	return s.b.wrapError(what, w.runWrite(ctx, func(w *writer) error { return run(w.orm) }))
}

func grantMicros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func grantTime(micros int64) time.Time {
	if micros == 0 {
		return time.Time{}
	}
	return microsToTime(micros)
}
