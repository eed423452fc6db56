package store

import (
	"context"
	"fmt"
	"time"

	"agenthost/pkg/session"
)

// The limit of a state holds for each write against the size that its writer has read. Ten writers
// that each add 1 MB to a shared state of 3 MB all read 3 MB, and together exceed the limit of
// 4 MB. The databases could compute the size in each write, at a cost that every small write would
// pay.
//
// Instead, large writes to one app: or user: state wait for each other in this process, and read
// the state again when it is their turn. Small ones do not wait. Invariant: within one process a
// state exceeds its limit by less than largeGrowth for each concurrent small write. Replicas do
// not wait for each other: a state may exceed its limit by one large write of each.

// Writes of at least largeGrowth bytes to the same shared state are serialized, so that the state's
// limit holds for them together. A write waits at most growthWait for its turn.
const (
	largeGrowth = 64 << 10
	growthWait  = 30 * time.Second
)

// A growthQueue makes large writes of shared state wait for each other.
type growthQueue struct {
	*runQueue
	backend SessionBackend
}

// lockGrowth waits for other large writes to the same shared state in this process, and reads the
// state that they have left. Small writes do not wait.
func (q *growthQueue) lockGrowth(ctx context.Context, key session.Key, b *appendLimits, updates []SharedUpdate) (release func(), err error) {
	growth := b.stateGrowth()
	for _, u := range updates {
		for _, step := range u.Steps {
			growth[u.Scope] += session.EntrySize("", session.Normalize(step.Value))
		}
	}
	var held []session.Key
	release = func() {
		for _, k := range held {
			q.releaseSession(k)
		}
	}
	defer func() {
		if err != nil {
			release()
		}
	}()
	// All wait in this order, so that no two wait for each other.
	for _, scope := range []session.Scope{session.ScopeApp, session.ScopeUser} {
		if growth[scope] < largeGrowth {
			continue
		}
		owner := session.Key{App: key.App}
		if scope == session.ScopeUser {
			owner.User = key.User
		}
		if turn := q.acquireOrEnqueue(owner); turn != nil {
			if err := q.waitTurn(ctx, owner, turn, growthWait); err != nil {
				return nil, fmt.Errorf("writing state of the %s: %w", scopeName(scope), err)
			}
		}
		held = append(held, owner)
	}
	if len(held) == 0 {
		return release, nil
	}
	all, err := q.backend.ReadSharedState(ctx, key)
	if err != nil {
		return nil, err
	}
	for k, v := range b.state.All() {
		if scope, _ := session.ScopeOf(k); scope == session.ScopeSession {
			all[k] = v
		}
	}
	b.state = session.NewState(all)
	return release, nil
}
