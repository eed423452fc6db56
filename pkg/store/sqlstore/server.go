package sqlstore

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

	"agenthost/pkg/store/internal/codec"

	"gorm.io/gorm"

	"agenthost/pkg/session"
)

// serverDialect holds what a dialect needs for a database server.
type serverDialect struct {
	// setupSQL is executed on each new connection of a writer.
	setupSQL []string
	// lockSQL waits for the schema lock and returns 1 when it holds it. The
	// lock ends with the transaction, or with unlockSQL.
	lockSQL, unlockSQL string
	// isConnectionLost matches errors after which the connection or the server
	// is unusable. Errors common to all engines are already covered.
	isConnectionLost func(error) bool
	// isConnectionLimit matches errors of a server that has no free connection.
	isConnectionLimit func(error) bool
	// isRetryable matches errors of a transaction that the server aborted in
	// favor of another one.
	isRetryable func(error) bool
	// appendBatch executes appends with known head ids. Each gets its number,
	// or its job gets errConflict. An error rolls back all.
	appendBatch func(w *writer, jobs []*job) error
	// headsSQL is the head statement for many sessions, each row prefixed with
	// the number of its session; apps, users and ids are arrays. It is empty if
	// the engine has none.
	headsSQL string
	// atomic reports that appendBatch is a transaction of its own.
	atomic bool
}

// maxReaderIdle is how long an idle reader connection stays open.
const maxReaderIdle = 5 * time.Minute

// openConn takes a connection from the pool.
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

// dropConn discards the connection and any open transaction on it.
func (w *writer) dropConn() error {
	if w.conn == nil {
		return nil
	}
	// ErrBadConn makes the pool discard the connection.
	_ = w.conn.Raw(func(any) error { return driver.ErrBadConn })
	err := w.conn.Close()
	w.conn = nil
	if errors.Is(err, sql.ErrConnDone) || errors.Is(err, driver.ErrBadConn) {
		return nil
	}
	return err
}

// closeConn returns the connection at shutdown.
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

// attemptBatch executes a batch. On a server it retries transactions that the
// server aborted and batches whose connection was lost. Retries are idempotent
// because events are keyed by id.
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

// attemptConnected executes a batch. It opens a connection if there is none.
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

// isConnectionLost reports whether the connection, not the statement, caused an
// error.
func (d dialect) isConnectionLost(err error) bool {
	var network net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) || d.server.isConnectionLost(err)
}

// retryRead runs a read. It retries if the connection was lost or none was
// free.
func (b *Database) retryRead(ctx context.Context, read func() error) error {
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

// closeIdleReaders closes the idle connections of the readers: if one was lost,
// most likely the others were too, and each would cost an attempt.
func (b *Database) closeIdleReaders() {
	n := b.reads.Stats().MaxOpenConnections
	b.reads.SetMaxIdleConns(0)
	b.reads.SetMaxIdleConns(n)
}

// appendBatch inserts the events of many jobs, ordered by session, so that two
// programs with the same sessions do not deadlock.
func (w *writer) appendBatch(jobs []*job) error {
	slices.SortStableFunc(jobs, func(a, b *job) int { return compareKeys(a.append.Key, b.append.Key) })
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

// cellRow is a cell of an append in a batch.
type cellRow struct {
	*stateRow
	job int // index in the batch
}

// collectCellRows returns the cells of jobs ordered by key. Each key occurs
// once, with the value of the last job.
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

// newServerBackend creates a backend on a server, with one pool for reads and
// one for writes.
func newServerBackend(ctx context.Context, d dialect, u *serverURL, pool func() (*gorm.DB, error), o *Options) (*Database, error) {
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
	b.artifactFolder = defaultArtifactFolder(u)
	b.setReaderLimit(u.size - u.writerCount())
	b.reads.SetConnMaxIdleTime(maxReaderIdle)
	return b, nil
}

// defaultArtifactFolder is the default folder of artifacts of a database server,
// which has no place for artifacts.
func defaultArtifactFolder(u *serverURL) string {
	return filepath.Join("data", codec.EscapeFileName(u.name, "")+".artifacts")
}
