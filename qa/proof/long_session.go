package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore"
	"agenthost/pkg/store/sqlstore/mysql"
	"agenthost/pkg/store/sqlstore/postgres"
	"agenthost/pkg/store/sqlstore/sqlite"
	"agenthost/pkg/store/storeurl"
)

const (
	shortSession = 100
	// maxReadRatio is the maximum ratio between the read times for a long and a short session.
	maxReadRatio = 2.0
)

// longSessionRows is M16: the read at the start of a turn.
func longSessionRows(ctx context.Context, s *sandbox) (rows []row, err error) {
	events := s.choose(5000, 100_000)
	for i, n := range []int{shortSession, events} {
		if err := s.fillSession(ctx, i, n); err != nil {
			return nil, err
		}
	}
	st, err := s.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	warm, err := compareReads(func(i int) (time.Duration, error) { return timeNextTurn(ctx, st, i) })
	if err != nil {
		return nil, err
	}
	fresh, err := s.openStore(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, fresh.Close()) }()
	last := 20
	recent, err := compareReads(func(i int) (time.Duration, error) {
		return timedGet(ctx, fresh, i, &store.GetOptions{NumRecentEvents: &last})
	})
	if err != nil {
		return nil, err
	}
	control, err := compareFirst(func(i int) (time.Duration, error) { return s.timeFirstGet(ctx, i) })
	controlText := fmt.Sprintf("control, all events read again: %s", control)
	return []row{
		{
			fmt.Sprintf("M16 %s: the read at the start of a turn takes at most twice as long after %d events as after %d", s.name, events, shortSession),
			fmt.Sprintf("%s; %s", warm, controlText),
			warm.ratio() <= maxReadRatio && control.ratio() > maxReadRatio,
		},
		{
			fmt.Sprintf("M16 %s: so does a read of the last %d events of a session that is not cached", s.name, last),
			recent.String(),
			recent.ratio() <= maxReadRatio,
		},
	}, err
}

// fillSession creates a session with many events. SQLite files are filled without
// syncs.
func (s *sandbox) fillSession(ctx context.Context, i, events int) (err error) {
	url := s.url
	if s.file != "" {
		url += "?synchronous=normal"
	}
	st, err := storeurl.Open(ctx, url, &storeurl.Options{Schemes: databaseSchemes(), Artifacts: "memory:"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	sess, err := st.Sessions.Create(ctx, sessionKey(0, i), map[string]any{"topic": "ferries"})
	for n := 0; n < events && err == nil; n++ {
		err = st.Sessions.Append(ctx, sess, textEvent("user", fmt.Sprint("When does ferry ", n, " leave?")))
	}
	return err
}

// A readComparison has the short and the long session's times.
type readComparison [2]time.Duration

func (c readComparison) ratio() float64 { return float64(c[1]) / float64(c[0]) }

// String returns both times and the ratio.
func (c readComparison) String() string {
	return fmt.Sprintf("%s and %s, %.2f×", c[0].Round(time.Microsecond), c[1].Round(time.Microsecond), c.ratio())
}

// compareReads alternates between read blocks for both sessions and returns each session's lowest
// median.
func compareReads(read func(i int) (time.Duration, error)) (best readComparison, err error) {
	const blocks, reads = 5, 101
	for b := range blocks {
		for i := range best {
			var took []time.Duration
			for range reads {
				d, err := read(i)
				if err != nil {
					return best, err
				}
				took = append(took, d)
			}
			slices.Sort(took)
			if median := took[reads/2]; b == 0 || median < best[i] {
				best[i] = median
			}
		}
	}
	return best, nil
}

// compareFirst returns the best of three reads for each session.
func compareFirst(read func(i int) (time.Duration, error)) (best readComparison, err error) {
	for b := range 3 {
		for i := range best {
			d, err := read(i)
			if err != nil {
				return best, err
			}
			if b == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	return best, nil
}

// timeNextTurn appends an event and times the next read.
func timeNextTurn(ctx context.Context, st *store.Store, i int) (time.Duration, error) {
	sess, err := st.Sessions.Get(ctx, sessionKey(0, i), nil)
	if err == nil {
		err = st.Sessions.Append(ctx, sess, &session.Event{Author: "agent", InvocationID: "e-2"})
	}
	if err != nil {
		return 0, err
	}
	return timedGet(ctx, st, i, nil)
}

func timedGet(ctx context.Context, st *store.Store, i int, o *store.GetOptions) (time.Duration, error) {
	began := time.Now()
	_, err := st.Sessions.Get(ctx, sessionKey(0, i), o)
	return time.Since(began), err
}

// timeFirstGet times a read by a store without a cache.
func (s *sandbox) timeFirstGet(ctx context.Context, i int) (took time.Duration, err error) {
	st, err := s.openStore(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	return timedGet(ctx, st, i, nil)
}

// databaseSchemes returns all databases' schemes.
func databaseSchemes() []storeurl.Scheme {
	return sqlstore.Engines{sqlite.Engine(), postgres.Engine(), mysql.Engine()}.Schemes()
}
