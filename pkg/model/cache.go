package model

import "time"

// CacheConfig says which contents a model keeps for later requests, and for
// how long.
type CacheConfig struct {
	// MinTokens is how large the last prompt must have been; the service's own
	// least size counts beside it.
	MinTokens int
	// TTL is how long a cache lives.
	TTL time.Duration
	// Intervals is how many invocations may use a cache before it is made anew.
	Intervals int
}

// A CacheRequest asks a model to keep the beginning of the conversation, so
// that later requests need not send it again. It holds what the last answer
// said, for the model itself remembers nothing.
type CacheRequest struct {
	CacheConfig
	// Metadata is that of the agent's newest answer that has any; nil is none.
	Metadata *CacheMetadata
	// PromptTokens is how large the agent's last prompt was; 0 is not known.
	PromptTokens int
}

// CacheMetadata is what an answer tells of the cache that it used, or of the
// prefix that a cache may be made of next time. It travels on events: the
// history is the only place where it is kept (adk-python
// models/cache_metadata.py).
type CacheMetadata struct {
	// Name, Expires and Used are set together when there is a cache: its name
	// at the service, when it ends there, and how many invocations used it.
	Name    string
	Expires time.Time
	Used    int
	// Fingerprint stands for the settings and contents of the prefix.
	Fingerprint string
	// Contents is how many contents the prefix has.
	Contents int
	// Created is when the cache was made; zero without one.
	Created time.Time
}

// Active says whether there is a cache, and not only a fingerprint.
func (m *CacheMetadata) Active() bool {
	return m != nil && m.Name != "" && !m.Expires.IsZero() && m.Used > 0
}

// CanCache says whether a model heeds [Request.Cache]. A model that does has a
// method CachesContents.
func CanCache(m LLM) bool {
	c, ok := m.(interface{ CachesContents() bool })
	return ok && c.CachesContents()
}
