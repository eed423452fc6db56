package runtime

import "sync/atomic"

// A refCount counts the references to a resource and releases it with the last
// one.
type refCount struct {
	count         atomic.Int64
	onLastRelease func() // may be nil
}

// acquire takes a reference; it returns false if the resource is already
// released.
func (h *refCount) acquire() bool {
	for {
		n := h.count.Load()
		if n == 0 {
			return false
		}
		if h.count.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

func (h *refCount) release() {
	if h.count.Add(-1) == 0 && h.onLastRelease != nil {
		h.onLastRelease()
	}
}
