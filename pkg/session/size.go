package session

import (
	"encoding/json"
	"math/bits"
)

// scopeSizes are the bytes of a state's keys and values by scope.
type scopeSizes [ScopeTemp + 1]int64

// EntrySize is about how many bytes a state key and its normalized value take as
// JSON: escapes are not counted, so that a text costs no look at it. A nil value
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

// Size is about how many bytes the keys and values of a scope take as JSON. The
// state is measured once, and then follows what is applied.
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

// add counts that a key's value is replaced.
func (s *scopeSizes) add(key string, before, after any) {
	scope, _ := ScopeOf(key)
	s[scope] += EntrySize(key, after) - EntrySize(key, before)
}
