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

// turnsPerSession limits session lengths.
const turnsPerSession = 5

// A load is what concurrent clients do, each on its own connection and in its own
// sessions.
type load struct {
	path    string
	clients int
	// turns is how many turns all clients run together.
	turns  int
	script script
	// limit is the time after which no more turns start.
	limit time.Duration
	// startSpread is the period over which the clients start; 0 starts them together.
	startSpread time.Duration
	// stateless reports that the server has no sessions.
	stateless bool
	// a2aUser is the user of the sessions of A2A: that of all, or a prefix before the session's ID.
	a2aUser string
}

// An outcome is a load's result on a server.
type outcome struct {
	answered, failed int
	lastErr          error // a failed turn's
	wall, cpu        time.Duration
	peakMemory       int64
	// took, first and event are answered turns' sorted times.
	took, first, event []time.Duration
}

// rate returns the answered turns per second.
func (o *outcome) rate() float64 {
	if o.wall == 0 {
		return 0
	}
	return float64(o.answered) / o.wall.Seconds()
}

// cpuPerTurn returns the CPU time per answered turn.
func (o *outcome) cpuPerTurn() time.Duration { return o.cpu / time.Duration(max(o.answered, 1)) }

// quantile returns a quantile from sorted times.
func quantile(times []time.Duration, share float64) time.Duration {
	if len(times) == 0 {
		return 0
	}
	return times[min(int(share*float64(len(times))), len(times)-1)]
}

func userOf(client int) string             { return fmt.Sprintf("user-%d", client) }
func sessionOf(client, session int) string { return fmt.Sprintf("session-%d-%d", client, session) }

// sessionsPerClient returns how many sessions each client has.
func (l *load) sessionsPerClient() int {
	turns := (l.turns + l.clients - 1) / l.clients
	return (turns + turnsPerSession - 1) / turnsPerSession
}

// runLoad creates the sessions, runs the clients, and verifies that the answered turns
// are stored.
func (l *load) runLoad(ctx context.Context, p *process) (*outcome, error) {
	if !l.stateless && !isA2A(l.path) {
		if err := l.createSessions(ctx, p.addr); err != nil {
			return nil, fmt.Errorf("creating sessions: %w", err)
		}
	}
	clients := make([]*client, l.clients)
	for i := range clients {
		clients[i] = &client{addr: p.addr}
		if l.startSpread == 0 {
			if _, err := clients[i].sendRequest(buildGet("/list-apps")); err != nil {
				return nil, err
			}
		}
		defer clients[i].close()
	}
	before, err := p.readUsage()
	if err != nil {
		return nil, err
	}
	parts := make([]outcome, l.clients)
	start := time.Now()
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() { l.runClient(ctx, c, i, start, &parts[i]) })
	}
	wg.Wait()
	wall := time.Since(start)
	after, err := p.readUsage()
	if err != nil {
		return nil, err
	}
	all := mergeOutcomes(parts)
	all.wall, all.cpu, all.peakMemory = wall, after.CPU-before.CPU, after.Peak
	if l.stateless {
		return all, ctx.Err()
	}
	return all, errors.Join(ctx.Err(), l.verifyStored(ctx, p.addr, parts))
}

// runClient runs one client's turns.
func (l *load) runClient(ctx context.Context, c *client, i int, start time.Time, o *outcome) {
	turns := (l.turns + i) / l.clients
	requests := make([][]byte, l.sessionsPerClient())
	for s := range requests {
		requests[s] = turnRequest(l.path, userOf(i), sessionOf(i, s))
	}
	o.took, o.first, o.event = make([]time.Duration, 0, turns), make([]time.Duration, 0, turns), make([]time.Duration, 0, turns)
	if waitFor(ctx, l.startSpread*time.Duration(i)/time.Duration(l.clients)-time.Since(start)) != nil {
		return
	}
	for n := 0; n < turns && time.Since(start) < l.limit && ctx.Err() == nil; n++ {
		r, err := c.sendRequest(requests[n/turnsPerSession])
		if err == nil {
			err = l.script.checkReply(r, l.path)
		}
		if err != nil {
			o.failed++
			o.lastErr = err
			continue
		}
		o.answered++
		o.took, o.first, o.event = append(o.took, r.took), append(o.first, r.first), append(o.event, r.event)
	}
}

func mergeOutcomes(parts []outcome) *outcome {
	all := &outcome{}
	for i := range parts {
		p := &parts[i]
		all.answered += p.answered
		all.failed += p.failed
		if p.lastErr != nil {
			all.lastErr = p.lastErr
		}
		all.took, all.first, all.event = append(all.took, p.took...), append(all.first, p.first...), append(all.event, p.event...)
	}
	for _, times := range [][]time.Duration{all.took, all.first, all.event} {
		slices.Sort(times)
	}
	return all
}

// creators create sessions concurrently and retry, because adk-go's databases reject
// some requests. This phase is not measured.
const (
	creators = 8
	attempts = 1000
)

func (l *load) createSessions(ctx context.Context, addr string) error {
	n := l.sessionsPerClient()
	errs := make([]error, creators)
	var wg sync.WaitGroup
	for m := range creators {
		wg.Go(func() {
			c := &client{addr: addr}
			defer c.close()
			for i := m; i < l.clients*n && errs[m] == nil; i += creators {
				errs[m] = createSession(ctx, c, sessionPath(userOf(i/n), sessionOf(i/n, i%n)))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func createSession(ctx context.Context, c *client, path string) error {
	var last error
	for range attempts {
		r, err := c.sendRequest(buildPost(path, ""))
		if err == nil && r.status == http.StatusOK {
			return nil
		}
		if last = err; err == nil {
			last = fmt.Errorf("status %d: %s", r.status, abbreviate(r.text))
		}
		if err := waitFor(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
	return last
}

// verifyStored reads some clients' first sessions. Both events from every answered turn must be
// stored.
func (l *load) verifyStored(ctx context.Context, addr string, parts []outcome) error {
	for i := 0; i < len(parts); i += max(1, len(parts)/8) {
		if parts[i].failed > 0 {
			continue // a failed turn may be stored
		}
		user := userOf(i)
		if isA2A(l.path) {
			user = l.a2aUser
			if strings.HasSuffix(user, "_") {
				user += sessionOf(i, 0)
			}
		}
		text, err := readText(ctx, "http://"+addr+sessionPath(user, sessionOf(i, 0)))
		if err != nil {
			return err
		}
		want := 2 * min(parts[i].answered, turnsPerSession)
		if got := strings.Count(text, `"author":`); got != want {
			return fmt.Errorf("session %s has %d events after its turns, want %d", sessionOf(i, 0), got, want)
		}
	}
	return nil
}

func readText(ctx context.Context, url string) (string, error) {
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
