package server

import "sync"

// maxBuffer is how large a buffer may be that is kept: a large answer must not stay
// in memory because it was asked for once.
const maxBuffer = 64 << 10

// buffers lend memory for a text that is made, sent and forgotten. The zero value
// has none yet. Many goroutines may use them.
type buffers struct{ pool sync.Pool }

// take lends a buffer, which holds what somebody else left in it.
func (b *buffers) take() *[]byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return buffer
	}
	return new([]byte)
}

func (b *buffers) giveBack(buffer *[]byte) {
	if cap(*buffer) <= maxBuffer {
		b.pool.Put(buffer)
	}
}
