package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"agenthost/pkg/store"
	"agenthost/pkg/store/internal/codec"

	"gorm.io/gorm"

	"agenthost/pkg/session"
)

// ListSessions is a method of [store.SessionBackend].
func (b *Database) ListSessions(ctx context.Context, q store.SessionQuery) ([]*store.ListedSession, error) {
	var heads []headRow
	var cells []stateRow
	read := func(tx *gorm.DB) error {
		heads, cells = nil, nil
		if err := queryHeads(q, tx).Find(&heads).Error; err != nil {
			return err
		}
		var err error
		cells, err = queryStates(q, tx, heads)
		return err
	}
	err := b.retryRead(ctx, func() error {
		return b.readers.WithContext(ctx).Transaction(read, &sql.TxOptions{ReadOnly: true, Isolation: b.dialect.snapshot})
	})
	if err != nil {
		if b.isClosed() {
			return nil, store.ErrClosed
		}
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	states, err := groupStates(cells)
	if err != nil {
		return nil, err
	}
	all := make([]*store.ListedSession, len(heads))
	for i, h := range heads {
		all[i] = &store.ListedSession{
			Key:   session.Key{App: h.Row.App, User: h.Row.User, ID: h.Row.Session},
			Head:  h.toHead(),
			State: states.mergeState(h.Row.User, h.Row.Session),
		}
	}
	return all, nil
}

// queryHeads finds sessions in order by the index of their app, or of their app
// and user.
func queryHeads(q store.SessionQuery, tx *gorm.DB) *gorm.DB {
	db := tx.Table("sessions s").Joins(lastEventSQL).Where("s.app_name = ? AND s.pk > ?", q.App, q.After)
	if q.User != "" {
		db = db.Where("s.user_id = ?", q.User)
	}
	if !q.Before.IsZero() {
		db = db.Where("coalesce(h.timestamp, s.create_time) < ?", q.Before.UnixMicro())
	}
	if q.Limit > 0 {
		db = db.Limit(q.Limit)
	}
	return db.Select("s.pk, s.app_name, s.user_id, s.id, s.create_time, h.seq AS version, h.timestamp AS update_time").Order("s.pk")
}

// queryStates reads the state keys of sessions: for a page by session,
// otherwise by app and user.
func queryStates(q store.SessionQuery, tx *gorm.DB, heads []headRow) (all []stateRow, err error) {
	if q.Limit == 0 {
		db := tx.Where("app_name = ?", q.App)
		if q.User != "" {
			db = db.Where("user_id IN ?", []string{"", q.User})
		}
		return all, db.Find(&all).Error
	}
	ids, users := make([]int64, len(heads)), []string{""}
	for i, h := range heads {
		ids[i] = h.Row.ID
		users = append(users, h.Row.User)
	}
	slices.Sort(users)
	if err := tx.Where("app_name = ? AND user_id IN ? AND session_id = ''", q.App, slices.Compact(users)).Find(&all).Error; err != nil {
		return nil, err
	}
	var own []stateRow
	err = tx.Table("sessions s").Joins("JOIN states t ON t.app_name = s.app_name AND t.user_id = s.user_id AND t.session_id = s.id").
		Where("s.pk IN ?", ids).Select("t.*").Find(&own).Error
	return append(all, own...), err
}

// headRow is a session with the number and time of its last event.
type headRow struct {
	Row     sessionRow `gorm:"embedded"`
	Version *int64     `gorm:"column:version"`
	Updated *int64     `gorm:"column:update_time"`
}

func (h *headRow) toHead() store.Head {
	if h.Version == nil {
		return store.Head{ID: h.Row.ID, Updated: microsToTime(h.Row.Created)}
	}
	return store.Head{ID: h.Row.ID, Version: *h.Version, Updated: microsToTime(*h.Updated)}
}

// statesByOwner holds the state keys of one app with their prefixes, by user
// and session; either may be empty.
type statesByOwner map[[2]string]map[string]any

func groupStates(rows []stateRow) (statesByOwner, error) {
	all := statesByOwner{}
	for _, r := range rows {
		v, err := codec.DecodeValue([]byte(r.Value))
		if err != nil {
			key := session.Key{App: r.App, User: r.User, ID: r.Session}
			return nil, codec.WrapReadError(key, codec.NewDamagedError(err, "state key %q", r.scope().Prefix()+r.Key))
		}
		at := [2]string{r.User, r.Session}
		if all[at] == nil {
			all[at] = map[string]any{}
		}
		all[at][r.scope().Prefix()+r.Key] = v
	}
	return all, nil
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

func (s statesByOwner) mergeState(user, id string) map[string]any {
	all := map[string]any{}
	for _, at := range [][2]string{{}, {user, ""}, {user, id}} {
		for k, v := range s[at] {
			all[k] = codec.CloneValue(v)
		}
	}
	return all
}
