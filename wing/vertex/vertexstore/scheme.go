package vertexstore

import (
	"context"

	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
)

// Schemes returns Vertex AI's schemes: sessions and memories at agentengine:, and memories at rag:.
func Schemes() []storeurl.Scheme {
	return []storeurl.Scheme{
		{Names: []string{"agentengine"}, Sessions: openSessions, MemoryService: openMemoryBank},
		{Names: []string{"rag"}, MemoryService: openRAGMemory},
	}
}

// openSessions is the Sessions of a [storeurl.Scheme].
func openSessions(ctx context.Context, url string, o *storeurl.Options) (store.SessionBackend, error) {
	s, err := Open(ctx, url, clientOptions(o))
	if err != nil {
		return nil, err
	}
	return s, nil
}

// openMemoryBank is the MemoryService of a [storeurl.Scheme].
func openMemoryBank(ctx context.Context, url string, o *storeurl.Options) (store.MemoryService, error) {
	m, err := OpenMemoryBank(ctx, url, clientOptions(o))
	if err != nil {
		return nil, err
	}
	return m, nil
}

// openRAGMemory is the MemoryService of a [storeurl.Scheme].
func openRAGMemory(ctx context.Context, url string, o *storeurl.Options) (store.MemoryService, error) {
	m, err := OpenRAG(ctx, url, clientOptions(o))
	if err != nil {
		return nil, err
	}
	return m, nil
}

func clientOptions(o *storeurl.Options) *Options { return &Options{HTTP: o.HTTP, Lookup: o.Lookup} }
