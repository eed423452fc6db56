package runtime

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/google/uuid"
)

// randomID makes a random UUID, version 4. The runtime's own generator is as
// hard to guess as the system's, which a run would ask for each of its events.
func randomID() string {
	var u uuid.UUID
	binary.LittleEndian.PutUint64(u[:8], rand.Uint64())
	binary.LittleEndian.PutUint64(u[8:], rand.Uint64())
	u[6] = u[6]&0x0f | 0x40
	u[8] = u[8]&0x3f | 0x80
	return u.String()
}
