package sqlstore

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"slices"
	"time"

	"gorm.io/gorm"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// Group commit: a flush to the disk costs a hundred times what the statements of an event cost, so
// writes that wait at the same time share one transaction and one flush.
//
//	caller       acquireOrEnqueue: an idle writer makes the caller the leader, a busy one queues it
//	leader       dequeueBatch: its job and the queued ones, at most maxBatch, a long job alone
//	             BEGIN, run the jobs, COMMIT; then the updates of shared state in a second transaction
//	             pass each job its result, make the first one in the queue the next leader
//	others       wait for their result, or to lead
//
// The leader is the goroutine of a caller. A goroutine for each writer would need two switches
// for each write, also when no other write waits, which is the common case; and a delay that collects
// writes would slow that case down. Here a lone write commits at once, and a batch grows by itself
// while the one before it is flushed.
//
// Invariants:
//   - busy is true exactly while a leader, or a borrower of the connection, has the writer. Every
//     leader ends with promoteNext, whatever happens to its batch: a panic is an error of the batch.
//   - A job gets one result, after its COMMIT was flushed. A caller that gives up withdraws its job
//     from the queue or waits for the result, because a batch cannot drop one.
//   - One job cannot spoil the others: a rejected one (stale, missing, existing) has written
//     nothing and stays in the batch, and after a failure each job is executed by itself.
//   - A batch may be executed again, after a lost connection, an aborted transaction or an earlier
//     deadline than a job's own. Jobs are idempotent: events have ids, epochs and versions.
//   - A session's jobs have one writer (writerFor), so that they are executed in order.

// maxBatch is the maximum number of jobs in one transaction.
const maxBatch = 128

// runWrite runs a job and returns when it is durable or has failed. If the
// context ends while the job is queued, the job is withdrawn; after that,
// runWrite waits for the result: the deadline of a caller must not end the writes
// of others. A batch ends at the first deadline of its jobs, and those with a later
// one are executed again.
func (w *writer) runWrite(ctx context.Context, run func(w *writer) error) error {
	return w.executeJob(ctx, &job{run: run})
}

// runLongWrite is runWrite of a job that is long by nature.
func (w *writer) runLongWrite(ctx context.Context, run func(w *writer) error) error {
	return w.executeJob(ctx, &job{run: run, long: true})
}

func (w *writer) executeJob(ctx context.Context, j *job) error {
	limit := w.group.breaker.runRequest
	if j.long {
		limit = w.group.breaker.runLong
	} else if j.deadline.IsZero() {
		j.deadline = time.Now().Add(store.RemainingTimeout(ctx, w.group.breaker.timeout))
	}
	return limit(ctx, func(ctx context.Context) error { return w.executeQueued(ctx, j) })
}

func (w *writer) executeQueued(ctx context.Context, j *job) error {
	first, err := w.acquireOrEnqueue(j, false)
	if err == nil && !first {
		first, err = w.waitTurn(ctx, j)
	}
	if err != nil {
		return err
	}
	if first {
		// In every case, also after a panic, the others get their results and the queue continues.
		defer w.promoteNext()
		for w.executeBatch(w.dequeueBatch(j)) {
		}
	}
	return j.err
}

// acquireOrEnqueue begins a batch if the writer is idle, or else enqueues the
// job. With last it closes the writer for further jobs.
func (w *writer) acquireOrEnqueue(j *job, last bool) (first bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false, store.ErrClosed
	}
	if w.readOnly && !last {
		return false, errReadOnly
	}
	w.closed = last
	if !w.busy {
		w.busy = true
		return true, nil
	}
	j.turn = make(chan bool, 1)
	w.queue = append(w.queue, j)
	return false, nil
}

// waitTurn waits in the queue, which a job leaves when its context ends or, unless it is long,
// when the breaker opens.
func (w *writer) waitTurn(ctx context.Context, j *job) (first bool, err error) {
	var opened <-chan struct{}
	if !j.long {
		opened = w.group.breaker.openChannel()
	}
	select {
	case first := <-j.turn:
		return first, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-opened:
		err = errSilent
	}
	w.mu.Lock()
	i := slices.Index(w.queue, j)
	if i >= 0 {
		w.queue = slices.Delete(w.queue, i, i+1)
	}
	w.mu.Unlock()
	if i >= 0 {
		return false, err
	}
	return <-j.turn, nil // too late: a batch has the job, or it leads one
}

