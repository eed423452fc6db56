package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
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
	// tableOptions follows the closing bracket of CREATE TABLE.
	tableOptions func(table string) string
	// duplicate tells the error of a unique index.
	duplicate func(error) bool
	// parting is carried out before the writer's connection closes.
	parting string
}

// sqlBackend keeps sessions in a database: readers in a pool, all writes by
// one writer.
type sqlBackend struct {
	dialect dialect
	readers *gorm.DB
	reads   *sql.DB // the pool of readers
	byKey   *sql.Stmt
	byID    *sql.Stmt
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
	if b.byKey, err = b.reads.PrepareContext(ctx, readByKeySQL); err != nil {
		return b, err
	}
	b.byID, err = b.reads.PrepareContext(ctx, readByIDSQL)
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
	for _, stmt := range []*sql.Stmt{b.byKey, b.byID} {
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

// The kinds of rows of the read statements, in the order of their parts.
const (
	rowHead = iota
	rowApp
	rowUser
	rowSession
	rowEvent
)

// The statements that read all of a session at once, so at one moment: its
// head, its state keys by scope, and its events after a sequence number. The
// first finds it by its key, the second by the id of its head, which is much
// quicker.
const (
	statesSQL = `
UNION ALL SELECT 1, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = '' AND t.session_id = ''
UNION ALL SELECT 2, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = ''
UNION ALL SELECT 3, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = $3`
	readByKeySQL = `
SELECT 0, s.pk, s.version, s.update_time, '', '' FROM sessions s
 WHERE s.app_name = $1 AND s.user_id = $2 AND s.id = $3` + statesSQL + `
UNION ALL SELECT 4, 0, e.seq, 0, '', e.event FROM sessions s JOIN events e ON e.session_pk = s.pk
 WHERE s.app_name = $1 AND s.user_id = $2 AND s.id = $3 AND e.seq > $4`
	readByIDSQL = `
SELECT 0, s.pk, s.version, s.update_time, '', '' FROM sessions s WHERE s.pk = $5` + statesSQL + `
UNION ALL SELECT 4, 0, e.seq, 0, '', e.event FROM events e WHERE e.session_pk = $5 AND e.seq > $4`
)

func (b *sqlBackend) read(ctx context.Context, key session.Key, w window) (*snapshot, error) {
	var snap *snapshot
	var err error
	if w.narrow() {
		snap, err = b.snapshot(ctx, b.byKey, key, int64(math.MaxInt64))
		if err == nil && snap.id != 0 {
			snap.events, err = b.narrow(ctx, snap.head, w)
		}
	} else {
		snap, err = b.readWhole(ctx, key, w)
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

func (b *sqlBackend) readWhole(ctx context.Context, key session.Key, w window) (*snapshot, error) {
	if w.id != 0 {
		snap, err := b.snapshot(ctx, b.byID, key, w.since, w.id)
		if err != nil || snap.id != 0 {
			return snap, err
		}
	}
	return b.snapshot(ctx, b.byKey, key, int64(0))
}

// snapshot carries out one of the read statements. Without a session, the
// head's id is 0.
func (b *sqlBackend) snapshot(ctx context.Context, stmt *sql.Stmt, key session.Key, more ...any) (*snapshot, error) {
	// What watches over a context costs more than the statement.
	rows, err := stmt.QueryContext(context.WithoutCancel(ctx), append([]any{key.App, key.User, key.ID}, more...)...)
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
	// UNION ALL promises no order.
	slices.SortFunc(snap.events, func(a, b stored) int { return int(a.event.Seq - b.event.Seq) })
	return snap, rows.Err()
}

// scan reads one row of the read statements.
func (s *snapshot) scan(rows *sql.Rows) error {
	var kind int
	var id, number, updated int64
	var key string
	var text sql.RawBytes
	if err := rows.Scan(&kind, &id, &number, &updated, &key, &text); err != nil {
		return err
	}
	switch kind {
	case rowHead:
		s.head = head{id: id, version: number, updated: fromMicro(updated)}
	case rowEvent:
		ev, err := decodeEvent(text, number)
		if err != nil {
			return err
		}
		s.events = append(s.events, stored{ev, eventBytes(len(text))})
	default:
		v, err := decodeValue(text)
		if err != nil {
			return err
		}
		s.state[rowScope(kind).Prefix()+key] = v
	}
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
