package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"hash/fnv"
	"log/slog"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// Options configure a database. Nil and the zero value are valid.
type Options struct {
	// Owner identifies the store above the database in leases, see
	// [store.Options]; empty is [store.NewOwner].
	Owner string
	// Clock returns the time for migrations; nil is time.Now.
	Clock func() time.Time
	// Logger logs schema migrations and warnings; nil discards them.
	Logger *slog.Logger
	// Existing fails with [fs.ErrNotExist] if a database is missing or empty.
	Existing bool
	// Access limits what opening may change; the zero value migrates.
	Access store.Access

	migrated func(Step) // called after each applied migration
	schema   int64      // schema version if only read
}

// A Step is one schema migration.
type Step struct {
	Version int64  `json:"version"`
	Name    string `json:"name"`
}

func (o *Options) withDefaults() *Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Owner == "" {
		d.Owner = store.NewOwner()
	}
	if d.Clock == nil {
		d.Clock = time.Now
	}
	if d.Logger == nil {
		d.Logger = slog.New(slog.DiscardHandler)
	}
	if d.migrated == nil {
		d.migrated = func(Step) {}
	}
	return &d
}

// Database stores sessions in an SQL database: a reader pool, and writers among which the sessions
// are divided.
type Database struct {
	dialect    dialect
	readers    *gorm.DB
	reads      *sql.DB // the reader pool
	head       *statement
	headReader *headReader // nil reads each head separately
	events     *statement
	leases     *statement // reads one lease
	writes     *sql.DB    // the writers' connections
	writers    []*writer
	// provenance, activeTime and outcome are expressions for columns that older schemas do
	// not have: of an event row, of a session row s, and of an event row h.
	provenance, activeTime, outcome string
	// noResults, noRollouts, noOutcomeDays and noCases are true for an older schema that is only read.
	noResults, noRollouts, noOutcomeDays, noCases bool
	closing                                       func() error
	owner                                         string // identifies this store in leases
	// artifactFolder is the default folder for artifacts.
	artifactFolder string
	readLimit      *readLimit
	lag            *lagWatch
	// fileWatch watches the SQLite file; nil for a server.
	fileWatch *fileWatch
	breaker   *breaker
	// liveness detects dead lease owners in a database file; nil for a server.
	liveness *livenessLock
}

// A headReader batches session head reads from a server. At most maxReads batches are in flight;
// requests that arrive meanwhile form the next batch. So concurrent runs share round trips, and no
// request waits for a batch to fill.
type headReader struct {
	maxReads int
	logger   *slog.Logger
	breaker  *breaker
	read     func(ctx context.Context, keys []session.Key) ([]*store.Snapshot, error)

	mu    sync.Mutex
	busy  int
	queue []*headRequest
}

// A headRequest asks for one session's head.
type headRequest struct {
	key  session.Key
	snap *store.Snapshot
	err  error
	// done is closed when snap or err is set.
	done chan struct{}
	// batch is the batch that contains the request; nil while it is queued.
	batch *headBatch
}

// A headBatch is canceled when all its waiters have given up.
type headBatch struct {
	waiters int
	cancel  context.CancelFunc
}

// writerFor returns a session's writer. It is always the same one, so that no two writers contend
// for a session.
func (b *Database) writerFor(key session.Key) *writer {
	if len(b.writers) == 1 {
		return b.writers[0]
	}
	h := fnv.New32a()
	for _, part := range []string{key.App, key.User, key.ID} {
		h.Write([]byte(part))
		h.Write([]byte{0})
	}
	return b.writers[h.Sum32()%uint32(len(b.writers))]
}

func (b *Database) isClosed() bool { return b.writers[0].isClosed() }

