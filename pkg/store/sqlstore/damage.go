package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// Damage is what a database check reports, as opposed to a failed check: pages and rows that the
// engine cannot read, and the schema version's tables and columns that are missing.

// isDamage reports whether a query's error is database damage.
func (e *readEngine) isDamage(err error) bool {
	return err != nil && (e.classify(err).Has(engine.Damaged) || strings.Contains(err.Error(), "sql: Scan error on column"))
}

// renewSnapshot ends the view and begins another one.
func (r *ReadOnly) renewSnapshot(ctx context.Context) error {
	_ = r.tx.Rollback() // it may have ended
	return r.beginSnapshot(ctx, r.rest)
}

// readSessions reads each session as a host does, and reports those that it cannot read.
func (v *verifier) readSessions(ctx context.Context) error {
	keys, err := v.listReadable(ctx)
	if err != nil {
		return err
	}
	for _, key := range keys {
		reason, err := v.readSession(ctx, key)
		if err != nil {
			return err
		}
		if reason == "" {
			v.v.Readable++
			continue
		}
		v.v.Unreadable++
		if len(v.v.UnreadableSessions) < maxPlaces {
			v.v.UnreadableSessions = append(v.v.UnreadableSessions, fmt.Sprintf("session %s: %s", key, reason))
		}
	}
	return nil
}

// listReadable lists the sessions in both orders, because a damaged page may stop each.
func (v *verifier) listReadable(ctx context.Context) ([]session.Key, error) {
	var keys []session.Key
	known := map[session.Key]bool{}
	for _, order := range []string{"s.pk", "s.pk DESC"} {
		err := v.r.Each(ctx, func(rows *sql.Rows) error {
			var key session.Key
			err := rows.Scan(&key.App, &key.User, &key.ID)
			if err == nil && !known[key] {
				known[key], keys = true, append(keys, key)
			}
			return err
		}, "SELECT s.app_name, s.user_id, s.id FROM sessions s ORDER BY "+order)
		if err == nil {
			break
		}
		if err := v.skipDamage(ctx, err); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(keys, func(a, b session.Key) int { return strings.Compare(a.String(), b.String()) })
	return keys, nil
}

// skipDamage returns an error that is not damage, and continues after damage.
func (v *verifier) skipDamage(ctx context.Context, err error) error {
	if !v.r.engine.isDamage(err) {
		return fmt.Errorf("reading the sessions: %w", err)
	}
	if err := v.r.renewSnapshot(ctx); err != nil && !v.r.engine.isDamage(err) {
		return fmt.Errorf("reading the sessions: %w", err)
	}
	return nil
}

// readSession returns why a session cannot be read, or an empty string.
func (v *verifier) readSession(ctx context.Context, key session.Key) (reason string, err error) {
	imp := &Import{Key: key}
	err = v.r.Fill(ctx, imp, func(event string, err error) {
		if reason == "" {
			reason = fmt.Sprintf("event %s: %s", event, err)
		}
	})
	var n, last int
	if err == nil {
		err = v.r.Each(ctx, func(rows *sql.Rows) error { return rows.Scan(&n, &last) },
			`SELECT count(*), coalesce(max(e.seq), 0) FROM events e JOIN sessions s ON s.pk = e.session_pk
 WHERE s.app_name = ? AND s.user_id = ? AND s.id = ?`, key.App, key.User, key.ID)
	}
	switch {
	case err == nil && reason == "" && n != last:
		return fmt.Sprintf("%d of its %d events are missing", last-n, last), nil
	case err == nil, errors.Is(err, session.ErrInvalid):
		if err != nil {
			reason = err.Error()
		}
		return reason, nil
	}
	return err.Error(), v.skipDamage(ctx, err)
}
