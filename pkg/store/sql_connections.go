package store

import (
	"context"
	"sync/atomic"
	"time"
)

// A server may allow fewer connections than the pool has. Then the writers pass
// on those that they have, and readers wait for one another.

// connectBackoff is how long no new connection is asked for after one was refused, and
// narrowFor how long readers make do with those that they had then.
const (
	connectBackoff = 250 * time.Millisecond
	shrinkDuration = 10 * time.Second
)

// A deadline is a time that many goroutines look at. The zero value has passed.
type deadline struct{ until atomic.Int64 }

func (d *deadline) setAfter(after time.Duration) { d.until.Store(time.Now().Add(after).UnixNano()) }

func (d *deadline) hasPassed() bool { return time.Now().UnixNano() >= d.until.Load() }

// acquireConn opens a connection. While the server allows none, it takes that of
// another writer that is idle.
func (w *writer) acquireConn(ctx context.Context) error {
	err := error(errNoConnection)
	if w.group.connectBlocked.hasPassed() {
		if err = w.openConn(ctx); err == nil || !w.dialect.server.isConnectionLimit(err) {
			return err
		}
		w.group.connectBlocked.setAfter(connectBackoff)
	}
	for _, peer := range w.group.writers {
		peer.borrowConn(func() { w.conn, peer.conn = peer.conn, nil })
		if w.conn != nil {
			w.adoptConn(w.conn)
			return nil
		}
	}
	w.group.closeIdleReaders()
	return err
}

// writerGroup are the writers of a backend.
type writerGroup struct {
	writers []*writer
	// connectBlocked is until when the server is not asked for another connection.
	connectBlocked deadline
	// closeIdleReaders gives up the readers' connections that nobody uses.
	closeIdleReaders func()
}

// A readLimit bounds the readers' connections: most is what the pool has, and
// narrow says that they make do with fewer until a time.
type readLimit struct {
	poolSize int
	shrunk   atomic.Bool
	until    deadline
}

// shrinkReaders makes readers wait for the connections that they have. Without
// any, a writer gives one up.
func (b *sqlBackend) shrinkReaders() {
	if n := b.reads.Stats().OpenConnections; n > 0 {
		b.reads.SetMaxOpenConns(n)
		b.readLimit.until.setAfter(shrinkDuration)
		b.readLimit.shrunk.Store(true)
		return
	}
	for _, w := range b.writers {
		freed := false
		w.borrowConn(func() {
			freed = w.conn != nil
			_ = w.dropConn()
		})
		if freed {
			return
		}
	}
}

// widenReaders lets readers open connections again, a while after they could not.
func (b *sqlBackend) widenReaders() {
	if l := b.readLimit; l.shrunk.Load() && l.until.hasPassed() && l.shrunk.CompareAndSwap(true, false) {
		b.setReaderLimit(l.poolSize)
	}
}

// setReaderLimit bounds the connections of readers.
func (b *sqlBackend) setReaderLimit(n int) {
	b.readLimit.poolSize = n
	b.reads.SetMaxOpenConns(n)
	b.reads.SetMaxIdleConns(n)
}
