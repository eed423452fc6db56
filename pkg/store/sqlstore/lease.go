package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/backend"
)

// The lease statements. {now} is the clock. A race's loser updates no row, because the epoch has
// changed since it was read.
const (
	findLeaseSQL = `SELECT s.pk, s.lease_epoch, CASE WHEN s.lease_until > {now} THEN s.lease_owner ELSE '' END
 FROM sessions s WHERE s.app_name = $1 AND s.user_id = $2 AND s.id = $3`
	takeLeaseSQL = `UPDATE sessions SET lease_owner = $1, lease_epoch = lease_epoch + 1, lease_until = {now} + $2
 WHERE pk = $3 AND lease_epoch = $4 AND (lease_owner = $1 OR lease_until <= {now})`
	renewLeaseSQL = `UPDATE sessions SET lease_until = {now} + $1 WHERE pk = $2 AND lease_epoch = $3`
	endLeaseSQL   = `UPDATE sessions SET lease_until = 0 WHERE pk = $1 AND lease_epoch = $2`
)

// heldLeasesSQL finds the leases among the latest created sessions: leases have no index, because every
// turn would change it.
const heldLeasesSQL = `SELECT s.app_name, s.user_id, s.id, s.lease_owner FROM sessions s
 WHERE s.pk > (SELECT coalesce(max(m.pk), 0) FROM sessions m) - $1 AND s.lease_until > {now} ORDER BY s.pk DESC LIMIT $2`

// ListLeases implements [store.LeaseLister].
func (b *Database) ListLeases(ctx context.Context, q store.LeaseQuery) (held []store.HeldLease, err error) {
	err = b.retryRead(ctx, func(ctx context.Context) error {
		held = nil
		stmt, err := b.dialect.prepareStatement(ctx, b.reads, b.dialect.insertClock(heldLeasesSQL, 2))
		if err != nil {
			return err
		}
		defer stmt.Close()
		rows, err := stmt.QueryContext(ctx, b.dialect.appendClock(q.Now, q.Sessions, q.Limit)...)
		if err != nil {
			return err
		}
		return scanRows(rows, func(rows *sql.Rows) error {
			var l store.HeldLease
			err := rows.Scan(&l.Key.App, &l.Key.User, &l.Key.ID, &l.Owner)
			held = append(held, l)
			return err
		})
	})
	if err != nil {
		return nil, b.wrapError("listing session leases", err)
	}
	return held, nil
}

// takeSweepSQL also takes a sweep that ends later than two terms from now: the clock ran ahead when
// it was reserved.
const takeSweepSQL = `UPDATE retention_sweeps SET owner = $1, until_time = {now} + $2
 WHERE app_name = $3 AND (owner = $1 OR until_time <= {now} OR until_time > {now} + $2 + $2)`

// AcquireLease implements [store.SessionBackend].
func (b *Database) AcquireLease(ctx context.Context, g *store.LeaseGrant) (holder string, err error) {
	if g.Epoch != 0 {
		taken, err := b.acquireExpired(ctx, g)
		if err != nil || taken {
			return "", err
		}
	}
	if holder, err = b.findLease(ctx, g); err != nil || holder != "" && !b.liveness.isOwnerDead(holder) {
		return holder, err
	}
	if holder != "" {
		// Its epoch stays fenced, as if the lease had expired.
		if err := b.ReleaseLeases(ctx, []*store.LeaseGrant{g}); err != nil {
			return holder, err
		}
	}
	taken, err := b.acquireExpired(ctx, g)
	if err != nil || taken {
		return "", err
	}
	return "another host", nil
}

// acquireExpired takes a session's lease, unless someone else holds it or has held it since it was
// read.
func (b *Database) acquireExpired(ctx context.Context, g *store.LeaseGrant) (taken bool, err error) {
	last := *g
	err = b.writerFor(g.Key).executeJob(ctx, &job{single: true, relaxed: true, run: func(w *writer) error {
		// A failed batch runs its jobs again.
		*g = last
		taken, err = w.acquireUnchanged(b.dialect, g)
		return err
	}})
	return taken, err
}

