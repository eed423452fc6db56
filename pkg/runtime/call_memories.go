package runtime

import (
	"context"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// callMemories accesses the memories of the run's user. An inner run shares
// them, but its temporary session is never added.
type callMemories struct{ run *run }

func (m *callMemories) memoryStore() *store.Memories { return m.run.host.store.Memories }

func (m *callMemories) Search(ctx context.Context, query string) ([]*session.Memory, error) {
	return m.searchMemories(ctx, store.MemoryQuery{Text: query})
}

func (m *callMemories) SearchOthers(ctx context.Context, query string) ([]*session.Memory, error) {
	return m.searchMemories(ctx, store.MemoryQuery{Text: query, NotSession: m.run.sess.ID})
}

func (m *callMemories) searchMemories(ctx context.Context, q store.MemoryQuery) ([]*session.Memory, error) {
	return m.memoryStore().Search(ctx, m.run.sess.App, m.run.sess.User, q)
}

func (m *callMemories) AddSession(ctx context.Context) error {
	if m.run.inner {
		return nil
	}
	// The run may see only some events of the session.
	sess, err := m.run.host.store.Sessions.Get(ctx, m.run.sess.Key, nil)
	if err != nil {
		return err
	}
	return m.memoryStore().AddSession(ctx, sess)
}

func (m *callMemories) AddEvents(ctx context.Context, events []*session.Event) error {
	if m.run.inner {
		return nil
	}
	return m.memoryStore().AddEvents(ctx, m.run.sess.Key, events)
}

func (m *callMemories) Add(ctx context.Context, memories ...*session.Memory) error {
	return m.memoryStore().Add(ctx, m.run.sess.App, m.run.sess.User, memories...)
}
