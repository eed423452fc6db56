package store

import (
	"context"
	"fmt"
	"sync"

	"agenthost/pkg/session"
)

// memArtifacts stores artifacts in the memory of the process.
type memArtifacts struct {
	mu     sync.RWMutex
	closed bool
	all    map[artifactKey][]*artifact
}

func newMemArtifacts() *memArtifacts { return &memArtifacts{all: map[artifactKey][]*artifact{}} }

func (m *memArtifacts) saveVersion(_ context.Context, at artifactKey, rec *artifact) (session.ArtifactVersion, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return session.ArtifactVersion{}, errClosed
	}
	m.all[at] = append(m.all[at], rec)
	n := len(m.all[at]) - 1
	return rec.describeVersion(n, at.memoryURI(n)), nil
}

func (m *memArtifacts) loadVersion(_ context.Context, at artifactKey, version int) (*artifact, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed
	}
	versions := m.all[at]
	if len(versions) == 0 || version >= len(versions) {
		return nil, at.errNotFound(version)
	}
	if version < 0 {
		version = len(versions) - 1
	}
	return versions[version], nil
}

func (m *memArtifacts) listNames(_ context.Context, app, user, id string) ([]string, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed
	}
	var names []string
	for at := range m.all {
		if at.app == app && at.user == user && at.session == id {
			names = append(names, at.name)
		}
	}
	return names, nil
}

func (m *memArtifacts) listVersions(_ context.Context, at artifactKey) ([]session.ArtifactVersion, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if m.closed {
		return nil, errClosed
	}
	var all []session.ArtifactVersion
	for i, rec := range m.all[at] {
		all = append(all, rec.describeVersion(i, at.memoryURI(i)))
	}
	return all, nil
}

// memoryURI returns the URI of a version as in adk-python
// artifacts/in_memory_artifact_service.py.
func (at artifactKey) memoryURI(version int) string {
	place := ""
	if at.session != "" {
		place = "sessions/" + at.session + "/"
	}
	return fmt.Sprintf("memory://apps/%s/users/%s/%sartifacts/%s/versions/%d", at.app, at.user, place, at.prefixedName(), version)
}

func (m *memArtifacts) deleteArtifact(_ context.Context, at artifactKey) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return errClosed
	}
	delete(m.all, at)
	return nil
}

func (m *memArtifacts) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	clear(m.all)
	return nil
}
