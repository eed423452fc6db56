package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"slices"
	"time"

	"gorm.io/gorm"

	"agenthost/pkg/session"
)

// serverDialect is what a dialect says about a server behind a network.
type serverDialect struct {
	// setupSQL is carried out on each new connection of a writer.
	setupSQL []string
	// lock waits for the lock of the schema, and answers 1 when it has it. It
	// ends with the transaction, or with unlock.
	lockSQL, unlockSQL string
	// isConnectionLost tells an error that says that the connection, or the server behind
	// it, is of no use any more. What every engine has is known already.
	isConnectionLost func(error) bool
	// isConnectionLimit tells that the server has as many connections as it allows.
	isConnectionLimit func(error) bool
	// isRetryable tells a transaction that the server gave up for the sake of
	// another one.
	isRetryable func(error) bool
	// appendBatch carries out appends with ids of heads. Each gets its seq, or
	// its job errConflict; an error means that all must be undone.
	appendBatch func(w *writer, jobs []*job) error
	// headsSQL is the head statement for many sessions at once, each row behind the
	// number of its session: apps, users and ids are lists. Empty where there is
	// none.
	headsSQL string
	// atomic says that appendAll is a transaction by itself.
	atomic bool
}

// maxReaderIdle is how long a connection that nobody reads from stays open.
const maxReaderIdle = 5 * time.Minute

// openConn takes a connection out of the pool.
func (w *writer) openConn(ctx context.Context) error {
	conn, err := w.pool.Conn(ctx)
	if err != nil {
		return err
	}
	w.adoptConn(conn)
	if w.dialect.server == nil {
		return nil
	}
	for _, text := range w.dialect.server.setupSQL {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return errors.Join(err, w.dropConn())
		}
	}
	return nil
}

// adoptConn makes a connection the writer's own.
func (w *writer) adoptConn(conn *sql.Conn) {
	w.conn = conn
	w.orm = w.db.Session(&gorm.Session{NewDB: true, Context: context.Background()})
	w.orm.Statement.ConnPool = conn
}

func (w *writer) prepareStatements(ctx context.Context) (err error) {
	w.stmt, err = prepareWrites(ctx, w.conn, w.dialect)
	return err
}

// dropConn gives up the connection and what may still be open on it.
func (w *writer) dropConn() error {
	if w.conn == nil {
		return nil
	}
	// Told so, the pool does not use it again.
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	err := w.conn.Close()
	w.conn = nil
	if errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) {
		return nil
	}
	return err
}

// closeConn gives the connection back for good.
func (w *writer) closeConn() error {
	if w.conn == nil {
		return nil
	}
	var err error
	if w.dialect.closeSQL != "" {
		_, err = w.conn.ExecContext(context.Background(), w.dialect.closeSQL)
	}
	return errors.Join(err, w.conn.Close())
}

// attemptBatch carries out a batch. With a server it tries again what the server
// gave up, and what ended with the connection: everything may be carried out
// twice, since an event is told by its id.
func (w *writer) attemptBatch(batch []*job) (spoilt bool, err error) {
	if w.dialect.server == nil {
		if err = w.fileWatch.checkReplaced(); err != nil {
			return false, err
		}
		if spoilt, err = w.runTransaction(batch); err == nil {
			err = w.fileWatch.checkReplaced()
		}
		return spoilt, err
	}
	var r retries
	for {
		spoilt, err = w.attemptConnected(batch)
		lost := err != nil && w.dialect.isConnectionLost(err)
		if lost {
			_ = w.dropConn()
			for _, j := range batch {
				j.maybeDone = true
			}
		}
		pause, again := r.nextPause(&w.dialect, err)
		if !again {
			return spoilt && !lost, err
		}
		<-time.After(pause)
	}
}

