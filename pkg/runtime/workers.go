package runtime

import (
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// DefaultToolWorkers is the default number of goroutines that execute tool calls on a host, in
// addition to the runs' goroutines.
const DefaultToolWorkers = 256

// callWorkers executes the calls in model responses concurrently. A run's goroutine executes the
// calls in its response one after the other; at most limit goroutines, shared by all runs, help it.
// No run waits for a worker, so agents that are called as tools cannot deadlock. Workers serve the
// batches round robin, one call each, so that a response with many calls does not starve other
// sessions.
type callWorkers struct {
	limit int
	log   *slog.Logger

	mu      sync.Mutex
	running int
	waiting []*callBatch // batches with calls that have not started, next first
}

// A callBatch has one response's calls.
type callBatch struct {
	execute func(i int)
	// next is the next call to start, of total. At most maxHelpers workers help, and helpers
	// currently do. The workers' lock guards these fields.
	next, total         int
	maxHelpers, helpers int
	pending             sync.WaitGroup
}

// runBatch executes calls 0 to total-1, at most limit at a time, and waits for them.
// execute recovers panics itself.
func (w *callWorkers) runBatch(total, limit int, execute func(i int)) {
	b := &callBatch{execute: execute, total: total, maxHelpers: limit - 1}
	b.pending.Add(total)
	w.enqueueBatch(b)
	for i, ok := w.dequeueCall(b); ok; i, ok = w.dequeueCall(b) {
		b.executeCall(i)
	}
	b.pending.Wait()
}

func (b *callBatch) executeCall(i int) {
	defer b.pending.Done()
	b.execute(i)
}

// enqueueBatch starts workers for a batch, up to the limit.
func (w *callWorkers) enqueueBatch(b *callBatch) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if b.maxHelpers < 1 {
		return
	}
	w.waiting = append(w.waiting, b)
	for range min(b.maxHelpers, b.total-1, w.limit-w.running) {
		w.running++
		go func() {
			defer safe.Recover(func(p *safe.Panic) { p.Log(w.log, "worker of tool calls panicked") })
			w.runWorker()
		}()
	}
}

// dequeueCall returns a batch's next call.
func (w *callWorkers) dequeueCall(b *callBatch) (i int, ok bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.dequeueLocked(b)
}

func (w *callWorkers) dequeueLocked(b *callBatch) (i int, ok bool) {
	if b.next == b.total {
		return 0, false
	}
	i = b.next
	if b.next++; b.next == b.total {
		w.waiting = slices.DeleteFunc(w.waiting, func(other *callBatch) bool { return other == b })
	}
	return i, true
}

// runWorker executes calls until none is waiting.
func (w *callWorkers) runWorker() {
	var b *callBatch
	for {
		var i int
		if b, i = w.nextCall(b); b == nil {
			return
		}
		b.executeCall(i)
	}
}

// nextCall completes a worker's call and returns its next one: from the batch
// that has waited longest and may use another worker. Without one the worker
// ends.
func (w *callWorkers) nextCall(last *callBatch) (b *callBatch, i int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last != nil {
		last.helpers--
	}
	at := slices.IndexFunc(w.waiting, func(b *callBatch) bool { return b.helpers < b.maxHelpers })
	if at < 0 {
		w.running--
		return nil, 0
	}
	b = w.waiting[at]
	b.helpers++
	w.waiting = append(slices.Delete(w.waiting, at, at+1), b)
	i, _ = w.dequeueLocked(b)
	return b, i
}

// An eventHandoff passes events from an agent that runs on its own goroutine to the run's
// goroutine, one at a time.
type eventHandoff struct {
	out chan<- *eventHandoff
	ev  *session.Event
	err error

	acknowledged sync.WaitGroup
	proceed      bool
}

// sendEvent passes on an event and waits until it is acknowledged.
func (s *eventHandoff) sendEvent(ev *session.Event, err error) bool {
	s.ev, s.err = ev, err
	s.acknowledged.Add(1)
	s.out <- s
	s.acknowledged.Wait()
	return s.proceed
}

// deliverEvent yields the event to the consumer, and returns whether the run
// continues. It acknowledges the event even if the consumer panics, because
// the agent would otherwise wait forever.
func (s *eventHandoff) deliverEvent(yield func(*session.Event, error) bool) (proceed bool) {
	defer func() { s.acknowledgeEvent(proceed) }()
	return yield(s.ev, s.err) && s.err == nil
}

// acknowledgeEvent unblocks the agent, which continues if proceed is true. It
// must be called for each event, even when the run is over.
func (s *eventHandoff) acknowledgeEvent(proceed bool) {
	s.proceed = proceed
	s.acknowledged.Done()
}

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
