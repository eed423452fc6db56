package store

import (
	"context"
	"database/sql"
	"fmt"
	"sync"

	"agenthost/pkg/session"
)

// heads reads the heads of sessions from a server. Up to most readings are under
// way at a time; whatever is asked for meanwhile goes into the next one, so that
// many runs share an exchange with the server, and nobody waits for others to come.
// As with a [writer], the caller whose question is the first carries it out.
type heads struct {
	most int
	read func(keys []session.Key) ([]*snapshot, error)

	mu    sync.Mutex
	busy  int
	queue []*question
}

// A question is one session whose head somebody wants.
type question struct {
	key  session.Key
	snap *snapshot
	err  error
	// turn says that the answer is there, or with true that the question is now
	// the first of a reading.
	turn chan bool
}

// mostHeads is the most sessions of one reading.
const mostHeads = 128

// head is that of one session; a missing one has the id 0.
func (h *heads) head(key session.Key) (*snapshot, error) {
	q := &question{key: key}
	if h.join(q) || <-q.turn {
		h.lead(q)
	}
	return q.snap, q.err
}

// join begins a reading when there may be one more, or else joins the queue.
func (h *heads) join(q *question) (first bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.busy < h.most {
		h.busy++
		return true
	}
	q.turn = make(chan bool, 1)
	h.queue = append(h.queue, q)
	return false
}

func (h *heads) lead(q *question) {
	all := h.take(q)
	keys := make([]session.Key, len(all))
	for i, q := range all {
		keys[i] = q.key
	}
	snaps, err := h.read(keys)
	for i, q := range all {
		if q.err = err; err == nil {
			q.snap = snaps[i]
		}
	}
	h.pass()
	for _, q := range all[1:] {
		q.turn <- false
	}
}

func (h *heads) take(q *question) []*question {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := min(len(h.queue), mostHeads-1)
	all := append([]*question{q}, h.queue[:n]...)
	h.queue = h.queue[n:]
	return all
}

// pass hands over to whoever waits longest.
func (h *heads) pass() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.queue) == 0 {
		h.queue = nil
		h.busy--
		return
	}
	next := h.queue[0]
	h.queue = h.queue[1:]
	next.turn <- true
}

// queryHeads reads the heads of sessions. One alone has a statement of its own,
// which is cheaper.
func (b *sqlBackend) queryHeads(keys []session.Key) ([]*snapshot, error) {
	if len(keys) == 1 {
		snap, err := queryHead(context.Background(), b.head, keys[0])
		return []*snapshot{snap}, err
	}
	apps, users, ids := make([]string, len(keys)), make([]string, len(keys)), make([]string, len(keys))
	snaps := make([]*snapshot, len(keys))
	for i, k := range keys {
		apps[i], users[i], ids[i] = k.App, k.User, k.ID
		snaps[i] = &snapshot{state: map[string]any{}}
	}
	rows, err := b.reads.QueryContext(context.Background(), b.dialect.remote.heads, apps, users, ids)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scanOneOf(snaps, rows); err != nil {
			return nil, err
		}
	}
	return snaps, rows.Err()
}

// scanOneOf reads a row of the head statement behind a number, that of its
// session from 1.
func scanOneOf(snaps []*snapshot, rows *sql.Rows) error {
	var n int
	return scanHead(rows, func(r snapRow) error {
		if n < 1 || n > len(snaps) {
			return fmt.Errorf("there is no session %d of %d", n, len(snaps))
		}
		return snaps[n-1].take(r)
	}, &n)
}
