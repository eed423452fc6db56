package live

import (
	"context"
	"errors"
	"sync"
)

// Queue bounds. Audio at 32 kB a second fills MaxQueuedBytes in about half a minute.
const (
	MaxQueuedBytes    = 1 << 20
	MaxQueuedRequests = 256
)

// ErrQueueClosed is the error for a request sent to a closed queue.
var ErrQueueClosed = errors.New("the live run has ended")

// A Queue holds a client's requests until the live run reads them. When it is full, a blob replaces
// the oldest blobs, and any other request waits. It is safe for concurrent use; one goroutine
// receives.
type Queue struct {
	mu       sync.Mutex
	requests []*Request
	bytes    int
	dropped  int
	closed   bool
	ready    chan struct{} // has a value when there may be a request or an end
	space    chan struct{} // is closed and replaced when requests leave
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	return &Queue{ready: make(chan struct{}, 1), space: make(chan struct{})}
}

// Send adds a request. It waits for space if the request has no blob, and returns
// [ErrQueueClosed] or the error of the context if there will be none.
func (q *Queue) Send(ctx context.Context, r *Request) error {
	for {
		q.mu.Lock()
		if q.closed {
			q.mu.Unlock()
			return ErrQueueClosed
		}
		if r.Blob != nil {
			q.dropOldestBlobs(requestSize(r))
		}
		if q.hasSpace(r) {
			q.requests = append(q.requests, r)
			q.bytes += requestSize(r)
			q.mu.Unlock()
			q.signalReady()
			return nil
		}
		space := q.space
		q.mu.Unlock()
		select {
		case <-space:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Close ends the queue: requests in it can still be received. It may be called again.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return
	}
	q.closed = true
	close(q.space)
	q.signalReady()
}

// Ready returns a channel that has a value when [Queue.Next] may return something new.
func (q *Queue) Ready() <-chan struct{} { return q.ready }

// Next removes the oldest request; nil if there is none. Closed reports that there will
// be none.
func (q *Queue) Next() (r *Request, closed bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.requests) == 0 {
		return nil, q.closed
	}
	r = q.requests[0]
	q.requests[0] = nil
	q.requests = q.requests[1:]
	q.bytes -= requestSize(r)
	if !q.closed {
		close(q.space)
		q.space = make(chan struct{})
	}
	if len(q.requests) > 0 || q.closed {
		q.signalReady()
	}
	return r, false
}

// Dropped returns how many blobs were dropped because the queue was full.
func (q *Queue) Dropped() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.dropped
}

func (q *Queue) signalReady() {
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

func (q *Queue) hasSpace(r *Request) bool {
	return len(q.requests) < MaxQueuedRequests && (len(q.requests) == 0 || q.bytes+requestSize(r) <= MaxQueuedBytes)
}

// dropOldestBlobs drops the oldest blobs until there is space for size bytes.
func (q *Queue) dropOldestBlobs(size int) {
	kept, left := q.requests[:0], len(q.requests)
	for _, r := range q.requests {
		if full := q.bytes+size > MaxQueuedBytes || left >= MaxQueuedRequests; full && isBlobOnly(r) {
			q.bytes -= requestSize(r)
			q.dropped++
			left--
			continue
		}
		kept = append(kept, r)
	}
	clear(q.requests[len(kept):])
	q.requests = kept
}

// isBlobOnly reports whether a request carries nothing but a blob.
func isBlobOnly(r *Request) bool {
	return r.Blob != nil && r.Content == nil && r.StateDelta == nil && !r.Close
}

// requestSize estimates a request's memory.
func requestSize(r *Request) int {
	if r.Blob == nil {
		return r.otherBytes
	}
	return len(r.Blob.Data) + r.otherBytes
}
