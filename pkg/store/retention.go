package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agenthost/pkg/session"
)

// Retention deletes the sessions without recent events. It must cost what it deletes: a
// host may store millions of sessions, look for expired ones every few minutes, and find
// none. The backend therefore keeps an index by age, see [RetentionRows].
//
// Prune reads a page of candidates from the index, and deletes them one by one as any client
// would: with the lease, so that no run begins meanwhile, and after another look at the age. It
// pauses after each batch, since a day's worth of deletions in one go would make runs wait.
//
// Invariants:
//   - A session with an active run, in any store, is not deleted; nor one that was used after the
//     page was read.
//   - The earlier one of two clocks decides, the store's and the database's: a clock that runs
//     ahead deletes nothing too soon.
//   - Replicas with an Interval reserve an app before each page (AcquireSweep), so that one of them
//     does the work. The reservation only saves work: two that prune at once delete the same
//     sessions, each once.

const (
	// prunePage is how many sessions are examined at once, pruneBatch how many are deleted at
	// once, and prunePause how long writers are left alone after each.
	prunePage  = 500
	pruneBatch = 100
	prunePause = 50 * time.Millisecond
)

// A PruneRequest selects old sessions.
type PruneRequest struct {
	App string
	// Age selects the sessions whose creation and last event are older. The earlier one of
	// the store's clock and the database's counts.
	Age time.Duration
	// Interval, if set, prunes an app only if no other store has done so within this time,
	// or is doing so.
	Interval time.Duration
	// KeepOutcomes is as in [Store.Delete].
	KeepOutcomes time.Duration
	// DryRun deletes and writes nothing.
	DryRun bool
	// Each, if set, is called for every session that is, or would be, deleted.
	Each func(session.Key)
}

// Prune deletes an app's old sessions with their artifacts in small batches, and returns how many.
// It skips sessions with an active run in any store. A session that cannot be deleted does not stop
// the others: the error reports the first one. Several stores may prune concurrently.
func (s *Store) Prune(ctx context.Context, req *PruneRequest) (n int, err error) {
	rows := s.Sessions.backend
	now, err := rows.EarliestTime(ctx, s.Sessions.currentTime())
	if err != nil {
		return 0, fmt.Errorf("reading the time: %w", err)
	}
	p := &pruning{Store: s, PruneRequest: req, before: now.Add(-req.Age)}
	q := ExpiryQuery{App: req.App, Before: p.before, Limit: prunePage, ReadOnly: req.DryRun}
	pause := time.NewTicker(prunePause)
	defer pause.Stop()
	for {
		if p.Interval > 0 && !p.DryRun { // reserve the app for one more page
			ok, err := rows.AcquireSweep(ctx, Sweep{App: p.App, Owner: s.Sessions.leases.owner, Term: p.Interval, Now: s.Sessions.clock()})
			if err != nil {
				err = fmt.Errorf("reserving the deletion of expired sessions: %w", err)
			}
			if err != nil || !ok { // another store prunes it
				return p.deleted, p.joinFailures(err)
			}
		}
		q.Now = s.Sessions.currentTime()
		page, err := rows.FindExpired(ctx, q)
		if err != nil {
			return p.deleted, p.joinFailures(fmt.Errorf("finding expired sessions: %w", err))
		}
		for some := range slices.Chunk(page.Sessions, pruneBatch) {
			for _, x := range some {
				if err := p.pruneSession(ctx, x); err != nil {
					return p.deleted, p.joinFailures(err)
				}
			}
			if err := p.waitPause(ctx, pause.C); err != nil {
				return p.deleted, p.joinFailures(err)
			}
		}
		if q.After = page.Next; q.After == nil {
			return p.deleted, p.joinFailures(nil)
		}
		if err := p.waitPause(ctx, pause.C); err != nil {
			return p.deleted, p.joinFailures(err)
		}
	}
}

// A pruning is one call to Prune.
type pruning struct {
	*Store
	*PruneRequest
	before  time.Time
	deleted int
	// failed counts the sessions that could not be deleted; first is the first error.
	failed int
	first  error
}

// joinFailures reports the sessions that could not be deleted, and the error that ended
// the pruning, if one did.
func (p *pruning) joinFailures(err error) error {
	if p.failed > 1 {
		return errors.Join(fmt.Errorf("%w, and %d more sessions", p.first, p.failed-1), err)
	}
	return errors.Join(p.first, err)
}

// waitPause leaves writers alone after a batch. A dry run disturbs none.
func (p *pruning) waitPause(ctx context.Context, pause <-chan time.Time) error {
	if p.DryRun {
		return ctx.Err()
	}
	select {
	case <-pause:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// pruneSession deletes a session, and counts a failure. It leases the session, so that no
// run begins meanwhile, and checks its age again. A dry run only looks whether a run has
// begun.
func (p *pruning) pruneSession(ctx context.Context, x ExpiredSession) error {
	if p.DryRun {
		if !x.Leased && !p.Sessions.runs.isHeld(x.Key) {
			p.countDeleted(x.Key)
		}
		return nil
	}
	_, release, err := p.Sessions.Acquire(ctx, x.Key, 0)
	if errors.Is(err, session.ErrBusy) {
		return nil
	}
	if err != nil {
		return p.countFailure(ctx, x.Key, err)
	}
	defer release()
	snap, err := p.Sessions.backend.ReadSession(ctx, x.Key, EventWindow{})
	switch {
	case errors.Is(err, session.ErrNotFound):
		return nil
	case err != nil:
		return p.countFailure(ctx, x.Key, err)
	case snap.ID != x.ID || !snap.Updated.Before(p.before):
		return nil
	}
	if err := p.Delete(ctx, x.Key, p.KeepOutcomes); err != nil {
		return p.countFailure(ctx, x.Key, err)
	}
	p.countDeleted(x.Key)
	return nil
}

func (p *pruning) countDeleted(key session.Key) {
	p.deleted++
	if p.Each != nil {
		p.Each(key)
	}
}

// countFailure counts a session that cannot be deleted. A failure of the context or the whole
// database is returned, and ends the pruning.
func (p *pruning) countFailure(ctx context.Context, key session.Key, err error) error {
	err = fmt.Errorf("deleting session %s: %w", key, err)
	if ctx.Err() != nil || errors.Is(err, ErrClosed) {
		return err
	}
	if p.failed++; p.first == nil {
		p.first = err
	}
	return nil
}
