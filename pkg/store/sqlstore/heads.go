package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"agenthost/pkg/store"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// A headReader batches reads of session heads from a server. At most maxReads
// batches are in flight; requests that arrive meanwhile form the next batch. So
// concurrent runs share round trips, and no request waits for a batch to fill.
type headReader struct {
	maxReads int
	logger   *slog.Logger
	read     func(ctx context.Context, keys []session.Key) ([]*store.Snapshot, error)

	mu    sync.Mutex
	busy  int
	queue []*headRequest
}

// A headRequest asks for the head of one session.
type headRequest struct {
	key  session.Key
	snap *store.Snapshot
	err  error
	// done is closed when snap or err is set.
	done chan struct{}
	// batch is the batch that contains the request; nil while it is queued.
	batch *headBatch
}

// A headBatch is cancelled when all its waiters have given up.
type headBatch struct {
	waiters int
	cancel  context.CancelFunc
}

// maxHeadBatch is the maximum number of sessions in one batch.
const maxHeadBatch = 128

// readHead returns the head of one session, with the id 0 if it is missing. It
// returns as soon as its context ends.
func (h *headReader) readHead(ctx context.Context, key session.Key) (*store.Snapshot, error) {
	q := &headRequest{key: key, done: make(chan struct{})}
	h.enqueueRequest(q)
	select {
	case <-q.done:
		return q.snap, q.err
	case <-ctx.Done():
		h.cancelRequest(q)
		return nil, ctx.Err()
	}
}

func (h *headReader) enqueueRequest(q *headRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.queue = append(h.queue, q)
	if h.busy < h.maxReads {
		h.busy++
		go func() {
			defer safe.Recover(func(p *safe.Panic) { p.Log(h.logger, "reading of session heads panicked") })
			h.readBatches()
		}()
	}
}

func (h *headReader) cancelRequest(q *headRequest) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if q.batch == nil {
		h.queue = slices.DeleteFunc(h.queue, func(other *headRequest) bool { return other == q })
		return
	}
	if q.batch.waiters--; q.batch.waiters == 0 {
		q.batch.cancel()
	}
}

// readBatches reads batches until the queue is empty.
func (h *headReader) readBatches() {
	for {
		ctx, cancel := context.WithCancel(context.Background())
		all := h.dequeueBatch(cancel)
		if len(all) == 0 {
			cancel()
			return
		}
		keys := make([]session.Key, len(all))
		for i, q := range all {
			keys[i] = q.key
		}
		snaps, err := h.readRecovered(ctx, keys)
		cancel()
		for i, q := range all {
			if q.err = err; err == nil {
				q.snap = snaps[i]
			}
			close(q.done)
		}
	}
}

// readRecovered converts a panic of the read to its error. Otherwise the
// waiters would block forever and the panic would end the process.
func (h *headReader) readRecovered(ctx context.Context, keys []session.Key) (snaps []*store.Snapshot, err error) {
	if p := safe.Call(func() { snaps, err = h.read(ctx, keys) }); p != nil {
		p.Log(h.logger, "reading of session heads panicked", "sessions", len(keys))
		return nil, errPanicked
	}
	return snaps, err
}

// dequeueBatch moves queued requests to a batch. If there are none, the reader
// becomes idle.
func (h *headReader) dequeueBatch(cancel context.CancelFunc) []*headRequest {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(h.queue), maxHeadBatch)
	all := h.queue[:n:n]
	h.queue = h.queue[n:]
	if n == 0 {
		h.busy--
	}
	r := &headBatch{n, cancel}
	for _, q := range all {
		q.batch = r
	}
	return all
}

// queryHeads reads the heads of sessions. A single session has its own, cheaper
// statement.
func (b *Database) queryHeads(ctx context.Context, keys []session.Key) ([]*store.Snapshot, error) {
	if len(keys) == 1 {
		snap, err := queryHead(ctx, b.head, keys[0])
		return []*store.Snapshot{snap}, err
	}
	apps, users, ids := make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	snaps := make([]*store.Snapshot, len(keys))
	for i, k := range keys {
		apps[i], users[i], ids[i] = k.App, k.User, k.ID
		snaps[i] = &store.Snapshot{State: map[string]any{}}
	}
	rows, err := b.reads.QueryContext(ctx, b.dialect.server.headsSQL, apps, users, ids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scanIndexedHead(snaps, rows); err != nil {
			return nil, err
		}
	}
	return snaps, rows.Err()
}

// scanIndexedHead reads a row of the batch statement. Its first column is the
// number of the session, from 1.
func scanIndexedHead(snaps []*store.Snapshot, rows *sql.Rows) error {
	var n int
	return scanHead(rows, func(r headStatementRow) error {
		if n < 1 || n > len(snaps) {
			return fmt.Errorf("session number %d is out of range 1 to %d", n, len(snaps))
		}
		return addRow(snaps[n-1], r)
	}, &n)
}
