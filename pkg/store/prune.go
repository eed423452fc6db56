package store

import (
	"context"
	"errors"
	"strings"
	"time"

	"agenthost/pkg/store/internal/codec"

	"agenthost/pkg/session"
)

const (
	// pruneBatch is how many sessions are looked for and deleted at once, and
	// prunePause how long writers are left alone afterwards.
	pruneBatch = 50
	prunePause = 50 * time.Millisecond
)

// A PruneRequest selects old sessions.
type PruneRequest struct {
	App string
	// Before selects the sessions whose creation and last event are older.
	Before time.Time
	// DryRun deletes nothing.
	DryRun bool
	// Each, if set, is called for every session that is, or would be, deleted.
	Each func(session.Key)
}

// Delete deletes a session as [Sessions.Delete] does, and its artifacts.
// Artifacts of the user stay. Deleting a missing session succeeds.
func (s *Store) Delete(ctx context.Context, key session.Key) error {
	if err := codec.CheckSession(key); err != nil {
		return err
	}
	names, err := s.Artifacts.Keys(ctx, key)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, "user:") {
			continue
		}
		if err := s.Artifacts.Delete(ctx, key, name); err != nil {
			return err
		}
	}
	return s.Sessions.Delete(ctx, key)
}

// Prune deletes the old sessions of an app with their artifacts in small
// batches, and returns their number. It skips sessions with an active run in
// any store. Several stores may prune concurrently.
func (s *Store) Prune(ctx context.Context, req *PruneRequest) (n int, err error) {
	q := SessionQuery{App: req.App, Limit: pruneBatch, Before: req.Before}
	pause := time.NewTicker(prunePause)
	defer pause.Stop()
	for {
		rows, err := s.Sessions.querySessions(ctx, q)
		if err != nil {
			return n, err
		}
		for _, l := range rows {
			old, err := s.pruneSession(ctx, l.Key, req)
			if err != nil {
				return n, err
			}
			if old {
				n++
			}
			q.After = l.ID
		}
		if len(rows) < pruneBatch {
			return n, nil
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return n, ctx.Err()
		}
	}
}

// pruneSession leases the session, so that no run begins meanwhile, and checks
// its age again.
func (s *Store) pruneSession(ctx context.Context, key session.Key, req *PruneRequest) (old bool, err error) {
	_, release, err := s.Sessions.Acquire(ctx, key, 0)
	if errors.Is(err, session.ErrBusy) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer release()
	none := 0
	sess, err := s.Sessions.Get(ctx, key, &GetOptions{NumRecentEvents: &none})
	if errors.Is(err, session.ErrNotFound) {
		return false, nil
	}
	if err != nil || !sess.LastUpdate.Before(req.Before) {
		return false, err
	}
	if req.Each != nil {
		req.Each(key)
	}
	if req.DryRun {
		return true, nil
	}
	return true, s.Delete(ctx, key)
}
