package tool

import "testing"

// TestStateSchemaNil checks that a nil schema declares nothing.
func TestStateSchemaNil(t *testing.T) {
	var s *StateSchema
	if v, err := s.Check("any", 1); v != 1 || err != nil || !s.Has("any") || !s.acceptsText("any") {
		t.Errorf("Check(any, 1) = %v, %v", v, err)
	}
	if _, ok := s.Default("any"); ok || s.CheckDelta(map[string]any{"any": 1}) != nil {
		t.Error("a nil schema has defaults or refuses a write")
	}
}
