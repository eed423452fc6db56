package session

import (
	"maps"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestScopeOf(t *testing.T) {
	tests := []struct {
		key   string
		scope Scope
		name  string
	}{
		{"topic", ScopeSession, "topic"},
		{"user:lang", ScopeUser, "lang"},
		{"app:tariff", ScopeApp, "tariff"},
		{"temp:draft", ScopeTemp, "draft"},
		{"", ScopeSession, ""},
		{"user:", ScopeUser, ""},
		{"user", ScopeSession, "user"},
		{"other:x", ScopeSession, "other:x"},
		{"User:x", ScopeSession, "User:x"},
		{"user:app:x", ScopeUser, "app:x"},
		{":x", ScopeSession, ":x"},
	}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			scope, name := ScopeOf(tt.key)
			if scope != tt.scope || name != tt.name {
				t.Errorf("ScopeOf(%q) = %v, %q, want %v, %q", tt.key, scope, name, tt.scope, tt.name)
			}
			if back := scope.Prefix() + name; back != tt.key {
				t.Errorf("prefix and name of %q make %q", tt.key, back)
			}
		})
	}
}

func TestStateApply(t *testing.T) {
	tests := []struct {
		name        string
		start       map[string]any
		delta, want map[string]any
	}{
		{"sets", nil, map[string]any{"a": 1}, map[string]any{"a": 1}},
		{"replaces, not deeply", map[string]any{"m": map[string]any{"x": 1}}, map[string]any{"m": map[string]any{"y": 2}}, map[string]any{"m": map[string]any{"y": 2}}},
		{"null removes", map[string]any{"a": 1, "b": 2}, map[string]any{"a": nil}, map[string]any{"b": 2}},
		{"null of nothing", map[string]any{"a": 1}, map[string]any{"b": nil}, map[string]any{"a": 1}},
		{"keeps temp", nil, map[string]any{"temp:a": 1}, map[string]any{"temp:a": 1}},
		{"nothing", map[string]any{"a": 1}, nil, map[string]any{"a": 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := NewState(tt.start)
			s.Apply(tt.delta)
			if diff := cmp.Diff(tt.want, s.All()); diff != "" {
				t.Errorf("All() after Apply (-want +got):\n%s", diff)
			}
		})
	}
}

func TestStateGet(t *testing.T) {
	s := NewState(map[string]any{"a": 1, "null": nil, "false": false})
	for key, want := range map[string]bool{"a": true, "null": false, "false": true, "other": false} {
		if _, ok := s.Get(key); ok != want {
			t.Errorf("Get(%q) = %v, want %v", key, ok, want)
		}
	}
}

func TestNilStateIsEmpty(t *testing.T) {
	var s *State
	if _, ok := s.Get("a"); ok {
		t.Error("Get finds a key")
	}
	if got := s.All(); got == nil || len(got) != 0 {
		t.Errorf("All() = %v, want an empty map", got)
	}
	s.Apply(nil)
}

func TestStateAllCopies(t *testing.T) {
	s := NewState(map[string]any{"a": 1})
	s.All()["a"] = 2
	if got, _ := s.Get("a"); got != 1 {
		t.Errorf("Get(a) = %v after a change of the copy, want 1", got)
	}
}

func TestStateManyGoroutines(t *testing.T) {
	s := NewState(nil)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 100 {
				s.Apply(map[string]any{"n": int64(i), "gone": nil})
				s.Get("n")
				s.All()
			}
		})
	}
	wg.Wait()
	if got, _ := s.Get("n"); got != int64(99) {
		t.Errorf("Get(n) = %v, want 99", got)
	}
}

func TestWithoutTemp(t *testing.T) {
	tests := []struct {
		name     string
		in, want map[string]any
	}{
		{"nil", nil, nil},
		{"none", map[string]any{"a": 1, "user:b": 2}, map[string]any{"a": 1, "user:b": 2}},
		{"some", map[string]any{"a": 1, "temp:b": 2, "temp:c": nil}, map[string]any{"a": 1}},
		{"only", map[string]any{"temp:b": 2}, map[string]any{}},
		{"looks like it", map[string]any{"temperature": 1, "temp": 2}, map[string]any{"temperature": 1, "temp": 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := maps.Clone(tt.in)
			if diff := cmp.Diff(tt.want, WithoutTemp(tt.in)); diff != "" {
				t.Errorf("WithoutTemp (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before, tt.in); diff != "" {
				t.Errorf("the delta has changed (-want +got):\n%s", diff)
			}
		})
	}
}
