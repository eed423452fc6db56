package server

import "sync"

// maxPooledBuffer limits the capacity of pooled buffers, so that one large response
// does not stay in memory.
const maxPooledBuffer = 64 << 10

// bufferPool reuses buffers for encoded responses. The zero value is empty. It is safe
// for concurrent use.
type bufferPool struct{ pool sync.Pool }

// get returns a buffer with undefined content.
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
