package sqlstore

import (
	"context"
	"errors"
	"strings"

	"agenthost/pkg/store"
	"agenthost/pkg/store/internal/codec"

	"gorm.io/gorm"

	"agenthost/pkg/session"
)

// ReadInitialState is a method of [store.SessionBackend].
func (b *Database) ReadInitialState(ctx context.Context, key session.Key) (map[string]any, error) {
	var row sessionRow
	err := b.retryRead(ctx, func() error {
		return b.readers.WithContext(ctx).Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID).Take(&row).Error
	})
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return nil, store.SessionNotFound(key.ID)
	case err != nil && b.isClosed():
		return nil, store.ErrClosed
	case err != nil:
		return nil, codec.WrapReadError(key, err)
	}
	state, err := session.DecodeMap([]byte(row.Initial))
	if err != nil {
		return nil, codec.WrapReadError(key, codec.NewDamagedError(err, "its first state"))
	}
	return state, nil
}

// ReadSharedState returns the state that all sessions of a user have.
func (b *Database) ReadSharedState(ctx context.Context, key session.Key) (map[string]any, error) {
	key.ID = strings.Repeat("-", codec.MaxID+1) // no session has it
	var snap *store.Snapshot
	err := b.retryRead(ctx, func() (err error) {
		snap, err = b.readHead(ctx, key)
		return err
	})
	if err != nil {
		return nil, b.wrapError("reading state", err)
	}
	return snap.State, nil
}

// SumEventBytes adds up the lengths of a session's events.
func (b *Database) SumEventBytes(ctx context.Context, key session.Key) (n int64, err error) {
	err = b.retryRead(ctx, func() error {
		db := b.readers.WithContext(ctx)
		of := db.Model(&sessionRow{}).Select("pk").Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID)
		return db.Model(&eventRow{}).Select("coalesce(sum(octet_length(event)), 0)").Where("session_pk = (?)", of).Scan(&n).Error
	})
	return n, b.wrapError("reading the size of session "+key.ID, err)
}