// findLease sets the grant's id and epoch to the stored ones, and returns the holder if it is not
// the grant's owner.
func (b *Database) findLease(ctx context.Context, g *store.LeaseGrant) (holder string, err error) {
	find := func(ctx context.Context, stmt *statement) error {
		k := g.Key
		if b.dialect.server == nil {
			// Watching a context costs more than the statement.
			ctx = context.WithoutCancel(ctx)
		}
		row := stmt.QueryRowContext(ctx, b.dialect.appendClock(g.Now, k.App, k.User, k.ID)...)
		return row.Scan(&g.ID, &g.Epoch, &holder)
	}
	w := b.writers[0]
	if b.lag.found.Load() {
		err = b.writerFor(g.Key).executeJob(ctx, &job{relaxed: true, run: func(w *writer) error {
			err := find(w.ctx, w.stmt.findLease)
			if errors.Is(err, sql.ErrNoRows) {
				return backend.SessionNotFound(g.Key.ID)
			}
			return err
		}})
	} else if b.dialect.server != nil || !w.borrowConn(func() { err = find(ctx, w.stmt.findLease) }) {
		err = b.retryRead(ctx, func(ctx context.Context) error { return find(ctx, b.leases) })
	}
	switch {
	case errors.Is(err, sql.ErrNoRows), errors.Is(err, session.ErrNotFound):
		return "", backend.SessionNotFound(g.Key.ID)
	case err != nil && b.isClosed():
		return "", store.ErrClosed
	case err != nil:
		return "", fmt.Errorf("reading the lease of session %s: %w", g.Key.ID, err)
	case holder == g.Owner:
		holder = ""
	}
	return holder, nil
}

// acquireUnchanged takes a lease that was read before, unless someone else was faster.
func (w *writer) acquireUnchanged(d dialect, g *store.LeaseGrant) (taken bool, err error) {
	n, err := execAffected(w.ctx, w.stmt.takeLease, d.appendClock(g.Now, g.Owner, g.Term.Microseconds(), g.ID, g.Epoch))
	if err != nil {
		return false, fmt.Errorf("leasing session %s: %w", g.Key.ID, err)
	}
	if n > 0 {
		g.Epoch++
	}
	return n > 0, nil
}

func execAffected(ctx context.Context, stmt *statement, params []any) (int64, error) {
	res, err := stmt.ExecContext(ctx, params...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// ReadLease implements [store.SessionBackend].
func (b *Database) ReadLease(ctx context.Context, key session.Key, now time.Time) (owner string, err error) {
	owner, err = b.findLease(ctx, &store.LeaseGrant{Key: key, Now: now})
	if err != nil || b.liveness.isOwnerDead(owner) {
		return "", err
	}
	return owner, nil
}

// RenewLeases implements [store.SessionBackend].
func (b *Database) RenewLeases(ctx context.Context, all []*store.LeaseGrant) (gone []*store.LeaseGrant, err error) {
	err = b.runPerWriter(ctx, all, func(w *writer, mine []*store.LeaseGrant) error {
		var late []*store.LeaseGrant
		for _, g := range mine {
			n, err := execAffected(w.ctx, w.stmt.renewLease, b.dialect.appendClock(g.Now, g.Term.Microseconds(), g.ID, g.Epoch))
			if err != nil {
				return fmt.Errorf("renewing the lease of session %s: %w", g.Key.ID, err)
			}
			if n == 0 {
				late = append(late, g)
			}
		}
		gone = append(gone, late...)
		return nil
	})
	return gone, err
}

// ReleaseLeases implements [store.SessionBackend].
func (b *Database) ReleaseLeases(ctx context.Context, all []*store.LeaseGrant) error {
	return b.runPerWriter(ctx, all, func(w *writer, mine []*store.LeaseGrant) error {
		for _, g := range mine {
			if _, err := execAffected(w.ctx, w.stmt.endLease, []any{g.ID, g.Epoch}); err != nil {
				return fmt.Errorf("releasing the lease of session %s: %w", g.Key.ID, err)
			}
		}
		return nil
	})
}

// runPerWriter runs a job for each writer's session grants, one writer after the other. A job may
// run twice.
func (b *Database) runPerWriter(ctx context.Context, all []*store.LeaseGrant, run func(w *writer, mine []*store.LeaseGrant) error) error {
	byWriter := map[*writer][]*store.LeaseGrant{}
	for _, g := range all {
		w := b.writerFor(g.Key)
		byWriter[w] = append(byWriter[w], g)
	}
	var errs []error
	for w, mine := range byWriter {
		errs = append(errs, w.executeJob(ctx, &job{relaxed: true, run: func(w *writer) error { return run(w, mine) }}))
	}
	return errors.Join(errs...)
}
