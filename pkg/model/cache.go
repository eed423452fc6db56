package model

import "time"

// CacheConfig configures context caching.
type CacheConfig struct {
	// MinTokens is the minimum size of the last prompt. The service has its own minimum.
	MinTokens int
	// TTL is the lifetime of a cache.
	TTL time.Duration
	// Intervals is the number of invocations that use a cache before it is recreated.
	Intervals int
}

// A CacheRequest asks a model to cache the beginning of the conversation. It carries the
// metadata of the last response because models are stateless.
type CacheRequest struct {
	CacheConfig
	// Metadata is the latest metadata in the agent's responses, or nil.
	Metadata *CacheMetadata
	// PromptTokens is the size of the agent's last prompt, or 0 if unknown.
	PromptTokens int
}

// CacheMetadata describes the cache that a response used, or the prefix from which the
// next request may create one. It is stored only in events (adk-python
// models/cache_metadata.py).
type CacheMetadata struct {
	// Name, Expires and Used are set if there is a cache: its name at the service, its
	// expiry, and the number of invocations that used it.
	Name    string
	Expires time.Time
	Used    int
	// Fingerprint is a hash of the settings and contents of the prefix.
	Fingerprint string
	// Contents is the number of contents of the prefix.
	Contents int
	// Created is the creation time of the cache, or zero.
	Created time.Time
}

// Active reports whether there is a cache and not only a fingerprint.
func (m *CacheMetadata) Active() bool {
	return m != nil && m.Name != "" && !m.Expires.IsZero() && m.Used > 0
}

// CanCache reports whether a model supports [Request.Cache]: it has a method
// CachesContents.
func CanCache(m LLM) bool {
	c, ok := m.(interface{ CachesContents() bool })
	return ok && c.CachesContents()
}