// executeBatch executes a batch. It returns true if its first job has to be executed again.
func (w *writer) executeBatch(batch []*job) (again bool) {
	w.jobs.Add(int64(len(batch)))
	w.batches.Add(1)
	defer func() {
		again = w.requeueEarly(batch)
	}()
	for _, j := range batch {
		j.isLate = false
	}
	end := w.beginBatch(batch)
	defer end()
	w.commitBatch(batch)
	return false
}

// requeueEarly puts the jobs that ended because of an earlier deadline than theirs back at the
// front of the queue, and passes the others their results. It returns true if the first job of
// the batch, whose caller executes it, is one of them.
func (w *writer) requeueEarly(batch []*job) (again bool) {
	var early []*job
	now := time.Now()
	for i, j := range batch {
		switch isEarly := j.isLate && j.deadline.After(now); {
		case isEarly && i == 0:
			again, j.maybeDone = true, w.dialect.server != nil
		case isEarly:
			early, j.maybeDone = append(early, j), w.dialect.server != nil
		case i > 0:
			j.turn <- false
		}
	}
	if len(early) > 0 {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.jobs.Add(-int64(len(early)))
		w.queue = slices.Insert(w.queue, 0, early...)
	}
	return again
}

// beginBatch sets the context of a batch, which ends at the first deadline of its jobs.
func (w *writer) beginBatch(batch []*job) (end func()) {
	var first time.Time
	for _, j := range batch {
		if !j.deadline.IsZero() && (first.IsZero() || j.deadline.Before(first)) {
			first = j.deadline
		}
	}
	if w.dialect.server == nil {
		// Statements on a file that another process has locked wait until the deadline. Watching a
		// context would cost more than the statements.
		most := w.group.breaker.timeout
		if rest := time.Until(first); !first.IsZero() && rest < most-lockSlack {
			most = max(rest, time.Millisecond)
		}
		if most != cmp.Or(w.lockWait, w.group.breaker.timeout) {
			if _, err := w.conn.ExecContext(w.ctx, "PRAGMA busy_timeout = "+formatMillis(most)); err == nil {
				w.lockWait = most
			}
		}
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	if !first.IsZero() {
		ctx, cancel = context.WithDeadline(context.Background(), first)
	}
	w.setContext(ctx)
	return func() {
		cancel()
		w.setContext(context.Background())
	}
}

// lockSlack is how much of its time a job may spend in the queue before its lock timeout is
// reduced.
const lockSlack = 100 * time.Millisecond

func (w *writer) setContext(ctx context.Context) {
	w.ctx = ctx
	if w.conn != nil {
		w.adoptConn(w.conn)
	}
}

// dequeueBatch returns a job with the queued ones that can join it.
func (w *writer) dequeueBatch(j *job) []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxBatch-1)
	if long := slices.IndexFunc(w.queue[:n], func(j *job) bool { return j.long }); long >= 0 {
		n = long
	}
	if j.long {
		n = 0
	}
	batch := append([]*job{j}, w.queue[:n]...)
	w.queue = slices.Delete(w.queue, 0, n)
	return batch
}

// promoteNext passes the writer to the first job in the queue.
func (w *writer) promoteNext() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		w.busy = false
		return
	}
	next := w.queue[0]
	w.queue = slices.Delete(w.queue, 0, 1)
	next.turn <- true
}

// borrowConn runs read on the writer's connection if the writer is idle, and
// reports whether it did. The pages written last are cached there, while a
// reader's connection has to fetch them again after each commit. Jobs that
// arrive meanwhile wait, so read must be short.
func (w *writer) borrowConn(read func()) bool {
	w.mu.Lock()
	if w.closed || w.busy || w.readOnly {
		w.mu.Unlock()
		return false
	}
	w.busy = true
	w.mu.Unlock()
	defer w.promoteNext()
	read()
	return true
}

