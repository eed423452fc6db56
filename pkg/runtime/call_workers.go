package runtime

import (
	"log/slog"
	"slices"
	"sync"

	"agenthost/internal/safe"
)

// DefaultToolWorkers bounds the goroutines of a host that execute tool calls next
// to those of the turns themselves.
const DefaultToolWorkers = 256

// callWorkers execute the calls of model answers next to each other: one call of
// each answer on the goroutine of its turn, which goes through all of them, and
// others on at most limit goroutines that all turns share. As no turn waits for a
// worker, agents that are called as tools cannot block each other. Workers serve
// the answers in turn, one call each, so that an answer with many calls does not
// keep them from other sessions.
type callWorkers struct {
	limit  int
	logger *slog.Logger

	mu      sync.Mutex
	running int
	waiting []*callBatch // those with calls to begin, the next one first
}

// A callBatch is the calls of one answer.
type callBatch struct {
	execute func(i int)
	// next is the call to begin next, of total. At most most workers help, and
	// helping do; they are guarded by the workers' lock.
	next, total         int
	maxHelpers, helpers int
	pending             sync.WaitGroup
}

// run executes calls 0 to total-1, at most limit at a time, and waits for them.
// execute recovers panics itself.
func (w *callWorkers) run(total, limit int, execute func(i int)) {
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

// enqueueBatch starts workers for a batch, as far as there is room.
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
			defer safe.Recover(func(p *safe.Panic) { p.Log(w.logger, "worker of tool calls panicked") })
			w.runWorker()
		}()
	}
}

// dequeueCall takes the next call of a batch.
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

// runWorker executes calls until there are none to begin.
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

// nextCall ends the call of a worker's last batch, and takes one of the batch that
// waits longest and has room for a worker. Without one the worker ends.
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
