package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"sync"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
)

// hangTimeout is the deadline for the proof's stores, and hangCallers how many read at once, which
// is more than they have connections.
const (
	hangTimeout = 2 * time.Second
	hangCallers = 64
)

// hangRows proves the request deadline on a server that swallows packets.
func hangRows(ctx context.Context, s *sandbox) ([]row, error) {
	if s.file != "" {
		return nil, nil // a file has no connections
	}
	proxy, err := newFaultyProxy(s.database)
	if err != nil {
		return nil, err
	}
	st, err := storeurl.Open(ctx, addTimeout(proxy.url()), &storeurl.Options{Schemes: databaseSchemes(), Artifacts: "memory:"})
	if err != nil {
		return nil, errors.Join(err, proxy.close())
	}
	rows, err := s.proveHang(ctx, st, proxy)
	return rows, errors.Join(err, st.Close(), proxy.close())
}

func addTimeout(at string) string {
	separator := "?"
	if strings.Contains(at, "?") {
		separator = "&"
	}
	return fmt.Sprintf("%s%stimeout=%.0f", at, separator, hangTimeout.Seconds())
}

func (s *sandbox) proveHang(ctx context.Context, st *store.Store, proxy *faultyProxy) ([]row, error) {
	if _, err := st.Sessions.Create(ctx, sessionKey(0, 0), nil); err != nil {
		return nil, err
	}
	read := func() error { _, err := st.Sessions.Get(ctx, sessionKey(0, 0), nil); return err }
	callTogether(read) // opens the connections
	proxy.swallows.Store(true)
	failed, longest := callTogether(read)
	err := waitUntil(ctx, func() bool { return errorContains(read(), "does not answer") })
	again, fast := callTogether(read)
	held := 0
	if err == nil {
		held, err = countHeld(ctx, proxy)
	}
	proxy.swallows.Store(false)
	resumed := time.Now()
	err = errors.Join(err, waitUntil(ctx, func() bool { return read() == nil }))
	return []row{{
		fmt.Sprintf("hung database %s: no request waits for longer than its deadline, and the store recovers by itself", s.name),
		fmt.Sprintf("%d reads at once: %d failed, the longest after %s of %s; %d later ones failed after %s; recovered after %s; control, a pool without deadlines: %d of %d held for twice as long",
			hangCallers, failed, roundMillis(longest), hangTimeout, again, roundMillis(fast), roundMillis(time.Since(resumed)), held, hangCallers),
		err == nil && failed == hangCallers && longest < 2*hangTimeout && again == hangCallers && fast < hangTimeout && held > 0,
	}}, err
}

func errorContains(err error, text string) bool {
	return errors.Is(err, session.ErrUnavailable) && strings.Contains(err.Error(), text)
}

// callTogether runs calls concurrently, and returns how many failed and the longest time.
func callTogether(call func() error) (failed int, longest time.Duration) {
	var mu sync.Mutex
	var calls sync.WaitGroup
	for range hangCallers {
		calls.Go(func() {
			began := time.Now()
			err := call()
			mu.Lock()
			defer mu.Unlock()
			longest = max(longest, time.Since(began))
			if err != nil {
				failed++
			}
		})
	}
	calls.Wait()
	return failed, longest
}

// waitUntil waits until a condition holds.
func waitUntil(ctx context.Context, holds func() bool) error {
	ctx, cancel := context.WithTimeout(ctx, longestCall)
	defer cancel()
	for !holds() {
		if err := waitFor(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
	return nil
}

// countHeld counts how many queries from a pool without deadlines are held for two of our
// deadlines.
func countHeld(ctx context.Context, proxy *faultyProxy) (int, error) {
	u, err := url.Parse(proxy.url())
	if err != nil {
		return 0, err
	}
	driver, dsn := "pgx", u.String()
	if u.Scheme == "mysql" {
		driver, dsn = "mysql", fmt.Sprintf("%s@tcp(%s)%s", u.User, u.Host, u.Path)
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		return 0, err
	}
	defer db.Close()
	ctx, cancel := context.WithTimeout(ctx, 2*hangTimeout)
	defer cancel()
	held, _ := callTogether(func() error { return db.PingContext(ctx) })
	return held, nil
}
