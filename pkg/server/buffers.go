package server

import "sync"

// maxPooledBuffer is how large a buffer may be that is kept: a large answer must not stay
// in memory because it was asked for once.
const maxPooledBuffer = 64 << 10

// bufferPool lend memory for a text that is made, sent and forgotten. The zero value
// has none yet. Many goroutines may use them.
type bufferPool struct{ pool sync.Pool }

// get lends a buffer, which holds what somebody else left in it.
func (b *bufferPool) get() *[]byte {
	if buffer, ok := b.pool.Get().(*[]byte); ok {
		return buffer
	}
	return new([]byte)
}

func (b *bufferPool) put(buffer *[]byte) {
	if cap(*buffer) <= maxPooledBuffer {
		b.pool.Put(buffer)
	}
}
