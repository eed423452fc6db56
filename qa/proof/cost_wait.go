package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const waitTries = 50

// measureWaits measures single turns in an otherwise idle fleet: on the previous turn's replica or
// on another one, immediately or after a pause.
func (f *fleet) measureWaits(ctx context.Context, table [][]string) ([][]string, error) {
	for _, w := range []struct {
		what  string
		rest  time.Duration
		other bool
	}{
		{"the same replica, immediately", 0, false},
		{"the same replica, after a pause", costRest, false},
		{"another replica, after a pause", costRest, true},
		{"another replica, immediately", 0, true},
	} {
		took, err := f.measureSingleTurns(ctx, w.rest, w.other)
		if err != nil {
			return nil, err
		}
		table = append(table, []string{w.what, roundMillis(percentile(took, 50)).String(), roundMillis(percentile(took, 99)).String()})
	}
	return table, nil
}

func (f *fleet) measureSingleTurns(ctx context.Context, rest time.Duration, other bool) ([]time.Duration, error) {
	var took []time.Duration
	clients := make([]*client, len(f.hosts))
	for i, h := range f.hosts {
		clients[i] = newClient(h.url, "clerk", fmt.Sprint("single-", rest, other))
		defer clients[i].close()
	}
	// The first turn on each host loads the session and opens a connection.
	for n := range waitTries + len(f.hosts) {
		c := clients[0]
		if other {
			c = clients[n%len(clients)]
		}
		if err := waitFor(ctx, rest); err != nil {
			return nil, err
		}
		began := time.Now()
		if _, err := c.runTurn(ctx, "hello"); err != nil {
			return nil, err
		}
		if n >= len(f.hosts) {
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	return took, nil
}