// A dialect holds what differs between SQL engines.
type dialect struct {
	// classify returns what a driver error means.
	classify func(error) engine.Fault
	// begin begins a write transaction.
	begin string
	// upsert writes a state row. Parameters: app, user, session, key, value.
	upsert string
	// reserve inserts a missing state row and locks it until the transaction
	// ends. Parameters: app, user, session, key. It is empty if begin locks the
	// whole database.
	reserve string
	// lockRow is appended to a SELECT to lock the row.
	lockRow string
	// tableOptions follows CREATE TABLE's closing parenthesis.
	tableOptions func(table string) string
	// now is an expression for the database clock in microseconds. If it is
	// empty, all processes run on one machine and use its clock.
	now string
	// relaxedSQL and durableSQL switch, between transactions, whether a commit may
	// return before it survives a power failure. Empty if commits are always durable.
	relaxedSQL, durableSQL string
	// closeSQL is executed before a writer's connection is closed.
	closeSQL string
	// insert inserts an event if the session is at the previous version and its lease epoch is the
	// named one, or 0 is named. No lease is taken concurrently. Parameters: session, number, id,
	// invocation, time, JSON, epoch, provenance, outcome.
	insert string
	// snapshot is the isolation level in which two reads see the same snapshot.
	snapshot sql.IsolationLevel
	// questionMarks reports that parameters have no numbers.
	questionMarks bool
	// writerCount is how many writers there are; 0 means one.
	writerCount int
	// server holds what a database server needs; nil for a file.
	server *serverDialect
}

// hasFault reports whether a driver error has the meaning.
func (d dialect) hasFault(err error, f engine.Fault) bool {
	return err != nil && d.classify(err).Has(f)
}

// serverDialect holds what a dialect needs for a database server.
type serverDialect struct {
	// setupSQL is executed on each new writer connection.
	setupSQL []string
	// lockSQL waits for the schema lock and returns 1 when it holds it. The
	// lock ends with the transaction, or with unlockSQL.
	lockSQL, unlockSQL string
	// appendBatch executes appends with known head ids. Each gets its number,
	// or its job gets errConflict. An error rolls back all.
	appendBatch func(w *writer, jobs []*job) error
	// readHint begins the statements whose result decides a write, so that proxies which send other reads to
	// standbys send them to the primary.
	readHint string
	// headsSQL is the head statement for many sessions, each row prefixed with its session's
	// number; apps, users and ids are arrays. It is empty if the engine has none.
	headsSQL string
	// atomic reports that appendBatch is its own transaction.
	atomic bool
}

// insertClock replaces {now} in a statement with params parameters by the
// dialect's clock, or by one more parameter.
func (d dialect) insertClock(text string, params int) string {
	now := d.now
	if now == "" {
		now = fmt.Sprintf("$%d", params+1)
	}
	return strings.ReplaceAll(text, "{now}", now)
}

// appendClock returns a statement's parameters with a clock.
func (d dialect) appendClock(now time.Time, params ...any) []any {
	if d.now == "" {
		return append(params, now.UnixMicro())
	}
	return params
}

// A writer executes database writes on one connection, one transaction after the other. All jobs
// that wait when a transaction begins join it (group commit), so concurrent jobs share one disk
// flush and no job waits for a batch to fill. A writer has no goroutine: the caller whose job is
// the first in a batch executes the batch, which saves a single caller two goroutine switches that
// cost as much as the statements.
type writer struct {
	pool      *sql.DB
	db        *gorm.DB // on pool
	dialect   dialect
	logger    *slog.Logger
	conn      *sql.Conn // nil after the connection was lost
	orm       *gorm.DB  // on conn
	stmt      writeStatements
	group     *writerGroup
	fileWatch *fileWatch // nil for a server
	relaxed   bool       // the connection's current sync mode, see setSyncMode
	readOnly  bool       // the database is only read: there is no connection
	// lockWait is how long statements wait for a file lock; 0 is the timeout.
	lockWait time.Duration
	// ctx is the context for the executing batch, with its deadline.
	ctx context.Context

	mu     sync.Mutex
	closed bool
	busy   bool // a batch is being executed
	queue  []*job

	jobs, batches atomic.Int64
}

// A writerGroup holds a backend's writers.
type writerGroup struct {
	writers []*writer
	breaker *breaker
	// connectBlocked is the time until which no new connection is opened.
	connectBlocked deadline
	// closeIdleReaders closes the readers' idle connections.
	closeIdleReaders func()
}

// A deadline is a time for concurrent use. The zero value has passed.
type deadline struct{ until atomic.Int64 }

func (d *deadline) setAfter(after time.Duration) { d.until.Store(time.Now().Add(after).UnixNano()) }

func (d *deadline) hasPassed() bool { return time.Now().UnixNano() >= d.until.Load() }

// A readLimit limits reader connections: poolSize is the regular limit, and shrunk reports that a
// lower one applies until a time.
type readLimit struct {
	poolSize int
	shrunk   atomic.Bool
	until    deadline
}