// close rejects new jobs and returns when the pending ones are done.
func (w *writer) close() error {
	j := &job{run: func(*writer) error { return nil }}
	first, err := w.acquireOrEnqueue(j, true)
	if err != nil {
		return err
	}
	if !first {
		first = <-j.turn
	}
	if first {
		w.promoteNext()
	}
	return j.err
}

func (w *writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// commitBatch executes a batch in one transaction, and its updates of shared
// state in a second one, which locks their rows.
func (w *writer) commitBatch(batch []*job) {
	plain, updates := splitUpdates(batch)
	for _, part := range [][]*job{plain, updates} {
		if len(part) > 0 {
			w.commitTransaction(part)
		}
	}
}

// commitTransaction executes jobs in one transaction. If one of them fails,
// each job gets its own transaction.
func (w *writer) commitTransaction(batch []*job) {
	jobFailed, err := w.attemptRecovered(batch)
	if jobFailed && len(batch) > 1 {
		for i := range batch {
			w.commitTransaction(batch[i : i+1])
		}
		return
	}
	isLate := w.dialect.server == nil && w.dialect.hasFault(err, engine.Busy) || err != nil && w.ctx.Err() != nil
	if isLate && w.dialect.server != nil {
		err = errTimeout
	}
	if err = w.dialect.classifyError(err); err != nil {
		for _, j := range batch {
			j.err, j.isLate = err, isLate
		}
	}
}

// errPanicked is returned for a read or write that panicked. The log has the
// details.
var errPanicked = errors.New("session store: internal error, see the log")

// attemptRecovered converts a panic to an error of the batch: the leader runs
// jobs of other callers, which would otherwise block forever. It rolls the
// connection back. Since one job caused the panic, the others may be retried
// without it.
func (w *writer) attemptRecovered(batch []*job) (jobFailed bool, err error) {
	p := safe.Call(func() { jobFailed, err = w.attemptBatch(batch) })
	if p == nil {
		return jobFailed, err
	}
	p.Log(w.logger, "database write panicked", "jobs", len(batch))
	for _, j := range batch {
		j.maybeDone = true
	}
	if w.dialect.server != nil {
		_ = w.dropConn()
	} else {
		_ = w.rollback() // there may be no transaction
	}
	return true, errPanicked
}

// runTransaction runs the jobs between BEGIN and COMMIT. On an error nothing
// was written; jobFailed reports that a job failed.
func (w *writer) runTransaction(batch []*job) (jobFailed bool, err error) {
	for _, j := range batch {
		j.err = nil
	}
	if err := w.setSyncMode(slices.ContainsFunc(batch, func(j *job) bool { return !j.relaxed })); err != nil {
		return false, err
	}
	if len(batch) == 1 && batch[0].single {
		return false, batch[0].run(w)
	}
	if w.dialect.server != nil && w.dialect.server.atomic && !slices.ContainsFunc(batch, func(j *job) bool { return j.append == nil }) {
		return w.runJobs(batch)
	}
	if _, err := w.stmt.begin.ExecContext(w.ctx); err != nil {
		return false, fmt.Errorf("beginning transaction: %w", err)
	}
	if jobFailed, err := w.runJobs(batch); err != nil {
		return jobFailed, errors.Join(err, w.rollback())
	}
	if _, err := w.stmt.commit.ExecContext(w.ctx); err != nil {
		return false, errors.Join(fmt.Errorf("committing: %w", err), w.rollback())
	}
	return false, nil
}

// runJobs runs the jobs of a batch. On an engine that inserts many events at
// once, the appends follow the other jobs together.
func (w *writer) runJobs(batch []*job) (jobFailed bool, err error) {
	if batch[0].update != nil {
		// All writers lock rows in the same order, which prevents deadlocks. One job's error rolls back
		// all, because rows were reserved for it.
		states, err := w.lockStates(batch)
		if err != nil {
			return false, err
		}
		for _, j := range batch {
			if j.err = w.runUpdateJob(j.update, states); j.err != nil {
				return true, j.err
			}
		}
		return false, nil
	}
	var appends []*job
	for _, j := range batch {
		if j.append != nil && w.dialect.server != nil {
			appends = append(appends, j)
			continue
		}
		j.err = j.run(w)
		if j.err != nil && !isRejection(j.err) {
			return true, j.err
		}
	}
	if len(appends) == 0 {
		return false, nil
	}
	err = w.appendBatch(appends)
	return err != nil, err
}

// setSyncMode sets whether the next commit must be flushed to disk. (SQLite:
// https://sqlite.org/pragma.html#pragma_synchronous; a later flushed commit
// also makes the earlier ones durable.)
func (w *writer) setSyncMode(whole bool) error {
	text := w.dialect.relaxedSQL
	if whole {
		text = w.dialect.durableSQL
	}
	if w.relaxed == !whole || text == "" {
		return nil
	}
	if _, err := w.conn.ExecContext(w.ctx, text); err != nil {
		return fmt.Errorf("setting the sync mode: %w", err)
	}
	w.relaxed = !whole
	return nil
}

func (w *writer) rollback() error {
	if _, err := w.stmt.rollback.ExecContext(w.ctx); err != nil {
		return fmt.Errorf("rolling back: %w", err)
	}
	return nil
}

// isRejection reports whether a job was rejected before it wrote anything, as
// opposed to failing half way.
func isRejection(err error) bool {
	return errors.Is(err, session.ErrStale) || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrExists)
}

