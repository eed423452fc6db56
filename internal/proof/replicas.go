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
	// replicaLease is shorter than by default, so that the sessions of a host
	// that was killed wait less.
	replicaLease = "5s"
	// sharedEach: one in so many sessions has two speakers.
	sharedEach = 5
)

// A rush is a number of sessions that talk to a fleet while its hosts are
// killed.
type rush struct {
	store           string // the URL that each host opens
	sessions, turns int    // turns of each session
	every           time.Duration
	pause, patience time.Duration
	blind           bool
}

// A tally is what came of a rush.
type tally struct {
	verdict
	turns, kills, cut, resumed, seen int
	// differ are histories that the hosts do not tell alike, and gaps sessions
	// with a hole in their numbers.
	differ, gaps int
	took         []time.Duration
	whole        time.Duration
	odd          []error
}

// replicaRows shows that turns go on, on any replica, while replicas die.
func replicaRows(ctx context.Context, s *site) ([]row, error) {
	if s.driver != "pgx" {
		return nil, nil
	}
	main := rush{
		store: s.url + "?pool_size=8", sessions: s.of(60, 200), turns: s.of(40, 100),
		every: 5 * time.Second, pause: time.Second, patience: 2 * time.Minute,
	}
	t, err := s.rush(ctx, main)
	if err != nil {
		return nil, err
	}
	forgetful := rush{store: "memory:", sessions: 10, turns: 5, every: time.Second, pause: time.Second / 2, patience: 10 * time.Second}
	memory, err := s.rush(ctx, forgetful)
	if err != nil {
		return nil, err
	}
	doubled, err := s.elsewhere(ctx, func(ctx context.Context, s *site) (int, error) {
		t, err := s.rush(ctx, rush{
			store: s.url + "?pool_size=8", sessions: 30, turns: 10,
			every: 2 * time.Second, pause: time.Second / 2, patience: time.Minute, blind: true,
		})
		return t.doubled, err
	})
	return []row{{
		fmt.Sprintf("%d replicas on PostgreSQL, one killed every %s: nothing lost, doubled, mixed or unanswered", replicas, main.every),
		fmt.Sprintf("%s; controls: %d lost by replicas with a memory of their own, %d doubled by clients that say it again without looking",
			t, memory.lost, doubled),
		t.ok() && t.turns == main.sessions*main.turns && memory.lost > 0 && doubled > 0,
	}}, err
}

// String is the tally in words.
func (t *tally) String() string {
	slices.Sort(t.took)
	text := fmt.Sprintf("%d turns in %s, %d kills, %d answers cut off, %d invocations resumed; %d events acknowledged: "+
		"%d lost, %d doubled, %d mixed, %d gaps, %d told differently by another replica, %d turns unanswered; turns took %s, 1 in 100 more than %s",
		t.turns, t.whole.Round(time.Second), t.kills, t.cut, t.resumed, t.seen,
		t.lost, t.doubled, t.mixed, t.gaps, t.differ, t.unanswered, round(share(t.took, 50)), round(share(t.took, 99)))
	if len(t.odd) > 0 {
		text += fmt.Sprintf("; %d refusals that nothing explains, such as %s", len(t.odd), strings.TrimSpace(t.odd[0].Error()))
	}
	return text
}

func (t *tally) ok() bool {
	return t.verdict == verdict{} && t.gaps == 0 && t.differ == 0 && len(t.odd) == 0 && t.kills > 0 && t.resumed > 0 && t.seen > 0
}

// share is the time that so many in a hundred do not exceed; times are sorted.
func share(times []time.Duration, percent int) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[(len(times)-1)*percent/100]
}

func (s *site) rush(ctx context.Context, r rush) (t *tally, err error) {
	apps := filepath.Join(s.dir, "replicas")
	if err := ledger().write(apps); err != nil {
		return nil, err
	}
	f, err := newFleet(ctx, &fleet{lab: s.lab, store: r.store, apps: apps, flags: []string{"--lease", replicaLease}}, replicas)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	accounts := s.accounts(r, f.robin.url)
	t = &tally{}
	if err := t.talk(ctx, f, accounts, r, s.dice); err != nil {
		return nil, err
	}
	if err := t.compare(ctx, f, accounts); err != nil {
		return nil, err
	}
	if r.store != "memory:" {
		t.gaps, err = s.gaps(ctx)
	}
	return t, err
}

// accounts are the sessions and their speakers.
func (s *site) accounts(r rush, url string) []account {
	all := make([]account, r.sessions)
	number := 0
	for i := range all {
		speakers := 1
		if i%sharedEach == 0 {
			speakers = 2
		}
		for range speakers {
			all[i].speakers = append(all[i].speakers, &speaker{
				client: newClient(url, "ledger", fmt.Sprint("session-", i)), number: number, blind: r.blind, shared: speakers > 1,
				pause: r.pause, patience: r.patience, dice: rand.New(rand.NewPCG(s.seed, uint64(number))),
			})
			number++
		}
	}
	return all
}

// talk lets everybody speak while hosts die.
func (t *tally) talk(ctx context.Context, f *fleet, accounts []account, r rush, dice *rand.Rand) error {
	// The hosts outlive the talk: ctx is theirs.
	talking, cancel := context.WithCancel(ctx)
	defer cancel()
	began, quit, disturbed := time.Now(), make(chan struct{}), make(chan error, 1)
	go func() {
		err := f.disturb(ctx, r.every, dice.IntN, quit)
		if err != nil {
			cancel()
		}
		disturbed <- err
	}()
	var wg sync.WaitGroup
	for _, a := range accounts {
		for i, s := range a.speakers {
			turns := r.turns / len(a.speakers)
			if i == 0 {
				turns += r.turns % len(a.speakers)
			}
			wg.Go(func() { s.speak(talking, turns) })
		}
	}
	wg.Wait()
	close(quit)
	t.whole = time.Since(began)
	err := <-disturbed
	t.kills = f.kills
	return err
}

// compare holds what each host tells of each session against the accounts. The
// first host is believed, the others have to say the same.
func (t *tally) compare(ctx context.Context, f *fleet, accounts []account) error {
	for i, a := range accounts {
		var first []event
		for n, h := range f.hosts {
			c := newClient(h.url, "ledger", fmt.Sprint("session-", i))
			events, err := c.stored(ctx)
			c.close()
			var r *refusal
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
		t.add(a.judge(first))
		for _, s := range a.speakers {
			t.hear(s)
		}
	}
	return nil
}

func (t *tally) hear(s *speaker) {
	t.turns += len(s.sentences)
	t.seen += len(s.seen)
	t.cut += s.cut
	t.took = append(t.took, s.took...)
	t.odd = append(t.odd, s.odd...)
	for _, it := range s.sentences {
		if it.resumes > 0 {
			t.resumed++
		}
	}
}

// gaps counts the sessions whose events are not numbered from 1 on.
func (s *site) gaps(ctx context.Context) (n int, err error) {
	db, err := s.raw()
	if err != nil {
		return 0, err
	}
	defer db.Close()
	const holes = `SELECT count(*) FROM (SELECT session_pk FROM events GROUP BY session_pk HAVING min(seq) <> 1 OR max(seq) <> count(*)) AS g`
	err = db.QueryRowContext(ctx, holes).Scan(&n)
	return n, err
}
