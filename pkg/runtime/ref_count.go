package runtime

import "sync/atomic"

// A refCount counts who needs a thing, and ends it when nobody does any more.
type refCount struct {
	count         atomic.Int64
	onLastRelease func() // nil ends nothing
}

// acquire takes a hold; false when the thing has ended already.
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
