package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"gorm.io/gorm/clause"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// How retention finds old sessions: sessions.active_time is a time at which the session was
// certainly active. It is the creation at first, and appends do not change it, because an append
// must not update an indexed column in sessions. A search reads the index up to the limit, and the
// last event in each session that it finds there. If that is younger, its time becomes the
// active_time, and later searches do not read the session before it could be expired again.

// Search statements: the other sessions with the last examined one's time, and those after that
// time. Two statements, because MySQL does not use an index for (active_time, pk) > ($2, $3).
const (
	examineSQL = `SELECT s.pk, s.user_id, s.id, s.active_time, s.create_time, coalesce(h.timestamp, s.create_time),
 CASE WHEN s.lease_until > {now} THEN 1 ELSE 0 END FROM sessions s ` + lastEventSQL + `
 WHERE s.app_name = $1 AND `
	examineSameSQL  = examineSQL + `s.active_time = $2 AND s.pk > $3 ORDER BY s.active_time, s.pk LIMIT $4`
	examineLaterSQL = examineSQL + `s.active_time > $2 AND s.active_time < $3 ORDER BY s.active_time, s.pk LIMIT $4`
)

// recordActiveSQL records active sessions' last update. A session that was created after the limit
// $1 needs no look at its events.
const recordActiveSQL = `UPDATE sessions SET active_time = CASE WHEN create_time >= $1 THEN create_time ELSE
 coalesce((SELECT h.timestamp FROM events h WHERE h.session_pk = sessions.pk ORDER BY h.seq DESC LIMIT 1), create_time) END
 WHERE pk IN (`

// EarliestTime implements [store.RetentionRows].
func (b *Database) EarliestTime(ctx context.Context, now time.Time) (time.Time, error) {
	if b.dialect.now == "" {
		return now, nil
	}
	var micros int64
	err := b.retryRead(ctx, func(ctx context.Context) error {
		return b.reads.QueryRowContext(ctx, "SELECT "+b.dialect.now).Scan(&micros)
	})
	if at := microsToTime(micros); err == nil && at.Before(now) {
		now = at
	}
	return now, b.wrapError("reading the clock", err)
}

// FindExpired implements [store.RetentionRows].
func (b *Database) FindExpired(ctx context.Context, q store.ExpiryQuery) (*store.ExpiredPage, error) {
	var page *store.ExpiredPage
	var young []int64
	err := b.retryLongRead(ctx, func(ctx context.Context) (err error) {
		page, young, err = b.examinePage(ctx, q)
		return err
	})
	if err != nil {
		return nil, b.wrapError("reading old sessions", err)
	}
	if len(young) == 0 || q.ReadOnly {
		return page, nil
	}
	return page, b.recordActive(ctx, q.Before, young)
}

// examinePage returns a page's expired sessions, and the active ones' head ids.
func (b *Database) examinePage(ctx context.Context, q store.ExpiryQuery) (*store.ExpiredPage, []int64, error) {
	page, young, examined := &store.ExpiredPage{}, []int64(nil), 0
	examine := func(text string, from, to int64) error {
		return b.queryAges(ctx, text, q, []any{q.App, from, to, q.Limit - examined}, func(a aged) {
			switch {
			case q.IsExpired(microsToTime(a.created), microsToTime(a.updated)):
				page.Sessions = append(page.Sessions, store.ExpiredSession{Key: a.key, ID: a.at.ID, Leased: a.leased})
			default:
				young = append(young, a.at.ID)
			}
			if examined++; examined == q.Limit {
				page.Next = &a.at
			}
		})
	}
	from := int64(math.MinInt64)
	if q.After != nil {
		from = q.After.Active
		if err := examine(examineSameSQL, from, q.After.ID); err != nil {
			return nil, nil, err
		}
	}
	if examined < q.Limit {
		if err := examine(examineLaterSQL, from, q.Before.UnixMicro()); err != nil {
			return nil, nil, err
		}
	}
	return page, young, nil
}

// An aged session was found in the index by age. Times are microseconds.
type aged struct {
	key              session.Key
	at               store.ExpiryCursor
	created, updated int64
	leased           bool
}

func (b *Database) queryAges(ctx context.Context, text string, q store.ExpiryQuery, args []any, each func(aged)) error {
	text = strings.ReplaceAll(text, "s.active_time", b.activeTime)
	stmt, err := b.dialect.prepareStatement(ctx, b.reads, b.dialect.insertClock(text, len(args)))
	if err != nil {
		return err
	}
	defer stmt.Close()
	rows, err := stmt.QueryContext(ctx, b.dialect.appendClock(q.Now, args...)...)
	if err != nil {
		return err
	}
	return scanRows(rows, func(rows *sql.Rows) error {
		a := aged{key: session.Key{App: q.App}}
		err := rows.Scan(&a.at.ID, &a.key.User, &a.key.ID, &a.at.Active, &a.created, &a.updated, &a.leased)
		if err == nil {
			each(a)
		}
		return err
	})
}

// recordActive records that sessions were active after a time.
func (b *Database) recordActive(ctx context.Context, after time.Time, heads []int64) error {
	args, marks := []any{after.UnixMicro()}, make([]string, len(heads))
	for i, id := range heads {
		args, marks[i] = append(args, id), "$"+strconv.Itoa(i+2)
	}
	text := recordActiveSQL + strings.Join(marks, ", ") + ")"
	// A power failure only repeats the search.
	return b.writers[0].executeJob(ctx, &job{single: true, relaxed: true, long: true, run: func(w *writer) error {
		stmt, err := w.dialect.prepareStatement(w.ctx, w.conn, text)
		if err != nil {
			return fmt.Errorf("recording active sessions: %w", err)
		}
		defer stmt.Close()
		if _, err := execAffected(w.ctx, stmt, args); err != nil {
			return fmt.Errorf("recording active sessions: %w", err)
		}
		return nil
	}})
}

// AcquireSweep implements [store.RetentionRows].
func (b *Database) AcquireSweep(ctx context.Context, s store.Sweep) (acquired bool, err error) {
	err = b.writers[0].executeJob(ctx, &job{relaxed: true, run: func(w *writer) error {
		take := func() (err error) {
			n, err := execAffected(w.ctx, w.stmt.takeSweep, b.dialect.appendClock(s.Now, s.Owner, s.Term.Microseconds(), s.App))
			acquired = n > 0
			return err
		}
		err := take()
		if err == nil && !acquired {
			res := w.orm.Clauses(clause.OnConflict{DoNothing: true}).Create(&sweepRow{App: s.App})
			if err = res.Error; err == nil && res.RowsAffected > 0 {
				err = take()
			}
		}
		if err != nil {
			return fmt.Errorf("reserving the sweep of app %s: %w", s.App, err)
		}
		return nil
	}})
	return acquired, err
}
