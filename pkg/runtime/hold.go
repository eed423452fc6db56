package runtime

import "sync/atomic"

// A hold counts who needs a thing, and ends it when nobody does any more.
type hold struct {
	count atomic.Int64
	end   func() // nil ends nothing
}

// acquire takes a hold; false when the thing has ended already.
func (h *hold) acquire() bool {
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

func (h *hold) release() {
	if h.count.Add(-1) == 0 && h.end != nil {
		h.end()
	}
}
