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

// remote is what a dialect says about a server behind a network.
type remote struct {
	// setup is carried out on each new connection of a writer.
	setup []string
	// lock waits for the lock of the schema, and answers 1 when it has it. It
	// ends with the transaction, or with unlock.
	lock, unlock string
	// lost tells an error that says that the connection, or the server behind
	// it, is of no use any more. What every engine has is known already.
	lost func(error) bool
	// crowded tells that the server has as many connections as it allows.
	crowded func(error) bool
	// again tells a transaction that the server gave up for the sake of
	// another one.
	again func(error) bool
	// appendAll carries out appends with ids of heads. Each gets its seq, or
	// its job errConflict; an error means that all must be undone.
	appendAll func(w *writer, jobs []*job) error
	// heads is the head statement for many sessions at once, each row behind the
	// number of its session: apps, users and ids are lists. Empty where there is
	// none.
	heads string
	// atomic says that appendAll is a transaction by itself.
	atomic bool
}

// idlePatience is how long a connection that nobody reads from stays open.
const idlePatience = 5 * time.Minute

// open takes a connection out of the pool.
func (w *writer) open(ctx context.Context) error {
	conn, err := w.pool.Conn(ctx)
	if err != nil {
		return err
	}
	w.adopt(conn)
	if w.dialect.remote == nil {
		return nil
	}
	for _, text := range w.dialect.remote.setup {
		if _, err := conn.ExecContext(ctx, text); err != nil {
			return errors.Join(err, w.drop())
		}
	}
	return nil
}

// adopt makes a connection the writer's own.
func (w *writer) adopt(conn *sql.Conn) {
	w.conn = conn
	w.orm = w.db.Session(&gorm.Session{NewDB: true, Context: context.Background()})
	w.orm.Statement.ConnPool = conn
}

func (w *writer) prepare(ctx context.Context) (err error) {
	w.stmt, err = prepareWrites(ctx, w.conn, w.dialect)
	return err
}

// drop gives up the connection and what may still be open on it.
func (w *writer) drop() error {
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

// part gives the connection back for good.
func (w *writer) part() error {
	if w.conn == nil {
		return nil
	}
	var err error
	if w.dialect.parting != "" {
		_, err = w.conn.ExecContext(context.Background(), w.dialect.parting)
	}
	return errors.Join(err, w.conn.Close())
}

// attempt carries out a batch. With a server it tries again what the server
// gave up, and what ended with the connection: everything may be carried out
// twice, since an event is told by its id.
func (w *writer) attempt(batch []*job) (spoilt bool, err error) {
	if w.dialect.remote == nil {
		if err = w.file.check(); err != nil {
			return false, err
		}
		if spoilt, err = w.transact(batch); err == nil {
			err = w.file.check()
		}
		return spoilt, err
	}
	var r retries
	for {
		spoilt, err = w.reach(batch)
		lost := err != nil && w.dialect.lost(err)
		if lost {
			_ = w.drop()
			for _, j := range batch {
				j.unsure = true
			}
		}
		pause, again := r.pause(&w.dialect, err)
		if !again {
			return spoilt && !lost, err
		}
		<-time.After(pause)
	}
}

// reach carries out a batch on a connection, which it opens when there is none.
func (w *writer) reach(batch []*job) (spoilt bool, err error) {
	if w.conn == nil {
		ctx := context.Background()
		if err := w.connect(ctx); err != nil {
			return false, err
		}
		if err := w.prepare(ctx); err != nil {
			return false, err
		}
	}
	return w.transact(batch)
}

// lost tells errors that come of a connection, not of a statement.
func (d dialect) lost(err error) bool {
	var network net.Error
	return errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, io.EOF) ||
		errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, &network) || d.remote.lost(err)
}

// reading carries out a read, again when its connection was lost or there was
// none free.
func (b *sqlBackend) reading(ctx context.Context, read func() error) error {
	if err := b.file.check(); err != nil {
		return err
	}
	var r retries
	for {
		b.widenReaders()
		err := read()
		if err == nil || b.isClosed() || ctx.Err() != nil {
			return err
		}
		pause, again := r.pause(&b.dialect, err)
		switch {
		case !again:
			return b.dialect.stateOf(err)
		case b.dialect.remote.crowded(err):
			b.narrowReaders()
		default:
			b.dropIdle()
		}
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
}

// dropIdle closes the readers' connections that nobody uses: where one was
// lost, the others most likely are too, and each would cost a try.
func (b *sqlBackend) dropIdle() {
	n := b.reads.Stats().MaxOpenConnections
	b.reads.SetMaxIdleConns(0)
	b.reads.SetMaxIdleConns(n)
}

// appendAll puts in the events of many jobs. They go by session, so that two
// programs that meet at the same ones do not wait for each other in turn.
func (w *writer) appendAll(jobs []*job) error {
	slices.SortStableFunc(jobs, func(a, b *job) int { return compareKeys(a.append.key, b.append.key) })
	known := jobs[:0:0]
	for _, j := range jobs {
		j.err = nil
		id, err := w.find(j.append)
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
	err := w.dialect.remote.appendAll(w, known)
	if err != nil && len(known) == 1 && w.dialect.conflict(err) {
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

// cellRows are the cells of jobs in the order of their keys, each key once: the
// last job's.
func cellRows(jobs []*job) []cellRow {
	var all []cellRow
	for i, j := range jobs {
		for n := range j.append.cells {
			all = append(all, cellRow{&j.append.cells[n], i})
		}
	}
	slices.SortStableFunc(all, func(a, b cellRow) int { return a.compare(b.stateRow) })
	return all
}

// newServer makes a backend on a server: one pool that reads, one that writes.
func newServer(ctx context.Context, d dialect, u *serverURL, pool func() (*gorm.DB, error), o *Options) (*sqlBackend, error) {
	writers, err := pool()
	if err != nil {
		return nil, err
	}
	readers, err := pool()
	if err != nil {
		return nil, errors.Join(err, closePool(writers))
	}
	b, err := newSQL(ctx, readers, writers, d, o)
	if err != nil {
		return nil, err
	}
	b.setReaders(u.size - u.lanes())
	b.reads.SetConnMaxIdleTime(idlePatience)
	return b, nil
}

// artifactsOf is where the artifacts of a database are kept: a server has no
// place for them.
func artifactsOf(u *serverURL) string {
	return "dir:" + filepath.Join("data", escape(u.name, "")+".artifacts")
}
