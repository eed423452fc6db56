package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"gorm.io/gorm"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// maxBatch is the most jobs of one transaction.
const maxBatch = 128

// A writer carries out writes of a database, one transaction after the
// other on one connection. Whatever is waiting when a transaction begins goes
// into it, so that many writers share one flush to the disk, and nobody waits
// for a batch to fill. It has no goroutine of its own: the caller whose job is
// the first of a batch carries out the whole batch, which spares the lonely
// writer two switches that cost as much as the statements.
type writer struct {
	pool      *sql.DB
	db        *gorm.DB // on pool
	dialect   dialect
	logger    *slog.Logger
	conn      *sql.Conn // nil when it was lost
	orm       *gorm.DB  // on conn
	stmt      writeStatements
	group     *writerGroup
	fileWatch *fileWatch // nil for a server
	relaxed   bool       // what the connection was told last, see flush

	mu     sync.Mutex
	closed bool
	busy   bool // somebody is carrying out a batch
	queue  []*job

	jobs, batches atomic.Int64
}

// A job is one write, all or nothing.
type job struct {
	run func(w *writer) error
	// single says that the job is one statement, which is a transaction by
	// itself when no other job shares it.
	single bool
	// relaxed says that the job need not survive a power cut: nobody who could
	// rely on it does.
	relaxed bool
	// append is the event of an append, which may share statements with others.
	append *appendJob
	// update is the append of an event that updates shared state.
	update *updateJob
	// maybeDone says that the job may have been carried out already, when the
	// connection was lost.
	maybeDone bool
	err       error
	// turn says to whoever waits in the queue that the job is done, or with
	// true that it is now the first of a batch.
	turn chan bool
}

// runWrite carries out a job and returns when it is durable, or was refused. A
// context that ends while the job is in the queue takes it back; after that,
// the outcome is waited for.
func (w *writer) runWrite(ctx context.Context, run func(w *writer) error) error {
	return w.executeJob(ctx, &job{run: run})
}

func (w *writer) executeJob(ctx context.Context, j *job) error {
	first, err := w.acquireOrEnqueue(j, false)
	if err == nil && !first {
		first, err = w.waitTurn(ctx, j)
	}
	if err != nil {
		return err
	}
	if first {
		w.leadBatch(j)
	}
	return j.err
}

// acquireOrEnqueue begins a batch when nobody is busy, or else joins the queue. The last
// job closes the writer to others.
func (w *writer) acquireOrEnqueue(j *job, last bool) (first bool, err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return false, errClosed
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

func (w *writer) waitTurn(ctx context.Context, j *job) (first bool, err error) {
	select {
	case first := <-j.turn:
		return first, nil
	case <-ctx.Done():
		if w.withdrawJob(j) {
			return false, ctx.Err()
		}
		return <-j.turn, nil
	}
}

func (w *writer) withdrawJob(j *job) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := slices.Index(w.queue, j)
	if i < 0 {
		return false
	}
	w.queue = slices.Delete(w.queue, i, i+1)
	return true
}

// leadBatch carries out a job together with those that wait. Whatever happens, the
// others hear how theirs ended and the queue goes on.
func (w *writer) leadBatch(j *job) {
	batch := w.dequeueBatch(j)
	w.jobs.Add(int64(len(batch)))
	w.batches.Add(1)
	defer func() {
		w.handOver()
		for _, j := range batch[1:] {
			j.turn <- false
		}
	}()
	w.commitBatch(batch)
}

func (w *writer) dequeueBatch(j *job) []*job {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := min(len(w.queue), maxBatch-1)
	batch := append([]*job{j}, w.queue[:n]...)
	w.queue = slices.Delete(w.queue, 0, n)
	return batch
}

// handOver hands over to whoever waits longest.
func (w *writer) handOver() {
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

// borrowConn lets read use the writer's connection when nobody else does, and says
// whether it did. The pages that were written last are at hand there, while a
// reader's connection has to fetch them again after each commit. Writers that
// come meanwhile wait, so read must be short.
func (w *writer) borrowConn(read func()) bool {
	w.mu.Lock()
	if w.closed || w.busy {
		w.mu.Unlock()
		return false
	}
	w.busy = true
	w.mu.Unlock()
	defer w.handOver()
	read()
	return true
}

// close refuses new jobs, and returns when those before it are done.
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
		w.handOver()
	}
	return j.err
}

