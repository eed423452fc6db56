package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	replicas = 3
	// replicaLease is shorter than the default, so that a killed host's sessions are taken over
	// sooner.
	replicaLease = "5s"
	// sharedEvery: one in sharedEvery sessions has two clients.
	sharedEvery = 5
)

// A replicaLoad is a load on a fleet whose hosts are killed.
type replicaLoad struct {
	store               string // each host's store URL
	sessions, turns     int    // turns in each session
	killEvery           time.Duration
	maxPause, turnLimit time.Duration
	retryBlindly        bool
}

// A replicaResult is a replicaLoad's result.
type replicaResult struct {
	violations
	turns, kills, cut, resumed, seen int
	// differ counts sessions that differ between hosts, and gaps those with missing
	// sequence numbers.
	differ, gaps int
	took         []time.Duration
	duration     time.Duration
	unexplained  []error
}

// replicaRows shows that turns continue on other replicas when one is killed.
func replicaRows(ctx context.Context, s *sandbox) ([]row, error) {
	if s.driver != "pgx" {
		return nil, nil
	}
	mainLoad := replicaLoad{
		store: s.url + "?pool_size=8", sessions: s.choose(60, 200), turns: s.choose(40, 100),
		killEvery: 5 * time.Second, maxPause: time.Second, turnLimit: 2 * time.Minute,
	}
	t, err := s.runReplicaLoad(ctx, mainLoad)
	if err != nil {
		return nil, err
	}
	inMemory := replicaLoad{store: "memory:", sessions: 10, turns: 5, killEvery: time.Second, maxPause: time.Second / 2, turnLimit: 10 * time.Second}
	memory, err := s.runReplicaLoad(ctx, inMemory)
	if err != nil {
		return nil, err
	}
	duplicated, err := s.runOnOther(ctx, func(ctx context.Context, s *sandbox) (int, error) {
		t, err := s.runReplicaLoad(ctx, replicaLoad{
			store: s.url + "?pool_size=8", sessions: 30, turns: 10,
			killEvery: 2 * time.Second, maxPause: time.Second / 2, turnLimit: time.Minute, retryBlindly: true,
		})
		return t.duplicated, err
	})
	return []row{{
		fmt.Sprintf("%d replicas on PostgreSQL, one killed every %s: no event is lost, duplicated, mixed or unanswered", replicas, mainLoad.killEvery),
		fmt.Sprintf("%s; controls: %d lost by replicas with separate memory stores, %d duplicated by clients that retry without checking",
			t, memory.lost, duplicated),
		t.ok() && t.turns == mainLoad.sessions*mainLoad.turns && memory.lost > 0 && duplicated > 0,
	}}, err
}

// String summarizes the result.
func (t *replicaResult) String() string {
	slices.Sort(t.took)
	text := fmt.Sprintf("%d turns in %s, %d kills, %d answers cut off, %d invocations resumed; %d events acknowledged: "+
		"%d lost, %d duplicated, %d mixed, %d gaps, %d differences between replicas, %d turns unanswered; turn latency %s median, %s p99",
		t.turns, t.duration.Round(time.Second), t.kills, t.cut, t.resumed, t.seen,
		t.lost, t.duplicated, t.mixed, t.gaps, t.differ, t.unanswered, roundMillis(percentile(t.took, 50)), roundMillis(percentile(t.took, 99)))
	if len(t.unexplained) > 0 {
		text += fmt.Sprintf("; %d unexplained errors, such as %s", len(t.unexplained), strings.TrimSpace(t.unexplained[0].Error()))
	}
	return text
}

func (t *replicaResult) ok() bool {
	return t.violations == violations{} && t.gaps == 0 && t.differ == 0 && len(t.unexplained) == 0 && t.kills > 0 && t.resumed > 0 && t.seen > 0
}

// percentile returns a percentile of sorted times.
func percentile(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[(len(times)-1)*percent/100]
}

