package session

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
)

// A Scope is a state key's visibility.
type Scope int

// The scopes, by key prefix.
const (
	ScopeSession Scope = iota // no prefix: this session
	ScopeUser                 // "user:": all sessions of the user in this app
	ScopeApp                  // "app:": everyone who uses the app
	ScopeTemp                 // "temp:": until the invocation ends, never stored
)

// The scope prefixes.
const (
	UserPrefix = "user:"
	AppPrefix  = "app:"
	TempPrefix = "temp:"
)

// MetadataKey is the session key in which ADK's web client and the developer page keep a session's
// title, as {"displayName": "…"}. Recorded tests and cases omit it.
const MetadataKey = "__session_metadata__"

// ScopeOf returns a key's scope and its name without the prefix. An unknown prefix is part of
// the name (adk-python sessions/state.py).
func ScopeOf(key string) (Scope, string) {
	i := strings.IndexByte(key, ':')
	if i < 0 {
		return ScopeSession, key
	}
	switch key[:i+1] {
	case UserPrefix:
		return ScopeUser, key[i+1:]
	case AppPrefix:
		return ScopeApp, key[i+1:]
	case TempPrefix:
		return ScopeTemp, key[i+1:]
	default:
		return ScopeSession, key
	}
}

// Prefix returns the scope's prefix; it is empty for the session scope.
func (s Scope) Prefix() string {
	switch s {
	case ScopeUser:
		return UserPrefix
	case ScopeApp:
		return AppPrefix
	case ScopeTemp:
		return TempPrefix
	default:
		return ""
	}
}

// A State is a session's merged state, keys with their prefixes. Values are JSON values,
// integers as int64. It is safe for concurrent use; reads take no lock. The zero State is
// empty; a nil State is empty and read-only.
type State struct {
	mu sync.Mutex // serialises writers
	// m is copied on write, because reads are frequent and writes are rare. It
	// is nil until the first key is set.
	m atomic.Pointer[map[string]any]
	// scopeSizes is nil until Size is first called. Guarded by mu.
	scopeSizes *scopeSizes
}

// NewState creates a state with the given keys; it takes ownership of the map.
func NewState(m map[string]any) *State {
	s := &State{}
	s.setKeys(m)
	return s
}

// setKeys sets a new state's keys. m is copied for its address: a state without keys
// allocates nothing.
func (s *State) setKeys(m map[string]any) {
	if len(m) > 0 {
		kept := m
		s.m.Store(&kept)
	}
}

// loadMap returns the current map, which is read-only.
func (s *State) loadMap() map[string]any {
	if s == nil {
		return nil
	}
	if m := s.m.Load(); m != nil {
		return *m
	}
	return nil
}

// Get returns a key's value. A key with a nil value is missing.
func (s *State) Get(key string) (any, bool) {
	v, ok := s.loadMap()[key]
	return v, ok && v != nil
}

// All returns a copy of the keys and values.
func (s *State) All() map[string]any {
	m := s.loadMap()
	all := make(map[string]any, len(m))
	maps.Copy(all, m)
	return all
}

// Apply sets the keys in a delta; a nil value deletes its key.
func (s *State) Apply(delta map[string]any) {
	if len(delta) == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.loadMap()
	next := make(map[string]any, len(m)+len(delta))
	maps.Copy(next, m)
	for k, v := range delta {
		if s.scopeSizes != nil {
			s.scopeSizes.add(k, m[k], v)
		}
		if v == nil {
			delete(next, k)
		} else {
			next[k] = v
		}
	}
	s.m.Store(&next)
}

// WithoutTemp returns the delta without its temp: keys. It does not change its
// argument, and returns it if it has no temp: keys.
func WithoutTemp(delta map[string]any) map[string]any {
	for k := range delta {
		if strings.HasPrefix(k, TempPrefix) {
			kept := make(map[string]any, len(delta))
			for k, v := range delta {
				if !strings.HasPrefix(k, TempPrefix) {
					kept[k] = v
				}
			}
			return kept
		}
	}
	return delta
}

// scopeSizes are the sizes of a state's keys and values by scope.
type scopeSizes [ScopeTemp + 1]int64

// EntrySize returns the approximate JSON size of a state key and its normalized value.
// Escapes are not counted, so strings need not be scanned. A nil value is a missing key.
func EntrySize(key string, v any) int64 {
	if v == nil {
		return 0
	}
	return int64(len(key)) + 4 + estimateValueSize(v)
}

func estimateValueSize(v any) int64 {
	switch v := v.(type) {
	case string:
		return int64(len(v)) + 2
	case int64:
		return int64(bits.Len64(uint64(max(v, -v))))/3 + 1
	case json.Number:
		return int64(len(v))
	case []any:
		size := int64(2)
		for _, item := range v {
			size += estimateValueSize(item) + 1
		}
		return size
	case map[string]any:
		size := int64(2)
		for k, item := range v {
			size += int64(len(k)) + 4 + estimateValueSize(item)
		}
		return size
	default:
		return 8
	}
}

// Size returns the approximate JSON size of a scope's keys and values. It is computed once
// and then updated with each write.
func (s *State) Size(scope Scope) int64 {
	if s == nil {
		return 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scopeSizes == nil {
		s.scopeSizes = &scopeSizes{}
		for k, v := range s.loadMap() {
			s.scopeSizes.add(k, nil, v)
		}
	}
	return s.scopeSizes[scope]
}

// add accounts for replacing a key's value.
func (s *scopeSizes) add(key string, before, after any) {
	scope, _ := ScopeOf(key)
	s[scope] += EntrySize(key, after) - EntrySize(key, before)
}

// A Writer is a role that writes state. A role may write everything that a
// lower role may write.
type Writer int

// The writers, from the least trusted one on.
const (
	// WriterClient is a server client, authenticated or not.
	WriterClient Writer = iota
	// WriterAgent is an agent in the app, with its tools and callbacks.
	WriterAgent
	// WriterAdmin is an administrator, or the operator at the command line.
	WriterAdmin
)

// WriterNames returns the role names in YAML, in order.
func WriterNames() []string { return []string{"client", "agent", "admin"} }

// String returns the name.
func (w Writer) String() string {
	if names := WriterNames(); w >= 0 && int(w) < len(names) {
		return names[w]
	}
	return fmt.Sprintf("Writer(%d)", int(w))
}

// ParseWriter returns the role with a name.
func ParseWriter(name string) (Writer, bool) {
	for i, known := range WriterNames() {
		if name == known {
			return Writer(i), true
		}
	}
	return 0, false
}
