package runtime

import (
	"testing"

	"github.com/google/uuid"
)

// Ids are random UUIDs, version 4, each another.
func TestRandomID(t *testing.T) {
	seen := map[string]bool{}
	for range 1000 {
		id := randomID()
		u, err := uuid.Parse(id)
		if err != nil || u.Version() != 4 || u.Variant() != uuid.RFC4122 || seen[id] {
			t.Fatalf("randomID() = %q, %v, want a new UUID of version 4", id, err)
		}
		seen[id] = true
	}
}
