package main

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"agenthost/pkg/session"
	"agenthost/qa/bench/internal/engine"
)

// A durable turn's statements in agenthost: the session's head is read, and each of the two events
// is inserted in its own transaction. They are copied from pkg/store; a test compares them.
var (
	headSQL = `
SELECT 0, s.pk, coalesce(h.seq, 0), coalesce(h.timestamp, s.create_time), coalesce(h.id, ''), '' FROM sessions s ` + lastEventSQL + headTailSQL
	insertSQLite = `INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance, outcome) VALUES ($1,
 CASE WHEN coalesce((SELECT max(h.seq) FROM events h WHERE h.session_pk = $1), 0) = $2 - 1
 AND EXISTS (SELECT 1 FROM sessions s WHERE s.pk = $1 AND $7 IN (s.lease_epoch, 0)) THEN $2 END, $3, $4, $5, $6, $8, $9)`
	insertPostgres = `
INSERT INTO events (session_pk, seq, id, invocation_id, timestamp, event, provenance, outcome)
 SELECT s.pk, g.seq, g.id, g.inv, g.at, g.event, g.provenance, g.outcome
 FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::bigint[], $6::text[], $7::bigint[], $8::text[], $9::text[])
  AS g(pk, seq, id, inv, at, event, epoch, provenance, outcome)
 JOIN sessions s ON s.pk = g.pk
 WHERE coalesce((SELECT h.seq FROM events h WHERE h.session_pk = g.pk ORDER BY h.seq DESC LIMIT 1), 0) = g.seq - 1
 AND g.epoch IN (s.lease_epoch, 0) FOR SHARE OF s
 ON CONFLICT DO NOTHING RETURNING session_pk, id`
)

const (
	lastEventSQL = `LEFT JOIN events h ON h.session_pk = s.pk
 AND h.seq = (SELECT max(m.seq) FROM events m WHERE m.session_pk = s.pk)`
	headTailSQL = `
 WHERE s.app_name = $1 AND s.user_id = $2 AND s.id = $3
UNION ALL SELECT 1, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = '' AND t.session_id = ''
UNION ALL SELECT 2, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = ''
UNION ALL SELECT 3, 0, 0, 0, t.key, t.value FROM states t
 WHERE t.app_name = $1 AND t.user_id = $2 AND t.session_id = $3`
)

// A floor does the database work for agenthost's turns, and nothing else: it executes the prepared
// statements in a loop.
type floor struct {
	// readHead reads the head statement's rows and returns the session's key and version.
	readHead func(ctx context.Context, k session.Key) (pk, version int64, err error)
	// insert inserts an event and commits.
	insert func(ctx context.Context, pk, seq int64, id string, epoch int64, at time.Time, ev eventRow) error
	close  func() error

	events  [2]eventRow
	epochs  map[string]int64 // the sessions' lease epochs
	commits int64
}

// An eventRow has an event's stored columns that are the same in every turn.
type eventRow struct{ id, invocation, text, provenance, outcome string }

// openFloor opens a database that agenthost filled with fillTurns. Its turns store the
// last two events again.
func openFloor(ctx context.Context, at *engine.Database) (*floor, error) {
	f := &floor{}
	open := f.openPostgres
	if at.Name == engine.SQLite().Name {
		open = f.openSQLite
	}
	if err := open(ctx, at); err != nil {
		return nil, err
	}
	return f, nil
}

// runTurn does a turn's work.
func (f *floor) runTurn(ctx context.Context, id string) error {
	pk, version, err := f.readHead(ctx, session.Key{App: app, User: user, ID: id})
	for i, ev := range f.events {
		if err != nil {
			return err
		}
		err = f.insert(ctx, pk, version+1+int64(i), rand.Text()[:16]+ev.id[16:], f.epochs[id], time.Now(), ev)
		f.commits++
	}
	return err
}

const (
	epochsSQL = "SELECT id, lease_epoch FROM sessions"
	sampleSQL = `SELECT id, invocation_id, event, coalesce(provenance, ''), coalesce(outcome, '') FROM events
 WHERE session_pk = (SELECT max(session_pk) FROM events) ORDER BY seq DESC LIMIT 2`
)

