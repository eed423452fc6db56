package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// moreHandles is how many file handles a host may have beyond those of a
	// fresh one: the database opens connections as readers happen to meet, up
	// to a bound. What a reload left behind would be there a hundred times.
	moreHandles = 6
	// moreThreads is how many threads Go may start beyond those that a fresh
	// host has: it keeps those that once waited for the disk.
	moreThreads = 6
	// freshTurns are taken in each session before a fresh host is looked at.
	freshTurns = 30
)

// A holding is what a process holds when nobody talks with it.
type holding struct{ handles, threads, goroutines int }

// freshHolding is that of a host on a store that reloaded nothing.
func freshHolding(ctx context.Context, l *lab, url, apps string) (holding, error) {
	h, err := serveAt(ctx, l, url, apps)
	if err != nil {
		return holding{}, err
	}
	defer h.kill()
	var wg sync.WaitGroup
	errs := make([]error, companions+1)
	for i := range errs {
		wg.Go(func() { errs[i] = chat(ctx, newClient(h.url, "guide", fmt.Sprintf("fresh-%d", i))) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return holding{}, err
		}
	}
	return h.holding(ctx)
}

func chat(ctx context.Context, c *client) error {
	defer c.close()
	for range freshTurns {
		if _, err := c.turn(ctx, "hi"); err != nil {
			return err
		}
		if _, err := c.stored(ctx); err != nil {
			return err
		}
	}
	return nil
}

// leftovers compares what the host holds after all reloads with what a fresh
// one does.
func (r *reloading) leftovers(ctx context.Context, fresh holding) ([]row, error) {
	r.asker.close()
	now, err := r.host.holding(ctx)
	if err != nil {
		return nil, err
	}
	return []row{{
		"reloads leave nothing behind",
		fmt.Sprintf("fresh → after all reloads: %d → %d file handles, %d → %d threads, %d → %d goroutines",
			fresh.handles, now.handles, fresh.threads, now.threads, fresh.goroutines, now.goroutines),
		now.handles <= fresh.handles+moreHandles && now.threads <= fresh.threads+moreThreads && now.goroutines <= fresh.goroutines,
	}}, nil
}

// holding waits until two looks see the same handles, so that connections that
// clients closed are gone, and ends the process.
func (h *host) holding(ctx context.Context) (holding, error) {
	var now holding
	look := time.NewTicker(300 * time.Millisecond)
	defer look.Stop()
	err := until(ctx, "the host to be idle", func() (bool, error) {
		<-look.C
		before := now
		var err error
		now.handles, now.threads, err = h.held()
		return now.handles == before.handles, err
	})
	if err == nil {
		now.goroutines, err = h.goroutines()
	}
	return now, err
}
