package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/store"
	"agenthost/pkg/store/internal/codec"

	"gorm.io/gorm"

	"agenthost/pkg/session"
)

// A dialect holds what differs between SQL engines.
type dialect struct {
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
	// tableOptions follows the closing parenthesis of CREATE TABLE.
	tableOptions func(table string) string
	// isConflict matches violations of a unique index, a foreign key or NOT
	// NULL.
	isConflict func(error) bool
	// now is an expression for the database clock in microseconds. If it is
	// empty, all processes run on one machine and use its clock.
	now string
	// relaxedSQL and durableSQL switch, between transactions, whether a commit may
	// return before it survives a power failure. Empty if commits are always durable.
	relaxedSQL, durableSQL string
	// closeSQL is executed before the connection of a writer is closed.
	closeSQL string
	// insert inserts an event if the session is at the previous version and the
	// epoch of its lease is the named one, or 0 is named. No lease is taken
	// concurrently. Parameters: session, number, id, invocation, time, JSON,
	// epoch.
	insert string
	// snapshot is the isolation level in which two reads see the same snapshot.
	snapshot sql.IsolationLevel
	// questionMarks reports that parameters have no numbers.
	questionMarks bool
	// writerCount is the number of writers; 0 means one.
	writerCount int
	// isUnwritable matches errors of a database that is full or read-only.
	isUnwritable func(error) bool
	// server holds what a database server needs; nil for a file.
	server *serverDialect
}

// Database stores sessions in an SQL database: a pool of readers, and writers
// among which the sessions are divided.
type Database struct {
	dialect    dialect
	readers    *gorm.DB
	reads      *sql.DB // the pool of readers
	head       *statement
	headReader *headReader // nil reads each head separately
	events     *statement
	leases     *statement // reads one lease
	writes     *sql.DB    // the connections of the writers
	writers    []*writer
	closing    func() error
	owner      string // identifies this store in leases
	// artifactFolder is the default folder of artifacts.
	artifactFolder string
	readLimit      *readLimit
	// fileWatch watches the SQLite file; nil for a server.
	fileWatch *fileWatch
	// liveness detects dead owners of leases in a database file; nil for a
	// server.
	liveness *livenessLock
}

// newSQLBackend creates a backend from two pools on the same database, migrates
// the schema and starts the writers. It owns both pools.
func newSQLBackend(ctx context.Context, readers, writers *gorm.DB, d dialect, o *Options) (b *Database, err error) {
	b = &Database{dialect: d, readers: readers, owner: o.Owner, readLimit: &readLimit{}}
	b.closing = sync.OnceValue(b.closeAll)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.Close())
		}
	}()
	if b.reads, err = readers.DB(); err != nil {
		return b, err
	}
	if b.writes, err = writers.DB(); err != nil {
		return b, err
	}
	b.startWriters(writers, o.Logger)
	first := b.writers[0]
	if err := first.openConn(ctx); err != nil {
		return b, fmt.Errorf("opening database: %w", err)
	}
	if err := migrateLocked(ctx, first.conn, first.orm, d, o); err != nil {
		return b, err
	}
	if err := first.prepareStatements(ctx); err != nil {
		return b, err
	}
	if b.head, err = d.prepareStatement(ctx, b.reads, headSQL); err != nil {
		return b, err
	}
	if d.server != nil && d.server.headsSQL != "" {
		b.headReader = &headReader{maxReads: max(1, d.writerCount), logger: o.Logger, read: b.queryHeads}
	}
	if b.events, err = d.prepareStatement(ctx, b.reads, eventsSQL); err != nil {
		return b, err
	}
	b.leases, err = d.prepareStatement(ctx, b.reads, d.insertClock(findLeaseSQL, 3))
	return b, err
}

