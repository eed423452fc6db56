package store

import (
	"context"
	"sync/atomic"
	"time"
)

// A server may allow fewer connections than the pool has. Then the writers pass
// on those that they have, and readers wait for one another.

// crowdedFor is how long no new connection is asked for after one was refused, and
// narrowFor how long readers make do with those that they had then.
const (
	crowdedFor = 250 * time.Millisecond
	narrowFor  = 10 * time.Second
)

// A deadline is a time that many goroutines look at. The zero value has passed.
type deadline struct{ until atomic.Int64 }

func (d *deadline) set(after time.Duration) { d.until.Store(time.Now().Add(after).UnixNano()) }

func (d *deadline) passed() bool { return time.Now().UnixNano() >= d.until.Load() }

// connect opens a connection. While the server allows none, it takes that of
// another writer that is idle.
func (w *writer) connect(ctx context.Context) error {
	err := error(errCrowded)
	if w.peers.refused.passed() {
		if err = w.open(ctx); err == nil || !w.dialect.remote.crowded(err) {
			return err
		}
		w.peers.refused.set(crowdedFor)
	}
	for _, peer := range w.peers.writers {
		peer.borrow(func() { w.conn, peer.conn = peer.conn, nil })
		if w.conn != nil {
			w.adopt(w.conn)
			return nil
		}
	}
	w.peers.spare()
	return err
}

// peers are the writers of a backend.
type peers struct {
	writers []*writer
	// refused is until when the server is not asked for another connection.
	refused deadline
	// spare gives up the readers' connections that nobody uses.
	spare func()
}

// A readLimit bounds the readers' connections: most is what the pool has, and
// narrow says that they make do with fewer until a time.
type readLimit struct {
	most   int
	narrow atomic.Bool
	until  deadline
}

// narrowReaders makes readers wait for the connections that they have. Without
// any, a writer gives one up.
func (b *sqlBackend) narrowReaders() {
	if n := b.reads.Stats().OpenConnections; n > 0 {
		b.reads.SetMaxOpenConns(n)
		b.limit.until.set(narrowFor)
		b.limit.narrow.Store(true)
		return
	}
	for _, w := range b.writers {
		freed := false
		w.borrow(func() {
			freed = w.conn != nil
			_ = w.drop()
		})
		if freed {
			return
		}
	}
}

// widenReaders lets readers open connections again, a while after they could not.
func (b *sqlBackend) widenReaders() {
	if l := b.limit; l.narrow.Load() && l.until.passed() && l.narrow.CompareAndSwap(true, false) {
		b.setReaders(l.most)
	}
}

// setReaders bounds the connections of readers.
func (b *sqlBackend) setReaders(n int) {
	b.limit.most = n
	b.reads.SetMaxOpenConns(n)
	b.reads.SetMaxIdleConns(n)
}
