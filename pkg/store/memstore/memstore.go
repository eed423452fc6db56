// Package memstore keeps sessions, artifacts, memories, revisions and results in process memory,
// for tests and for hosts whose data may end with them.
package memstore

import (
	"agenthost/pkg/connection"
	"agenthost/pkg/store"
)

// New opens an empty store in memory.
func New(opts *store.Options) *store.Store { return store.New(NewBackends(), opts) }

// NewBackends returns empty backends for all store parts.
func NewBackends() *store.Backends {
	sessions := NewSessions()
	return &store.Backends{
		Sessions: sessions, Outcomes: sessions, Rollouts: sessions, Artifacts: NewArtifacts(), Memories: NewMemories(), Revisions: NewRevisions(), Results: NewResults(), Grants: &connection.MemoryGrants{},
		Unshared: true,
	}
}