func (b *Database) startWriters(db *gorm.DB, logger *slog.Logger) {
	n := max(1, b.dialect.writerCount)
	b.writes.SetMaxOpenConns(n)
	b.writes.SetMaxIdleConns(n)
	all := &writerGroup{closeIdleReaders: b.closeIdleReaders}
	for range n {
		all.writers = append(all.writers, &writer{pool: b.writes, db: db, dialect: b.dialect, logger: logger, group: all})
	}
	b.writers = all.writers
}

// writerFor returns the writer of a session. It is always the same one, so that
// no two writers contend for a session.
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

func migrateLocked(ctx context.Context, conn *sql.Conn, orm *gorm.DB, d dialect, o *Options) error {
	if _, err := conn.ExecContext(ctx, d.begin); err != nil {
		return fmt.Errorf("locking database: %w", err)
	}
	end := "COMMIT"
	err := d.lockSchema(ctx, conn)
	if err == nil {
		err = migrateSchema(orm, d, o)
	}
	if err != nil {
		end = "ROLLBACK"
	}
	_, endErr := conn.ExecContext(ctx, end)
	return errors.Join(err, endErr, d.unlockSchema(ctx, conn))
}

// lockSchema waits until no other program changes the schema. It does nothing
// if begin locks the whole database.
func (d dialect) lockSchema(ctx context.Context, conn *sql.Conn) error {
	if d.server == nil {
		return nil
	}
	var got int
	if err := conn.QueryRowContext(ctx, d.server.lockSQL).Scan(&got); err != nil {
		return fmt.Errorf("locking schema: %w", err)
	}
	if got != 1 {
		return errors.New("locking schema: timeout: another program is changing it, retry later")
	}
	return nil
}

func (d dialect) unlockSchema(ctx context.Context, conn *sql.Conn) error {
	if d.server == nil || d.server.unlockSQL == "" {
		return nil
	}
	_, err := conn.ExecContext(ctx, d.server.unlockSQL)
	return err
}

// Close waits for the writers and closes the connections.
func (b *Database) Close() error { return b.closing() }