// openSQLite opens a file with SQLite's C engine and agenthost's writer settings.
func (f *floor) openSQLite(ctx context.Context, at *engine.Database) error {
	pool, err := at.OpenC()
	if err != nil {
		return err
	}
	f.close = pool.Close
	conn, err := pool.Conn(ctx)
	if err != nil {
		return err
	}
	if _, err := conn.ExecContext(ctx, "PRAGMA journal_size_limit = 67108864"); err != nil {
		return err
	}
	head, err := conn.PrepareContext(ctx, numbered(headSQL))
	if err != nil {
		return err
	}
	insert, err := conn.PrepareContext(ctx, numbered(insertSQLite))
	if err != nil {
		return err
	}
	f.readHead = func(_ context.Context, k session.Key) (int64, int64, error) {
		rows, err := head.QueryContext(context.Background(), k.App, k.User, k.ID)
		if err != nil {
			return 0, 0, err
		}
		defer rows.Close()
		return scanHead(rows)
	}
	f.insert = func(_ context.Context, pk, seq int64, id string, epoch int64, at time.Time, ev eventRow) error {
		res, err := insert.ExecContext(context.Background(), pk, seq, id, ev.invocation, at.UnixMicro(), ev.text, epoch, ev.provenance, ev.outcome)
		if err != nil {
			return err
		}
		return wantOne(res.RowsAffected())
	}
	epochs, err := conn.QueryContext(ctx, epochsSQL)
	if err != nil {
		return err
	}
	defer epochs.Close()
	if err := f.scanEpochs(epochs); err != nil {
		return err
	}
	sample, err := conn.QueryContext(ctx, sampleSQL)
	if err != nil {
		return err
	}
	defer sample.Close()
	return f.scanEvents(sample)
}

// openPostgres opens two pgx connections, for reads and for writes, as agenthost does. On one
// connection the turns take longer.
func (f *floor) openPostgres(ctx context.Context, at *engine.Database) error {
	conn, err := pgx.Connect(ctx, at.URL())
	if err != nil {
		return err
	}
	reads, err := pgx.Connect(ctx, at.URL())
	if err != nil {
		return errors.Join(err, conn.Close(ctx))
	}
	f.close = func() error {
		ctx := context.WithoutCancel(ctx)
		return errors.Join(conn.Close(ctx), reads.Close(ctx))
	}
	f.readHead = func(ctx context.Context, k session.Key) (int64, int64, error) {
		rows, err := reads.Query(ctx, headSQL, k.App, k.User, k.ID)
		if err != nil {
			return 0, 0, err
		}
		defer rows.Close()
		return scanHead(rows)
	}
	f.insert = func(ctx context.Context, pk, seq int64, id string, epoch int64, at time.Time, ev eventRow) error {
		tag, err := conn.Exec(ctx, insertPostgres, []int64{pk}, []int64{seq}, []string{id}, []string{ev.invocation},
			[]int64{at.UnixMicro()}, []string{ev.text}, []int64{epoch}, []string{ev.provenance}, []string{ev.outcome})
		if err != nil {
			return err
		}
		return wantOne(tag.RowsAffected(), nil)
	}
	epochs, err := conn.Query(ctx, epochsSQL)
	if err != nil {
		return err
	}
	if err := f.scanEpochs(epochs); err != nil {
		return err
	}
	sample, err := conn.Query(ctx, sampleSQL)
	if err != nil {
		return err
	}
	return f.scanEvents(sample)
}

// numbered replaces $1 by ?1: in C, SQLite numbers $1 by its first use.
func numbered(text string) string { return strings.ReplaceAll(text, "$", "?") }

// rows are the rows that database/sql and pgx return.
type rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

func scanHead(all rows) (pk, version int64, err error) {
	for all.Next() {
		var kind, id, seq, updated int64
		var key, text string
		if err := all.Scan(&kind, &id, &seq, &updated, &key, &text); err != nil {
			return 0, 0, err
		}
		if kind == 0 {
			pk, version = id, seq
		}
	}
	return pk, version, all.Err()
}

func (f *floor) scanEpochs(all rows) error {
	f.epochs = map[string]int64{}
	for all.Next() {
		var id string
		var epoch int64
		if err := all.Scan(&id, &epoch); err != nil {
			return err
		}
		f.epochs[id] = epoch
	}
	return all.Err()
}

// scanEvents scans the last two events, the answer first.
func (f *floor) scanEvents(all rows) error {
	for i := 1; all.Next() && i >= 0; i-- {
		ev := &f.events[i]
		if err := all.Scan(&ev.id, &ev.invocation, &ev.text, &ev.provenance, &ev.outcome); err != nil {
			return err
		}
	}
	return all.Err()
}

// wantOne returns an error unless one row was inserted.
func wantOne(n int64, err error) error {
	if err == nil && n != 1 {
		err = fmt.Errorf("inserted %d rows, want 1", n)
	}
	return err
}

var _ rows = (*sql.Rows)(nil)
