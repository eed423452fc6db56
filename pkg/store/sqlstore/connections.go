package sqlstore

import (
	"context"
	"sync/atomic"
	"time"
)

// A server may allow fewer connections than the pool has. Then the writers share
// their connections, and readers wait for each other.

// connectBackoff is the pause before a new connection is opened after one was
// rejected, and shrinkDuration is how long the reader pool stays reduced.
const (
	connectBackoff = 250 * time.Millisecond
	shrinkDuration = 10 * time.Second
)

// A deadline is a time for concurrent use. The zero value has passed.
type deadline struct{ until atomic.Int64 }

func (d *deadline) setAfter(after time.Duration) { d.until.Store(time.Now().Add(after).UnixNano()) }

func (d *deadline) hasPassed() bool { return time.Now().UnixNano() >= d.until.Load() }

// acquireConn opens a connection. While the server allows none, it takes the
// connection of an idle writer.
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

// A writerGroup holds the writers of a backend.
type writerGroup struct {
	writers []*writer
	// connectBlocked is the time until which no new connection is opened.
	connectBlocked deadline
	// closeIdleReaders closes the idle connections of the readers.
	closeIdleReaders func()
}

// A readLimit limits the connections of readers: poolSize is the regular limit,
// and shrunk reports that a lower one applies until a time.
type readLimit struct {
	poolSize int
	shrunk   atomic.Bool
	until    deadline
}

// shrinkReaders limits readers to the connections that they have. If they have
// none, a writer closes its connection.
func (b *Database) shrinkReaders() {
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

// widenReaders restores the connection limit of readers after a while.
func (b *Database) widenReaders() {
	if l := b.readLimit; l.shrunk.Load() && l.until.hasPassed() && l.shrunk.CompareAndSwap(true, false) {
		b.setReaderLimit(l.poolSize)
	}
}

// setReaderLimit sets the maximum number of reader connections.
func (b *Database) setReaderLimit(n int) {
	b.readLimit.poolSize = n
	b.reads.SetMaxOpenConns(n)
	b.reads.SetMaxIdleConns(n)
}
