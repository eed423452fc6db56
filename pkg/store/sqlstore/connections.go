package sqlstore

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"gorm.io/gorm"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// A server may allow fewer connections than the pool has. Then the writers share
// their connections, and readers wait for each other.

// connectBackoff is the pause before a new connection is opened after one was
// rejected, and shrinkDuration is how long the reader pool stays reduced.
const (
	connectBackoff = 250 * time.Millisecond
	shrinkDuration = 10 * time.Second
)

// retryRead runs a request's read, which has a deadline.
func (b *Database) retryRead(ctx context.Context, read func(ctx context.Context) error) error {
	return b.breaker.runRequest(ctx, func(ctx context.Context) error { return b.retryConnected(ctx, read) })
}

// retryLongRead runs a read that is long by nature.
func (b *Database) retryLongRead(ctx context.Context, read func(ctx context.Context) error) error {
	return b.breaker.runLong(ctx, func(ctx context.Context) error { return b.retryConnected(ctx, read) })
}

// retryConnected runs a read. It retries if the connection was lost or none was
// free.
func (b *Database) retryConnected(ctx context.Context, read func(ctx context.Context) error) error {
	if err := b.fileWatch.checkReplaced(); err != nil {
		return err
	}
	var r retries
	for {
		b.widenReaders()
		err := read(ctx)
		if err == nil || b.isClosed() || ctx.Err() != nil {
			return err
		}
		pause, again := r.nextPause(&b.dialect, err)
		switch {
		case !again:
			return b.dialect.classifyError(err)
		case b.dialect.isConnectionLimit(err):
			b.shrinkReaders(r.n)
		default:
			b.closeIdleReaders()
		}
		if err := sleepContext(ctx, pause); err != nil {
			return err
		}
	}
}

// wrapError adds context to an error, or returns ErrClosed if the backend is
// closed.
func (b *Database) wrapError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case b.isClosed():
		return store.ErrClosed
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}

// classifyError returns an error as an unavailableState if the store caused it,
// and not the request.
func (d *dialect) classifyError(err error) error {
	var state unavailableState
	switch {
	case err == nil || errors.Is(err, session.ErrUnavailable):
		return err
	case d.hasFault(err, engine.Unwritable):
		state = errUnwritable
	case d.server == nil:
		return err
	case d.isConnectionLimit(err):
		state = errNoConnection
	case d.isConnectionLost(err):
		state = errUnreachable
	case d.hasFault(err, engine.Aborted): // more often than it is retried
		state = errAborted
	default:
		return err
	}
	return fmt.Errorf("%w: %s", state, engine.ConnectReason(err))
}

// isConnectionLost reports whether the connection, not the statement, caused an
// error.
func (d dialect) isConnectionLost(err error) bool {
	var network net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) || d.hasFault(err, engine.Lost)
}

// isConnectionLimit reports whether the server has no free connection.
func (d dialect) isConnectionLimit(err error) bool {
	return d.hasFault(err, engine.Limited) || errors.Is(err, errNoConnection)
}

// Retry limits: how many attempts after a conflict and their total time, and the time if the server
// is unreachable or has no free connection. PostgreSQL detects a deadlock only after a second.
const (
	maxConflictAttempts = 10
	maxConflictTime     = 15 * time.Second
	maxReconnectTime    = 2 * time.Second
	maxConnectionWait   = 10 * time.Second
	maxRetryPause       = 100 * time.Millisecond
)

// retries counts one call's retries.
type retries struct {
	n     int
	since time.Time
}

// nextPause returns the delay before the next attempt, or false if the limit is
// reached.
func (r *retries) nextPause(d *dialect, err error) (time.Duration, bool) {
	most := maxReconnectTime
	switch {
	case d.server == nil || err == nil:
		return 0, false
	case d.isConnectionLimit(err):
		most = maxConnectionWait
	case d.isConnectionLost(err):
	case d.hasFault(err, engine.Aborted) && r.n+1 < maxConflictAttempts:
		most = maxConflictTime
	default:
		return 0, false
	}
	if r.n == 0 {
		r.since = time.Now()
	}
	pause := min(5*time.Millisecond<<min(r.n, 5), maxRetryPause)
	r.n++
	return pause, time.Since(r.since)+pause <= most
}

// retryOpen opens a server's database. It retries while the server has no free connection.
func retryOpen[T any](ctx context.Context, d dialect, open func() (T, error)) (T, error) {
	var r retries
	for {
		opened, err := open()
		var openErr *engine.UnreachableError
		if err != nil && !errors.As(err, &openErr) && d.isConnectionLost(err) {
			err = engine.NewUnreachableError(err, d.classify(err))
		}
		if err == nil || !d.isConnectionLimit(err) {
			return opened, err
		}
		pause, again := r.nextPause(&d, err)
		if !again || sleepContext(ctx, pause) != nil {
			return opened, err
		}
	}
}

func closePool(db *gorm.DB) error {
	if db == nil || db.ConnPool == nil {
		return nil
	}
	pool, err := db.DB()
	if err != nil {
		return err
	}
	return pool.Close()
}

func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// starvedAttempts is after how many failed read attempts a writer closes its connection, whatever
// the reader pool reports.
const starvedAttempts = 4

// shrinkReaders limits readers to the connections that they have. If they have
// none, a writer closes its connection. The pool also counts connections that other reads
// fail to open, so a read that failed repeatedly does not trust it.
func (b *Database) shrinkReaders(attempts int) {
	if n := b.reads.Stats().OpenConnections; n > 0 && attempts < starvedAttempts {
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

// widenReaders restores the readers' connection limit after a while.
func (b *Database) widenReaders() {
	if l := b.readLimit; l.shrunk.Load() && l.until.hasPassed() && l.shrunk.CompareAndSwap(true, false) {
		b.setReaderLimit(l.poolSize)
	}
}

// setReaderLimit sets how many reader connections there may be.
func (b *Database) setReaderLimit(n int) {
	b.readLimit.poolSize = n
	b.reads.SetMaxOpenConns(n)
	b.reads.SetMaxIdleConns(n)
}

// maxReaderIdle is how long an idle reader connection stays open.
const maxReaderIdle = 5 * time.Minute

// closeIdleReaders closes the readers' idle connections: if one was lost, most likely the others
// were too, and each would cost an attempt.
func (b *Database) closeIdleReaders() {
	n := b.reads.Stats().MaxOpenConnections
	b.reads.SetMaxIdleConns(0)
	b.reads.SetMaxIdleConns(n)
}
