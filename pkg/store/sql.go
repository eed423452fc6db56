package store

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

	"gorm.io/gorm"

	"agenthost/pkg/session"
)

// A dialect is what one SQL engine says otherwise than the others.
type dialect struct {
	// begin opens a transaction that may write.
	begin string
	// upsert writes a row of states: app, user, session, key, value.
	upsert string
	// reserve makes sure that a row of states is there and belongs to this
	// transaction until it ends: app, user, session, key. Empty where begin locks
	// the whole database.
	reserve string
	// lockRow ends a SELECT that reads a row to change it.
	lockRow string
	// tableOptions follows the closing bracket of CREATE TABLE.
	tableOptions func(table string) string
	// isConflict tells the error of a unique index, a foreign key, or a null.
	isConflict func(error) bool
	// now is an expression of the database's clock in microseconds. Empty means
	// that all who open the database are on one machine, whose clock it is.
	now string
	// relax and strict say, between transactions, whether a commit may come back
	// before it is safe from a power cut. Empty where all are always strict.
	relaxedSQL, durableSQL string
	// closeSQL is carried out before the writer's connection closes.
	closeSQL string
	// insert puts in an event when the session is at the version before, and
	// its lease's epoch is the one that is named, or 0 is: session, number, id,
	// invocation, time, JSON, epoch. No lease is taken while it does.
	insert string
	// snapshot is the isolation in which two reads see one moment.
	snapshot sql.IsolationLevel
	// questionMarks says that parameters have no numbers.
	questionMarks bool
	// writerCount is the number of writers; 0 is one.
	writerCount int
	// isUnwritable tells errors of a database that takes no writes: it is full, or may
	// only be read.
	isUnwritable func(error) bool
	// server is what a server behind a network needs, or nil for a file.
	server *serverDialect
}

// sqlBackend keeps sessions in a database: readers in a pool, and each session
// written by one of the writers.
type sqlBackend struct {
	dialect    dialect
	readers    *gorm.DB
	reads      *sql.DB // the pool of readers
	head       *statement
	headReader *headReader // nil reads each by itself
	events     *statement
	leases     *statement // finds one
	writes     *sql.DB    // the connections of the writers
	writers    []*writer
	closing    func() error
	owner      string // the store's name in leases
	readLimit  *readLimit
	// fileWatch is that of SQLite; nil for a server.
	fileWatch *fileWatch
	// liveness tells who else has a database file open; nil for a server.
	liveness *livenessLock
}