func (b *Database) closeAll() error {
	var errs []error
	for _, stmt := range []*statement{b.head, b.events, b.leases} {
		errs = append(errs, stmt.Close())
	}
	if b.reads != nil {
		errs = append(errs, b.reads.Close())
	}
	for _, w := range b.writers {
		errs = append(errs, w.close(), w.closeConn())
	}
	if b.writes != nil {
		errs = append(errs, b.writes.Close())
	}
	errs = append(errs, b.liveness.close())
	// Errors of lost connections do not matter any more.
	errs = slices.DeleteFunc(errs, func(err error) bool {
		return err == nil || b.dialect.server != nil && b.dialect.isConnectionLost(err)
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing database: %w", err)
	}
	return nil
}

// The kinds of rows of the head statement, in the order of its parts.
const (
	rowHead = iota
	rowApp
	rowUser
	rowSession
)

// The statements that read a session. The first reads a consistent snapshot of
// the head, that is, number and time of the last event, and of the state keys by
// scope. The second reads the events up to that head; events never change, so it
// may run later. For the last event of the caller's copy it reads only the ID.
const (
	lastEventSQL = `LEFT JOIN events h ON h.session_pk = s.pk
 AND h.seq = (SELECT max(m.seq) FROM events m WHERE m.session_pk = s.pk)`
	headSQL = `
SELECT 0, s.pk, coalesce(h.seq, 0), coalesce(h.timestamp, s.create_time), coalesce(h.id, ''), '' FROM sessions s ` + lastEventSQL + `
 WHERE s.app_name = $1 AND s.user_id = $2 AND s.id = $3
UNION ALL SELECT 1, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = '' AND t.session_id = ''
UNION ALL SELECT 2, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = ''
UNION ALL SELECT 3, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = $3`
	eventsSQL = `SELECT e.seq, CASE WHEN e.seq = $2 THEN e.id ELSE e.event END, e.provenance FROM events e
 WHERE e.session_pk = $1 AND e.seq >= $2 AND e.seq <= $3 ORDER BY e.seq`
)

// ReadSession is a method of [store.SessionBackend].
func (b *Database) ReadSession(ctx context.Context, key session.Key, w store.EventWindow) (*store.Snapshot, error) {
	var snap *store.Snapshot
	err := b.retryRead(ctx, func() (err error) {
		snap, err = b.readOnce(ctx, key, w)
		return err
	})
	switch {
	case err != nil && b.isClosed():
		return nil, store.ErrClosed
	case err != nil:
		return nil, codec.WrapReadError(key, err)
	case snap.ID == 0:
		return nil, store.SessionNotFound(key.ID)
	default:
		return snap, nil
	}
}

// readOnce reads the head of a session and its events up to there. If events
// are missing because the session was deleted in between, it reads the head
// again.
func (b *Database) readOnce(ctx context.Context, key session.Key, w store.EventWindow) (*store.Snapshot, error) {
	var was int64
	for {
		snap, err := b.readHead(ctx, key)
		if err != nil || snap.ID == 0 {
			return snap, err
		}
		snap.Events, err = b.readEvents(ctx, snap, w)
		var bad *codec.DamagedError
		if err == nil || !errors.As(err, &bad) || snap.ID == was {
			return snap, err
		}
		was = snap.ID
	}
}

// readHead reads a session without its events, on the writer's connection if
// that is idle. The head id of a missing session is 0.
func (b *Database) readHead(ctx context.Context, key session.Key) (snap *store.Snapshot, err error) {
	switch {
	case b.headReader != nil:
		return b.headReader.readHead(ctx, key)
	case b.dialect.server != nil:
		return queryHead(ctx, b.head, key)
	}
	w := b.writers[0]
	if w.borrowConn(func() { snap, err = queryHead(ctx, w.stmt.head, key) }) {
		return snap, err
	}
	return queryHead(ctx, b.head, key)
}

func queryHead(ctx context.Context, stmt *statement, key session.Key) (*store.Snapshot, error) {
	// Watching a context costs more than the statement.
	rows, err := stmt.QueryContext(context.WithoutCancel(ctx), key.App, key.User, key.ID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	snap := &store.Snapshot{State: map[string]any{}}
	for rows.Next() {
		if err := scanHead(rows, func(r headStatementRow) error { return addRow(snap, r) }); err != nil {
			return nil, err
		}
	}
	return snap, rows.Err()
}

// A headStatementRow is a row of the head statement: the head, or a state key.
type headStatementRow struct {
	kind                int
	id, number, updated int64
	key                 string
	text                sql.RawBytes
}

// scanHead scans a row, whose first columns may be others, and passes it on
// before the next row reuses its bytes.
func scanHead(rows *sql.Rows, take func(headStatementRow) error, before ...any) error {
	var r headStatementRow
	if err := rows.Scan(append(before, &r.kind, &r.id, &r.number, &r.updated, &r.key, &r.text)...); err != nil {
		return err
	}
	return take(r)
}

func addRow(s *store.Snapshot, r headStatementRow) error {
	if r.kind == rowHead {
		s.Head, s.LastID = store.Head{ID: r.id, Version: r.number, Updated: microsToTime(r.updated)}, r.key
		return nil
	}
	v, err := codec.DecodeValue(r.text)
	if err != nil {
		return codec.NewDamagedError(err, "state key %q", scopeOfRow(r.kind).Prefix()+r.key)
	}
	s.State[scopeOfRow(r.kind).Prefix()+r.key] = v
	return nil
}

func scopeOfRow(kind int) session.Scope {
	switch kind {
	case rowApp:
		return session.ScopeApp
	case rowUser:
		return session.ScopeUser
	default:
		return session.ScopeSession
	}
}

// readEvents reads the events that a window selects, up to a head. If the events
// of the caller's copy are not in the database, because an older backup was
// restored, it reads all events.
func (b *Database) readEvents(ctx context.Context, snap *store.Snapshot, w store.EventWindow) ([]store.StoredEvent, error) {
	if w.IsNarrow() {
		return b.readNarrow(ctx, snap.Head, w)
	}
	if w.ID != snap.ID {
		w.Since, w.SinceID = 0, ""
	}
	if w.Since == snap.Version && w.SinceID == snap.LastID {
		return nil, nil
	}
	if w.Since < snap.Version {
		events, same, err := b.queryEvents(ctx, snap.Head, w)
		if err != nil || same {
			return events, err
		}
	}
	w.Since, w.SinceID, snap.Whole = 0, "", true
	events, _, err := b.queryEvents(ctx, snap.Head, w)
	return events, err
}

// queryEvents reads the events after a number, and reports whether the event
// with that number is the one in the caller's copy.
func (b *Database) queryEvents(ctx context.Context, h store.Head, w store.EventWindow) (events []store.StoredEvent, same bool, err error) {
	rows, err := b.events.QueryContext(ctx, h.ID, w.Since, h.Version)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	same = w.Since == 0
	for rows.Next() {
		var seq int64
		var text, provenance sql.RawBytes
		if err := rows.Scan(&seq, &text, &provenance); err != nil {
			return nil, false, err
		}
		if seq == w.Since {
			same = string(text) == w.SinceID
			continue
		}
		ev, err := decodeEvent(text, seq, provenance)
		if err != nil {
			return nil, false, err
		}
		events = append(events, newStoredEvent(ev, len(text)))
	}
	if err = rows.Err(); err == nil && same {
		err = checkSequence(events, w.Since, h.Version)
	}
	return events, same, err
}

// narrowQuery selects events by the primary key, latest first.
func (b *Database) narrowQuery(ctx context.Context, h store.Head, w store.EventWindow) *gorm.DB {
	db := b.readers.WithContext(ctx)
	q := db.Where("session_pk = ? AND seq <= ?", h.ID, h.Version)
	if w.After != nil {
		older := db.Model(&eventRow{}).Select("seq").Where("session_pk = ? AND timestamp < ?", h.ID, w.After.UnixMicro())
		q = q.Where("seq > coalesce((?), 0)", older.Order("seq DESC").Limit(1))
	}
	return q.Select("seq", "event", "provenance").Order("seq DESC").Limit(w.Last)
}

func (b *Database) readNarrow(ctx context.Context, h store.Head, w store.EventWindow) ([]store.StoredEvent, error) {
	var rows []fullEventRow
	if err := b.narrowQuery(ctx, h, w).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	events := make([]store.StoredEvent, len(rows))
	for i, r := range rows {
		ev, err := decodeEvent([]byte(r.Event), r.Seq, r.provenance())
		if err != nil {
			return nil, err
		}
		events[len(rows)-1-i] = newStoredEvent(ev, len(r.Event))
	}
	since := h.Version - int64(len(rows))
	if w.After == nil && len(rows) < w.Last {
		since = 0
	}
	return events, checkSequence(events, since, h.Version)
}

// estimateEventBytes estimates the memory of an event from the length of its
// JSON.
func estimateEventBytes(text int) int64 { return 1024 + 2*int64(text) }

func newStoredEvent(ev *session.Event, text int) store.StoredEvent {
	return store.StoredEvent{Event: ev, Text: int64(text), Cost: estimateEventBytes(text)}
}

func microsToTime(t int64) time.Time { return time.UnixMicro(t).UTC() }

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

// checkSequence checks that the numbers of events run from since+1 to last
// without a gap.
func checkSequence(events []store.StoredEvent, since, last int64) error {
	for _, e := range slices.Backward(events) {
		if e.Event.Seq != last {
			break
		}
		last--
	}
	if since != last {
		return codec.NewDamagedError(errMissing, "event %d", last)
	}
	return nil
}

// errMissing is the reason for a missing row.
var errMissing = errors.New("row is missing")
