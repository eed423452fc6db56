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
type resources struct{ handles, threads, goroutines int }

// measureFreshHost is that of a host on a store that reloaded nothing.
func measureFreshHost(ctx context.Context, l *lab, url, apps string) (resources, error) {
	h, err := serveStore(ctx, l, url, apps)
	if err != nil {
		return resources{}, err
	}
	defer h.kill()
	var wg sync.WaitGroup
	errs := make([]error, companions+1)
	for i := range errs {
		wg.Go(func() { errs[i] = runFreshTurns(ctx, newClient(h.url, "guide", fmt.Sprintf("fresh-%d", i))) })
	}
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return resources{}, err
		}
	}
	return h.measureResources(ctx)
}

func runFreshTurns(ctx context.Context, c *client) error {
	defer c.close()
	for range freshTurns {
		if _, err := c.runTurn(ctx, "hi"); err != nil {
			return err
		}
		if _, err := c.readEvents(ctx); err != nil {
			return err
		}
	}
	return nil
}

// compareResources compares what the host holds after all reloads with what a fresh
// one does.
func (r *reloadProof) compareResources(ctx context.Context, fresh resources) ([]row, error) {
	r.prober.close()
	current, err := r.host.measureResources(ctx)
	if err != nil {
		return nil, err
	}
	return []row{{
		"reloads leave nothing behind",
		fmt.Sprintf("fresh → after all reloads: %d → %d file handles, %d → %d threads, %d → %d goroutines",
			fresh.handles, current.handles, fresh.threads, current.threads, fresh.goroutines, current.goroutines),
		current.handles <= fresh.handles+moreHandles && current.threads <= fresh.threads+moreThreads && current.goroutines <= fresh.goroutines,
	}}, nil
}

// measureResources waits until two looks see the same handles, so that connections that
// clients closed are gone, and ends the process.
func (h *host) measureResources(ctx context.Context) (resources, error) {
	var current resources
	ticker := time.NewTicker(300 * time.Millisecond)
	defer ticker.Stop()
	err := pollUntil(ctx, "the host to be idle", func() (bool, error) {
		<-ticker.C
		before := current
		var err error
		current.handles, current.threads, err = h.countHandles()
		return current.handles == before.handles, err
	})
	if err == nil {
		current.goroutines, err = h.countGoroutines()
	}
	return current, err
}
