package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A raceProof appends to one session from several stores with one database at the same time.
type raceProof struct {
	*sandbox
	stores []*store.Store
	start  time.Time
	mu     sync.Mutex
	ops    []operation
}

const racers = 8

// raceRows is M13.
func raceRows(ctx context.Context, s *sandbox) (rows []row, err error) {
	stores, closeStores, err := s.openStores(ctx, racers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeStores()) }()
	r := &raceProof{sandbox: s, stores: stores, start: time.Now()}
	if _, err := stores[0].Sessions.Create(ctx, sessionKey(0, 0), nil); err != nil {
		return nil, err
	}
	rounds := s.choose(200, 10_000)
	for n := range rounds {
		if err := r.runRound(ctx, n, 2+s.random.IntN(racers-1)); err != nil {
			return nil, err
		}
	}
	ids, err := s.readEventIDs(ctx, stores[0])
	if err != nil {
		return nil, err
	}
	slices.SortFunc(r.ops, func(a, b operation) int { return cmp.Compare(a.began, b.began) })
	problems := findContradictions(r.ops, ids)
	for _, w := range problems {
		fmt.Fprintln(s.progress, w)
	}
	one, more := countWinners(r.ops)
	blindWins, tamperedFound, err := r.runControls(ctx, ids)
	return []row{{
		fmt.Sprintf("M13 %s: of several racing appends exactly one wins, and the history is linearizable", s.name),
		fmt.Sprintf("%d rounds of 2 to %d callers on %d stores: one winner in %d, more in %d, %d contradictions in %d operations; controls: %d of 20 rounds of blind appends with several winners, %d contradictions found in an altered history",
			rounds, racers, len(stores), one, more, len(problems), len(r.ops), blindWins, tamperedFound),
		one == rounds && more == 0 && len(problems) == 0 && len(ids) == rounds && blindWins > 0 && tamperedFound > 0,
	}}, err
}

// readEventIDs reads the session through a new store, if the backend is durable.
func (s *sandbox) readEventIDs(ctx context.Context, known *store.Store) (ids []string, err error) {
	if !s.isDurable() {
		return eventIDs(ctx, known)
	}
	st, err := s.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return eventIDs(ctx, st)
}

func eventIDs(ctx context.Context, st *store.Store) ([]string, error) {
	sess, err := st.Sessions.Get(ctx, sessionKey(0, 0), nil)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, ev := range sess.Events() {
		ids = append(ids, ev.ID)
	}
	return ids, nil
}

// runRound lets all callers read and then append.
func (r *raceProof) runRound(ctx context.Context, n, callers int) error {
	var barrier sync.WaitGroup
	barrier.Add(callers)
	return runConcurrently(callers, func(i int) error {
		sessions := r.stores[i%len(r.stores)].Sessions
		sess, err := r.readSession(ctx, sessions)
		barrier.Done()
		barrier.Wait()
		if err != nil {
			return err
		}
		return r.appendEvent(ctx, sessions, sess, fmt.Sprintf("%d-%d", n, i))
	})
}

func (r *raceProof) readSession(ctx context.Context, sessions *store.Sessions) (*session.Session, error) {
	began := time.Since(r.start)
	sess, err := sessions.Get(ctx, sessionKey(0, 0), nil)
	if err == nil {
		r.recordOp(operation{began: began, ended: time.Since(r.start), version: sess.Version})
	}
	return sess, err
}

func (r *raceProof) appendEvent(ctx context.Context, sessions *store.Sessions, sess *session.Session, id string) error {
	ev := textEvent("user", id)
	ev.ID = id
	op := operation{append: true, version: sess.Version, id: id, began: time.Since(r.start)}
	err := sessions.Append(ctx, sess, ev)
	op.ended, op.won = time.Since(r.start), err == nil
	if err != nil && !errors.Is(err, session.ErrStale) {
		return err
	}
	r.recordOp(op)
	return nil
}

func (r *raceProof) recordOp(op operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
}

// runControls counts the rounds with several winners when callers retry blindly, and
// the contradictions found in a history with two swapped events.
func (r *raceProof) runControls(ctx context.Context, ids []string) (blindWins, tamperedFound int, err error) {
	for n := range 20 {
		before, err := eventIDs(ctx, r.stores[0])
		if err != nil {
			return 0, 0, err
		}
		if err := r.appendBlindly(ctx, n); err != nil {
			return 0, 0, err
		}
		after, err := eventIDs(ctx, r.stores[0])
		if err != nil {
			return 0, 0, err
		}
		if len(after)-len(before) > 1 {
			blindWins++
		}
	}
	swapped := slices.Clone(ids)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	return blindWins, len(findContradictions(r.ops, swapped)), nil
}

func (r *raceProof) appendBlindly(ctx context.Context, n int) error {
	return runConcurrently(2, func(i int) error {
		sessions := r.stores[i%len(r.stores)].Sessions
		for {
			sess, err := sessions.Get(ctx, sessionKey(0, 0), nil)
			if err == nil {
				err = sessions.Append(ctx, sess, textEvent("user", fmt.Sprint("blind ", n)))
			}
			if !errors.Is(err, session.ErrStale) {
				return err
			}
		}
	})
}
