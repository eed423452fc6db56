// Package buffers shares byte buffers between connections, so that those that wait hold none.
package buffers

import (
	"errors"
	"io"
	"sync"
)

// maxPooled limits the capacity of shared buffers, so that one large message does not stay in
// memory.
const maxPooled = 64 << 10

var pool = sync.Pool{New: func() any { return new([]byte) }}

// Take returns an empty buffer. It is safe for concurrent use, as is [Return].
func Take() *[]byte {
	b := pool.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// Return gives a buffer back. Nothing may refer to its bytes any more.
func Return(b *[]byte) {
	if cap(*b) <= maxPooled {
		pool.Put(b)
	}
}

// ReadAll appends everything that r has to a buffer. It returns the first error but [io.EOF].
func ReadAll(b *[]byte, r io.Reader) error {
	const first = 4 << 10
	if cap(*b) == 0 {
		*b = make([]byte, 0, first)
	}
	for {
		if len(*b) == cap(*b) {
			*b = append(*b, 0)[:len(*b)]
		}
		n, err := r.Read((*b)[len(*b):cap(*b)])
		*b = (*b)[:len(*b)+n]
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