func (s *sandbox) runReplicaLoad(ctx context.Context, r replicaLoad) (t *replicaResult, err error) {
	apps := filepath.Join(s.dir, "replicas")
	if err := ledgerApp().writeTo(apps); err != nil {
		return nil, err
	}
	f, err := newFleet(ctx, &fleet{lab: s.lab, store: r.store, apps: apps, flags: []string{"--lease", replicaLease}}, replicas)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	accounts := s.newSessionRecords(r, f.proxy.url)
	t = &replicaResult{}
	if err := t.runLoad(ctx, f, accounts, r, s.random); err != nil {
		return nil, err
	}
	if err := t.compareReplicas(ctx, f, accounts); err != nil {
		return nil, err
	}
	if r.store != "memory:" {
		t.gaps, err = s.countSequenceGaps(ctx)
	}
	return t, err
}

// newSessionRecords returns the sessions and their clients.
func (s *sandbox) newSessionRecords(r replicaLoad, url string) []sessionRecord {
	all := make([]sessionRecord, r.sessions)
	number := 0
	for i := range all {
		speakers := 1
		if i%sharedEvery == 0 {
			speakers = 2
		}
		for range speakers {
			all[i].clients = append(all[i].clients, &retryingClient{
				client: newClient(url, "ledger", fmt.Sprint("session-", i)), number: number, retryBlindly: r.retryBlindly, shared: speakers > 1,
				maxPause: r.maxPause, turnLimit: r.turnLimit, random: rand.New(rand.NewPCG(s.seed, uint64(number))),
			})
			number++
		}
	}
	return all
}

// runLoad runs all clients while hosts are killed.
func (t *replicaResult) runLoad(ctx context.Context, f *fleet, accounts []sessionRecord, r replicaLoad, dice *rand.Rand) error {
	// The hosts outlive the load: ctx is their context.
	talking, cancel := context.WithCancel(ctx)
	defer cancel()
	began, quit, killErr := time.Now(), make(chan struct{}), make(chan error, 1)
	go func() {
		err := f.killPeriodically(ctx, r.killEvery, dice.IntN, quit)
		if err != nil {
			cancel()
		}
		killErr <- err
	}()
	var wg sync.WaitGroup
	for _, a := range accounts {
		for i, s := range a.clients {
			turns := r.turns / len(a.clients)
			if i == 0 {
				turns += r.turns % len(a.clients)
			}
			wg.Go(func() { s.runTurns(talking, turns) })
		}
	}
	wg.Wait()
	close(quit)
	t.duration = time.Since(began)
	err := <-killErr
	t.kills = f.kills
	return err
}

// compareReplicas compares the first host's sessions with the records, and the other hosts' with
// the first.
func (t *replicaResult) compareReplicas(ctx context.Context, f *fleet, accounts []sessionRecord) error {
	for i, a := range accounts {
		var first []event
		for n, h := range f.hosts {
			c := newClient(h.url, "ledger", fmt.Sprint("session-", i))
			events, err := c.readEvents(ctx)
			c.close()
			var r *statusError
			if err != nil && !errors.As(err, &r) {
				return err
			}
			switch {
			case n == 0:
				first = events
			case !slices.EqualFunc(first, events, func(a, b event) bool { return a.ID == b.ID }):
				t.differ++
			}
		}
		t.add(a.compareEvents(first))
		for _, s := range a.clients {
			t.addClient(s)
		}
	}
	return nil
}

func (t *replicaResult) addClient(s *retryingClient) {
	t.turns += len(s.messages)
	t.seen += len(s.seen)
	t.cut += s.cut
	t.took = append(t.took, s.took...)
	t.unexplained = append(t.unexplained, s.unexplained...)
	for _, msg := range s.messages {
		if msg.resumes > 0 {
			t.resumed++
		}
	}
}

// countSequenceGaps counts the sessions whose events are not numbered 1, 2, 3 and so
// on.
func (s *sandbox) countSequenceGaps(ctx context.Context) (n int, err error) {
	db, err := s.openSQL()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	const holes = `SELECT count(*) FROM (SELECT session_pk FROM events GROUP BY session_pk HAVING min(seq) <> 1 OR max(seq) <> count(*)) AS g`
	err = db.QueryRowContext(ctx, holes).Scan(&n)
	return n, err
}