// attemptConnected carries out a batch on a connection, which it opens when there is none.
func (w *writer) attemptConnected(batch []*job) (spoilt bool, err error) {
	if w.conn == nil {
		ctx := context.Background()
		if err := w.acquireConn(ctx); err != nil {
			return false, err
		}
		if err := w.prepareStatements(ctx); err != nil {
			return false, err
		}
	}
	return w.runTransaction(batch)
}

// isConnectionLost tells errors that come of a connection, not of a statement.
func (d dialect) isConnectionLost(err error) bool {
	var network net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) || d.server.isConnectionLost(err)
}

// retryRead carries out a read, again when its connection was lost or there was
// none free.
func (b *sqlBackend) retryRead(ctx context.Context, read func() error) error {
	if err := b.fileWatch.checkReplaced(); err != nil {
		return err
	}
	var r retries
	for {
		b.widenReaders()
		err := read()
		if err == nil || b.isClosed() || ctx.Err() != nil {
			return err
		}
		pause, again := r.nextPause(&b.dialect, err)
		switch {
		case !again:
			return b.dialect.classifyError(err)
		case b.dialect.server.isConnectionLimit(err):
			b.shrinkReaders()
		default:
			b.closeIdleReaders()
		}
		if err := sleepContext(ctx, pause); err != nil {
			return err
		}
	}
}

// closeIdleReaders closes the readers' connections that nobody uses: where one was
// lost, the others most likely are too, and each would cost a try.
func (b *sqlBackend) closeIdleReaders() {
	n := b.reads.Stats().MaxOpenConnections
	b.reads.SetMaxIdleConns(0)
	b.reads.SetMaxIdleConns(n)
}

// appendBatch puts in the events of many jobs. They go by session, so that two
// programs that meet at the same ones do not wait for each other in turn.
func (w *writer) appendBatch(jobs []*job) error {
	slices.SortStableFunc(jobs, func(a, b *job) int { return compareKeys(a.append.key, b.append.key) })
	known := jobs[:0:0]
	for _, j := range jobs {
		j.err = nil
		id, err := w.findSession(j.append)
		switch {
		case errors.Is(err, session.ErrNotFound):
			j.err = err
		case err != nil:
			return err
		default:
			j.append.head = id
			known = append(known, j)
		}
	}
	if len(known) == 0 {
		return nil
	}
	err := w.dialect.server.appendBatch(w, known)
	if err != nil && len(known) == 1 && w.dialect.isConflict(err) {
		return fmt.Errorf("%w: %w", errConflict, err)
	}
	if err != nil {
		return fmt.Errorf("appending events: %w", err)
	}
	return nil
}

// cellRow is a cell of an append in its batch.
type cellRow struct {
	*stateRow
	job int // in the batch
}

// collectCellRows are the cells of jobs in the order of their keys, each key once: the
// last job's.
func collectCellRows(jobs []*job) []cellRow {
	var all []cellRow
	for i, j := range jobs {
		for n := range j.append.cells {
			all = append(all, cellRow{&j.append.cells[n], i})
		}
	}
	slices.SortStableFunc(all, func(a, b cellRow) int { return a.compare(b.stateRow) })
	return all
}

// newServerBackend makes a backend on a server: one pool that reads, one that writes.
func newServerBackend(ctx context.Context, d dialect, u *serverURL, pool func() (*gorm.DB, error), o *Options) (*sqlBackend, error) {
	writers, err := pool()
	if err != nil {
		return nil, err
	}
	readers, err := pool()
	if err != nil {
		return nil, errors.Join(err, closePool(writers))
	}
	b, err := newSQLBackend(ctx, readers, writers, d, o)
	if err != nil {
		return nil, err
	}
	b.setReaderLimit(u.size - u.writerCount())
	b.reads.SetConnMaxIdleTime(maxReaderIdle)
	return b, nil
}

// defaultArtifactsURL is where the artifacts of a database are kept: a server has no
// place for them.
func defaultArtifactsURL(u *serverURL) string {
	return "dir:" + filepath.Join("data", escapeFileName(u.name, "")+".artifacts")
}
