package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"agenthost/pkg/store"
)

const soakSessions = 256

// A soak lets many sessions read, write, list, and now and then begin anew, on
// two stores of one database.
type soak struct {
	stores             []*store.Store
	until              time.Time
	operations, failed atomic.Int64
	first              atomic.Pointer[error]
}

// soakRows is M15.
func soakRows(ctx context.Context, s *site) (rows []row, err error) {
	stores, shut, err := s.openMany(ctx, 2)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, shut()) }()
	length := time.Duration(s.of(6, 600)) * time.Second
	k := &soak{stores: stores, until: time.Now().Add(length)}
	_ = together(soakSessions, func(i int) error {
		k.session(ctx, i)
		return nil
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	trouble := ""
	if first := k.first.Load(); first != nil {
		trouble = ": " + (*first).Error()
	}
	control, told := 1, ""
	if s.durable() {
		if control, err = s.elsewhere(ctx, lockedTransactions); err != nil {
			return nil, err
		}
		told = fmt.Sprintf("; control, transactions that lock as they go: %d of 320 failed", control)
	}
	return []row{{
		fmt.Sprintf("M15 %s: nothing is locked, deadlocked or refused", s.name),
		fmt.Sprintf("%d sessions, %d operations in %s, %d failed%s%s", soakSessions, k.operations.Load(), length, k.failed.Load(), trouble, told),
		k.operations.Load() > soakSessions && k.failed.Load() == 0 && control > 0,
	}}, nil
}

func (k *soak) session(ctx context.Context, i int) {
	for n := 0; time.Now().Before(k.until) && ctx.Err() == nil; n++ {
		err := k.step(ctx, i, n)
		k.operations.Add(1)
		if err != nil {
			k.failed.Add(1)
			k.first.CompareAndSwap(nil, &err)
		}
	}
}

// step is one operation; which one follows from its number.
func (k *soak) step(ctx context.Context, i, n int) error {
	const life = 100
	sessions, key := k.stores[(i+n)%len(k.stores)].Sessions, keyOf(i%16, i)
	switch n % life {
	case 0:
		_, err := sessions.Create(ctx, key, map[string]any{"n": n})
		return err
	case life / 2:
		_, err := sessions.List(ctx, key.App, key.User)
		return err
	case life - 1:
		return sessions.Delete(ctx, key)
	}
	sess, err := sessions.Get(ctx, key, nil)
	if err != nil {
		return err
	}
	return sessions.Append(ctx, sess, changed(map[string]any{"n": n, "user:n": n, "app:n": n, fmt.Sprint("app:", i): n}))
}
