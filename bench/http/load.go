package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// turnsEach is how many turns a session has, so that none grows long.
const turnsEach = 5

// A load is what clients do at the same time, each on a connection of its own,
// in sessions of its own.
type load struct {
	path    string
	clients int
	// turns are those of all clients together.
	turns  int
	script script
	// limit is when no more turns begin.
	limit time.Duration
	// over spreads the beginnings of the clients; 0 has them begin together.
	over time.Duration
}

// An outcome is what a server did with a load.
type outcome struct {
	answered, failed int
	why              error // of one that failed
	wall, cpu        time.Duration
	peak             int64
	// took, first and event are the times of answered turns, sorted.
	took, first, event []time.Duration
}

// rate is how many turns were answered in a second.
func (o *outcome) rate() float64 {
	if o.wall == 0 {
		return 0
	}
	return float64(o.answered) / o.wall.Seconds()
}

// each is the processor time of an answered turn.
func (o *outcome) each() time.Duration { return o.cpu / time.Duration(max(o.answered, 1)) }

// at is the time that so much of all is not longer than.
func at(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(int(share*float64(len(times))), len(times)-1)]
}

func userOf(client int) string             { return fmt.Sprintf("user-%d", client) }
func sessionOf(client, session int) string { return fmt.Sprintf("session-%d-%d", client, session) }

// each client has so many sessions.
func (l *load) sessions() int {
	turns := (l.turns + l.clients - 1) / l.clients
	return (turns + turnsEach - 1) / turnsEach
}

// run makes the sessions, lets the clients work, and looks afterwards whether what
// was answered is stored.
func (l *load) run(ctx context.Context, p *process) (*outcome, error) {
	if err := l.prepare(ctx, p.addr); err != nil {
		return nil, fmt.Errorf("making sessions: %w", err)
	}
	clients := make([]*client, l.clients)
	for i := range clients {
		clients[i] = &client{addr: p.addr}
		if l.over == 0 {
			if _, err := clients[i].ask(get("/list-apps")); err != nil {
				return nil, err
			}
		}
		defer clients[i].close()
	}
	before, err := p.usage()
	if err != nil {
		return nil, err
	}
	parts := make([]outcome, l.clients)
	start := time.Now()
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { l.work(ctx, c, i, start, &parts[i]) })
	}
	wg.Wait()
	wall := time.Since(start)
	after, err := p.usage()
	if err != nil {
		return nil, err
	}
	all := gather(parts)
	all.wall, all.cpu, all.peak = wall, after.CPU-before.CPU, after.Peak
	return all, errors.Join(ctx.Err(), l.verify(ctx, p.addr, parts))
}

// work is what one client does.
func (l *load) work(ctx context.Context, c *client, i int, start time.Time, o *outcome) {
	turns := (l.turns + i) / l.clients
	requests := make([][]byte, l.sessions())
	for s := range requests {
		requests[s] = turnRequest(l.path, userOf(i), sessionOf(i, s))
	}
	o.took, o.first, o.event = make([]time.Duration, 0, turns), make([]time.Duration, 0, turns), make([]time.Duration, 0, turns)
	if pause(ctx, l.over*time.Duration(i)/time.Duration(l.clients)-time.Since(start)) != nil {
		return
	}
	for n := 0; n < turns && time.Since(start) < l.limit && ctx.Err() == nil; n++ {
		r, err := c.ask(requests[n/turnsEach])
		if err == nil {
			err = l.script.answers(r, l.path)
		}
		if err != nil {
			o.failed++
			o.why = err
			continue
		}
		o.answered++
		o.took, o.first, o.event = append(o.took, r.took), append(o.first, r.first), append(o.event, r.event)
	}
}

func gather(parts []outcome) *outcome {
	all := &outcome{}
	for i := range parts {
		p := &parts[i]
		all.answered += p.answered
		all.failed += p.failed
		if p.why != nil {
			all.why = p.why
		}
		all.took, all.first, all.event = append(all.took, p.took...), append(all.first, p.first...), append(all.event, p.event...)
	}
	for _, times := range [][]time.Duration{all.took, all.first, all.event} {
		slices.Sort(times)
	}
	return all
}

// makers make sessions side by side, and patient ones: adk-go's databases refuse
// some, and how many is not measured.
const (
	makers   = 8
	attempts = 1000
)

func (l *load) prepare(ctx context.Context, addr string) error {
	n := l.sessions()
	errs := make([]error, makers)
	var wg sync.WaitGroup
	for m := range makers {
		wg.Go(func() {
			c := &client{addr: addr}
			defer c.close()
			for i := m; i < l.clients*n && errs[m] == nil; i += makers {
				errs[m] = create(ctx, c, sessionPath(userOf(i/n), sessionOf(i/n, i%n)))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func create(ctx context.Context, c *client, path string) error {
	var last error
	for range attempts {
		r, err := c.ask(post(path, ""))
		if err == nil && r.status == http.StatusOK {
			return nil
		}
		if last = err; err == nil {
			last = fmt.Errorf("status %d: %s", r.status, brief(r.text))
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return last
}

// verify reads the first session of some clients: both events of every turn that
// was answered must be there.
func (l *load) verify(ctx context.Context, addr string, parts []outcome) error {
	for i := 0; i < len(parts); i += max(1, len(parts)/8) {
		if parts[i].failed > 0 {
			continue // it is not known which of its turns were answered
		}
		text, err := read(ctx, "http://"+addr+sessionPath(userOf(i), sessionOf(i, 0)))
		if err != nil {
			return err
		}
		want := 2 * min(parts[i].answered, turnsEach)
		if got := strings.Count(text, `"author":`); got != want {
			return fmt.Errorf("session %s has %d events after its turns, want %d", sessionOf(i, 0), got, want)
		}
	}
	return nil
}

func read(ctx context.Context, url string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}
