package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
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
	// tableOptions follows the closing bracket of CREATE TABLE.
	tableOptions func(table string) string
	// conflict tells the error of a unique index, a foreign key, or a null.
	conflict func(error) bool
	// parting is carried out before the writer's connection closes.
	parting string
}

// sqlBackend keeps sessions in a database: readers in a pool, all writes by
// one writer.
type sqlBackend struct {
	dialect dialect
	readers *gorm.DB
	reads   *sql.DB // the pool of readers
	head    *sql.Stmt
	events  *sql.Stmt
	writes  *sql.DB // one connection, which the writer holds
	writer  *writer
	closing func() error
}

// newSQL makes a backend of two pools on the same database, brings its schema
// up to date and starts the writer. It owns both pools.
func newSQL(ctx context.Context, readers, writers *gorm.DB, d dialect, o *Options) (b *sqlBackend, err error) {
	b = &sqlBackend{dialect: d, readers: readers}
	b.closing = sync.OnceValue(b.shut)
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
	b.writes.SetMaxOpenConns(1)
	conn, err := b.writes.Conn(ctx)
	if err != nil {
		return b, fmt.Errorf("opening the database: %w", err)
	}
	orm := writers.Session(&gorm.Session{NewDB: true, Context: context.Background()})
	orm.Statement.ConnPool = conn
	if err := migrateLocked(ctx, conn, orm, d, o); err != nil {
		return b, errors.Join(err, conn.Close())
	}
	stmt, err := prepareWrites(ctx, conn, d)
	if err != nil {
		return b, errors.Join(err, conn.Close())
	}
	b.writer = &writer{conn: conn, orm: orm, stmt: stmt}
	if b.head, err = b.reads.PrepareContext(ctx, headSQL); err != nil {
		return b, err
	}
	b.events, err = b.reads.PrepareContext(ctx, eventsSQL)
	return b, err
}

func migrateLocked(ctx context.Context, conn *sql.Conn, orm *gorm.DB, d dialect, o *Options) error {
	if _, err := conn.ExecContext(ctx, d.begin); err != nil {
		return fmt.Errorf("locking the database: %w", err)
	}
	end := "COMMIT"
	err := migrate(orm, d, o)
	if err != nil {
		end = "ROLLBACK"
	}
	_, endErr := conn.ExecContext(ctx, end)
	return errors.Join(err, endErr)
}

// close lets the writer finish and closes the connections.
func (b *sqlBackend) close() error { return b.closing() }

