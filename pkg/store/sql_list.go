package store

import (
	"context"
	"database/sql"
	"fmt"

	"gorm.io/gorm"

	"agenthost/pkg/session"
)

func (b *sqlBackend) list(ctx context.Context, app, user string) ([]*listed, error) {
	var heads []headRow
	var cells []stateRow
	err := b.readers.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		heads, cells = nil, nil
		sessions, states := tx.Where("s.app_name = ?", app), tx.Where("app_name = ?", app)
		if user != "" {
			sessions = sessions.Where("s.user_id = ?", user)
			states = states.Where("user_id IN ?", []string{"", user})
		}
		sessions = sessions.Table("sessions s").Joins(lastEventSQL).Select("s.pk, s.app_name, s.user_id, s.id, s.create_time, h.seq AS version, h.timestamp AS update_time")
		if err := sessions.Order("s.pk").Find(&heads).Error; err != nil {
			return err
		}
		return states.Find(&cells).Error
	}, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		if b.writer.isClosed() {
			return nil, errClosed
		}
		return nil, fmt.Errorf("listing sessions: %w", err)
	}
	states, err := groupStates(cells)
	if err != nil {
		return nil, err
	}
	all := make([]*listed, len(heads))
	for i, h := range heads {
		all[i] = &listed{
			key:   session.Key{App: h.Row.App, User: h.Row.User, ID: h.Row.Session},
			head:  h.head(),
			state: states.merged(h.Row.User, h.Row.Session),
		}
	}
	return all, nil
}

// headRow is a session with the number and the time of its last event.
type headRow struct {
	Row     sessionRow `gorm:"embedded"`
	Version *int64     `gorm:"column:version"`
	Updated *int64     `gorm:"column:update_time"`
}

func (h *headRow) head() head {
	if h.Version == nil {
		return head{id: h.Row.ID, updated: fromMicro(h.Row.Created)}
	}
	return head{id: h.Row.ID, version: *h.Version, updated: fromMicro(*h.Updated)}
}

// states holds the state keys of one app with their prefixes, by user and
// session; either may be empty.
type states map[[2]string]map[string]any

func groupStates(rows []stateRow) (states, error) {
	all := states{}
	for _, r := range rows {
		v, err := decodeValue([]byte(r.Value))
		if err != nil {
			return nil, err
		}
		place(all, [2]string{r.User, r.Session})[r.scope().Prefix()+r.Key] = v
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

func (s states) merged(user, id string) map[string]any {
	all := map[string]any{}
	for _, at := range [][2]string{{}, {user, ""}, {user, id}} {
		for k, v := range s[at] {
			all[k] = clone(v)
		}
	}
	return all
}
