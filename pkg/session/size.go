package session

import (
	"encoding/json"
	"math/bits"
)

// scopeSizes are the sizes of a state's keys and values by scope.
type scopeSizes [ScopeTemp + 1]int64

// EntrySize returns the approximate JSON size of a state key and its normalized
// value. Escapes are not counted, so strings need not be scanned. A nil value
// is a missing key.
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

// Size returns the approximate JSON size of the keys and values of a scope. It
// is computed once and then updated with each write.
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

// add accounts for the replacement of a key's value.
func (s *scopeSizes) add(key string, before, after any) {
	scope, _ := ScopeOf(key)
	s[scope] += EntrySize(key, after) - EntrySize(key, before)
}