func (w *writer) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}

// commitBatch carries out a batch in one transaction, and its updates of shared state
// in another one, which locks their rows.
func (w *writer) commitBatch(batch []*job) {
	plain, updates := splitUpdates(batch)
	for _, part := range [][]*job{plain, updates} {
		if len(part) > 0 {
			w.commitTransaction(part)
		}
	}
}

// commitTransaction carries out a batch in one transaction. When one job spoils it, each
// gets a transaction of its own, so that the others do not suffer.
func (w *writer) commitTransaction(batch []*job) {
	spoilt, err := w.attemptRecovered(batch)
	if spoilt && len(batch) > 1 {
		for i := range batch {
			w.commitTransaction(batch[i : i+1])
		}
		return
	}
	if err = w.dialect.classifyError(err); err != nil {
		for _, j := range batch {
			j.err = err
		}
	}
}

// errPanicked is the error of a write or reading that panicked; the log has the
// rest.
var errPanicked = errors.New("session store: internal error, see the log")

// attemptRecovered makes a panic of a batch its error: the leader runs the jobs of
// others, who would wait for ever. What the panic left on the connection is
// undone. As it was one job that panicked, the others may try without it.
func (w *writer) attemptRecovered(batch []*job) (spoilt bool, err error) {
	p := safe.Call(func() { spoilt, err = w.attemptBatch(batch) })
	if p == nil {
		return spoilt, err
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

// runTransaction runs the jobs between BEGIN and COMMIT. An error means that nothing
// was written; spoilt says that it came from a job.
func (w *writer) runTransaction(batch []*job) (spoilt bool, err error) {
	for _, j := range batch {
		j.err = nil
	}
	if err := w.setSyncMode(slices.ContainsFunc(batch, func(j *job) bool { return !j.relaxed })); err != nil {
		return false, err
	}
	if len(batch) == 1 && batch[0].single {
		return false, batch[0].run(w)
	}
	if w.dialect.server != nil && w.dialect.server.atomic && appendsOnly(batch) {
		return w.runJobs(batch)
	}
	ctx := context.Background()
	if _, err := w.stmt.begin.ExecContext(ctx); err != nil {
		return false, fmt.Errorf("beginning a transaction: %w", err)
	}
	if spoilt, err := w.runJobs(batch); err != nil {
		return spoilt, errors.Join(err, w.rollback())
	}
	if _, err := w.stmt.commit.ExecContext(ctx); err != nil {
		return false, errors.Join(fmt.Errorf("committing: %w", err), w.rollback())
	}
	return false, nil
}

// runJobs runs the jobs of a batch. An engine that can put in many events at
// once gets the appends together, behind the others.
func (w *writer) runJobs(batch []*job) (spoilt bool, err error) {
	if batch[0].update != nil {
		return w.runUpdateJobs(batch)
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

func appendsOnly(batch []*job) bool {
	return !slices.ContainsFunc(batch, func(j *job) bool { return j.append == nil })
}

// setSyncMode says whether the next transaction has to be on the disk when it ends.
// (SQLite: https://sqlite.org/pragma.html#pragma_synchronous; a later commit
// that is flushed takes the earlier ones with it.)
func (w *writer) setSyncMode(whole bool) error {
	text := w.dialect.relaxedSQL
	if whole {
		text = w.dialect.durableSQL
	}
	if w.relaxed == !whole || text == "" {
		return nil
	}
	if _, err := w.conn.ExecContext(context.Background(), text); err != nil {
		return fmt.Errorf("preparing a transaction: %w", err)
	}
	w.relaxed = !whole
	return nil
}

func (w *writer) rollback() error {
	if _, err := w.stmt.rollback.ExecContext(context.Background()); err != nil {
		return fmt.Errorf("rolling back: %w", err)
	}
	return nil
}

// isRejection tells a job that said no before it wrote anything from one that
// failed half way.
func isRejection(err error) bool {
	return errors.Is(err, session.ErrStale) || errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrExists)
}
