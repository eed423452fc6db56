package store

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"slices"
	"sync"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// headReader reads the heads of sessions from a server. Up to most readings are under
// way at a time; whatever is asked for meanwhile goes into the next one, so that
// many runs share an exchange with the server, and nobody waits for others to come.
type headReader struct {
	maxReads int
	logger   *slog.Logger
	read     func(ctx context.Context, keys []session.Key) ([]*snapshot, error)

	mu    sync.Mutex
	busy  int
	queue []*headRequest
}

// A question is one session whose head somebody wants.
type headRequest struct {
	key  session.Key
	snap *snapshot
	err  error
	// done is closed when snap or err is there.
	done chan struct{}
	// batch is the one that it went into; nil while it waits.
	batch *headBatch
}

// A reading ends early when all who asked have given up.
type headBatch struct {
	waiters int
	cancel  context.CancelFunc
}

// maxHeadBatch is the most sessions of one reading.
const maxHeadBatch = 128

// readHead is that of one session; a missing one has the id 0. Nobody waits longer
// than its context.
func (h *headReader) readHead(ctx context.Context, key session.Key) (*snapshot, error) {
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

// readBatches reads for as long as somebody asks.
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

// readRecovered makes a panic of the reading its error: those who asked would wait
// for ever, and the panic would end the process.
func (h *headReader) readRecovered(ctx context.Context, keys []session.Key) (snaps []*snapshot, err error) {
	if p := safe.Call(func() { snaps, err = h.read(ctx, keys) }); p != nil {
		p.Log(h.logger, "reading of session heads panicked", "sessions", len(keys))
		return nil, errPanicked
	}
	return snaps, err
}

// dequeueBatch puts those that wait into one reading. Without any, the work is over.
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

// queryHeads reads the heads of sessions. One alone has a statement of its own,
// which is cheaper.
func (b *sqlBackend) queryHeads(ctx context.Context, keys []session.Key) ([]*snapshot, error) {
	if len(keys) == 1 {
		snap, err := queryHead(ctx, b.head, keys[0])
		return []*snapshot{snap}, err
	}
	apps, users, ids := make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	snaps := make([]*snapshot, len(keys))
	for i, k := range keys {
		apps[i], users[i], ids[i] = k.App, k.User, k.ID
		snaps[i] = &snapshot{state: map[string]any{}}
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

// scanIndexedHead reads a row of the head statement behind a number, that of its
// session from 1.
func scanIndexedHead(snaps []*snapshot, rows *sql.Rows) error {
	var n int
	return scanHead(rows, func(r headStatementRow) error {
		if n < 1 || n > len(snaps) {
			return fmt.Errorf("there is no session %d of %d", n, len(snaps))
		}
		return snaps[n-1].addRow(r)
	}, &n)
}
