package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// CreateSession implements [store.SessionBackend].
func (b *Database) CreateSession(ctx context.Context, key session.Key, cells []store.StateWrite, now time.Time, g *store.LeaseGrant) error {
	rows, err := stateRows(key, cells)
	if err != nil {
		return err
	}
	initial, err := backend.AppendMap(nil, store.SessionState(cells))
	if err != nil {
		return err
	}
	j := &job{}
	j.run = func(w *writer) error {
		at := now.UnixMicro()
		row := newSessionRow(key, at, string(initial))
		res := w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(row)
		if res.Error != nil {
			return fmt.Errorf("creating session %s: %w", key.ID, res.Error)
		}
		if res.RowsAffected == 0 {
			return w.explainExists(key, &row.Row, j.maybeDone)
		}
		if g != nil {
			g.ID, g.Epoch = row.Row.ID, 0
			if _, err := w.acquireUnchanged(b.dialect, g); err != nil {
				return err
			}
		}
		return w.writeStates(rows)
	}
	return b.writerFor(key).executeJob(ctx, j)
}

func newSessionRow(key session.Key, created int64, initial string) *agedSessionRow {
	return &agedSessionRow{sessionRow{App: key.App, User: key.User, Session: key.ID, Created: created, Initial: initial}, created}
}

// explainExists returns ErrExists, unless this job created the session before
// its connection was lost.
func (w *writer) explainExists(key session.Key, want *sessionRow, unsure bool) error {
	if !unsure {
		return backend.SessionExists(key.ID)
	}
	var got sessionRow
	err := w.orm.Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID).Take(&got).Error
	if err != nil {
		return fmt.Errorf("creating session %s: %w", key.ID, err)
	}
	if got.Created != want.Created || got.Initial != want.Initial {
		return backend.SessionExists(key.ID)
	}
	return nil
}

// DeleteSession implements [store.SessionBackend].
func (b *Database) DeleteSession(ctx context.Context, key session.Key) error {
	return b.writerFor(key).runLongWrite(ctx, func(w *writer) error { return w.deleteSession(key) })
}

// deleteSession deletes the session row first, which cascades to its events: a concurrent append is either
// waited for or finds no session.
func (w *writer) deleteSession(key session.Key) error {
	err := w.orm.Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID).Delete(&sessionRow{}).Error
	if err == nil {
		err = w.orm.Where("app_name = ? AND user_id = ? AND session_id = ?", key.App, key.User, key.ID).Delete(&stateRow{}).Error
	}
	if err != nil {
		return fmt.Errorf("deleting session %s: %w", key.ID, err)
	}
	return nil
}

// ListSessions implements [store.SessionBackend].
func (b *Database) ListSessions(ctx context.Context, q store.SessionQuery) ([]*store.ListedSession, error) {
	var heads []headRow
	var cells []stateRow
	read := func(tx *gorm.DB) error {
		heads, cells = nil, nil
		if err := queryHeads(q, tx).Find(&heads).Error; err != nil || q.WithoutState {
			return err
		}
		var err error
		cells, err = queryStates(q, tx, heads)
		return err
	}
	err := b.retryLongRead(ctx, func(ctx context.Context) error {
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
		key := session.Key{App: h.Row.App, User: h.Row.User, ID: h.Row.Session}
		head := store.Head{ID: h.Row.ID, Updated: microsToTime(h.Row.Created)}
		if h.Version != nil {
			head.Version, head.Updated = *h.Version, microsToTime(*h.Updated)
		}
		all[i] = &store.ListedSession{Key: key, Head: head}
		if !q.WithoutState {
			all[i].State = states.mergeState(key)
		}
	}
	return all, nil
}

// queryStates reads the state keys of sessions: for a page by session,
// otherwise by app and user.
func queryStates(q store.SessionQuery, tx *gorm.DB, heads []headRow) (all []stateRow, err error) {
	if q.Limit == 0 && q.IDs == nil {
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

// statesByOwner holds the state keys of one app with their prefixes, by user
// and session; either may be empty.
type statesByOwner map[[2]string]map[string]any

// mergeState returns a copy of the state that a session has.
func (all statesByOwner) mergeState(key session.Key) map[string]any {
	state := map[string]any{}
	for _, owner := range [][2]string{{}, {key.User, ""}, {key.User, key.ID}} {
		for k, v := range all[owner] {
			state[k] = codec.CloneValue(v)
		}
	}
	return state
}

func groupStates(rows []stateRow) (statesByOwner, error) {
	all := statesByOwner{}
	for _, r := range rows {
		v, err := backend.DecodeValue([]byte(r.Value))
		if err != nil {
			key := session.Key{App: r.App, User: r.User, ID: r.Session}
			return nil, backend.WrapReadError(key, backend.NewDamagedError(err, "state key %q", r.scope().Prefix()+r.Key))
		}
		at := [2]string{r.User, r.Session}
		if all[at] == nil {
			all[at] = map[string]any{}
		}
		all[at][r.scope().Prefix()+r.Key] = v
	}
	return all, nil
}

// ReadInitialState implements [store.SessionBackend].
func (b *Database) ReadInitialState(ctx context.Context, key session.Key) (map[string]any, error) {
	var row sessionRow
	err := b.retryRead(ctx, func(ctx context.Context) error {
		return b.readers.WithContext(ctx).Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID).Take(&row).Error
	})
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return nil, backend.SessionNotFound(key.ID)
	case err != nil && b.isClosed():
		return nil, store.ErrClosed
	case err != nil:
		return nil, backend.WrapReadError(key, err)
	}
	state, err := session.DecodeMap([]byte(row.Initial))
	if err != nil {
		return nil, backend.WrapReadError(key, backend.NewDamagedError(err, "its first state"))
	}
	return state, nil
}

// ReadSharedState returns the state that all sessions of a user have.
func (b *Database) ReadSharedState(ctx context.Context, key session.Key) (map[string]any, error) {
	key.ID = strings.Repeat("-", codec.MaxID+1) // no session has it
	var snap *store.Snapshot
	err := b.retryRead(ctx, func(ctx context.Context) (err error) {
		snap, err = b.readHead(ctx, key)
		return err
	})
	if err != nil {
		return nil, b.wrapError("reading state", err)
	}
	if snap.State == nil {
		snap.State = map[string]any{} // the caller adds keys
	}
	return snap.State, nil
}

// SumEventBytes adds up the lengths of a session's events.
func (b *Database) SumEventBytes(ctx context.Context, key session.Key) (n int64, err error) {
	err = b.retryRead(ctx, func(ctx context.Context) error {
		db := b.readers.WithContext(ctx)
		of := db.Model(&sessionRow{}).Select("pk").Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID)
		return db.Model(&eventRow{}).Select("coalesce(sum(octet_length(event)), 0)").Where("session_pk = (?)", of).Scan(&n).Error
	})
	return n, b.wrapError("reading the size of session "+key.ID, err)
}
