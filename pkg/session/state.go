package session

import (
	"maps"
	"strings"
	"sync"
	"sync/atomic"
)

// A Scope says how far a state key reaches.
type Scope int

// The scopes, by prefix of the key.
const (
	ScopeSession Scope = iota // no prefix: this session
	ScopeUser                 // "user:": all sessions of the user in this app
	ScopeApp                  // "app:": everyone who uses the app
	ScopeTemp                 // "temp:": until the invocation ends, never stored
)

// The prefixes of the scopes.
const (
	UserPrefix = "user:"
	AppPrefix  = "app:"
	TempPrefix = "temp:"
)

// ScopeOf returns a key's scope and its name without the prefix. An unknown
// prefix is part of the name (adk-python sessions/state.py).
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

// Prefix returns the scope's prefix; the session's is empty.
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

// A State is the merged view of a session's state, keys with their prefixes.
// Values are what JSON has, integers as int64. Many goroutines may use it;
// reading takes no lock. The zero State is empty; a nil one, too, and it cannot be
// changed.
type State struct {
	mu sync.Mutex // serialises writers
	// m is replaced by a changed copy: reads are many, writes are few. It is nil
	// until there is a key.
	m atomic.Pointer[map[string]any]
	// scopeSizes is nil until somebody asks. Guarded by mu.
	scopeSizes *scopeSizes
}

// NewState makes a state of the given keys; it keeps the map.
func NewState(m map[string]any) *State {
	s := &State{}
	if len(m) > 0 {
		s.m.Store(&m)
	}
	return s
}

// loadMap is the map as it is; it is only read.
func (s *State) loadMap() map[string]any {
	if s == nil {
		return nil
	}
	if m := s.m.Load(); m != nil {
		return *m
	}
	return nil
}

// Get returns a key's value. A key with a nil value is absent.
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

// Apply sets the keys of a delta; a nil value removes its key.
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

// WithoutTemp returns the delta without its temp: keys. The delta itself stays
// as it is, and is returned when it has none.
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
