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

// A storeSoak reads, writes, lists, deletes and recreates many sessions on two stores with one
// database.
type storeSoak struct {
	stores             []*store.Store
	deadline           time.Time
	operations, failed atomic.Int64
	firstErr           atomic.Pointer[error]
}

// soakRows is M15.
func soakRows(ctx context.Context, s *sandbox) (rows []row, err error) {
	stores, closeStores, err := s.openStores(ctx, 2)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeStores()) }()
	length := time.Duration(s.choose(6, 600)) * time.Second
	k := &storeSoak{stores: stores, deadline: time.Now().Add(length)}
	_ = runConcurrently(soakSessions, func(i int) error {
		k.runSession(ctx, i)
		return nil
	})
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	detail := ""
	if first := k.firstErr.Load(); first != nil {
		detail = ": " + (*first).Error()
	}
	control, controlText := 1, ""
	if s.isDurable() {
		if control, err = s.runOnOther(ctx, countFailedTransactions); err != nil {
			return nil, err
		}
		controlText = fmt.Sprintf("; control, transactions that lock in sequence: %d of 320 failed", control)
	}
	return []row{{
		fmt.Sprintf("M15 %s: no operation is locked, deadlocked or rejected", s.name),
		fmt.Sprintf("%d sessions, %d operations in %s, %d failed%s%s", soakSessions, k.operations.Load(), length, k.failed.Load(), detail, controlText),
		k.operations.Load() > soakSessions && k.failed.Load() == 0 && control > 0,
	}}, nil
}

func (k *storeSoak) runSession(ctx context.Context, i int) {
	for n := 0; time.Now().Before(k.deadline) && ctx.Err() == nil; n++ {
		err := k.runOperation(ctx, i, n)
		k.operations.Add(1)
		if err != nil {
			k.failed.Add(1)
			k.firstErr.CompareAndSwap(nil, &err)
		}
	}
}

// runOperation runs the operation that follows from the number n.
func (k *storeSoak) runOperation(ctx context.Context, i, n int) error {
	const life = 100
	sessions, key := k.stores[(i+n)%len(k.stores)].Sessions, sessionKey(i%16, i)
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
	return sessions.Append(ctx, sess, stateEvent(map[string]any{"n": n, "user:n": n, "app:n": n, fmt.Sprint("app:", i): n}))
}
