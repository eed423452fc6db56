package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// textEvent returns an event with text.
func textEvent(author, text string) *session.Event {
	return &session.Event{Author: author, InvocationID: "e-1", Response: model.Response{Content: model.UserText(text)}}
}

// stateEvent returns an event that only changes the state.
func stateEvent(delta map[string]any) *session.Event {
	ev := &session.Event{Author: "agent", InvocationID: "e-1"}
	ev.Actions.StateDelta = delta
	return ev
}

func sessionKey(user, id int) session.Key {
	return session.Key{App: "app", User: fmt.Sprint("user-", user), ID: fmt.Sprint("s-", id)}
}

// runConcurrently calls do n times concurrently and joins the errors.
func runConcurrently(n int, do func(i int) error) error {
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() { errs[i] = do(i) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

const concurrentTurns = 100

// countConcurrentFailures sends one session's concurrent turns to a host. It counts failed turns
// and turns that are interleaved with another.
func countConcurrentFailures(ctx context.Context, s *sandbox) (int, error) {
	apps := s.dir + "/turns"
	if err := clerkApp().writeTo(apps); err != nil {
		return 0, err
	}
	h, err := serveStore(ctx, s.lab, s.url, apps)
	if err != nil {
		return 0, err
	}
	defer h.kill()
	var failed atomic.Int64
	_ = runConcurrently(concurrentTurns, func(i int) error {
		c := newClient(h.url, "clerk", "one")
		defer c.close()
		if _, err := c.runTurn(ctx, fmt.Sprint("message ", i)); err != nil {
			failed.Add(1)
			return err
		}
		return nil
	})
	c := newClient(h.url, "clerk", "one")
	defer c.close()
	events, err := c.readEvents(ctx)
	if err != nil {
		return 0, err
	}
	const perTurn = 4
	if want := concurrentTurns * perTurn; len(events) != want && failed.Load() == 0 {
		return 0, fmt.Errorf("%d events are stored, want %d", len(events), want)
	}
	mixed := 0
	for turn := range slices.Chunk(events, perTurn) {
		if turn[0].InvocationID != turn[len(turn)-1].InvocationID {
			mixed++
		}
	}
	return int(failed.Load()) + mixed, nil
}

// countUnqueuedFailures appends concurrent turns that all read the same version, and
// counts the rejected ones.
func countUnqueuedFailures(ctx context.Context, s *sandbox) (int, error) {
	st, err := s.openStore(ctx)
	if err != nil {
		return 0, err
	}
	defer st.Close()
	if _, err := st.Sessions.Create(ctx, sessionKey(0, 0), nil); err != nil {
		return 0, err
	}
	var stale atomic.Int64
	var barrier sync.WaitGroup
	barrier.Add(concurrentTurns)
	err = runConcurrently(concurrentTurns, func(i int) error {
		sess, err := st.Sessions.Get(ctx, sessionKey(0, 0), nil)
		barrier.Done()
		barrier.Wait()
		for n := 0; n < 4 && err == nil; n++ {
			err = st.Sessions.Append(ctx, sess, textEvent("user", fmt.Sprint(i, n)))
		}
		if errors.Is(err, session.ErrStale) {
			stale.Add(1)
			return nil
		}
		return err
	})
	return int(stale.Load()), err
}

// sharedWriters set keys in shared scopes, each in its own session, on two stores with one
// database.
type sharedWriters struct {
	writers, users, writes int
	// singleMap keeps a scope's keys in one JSON map, with read-modify-write.
	singleMap bool
}

func countLostKeys(ctx context.Context, s *sandbox) (int, error) {
	return sharedWriters{writers: 32, users: 4, writes: 10}.countLost(ctx, s)
}

func countLostKeysOfMap(ctx context.Context, s *sandbox) (int, error) {
	return sharedWriters{writers: 32, users: 4, writes: 10, singleMap: true}.countLost(ctx, s)
}

// countLost counts the acknowledged keys that are missing at the end.
func (sh sharedWriters) countLost(ctx context.Context, s *sandbox) (n int, err error) {
	stores, closeStores, err := s.openStores(ctx, 2)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeStores()) }()
	created := make([]*session.Session, sh.writers)
	for i := range created {
		if created[i], err = stores[i%len(stores)].Sessions.Create(ctx, sessionKey(i%sh.users, i), nil); err != nil {
			return 0, err
		}
	}
	var barrier sync.WaitGroup
	barrier.Add(sh.writers)
	err = runConcurrently(sh.writers, func(i int) error {
		sessions := stores[i%len(stores)].Sessions
		sess, err := sessions.Get(ctx, created[i].Key, nil)
		// All writers read before the first one writes.
		barrier.Done()
		barrier.Wait()
		for n := 0; n < sh.writes && err == nil; n++ {
			if n > 0 && sh.singleMap {
				sess, err = sessions.Get(ctx, sess.Key, nil)
			}
			if err == nil {
				err = sessions.Append(ctx, sess, stateEvent(sh.keyDelta(sess, fmt.Sprint(i, "-", n))))
			}
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	return sh.countMissing(ctx, stores[0])
}

// keyDelta sets a key in each scope, or in the map that was read.
func (sh sharedWriters) keyDelta(sess *session.Session, name string) map[string]any {
	if !sh.singleMap {
		return map[string]any{"app:" + name: 1, "user:" + name: 1, "app:same": name}
	}
	delta := map[string]any{}
	for _, scope := range []string{"app:all", "user:all"} {
		all, _ := sess.State.Get(scope)
		keys, _ := all.(map[string]any)
		if keys == nil {
			keys = map[string]any{}
		}
		keys[name] = 1
		delta[scope] = keys
	}
	return delta
}

// countMissing looks up every key in one session for each user.
func (sh sharedWriters) countMissing(ctx context.Context, st *store.Store) (int, error) {
	missing := 0
	for user := range sh.users {
		sess, err := st.Sessions.Create(ctx, session.Key{App: "app", User: fmt.Sprint("user-", user)}, nil)
		if err != nil {
			return 0, err
		}
		state := sess.State.All()
		for i := range sh.writers {
			for n := range sh.writes {
				if name := fmt.Sprint(i, "-", n); user == 0 && !sh.hasKey(state, "app:", name) {
					missing++
				}
				if name := fmt.Sprint(i, "-", n); i%sh.users == user && !sh.hasKey(state, "user:", name) {
					missing++
				}
			}
		}
	}
	return missing, nil
}

func (sh sharedWriters) hasKey(state map[string]any, prefix, name string) bool {
	if sh.singleMap {
		state, _ = state[prefix+"all"].(map[string]any)
		prefix = ""
	}
	_, ok := state[prefix+name]
	return ok
}

// countFailedAppends appends to many sessions concurrently through two stores and
// counts the errors.
func countFailedAppends(ctx context.Context, s *sandbox) (failures int, err error) {
	stores, closeStores, err := s.openStores(ctx, 2)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, closeStores()) }()
	var failed atomic.Int64
	appendErr := runConcurrently(32, func(i int) error {
		sessions := stores[i%len(stores)].Sessions
		sess, err := sessions.Create(ctx, sessionKey(i%4, i), map[string]any{"app:a": i, "user:u": i, "k": i})
		for n := 0; n < 10 && err == nil; n++ {
			err = sessions.Append(ctx, sess, stateEvent(map[string]any{"app:a": i, "app:b": i, "user:u": n, "k": n}))
		}
		if err != nil {
			failed.Add(1)
		}
		return err
	})
	if appendErr != nil {
		return int(failed.Load()), ctx.Err()
	}
	return 0, nil
}

// countFailedTransactions runs naive transactions: read, then write two shared rows in
// varying order.
func countFailedTransactions(ctx context.Context, s *sandbox) (int, error) {
	db, err := s.openSQL()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	for _, text := range []string{"CREATE TABLE shared (id INTEGER PRIMARY KEY, n INTEGER)", "INSERT INTO shared VALUES (0, 0), (1, 0)"} {
		if _, err := db.ExecContext(ctx, text); err != nil {
			return 0, err
		}
	}
	var failed atomic.Int64
	_ = runConcurrently(16, func(i int) error {
		for range 20 {
			tx, err := db.BeginTx(ctx, nil)
			for n := 0; n < 2 && err == nil; n++ {
				var now int
				row := fmt.Sprint((i + n) % 2)
				if err = tx.QueryRowContext(ctx, "SELECT n FROM shared WHERE id = "+row).Scan(&now); err == nil {
					_, err = tx.ExecContext(ctx, "UPDATE shared SET n = n + 1 WHERE id = "+row)
				}
			}
			if err == nil {
				err = tx.Commit()
			} else if tx != nil {
				err = errors.Join(err, tx.Rollback())
			}
			if err != nil {
				failed.Add(1)
			}
		}
		return nil
	})
	return int(failed.Load()), ctx.Err()
}

// countTornTurns kills a host during turns. It counts received events that are not
// stored and sessions whose next turn fails.
func countTornTurns(ctx context.Context, s *sandbox) (int, error) {
	dir := filepath.Join(s.dir, "torn-"+s.name)
	if err := clerkApp().writeTo(filepath.Join(dir, "apps")); err != nil {
		return 0, err
	}
	k := newKilling(s.url, s.file)
	const rounds = 2
	for range rounds {
		if err := k.runRound(ctx, s.lab, dir); err != nil {
			return 0, err
		}
	}
	for _, err := range k.errs {
		fmt.Fprintln(s.progress, err)
	}
	return k.missing + rounds*len(k.clients) - k.resumed, nil
}