func (w *writer) queueLength() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return int64(len(w.queue))
}

// attemptBatch executes a batch. On a server it retries transactions that the
// server aborted and batches whose connection was lost. Retries are idempotent
// because events are keyed by id.
func (w *writer) attemptBatch(batch []*job) (jobFailed bool, err error) {
	if w.dialect.server == nil {
		if err = w.fileWatch.checkReplaced(); err != nil {
			return false, err
		}
		jobFailed, err = w.runTransaction(batch)
		if err == nil && !w.relaxed { // a lease need not survive; the next event is checked
			err = w.fileWatch.checkReplaced()
		}
		return jobFailed, err
	}
	var r retries
	for {
		jobFailed, err = w.attemptConnected(batch)
		lost := err != nil && w.dialect.isConnectionLost(err)
		if lost {
			_ = w.dropConn()
			for _, j := range batch {
				j.maybeDone = true
			}
		}
		pause, again := r.nextPause(&w.dialect, err)
		if !again || sleepContext(w.ctx, pause) != nil {
			return jobFailed && !lost, err
		}
	}
}

// attemptConnected executes a batch. It opens a connection if there is none.
func (w *writer) attemptConnected(batch []*job) (jobFailed bool, err error) {
	if w.conn == nil {
		if err := w.group.breaker.checkClosed(); err != nil {
			return false, err
		}
		if err := w.acquireConn(w.ctx); err != nil {
			return false, err
		}
		if err := w.prepareStatements(w.ctx); err != nil {
			return false, err
		}
	}
	return w.runTransaction(batch)
}

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
	w.orm = w.db.Session(&gorm.Session{NewDB: true, Context: w.ctx})
	w.orm.Statement.ConnPool = conn
}

// acquireConn opens a connection. While the server allows none, it takes the
// connection of an idle writer.
func (w *writer) acquireConn(ctx context.Context) error {
	err := error(errNoConnection)
	if w.group.connectBlocked.hasPassed() {
		if err = w.openConn(ctx); err == nil || !w.dialect.isConnectionLimit(err) {
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

func (w *writer) prepareStatements(ctx context.Context) (err error) {
	w.stmt, err = prepareWrites(ctx, w.conn, w.dialect)
	return err
}

// dropConn discards the connection and any open transaction on it.
func (w *writer) dropConn() error {
	if w.conn == nil {
		return nil
	}
	_ = w.stmt.closeAll()
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
	err := w.stmt.closeAll()
	if w.dialect.closeSQL != "" {
		_, closeErr := w.conn.ExecContext(context.Background(), w.dialect.closeSQL)
		err = errors.Join(err, closeErr)
	}
	return errors.Join(err, w.conn.Close())
}
