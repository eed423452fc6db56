package store

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"agenthost/pkg/session"
)

// Initial returns the session's own state as given to Create, without app:,
// user: and temp: keys. No event contains it. A missing session is ErrNotFound.
func (s *Sessions) Initial(ctx context.Context, key session.Key) (map[string]any, error) {
	if err := checkSession(key); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.backend.readInitialState(ctx, key)
}

// filterSessionCells returns the values of the cells with session scope.
func filterSessionCells(cells []cell) map[string]any {
	own := map[string]any{}
	for _, c := range cells {
		if c.scope == session.ScopeSession && c.value != nil {
			own[c.key] = c.value
		}
	}
	return own
}

func (m *memBackend) readInitialState(_ context.Context, key session.Key) (map[string]any, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed
	}
	s, ok := m.sessions[key]
	if !ok {
		return nil, errNotFound(key.ID)
	}
	return cloneMap(s.initial), nil
}

func (b *sqlBackend) readInitialState(ctx context.Context, key session.Key) (map[string]any, error) {
	var row sessionRow
	err := b.retryRead(ctx, func() error {
		return b.readers.WithContext(ctx).Where("app_name = ? AND user_id = ? AND id = ?", key.App, key.User, key.ID).Take(&row).Error
	})
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound):
		return nil, errNotFound(key.ID)
	case err != nil && b.isClosed():
		return nil, errClosed
	case err != nil:
		return nil, wrapReadError(key, err)
	}
	state, err := session.DecodeMap([]byte(row.Initial))
	if err != nil {
		return nil, wrapReadError(key, newDamagedError(err, "its first state"))
	}
	return state, nil
}
