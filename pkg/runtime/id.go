package runtime

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/google/uuid"
)

// randomID returns a random UUID, version 4. Go's generator is as unpredictable
// as the system's, and needs no system call per event.
func randomID() string {
	var u uuid.UUID
	binary.LittleEndian.PutUint64(u[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(u[8:], rand.Uint64())
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u.String()
}