// newSQLBackend makes a backend of two pools on the same database, brings its schema
// up to date and starts the writers. It owns both pools.
func newSQLBackend(ctx context.Context, readers, writers *gorm.DB, d dialect, o *Options) (b *sqlBackend, err error) {
	b = &sqlBackend{dialect: d, readers: readers, owner: o.owner, readLimit: &readLimit{}}
	b.closing = sync.OnceValue(b.closeAll)
	defer func() {
		if err != nil {
			err = errors.Join(err, b.close())
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
		return b, fmt.Errorf("opening the database: %w", err)
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

func (b *sqlBackend) startWriters(db *gorm.DB, logger *slog.Logger) {
	n := max(1, b.dialect.writerCount)
	b.writes.SetMaxOpenConns(n)
	b.writes.SetMaxIdleConns(n)
	all := &writerGroup{closeIdleReaders: b.closeIdleReaders}
	for range n {
		all.writers = append(all.writers, &writer{pool: b.writes, db: db, dialect: b.dialect, logger: logger, group: all})
	}
	b.writers = all.writers
}

// writerFor returns the writer of a session: always the same one, so that no two
// of them meet at a session.
func (b *sqlBackend) writerFor(key session.Key) *writer {
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

func (b *sqlBackend) isClosed() bool { return b.writers[0].isClosed() }

func migrateLocked(ctx context.Context, conn *sql.Conn, orm *gorm.DB, d dialect, o *Options) error {
	if _, err := conn.ExecContext(ctx, d.begin); err != nil {
		return fmt.Errorf("locking the database: %w", err)
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

// lockSchema waits until no other program changes the schema. Where begin locks
// the whole database, nothing else is needed.
func (d dialect) lockSchema(ctx context.Context, conn *sql.Conn) error {
	if d.server == nil {
		return nil
	}
	var got int
	if err := conn.QueryRowContext(ctx, d.server.lockSQL).Scan(&got); err != nil {
		return fmt.Errorf("locking the schema: %w", err)
	}
	if got != 1 {
		return errors.New("locking the schema: another program has changed it for a long time: try again")
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

// close lets the writer finish and closes the connections.
func (b *sqlBackend) close() error { return b.closing() }

func (b *sqlBackend) closeAll() error {
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
	// What is left on a connection that died is nobody's any more.
	errs = slices.DeleteFunc(errs, func(err error) bool {
		return err == nil || b.dialect.server != nil && b.dialect.isConnectionLost(err)
	})
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the database: %w", err)
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

// The statements that read a session. The first reads its head, which is its
// last event's number and time, and its state keys by scope, at one moment.
// The second reads its events up to that head; they never change, so that it
// may follow later. Of the event that the caller knows, it reads the id.
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

func (b *sqlBackend) readSession(ctx context.Context, key session.Key, w eventWindow) (*snapshot, error) {
	var snap *snapshot
	err := b.retryRead(ctx, func() (err error) {
		snap, err = b.readOnce(ctx, key, w)
		return err
	})
	switch {
	case err != nil && b.isClosed():
		return nil, errClosed
	case err != nil:
		return nil, wrapReadError(key, err)
	case snap.id == 0:
		return nil, errNotFound(key.ID)
	default:
		return snap, nil
	}
}

// readOnce reads a session's head, and its events up to there. A session that is
// deleted in between has lost its events, and none is missing: the next head tells.
func (b *sqlBackend) readOnce(ctx context.Context, key session.Key, w eventWindow) (*snapshot, error) {
	var was int64
	for {
		snap, err := b.readHead(ctx, key)
		if err != nil || snap.id == 0 {
			return snap, err
		}
		snap.events, err = b.readEvents(ctx, snap, w)
		var bad *damagedError
		if err == nil || !errors.As(err, &bad) || snap.id == was {
			return snap, err
		}
		was = snap.id
	}
}

// readHead reads a session without its events, on the writer's connection when
// that is free. Without a session, the head's id is 0.
func (b *sqlBackend) readHead(ctx context.Context, key session.Key) (snap *snapshot, err error) {
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

func queryHead(ctx context.Context, stmt *statement, key session.Key) (*snapshot, error) {
	// What watches over a context costs more than the statement.
	rows, err := stmt.QueryContext(context.WithoutCancel(ctx), key.App, key.User, key.ID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	snap := &snapshot{state: map[string]any{}}
	for rows.Next() {
		if err := scanHead(rows, snap.addRow); err != nil {
			return nil, err
		}
	}
	return snap, rows.Err()
}

// A snapRow is a row of the head statement: the head, or a key of the state.
type headStatementRow struct {
	kind                int
	id, number, updated int64
	key                 string
	text                sql.RawBytes
}

// scanHead reads a row, of which the first columns may be something else, and hands
// it on before the next one takes its bytes.
func scanHead(rows *sql.Rows, take func(headStatementRow) error, before ...any) error {
	var r headStatementRow
	if err := rows.Scan(append(before, &r.kind, &r.id, &r.number, &r.updated, &r.key, &r.text)...); err != nil {
		return err
	}
	return take(r)
}

func (s *snapshot) addRow(r headStatementRow) error {
	if r.kind == rowHead {
		s.head, s.lastID = head{id: r.id, version: r.number, updated: microsToTime(r.updated)}, r.key
		return nil
	}
	v, err := decodeValue(r.text)
	if err != nil {
		return newDamagedError(err, "state key %q", scopeOfRow(r.kind).Prefix()+r.key)
	}
	s.state[scopeOfRow(r.kind).Prefix()+r.key] = v
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

// readEvents reads the events that a window asks for, up to a head. When the caller
// knows others than there are, because the database went back to an older moment,
// it reads all of them.
func (b *sqlBackend) readEvents(ctx context.Context, snap *snapshot, w eventWindow) ([]storedEvent, error) {
	if w.isNarrow() {
		return b.readNarrow(ctx, snap.head, w)
	}
	if w.id != snap.id {
		w.since, w.sinceID = 0, ""
	}
	if w.since == snap.version && w.sinceID == snap.lastID {
		return nil, nil
	}
	if w.since < snap.version {
		events, same, err := b.queryEvents(ctx, snap.head, w)
		if err != nil || same {
			return events, err
		}
	}
	w.since, w.sinceID, snap.whole = 0, "", true
	events, _, err := b.queryEvents(ctx, snap.head, w)
	return events, err
}

// queryEvents reads the events after a number, and says whether that one is the
// event that the caller knows.
func (b *sqlBackend) queryEvents(ctx context.Context, h head, w eventWindow) (events []storedEvent, same bool, err error) {
	rows, err := b.events.QueryContext(ctx, h.id, w.since, h.version)
	if err != nil {
		return nil, false, err
	}
	defer rows.Close()
	same = w.since == 0
	for rows.Next() {
		var seq int64
		var text, provenance sql.RawBytes
		if err := rows.Scan(&seq, &text, &provenance); err != nil {
			return nil, false, err
		}
		if seq == w.since {
			same = string(text) == w.sinceID
			continue
		}
		ev, err := decodeEvent(text, seq, provenance)
		if err != nil {
			return nil, false, err
		}
		events = append(events, newStoredEvent(ev, len(text)))
	}
	if err = rows.Err(); err == nil && same {
		err = checkSequence(events, w.since, h.version)
	}
	return events, same, err
}

// narrowQuery finds a part of the events by the primary key, the latest first.
func (b *sqlBackend) narrowQuery(ctx context.Context, h head, w eventWindow) *gorm.DB {
	db := b.readers.WithContext(ctx)
	q := db.Where("session_pk = ? AND seq <= ?", h.id, h.version)
	if w.after != nil {
		older := db.Model(&eventRow{}).Select("seq").Where("session_pk = ? AND timestamp < ?", h.id, w.after.UnixMicro())
		q = q.Where("seq > coalesce((?), 0)", older.Order("seq DESC").Limit(1))
	}
	return q.Select("seq", "event", "provenance").Order("seq DESC").Limit(w.last)
}

func (b *sqlBackend) readNarrow(ctx context.Context, h head, w eventWindow) ([]storedEvent, error) {
	var rows []fullEventRow
	if err := b.narrowQuery(ctx, h, w).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	events := make([]storedEvent, len(rows))
	for i, r := range rows {
		ev, err := decodeEvent([]byte(r.Event), r.Seq, r.provenance())
		if err != nil {
			return nil, err
		}
		events[len(rows)-1-i] = newStoredEvent(ev, len(r.Event))
	}
	since := h.version - int64(len(rows))
	if w.after == nil && len(rows) < w.last {
		since = 0
	}
	return events, checkSequence(events, since, h.version)
}

// estimateEventBytes is about what an event takes in memory, by the length of its JSON
// text.
func estimateEventBytes(text int) int64 { return 1024 + 2*int64(text) }

func newStoredEvent(ev *session.Event, text int) storedEvent {
	return storedEvent{ev, int64(text), estimateEventBytes(text)}
}

func microsToTime(t int64) time.Time { return time.UnixMicro(t).UTC() }

// wrapError says what an error was about, and that a closed database is closed.
func (b *sqlBackend) wrapError(what string, err error) error {
	switch {
	case err == nil:
		return nil
	case b.isClosed():
		return errClosed
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
}
