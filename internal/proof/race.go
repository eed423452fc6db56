package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A race lets stores on one database append to one session at the same moment.
type race struct {
	*site
	stores []*store.Store
	start  time.Time
	mu     sync.Mutex
	ops    []operation
}

const racers = 8

// raceRows is M13.
func raceRows(ctx context.Context, s *site) (rows []row, err error) {
	stores, shut, err := s.openMany(ctx, racers)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	r := &race{site: s, stores: stores, start: time.Now()}
	if _, err := stores[0].Sessions.Create(ctx, keyOf(0, 0), nil); err != nil {
		return nil, err
	}
	rounds := s.of(200, 10_000)
	for n := range rounds {
		if err := r.round(ctx, n, 2+s.dice.IntN(racers-1)); err != nil {
			return nil, err
		}
	}
	ids, err := s.history(ctx, stores[0])
	if err != nil {
		return nil, err
	}
	byTime(r.ops)
	wrong := linear(r.ops, ids)
	for _, w := range wrong {
		fmt.Fprintln(s.progress, w)
	}
	one, more := winners(r.ops)
	blind, tampered, err := r.controls(ctx, ids)
	return []row{{
		fmt.Sprintf("M13 %s: of many racing appends exactly one wins, and the history is linear", s.name),
		fmt.Sprintf("%d rounds of 2 to %d callers in %d stores: one winner in %d, more in %d, %d contradictions in %d operations; controls: %d of 20 rounds won by more who append blindly, %d contradictions found in a history that was tampered with",
			rounds, racers, len(stores), one, more, len(wrong), len(r.ops), blind, tampered),
		one == rounds && more == 0 && len(wrong) == 0 && len(ids) == rounds && blind > 0 && tampered > 0,
	}}, err
}

// history reads the session by a store that remembers nothing, where there can
// be one.
func (s *site) history(ctx context.Context, known *store.Store) (ids []string, err error) {
	if !s.durable() {
		return idsOf(ctx, known)
	}
	st, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return idsOf(ctx, st)
}

func idsOf(ctx context.Context, st *store.Store) ([]string, error) {
	sess, err := st.Sessions.Get(ctx, keyOf(0, 0), nil)
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, ev := range sess.Events() {
		ids = append(ids, ev.ID)
	}
	return ids, nil
}

// round lets callers read, and then append when all have read.
func (r *race) round(ctx context.Context, n, callers int) error {
	var read sync.WaitGroup
	read.Add(callers)
	return together(callers, func(i int) error {
		sessions := r.stores[i%len(r.stores)].Sessions
		sess, err := r.read(ctx, sessions)
		read.Done()
		read.Wait()
		if err != nil {
			return err
		}
		return r.append(ctx, sessions, sess, fmt.Sprintf("%d-%d", n, i))
	})
}

func (r *race) read(ctx context.Context, sessions *store.Sessions) (*session.Session, error) {
	began := time.Since(r.start)
	sess, err := sessions.Get(ctx, keyOf(0, 0), nil)
	if err == nil {
		r.note(operation{began: began, ended: time.Since(r.start), version: sess.Version})
	}
	return sess, err
}

func (r *race) append(ctx context.Context, sessions *store.Sessions, sess *session.Session, id string) error {
	ev := said("user", id)
	ev.ID = id
	op := operation{append: true, version: sess.Version, id: id, began: time.Since(r.start)}
	err := sessions.Append(ctx, sess, ev)
	op.ended, op.won = time.Since(r.start), err == nil
	if err != nil && !errors.Is(err, session.ErrStale) {
		return err
	}
	r.note(op)
	return nil
}

func (r *race) note(op operation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ops = append(r.ops, op)
}

// controls counts the rounds that more than one caller wins when who is refused
// appends behind whatever is there, and what is found to be wrong with a
// history in which two events changed places.
func (r *race) controls(ctx context.Context, ids []string) (blind, tampered int, err error) {
	for n := range 20 {
		before, err := idsOf(ctx, r.stores[0])
		if err != nil {
			return 0, 0, err
		}
		if err := r.blindly(ctx, n); err != nil {
			return 0, 0, err
		}
		after, err := idsOf(ctx, r.stores[0])
		if err != nil {
			return 0, 0, err
		}
		if len(after)-len(before) > 1 {
			blind++
		}
	}
	swapped := slices.Clone(ids)
	swapped[0], swapped[1] = swapped[1], swapped[0]
	return blind, len(linear(r.ops, swapped)), nil
}

func (r *race) blindly(ctx context.Context, n int) error {
	return together(2, func(i int) error {
		sessions := r.stores[i%len(r.stores)].Sessions
		for {
			sess, err := sessions.Get(ctx, keyOf(0, 0), nil)
			if err == nil {
				err = sessions.Append(ctx, sess, said("user", fmt.Sprint("blind ", n)))
			}
			if !errors.Is(err, session.ErrStale) {
				return err
			}
		}
	})
}