func (b *sqlBackend) shut() error {
	var errs []error
	for _, stmt := range []*sql.Stmt{b.head, b.events} {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	if b.reads != nil {
		errs = append(errs, b.reads.Close())
	}
	if b.writer != nil {
		errs = append(errs, b.writer.close())
		_, err := b.writer.conn.ExecContext(context.Background(), b.dialect.parting)
		errs = append(errs, err, b.writer.conn.Close())
	}
	if b.writes != nil {
		errs = append(errs, b.writes.Close())
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("closing the database: %w", err)
	}
	return nil
}

func (b *sqlBackend) ping(ctx context.Context) error {
	return b.writer.do(ctx, func(*writer) error { return nil })
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
// may follow later.
const (
	lastEventSQL = `LEFT JOIN events h ON h.session_pk = s.pk
 AND h.seq = (SELECT max(m.seq) FROM events m WHERE m.session_pk = s.pk)`
	headSQL = `
SELECT 0, s.pk, coalesce(h.seq, 0), coalesce(h.timestamp, s.create_time), '', '' FROM sessions s ` + lastEventSQL + `
 WHERE s.app_name = $1 AND s.user_id = $2 AND s.id = $3
UNION ALL SELECT 1, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = '' AND t.session_id = ''
UNION ALL SELECT 2, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = ''
UNION ALL SELECT 3, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = $3`
	eventsSQL = `SELECT e.seq, e.event FROM events e WHERE e.session_pk = $1 AND e.seq > $2 AND e.seq <= $3 ORDER BY e.seq`
)

func (b *sqlBackend) read(ctx context.Context, key session.Key, w window) (*snapshot, error) {
	snap, err := b.readHead(ctx, key)
	if err == nil && snap.id != 0 {
		snap.events, err = b.readEvents(ctx, snap.head, w)
	}
	switch {
	case err != nil && b.writer.isClosed():
		return nil, errClosed
	case err != nil:
		return nil, fmt.Errorf("reading session %s: %w", key.ID, err)
	case snap.id == 0:
		return nil, errNotFound(key.ID)
	default:
		return snap, nil
	}
}

// readHead reads a session without its events, on the writer's connection when
// that is free. Without a session, the head's id is 0.
func (b *sqlBackend) readHead(ctx context.Context, key session.Key) (snap *snapshot, err error) {
	if b.writer.borrow(func() { snap, err = queryHead(ctx, b.writer.stmt.head, key) }) {
		return snap, err
	}
	return queryHead(ctx, b.head, key)
}

func queryHead(ctx context.Context, stmt *sql.Stmt, key session.Key) (*snapshot, error) {
	// What watches over a context costs more than the statement.
	rows, err := stmt.QueryContext(context.WithoutCancel(ctx), key.App, key.User, key.ID)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	snap := &snapshot{state: map[string]any{}}
	for rows.Next() {
		if err := snap.scan(rows); err != nil {
			return nil, err
		}
	}
	return snap, rows.Err()
}

// scan reads one row of the head statement.
func (s *snapshot) scan(rows *sql.Rows) error {
	var kind int
	var id, number, updated int64
	var key string
	var text sql.RawBytes
	if err := rows.Scan(&kind, &id, &number, &updated, &key, &text); err != nil {
		return err
	}
	if kind == rowHead {
		s.head = head{id: id, version: number, updated: fromMicro(updated)}
		return nil
	}
	v, err := decodeValue(text)
	if err != nil {
		return err
	}
	s.state[rowScope(kind).Prefix()+key] = v
	return nil
}

func rowScope(kind int) session.Scope {
	switch kind {
	case rowApp:
		return session.ScopeApp
	case rowUser:
		return session.ScopeUser
	default:
		return session.ScopeSession
	}
}

// readEvents reads the events that a window asks for, up to a head.
func (b *sqlBackend) readEvents(ctx context.Context, h head, w window) ([]stored, error) {
	if w.narrow() {
		return b.narrow(ctx, h, w)
	}
	if w.id != h.id {
		w.since = 0
	}
	if w.since >= h.version {
		return nil, nil
	}
	rows, err := b.events.QueryContext(ctx, h.id, w.since, h.version)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var events []stored
	for rows.Next() {
		var seq int64
		var text sql.RawBytes
		if err := rows.Scan(&seq, &text); err != nil {
			return nil, err
		}
		ev, err := decodeEvent(text, seq)
		if err != nil {
			return nil, err
		}
		events = append(events, stored{ev, eventBytes(len(text))})
	}
	return events, rows.Err()
}

// narrowQuery finds a part of the events by the primary key, the latest first.
func (b *sqlBackend) narrowQuery(ctx context.Context, h head, w window) *gorm.DB {
	db := b.readers.WithContext(ctx)
	q := db.Where("session_pk = ? AND seq <= ?", h.id, h.version)
	if w.after != nil {
		older := db.Model(&eventRow{}).Select("seq").Where("session_pk = ? AND timestamp < ?", h.id, w.after.UnixMicro())
		q = q.Where("seq > coalesce((?), 0)", older.Order("seq DESC").Limit(1))
	}
	return q.Select("seq", "event").Order("seq DESC").Limit(w.last)
}

func (b *sqlBackend) narrow(ctx context.Context, h head, w window) ([]stored, error) {
	var rows []eventRow
	if err := b.narrowQuery(ctx, h, w).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("reading events: %w", err)
	}
	events := make([]stored, len(rows))
	for i, r := range rows {
		ev, err := decodeEvent([]byte(r.Event), r.Seq)
		if err != nil {
			return nil, err
		}
		events[len(rows)-1-i] = stored{ev, eventBytes(len(r.Event))}
	}
	return events, nil
}

func decodeEvent(text []byte, seq int64) (*session.Event, error) {
	ev := &session.Event{}
	if err := ev.UnmarshalJSON(text); err != nil {
		return nil, fmt.Errorf("reading event %d: %w", seq, err)
	}
	ev.Seq = seq
	return ev, nil
}

// eventBytes is about what an event takes in memory, by the length of its JSON
// text.
func eventBytes(text int) int64 { return 1024 + 2*int64(text) }

func fromMicro(t int64) time.Time { return time.UnixMicro(t).UTC() }
