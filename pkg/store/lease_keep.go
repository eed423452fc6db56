package store

import (
	"context"
	"errors"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// renewPeriodically renews leases until none is held.
func (l *leaseManager) renewPeriodically(quit chan struct{}) {
	round := time.NewTicker(idleLeaseDuration)
	defer round.Stop()
	for {
		select {
		case <-quit:
			return
		case <-round.C:
		}
		more := true
		if p := safe.Call(func() { more = l.renewOnce() }); p != nil {
			l.logPanic(p) // the next round tries again
		}
		if !more {
			return
		}
	}
}

// renewOnce releases idle leases and renews the others. It returns false if no
// lease is held.
func (l *leaseManager) renewOnce() (more bool) {
	ended, due, more := l.collectDue()
	l.releaseIdle(ended)
	l.renewDue(due)
	return more
}

func (l *leaseManager) logPanic(p *safe.Panic) {
	p.Log(l.logger, "renewing of session leases panicked")
}

// collectDue removes the leases that were idle for a full round, and returns
// copies of the leases of runs for which a third of the term has passed.
func (l *leaseManager) collectDue() (ended, due []*grant, more bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.held) == 0 {
		l.stopRenewal = nil
		return nil, nil, false
	}
	var now time.Time
	for key, e := range l.held {
		switch {
		case e.expiring:
			ended = append(ended, &e.grant)
			delete(l.held, key)
		case e.idle:
			e.expiring = true
		case e.id != 0 && !e.lost:
			if now.IsZero() {
				now = l.clock()
			}
			if now.Sub(e.now) >= l.term/3 {
				g := e.grant
				g.now = now
				due = append(due, &g)
			}
		}
	}
	return ended, due, true
}

func (l *leaseManager) releaseIdle(ended []*grant) {
	if len(ended) == 0 {
		return
	}
	if err := l.backend.releaseLeases(context.Background(), ended); err != nil {
		l.logger.Warn("releasing session leases failed; they expire after their term", "sessions", len(ended), "error", err)
	}
}

func (l *leaseManager) renewDue(due []*grant) {
	if len(due) == 0 {
		return
	}
	gone, err := l.backend.renewLeases(context.Background(), due)
	if err != nil {
		l.logger.Warn("renewing session leases failed", "sessions", len(due), "error", err)
		return
	}
	why := map[*grant]error{}
	for _, g := range gone {
		why[g] = l.explainLoss(g.key)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range due {
		e := l.held[g.key]
		if e == nil || e.id != g.id || e.epoch != g.epoch {
			continue
		}
		e.now = g.now
		if err := why[g]; err != nil {
			l.logger.Warn("turn cancelled: session lease lost", "app", g.key.App, "session", g.key.ID, "error", err)
			e.cancelRun(err)
		}
	}
}

// explainLoss returns why a lease was lost.
func (l *leaseManager) explainLoss(key session.Key) error {
	_, err := l.backend.readSession(context.Background(), key, eventWindow{})
	if errors.Is(err, session.ErrNotFound) {
		return err
	}
	return errFenced(key.ID)
}

// close releases all leases. Runs that are still active can no longer store
// events.
func (l *leaseManager) close() error {
	l.mu.Lock()
	l.closed = true
	if l.stopRenewal != nil {
		close(l.stopRenewal)
		l.stopRenewal = nil
	}
	var all []*grant
	for _, e := range l.held {
		if e.id != 0 && !e.lost {
			all = append(all, &e.grant)
		}
	}
	clear(l.held)
	l.mu.Unlock()
	l.renewer.Wait()
	if len(all) == 0 {
		return nil
	}
	if err := l.backend.releaseLeases(context.Background(), all); !errors.Is(err, errClosed) {
		return err
	}
	return nil
}