// A job is one atomic write.
type job struct {
	run func(w *writer) error
	// single reports that the job is one statement, which needs no explicit
	// transaction if it is alone in its batch.
	single bool
	// relaxed reports that the job need not survive a power failure.
	relaxed bool
	// append is an append's event. Appends may share statements.
	append *appendJob
	// update is an append that updates shared state.
	update *updateJob
	// maybeDone reports that the job may already be committed, because the
	// connection was lost.
	maybeDone bool
	// long reports that the job is long by nature. It has no deadline, and its own batch.
	long bool
	// deadline is the request's; the zero value is one timeout from now. A caller's context may end
	// earlier, which ends only its wait in the queue.
	deadline time.Time
	// isLate reports that the job's batch ended at a deadline.
	isLate bool
	err    error
	// turn receives false when the job is done, and true when the job leads the
	// next batch.
	turn chan bool
}

// An appendJob is a record as rows.
type appendJob struct {
	store.AppendRecord
	// text is the event's JSON, provenance its provenance's; outcome is the stored form.
	text, provenance, outcome string

	cells []stateRow
	head  int64 // the session head's id, once known
	seq   int64 // result: the event's number
	// stored is the version at which a stale append found the session.
	stored int64
}

// An updateJob is an append that updates shared state. Its results are computed
// again in each attempt.
type updateJob struct {
	appendJob
	plain []stateRow // the cells' rows
	rows  []stateRow // the updates' rows, without values
	event session.Event
}

// writeStatements are prepared on a writer's connection.
type writeStatements struct {
	begin, commit, rollback *statement
	find, insert, explain   *statement
	upsert, deleteState     *statement
	reserve, readState      *statement
	takeLease, renewLease   *statement
	endLease, takeSweep     *statement
	head, findLease         *statement // reads, see borrowConn
	all                     []*statement
}

// A statement is an SQL statement on a connection or a pool. Parameters are
// written $1, $2 and so on for every engine.
type statement struct {
	on querier
	// text is sent to the engine if the statement is not prepared.
	text     string
	prepared *sql.Stmt
	// order maps question marks to arguments, for an engine without numbered
	// parameters.
	order []int
}

// querier is a connection or a pool.
type querier interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
	PrepareContext(ctx context.Context, query string) (*sql.Stmt, error)
}

// prepareStatement creates a statement. Server drivers prepare frequent statements themselves; a
// statement prepared here lives as long as its connection.
func (d dialect) prepareStatement(ctx context.Context, on querier, text string) (*statement, error) {
	s := &statement{on: on, text: text}
	if d.questionMarks {
		s.text = regexp.MustCompile(`\$\d+`).ReplaceAllStringFunc(text, func(mark string) string {
			n, _ := strconv.Atoi(mark[1:])
			s.order = append(s.order, n-1)
			return "?"
		})
	}
	if d.server != nil {
		return s, nil
	}
	var err error
	s.prepared, err = on.PrepareContext(ctx, s.text)
	return s, err
}

func (s *statement) orderArgs(given []any) []any {
	if s.order == nil {
		return given
	}
	args := make([]any, len(s.order))
	for i, n := range s.order {
		args[i] = given[n]
	}
	return args
}

// ExecContext executes the statement.
func (s *statement) ExecContext(ctx context.Context, args ...any) (sql.Result, error) {
	if s.prepared != nil {
		return s.prepared.ExecContext(ctx, args...)
	}
	return s.on.ExecContext(ctx, s.text, s.orderArgs(args)...)
}

// QueryContext executes the statement and returns its rows.
func (s *statement) QueryContext(ctx context.Context, args ...any) (*sql.Rows, error) {
	if s.prepared != nil {
		return s.prepared.QueryContext(ctx, args...)
	}
	return s.on.QueryContext(ctx, s.text, s.orderArgs(args)...)
}

// QueryRowContext executes the statement and returns its first row.
func (s *statement) QueryRowContext(ctx context.Context, args ...any) *sql.Row {
	if s.prepared != nil {
		return s.prepared.QueryRowContext(ctx, args...)
	}
	return s.on.QueryRowContext(ctx, s.text, s.orderArgs(args)...)
}

// Close closes the prepared statement.
func (s *statement) Close() error {
	if s == nil || s.prepared == nil {
		return nil
	}
	return s.prepared.Close()
}

// repeatPlaceholders lists n placeholders.
func repeatPlaceholders(one string, n int) string {
	return strings.TrimSuffix(strings.Repeat(one+",", n), ",")
}
