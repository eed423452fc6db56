package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// moreHandles is how many more file handles than a fresh host are permitted. The database opens
	// connections on demand; a leak in a reload would occur a hundred times.
	moreHandles = 6
	// moreThreads is how many more threads than a fresh host are permitted. Go keeps threads that
	// once waited for the disk.
	moreThreads = 6
	// freshTurns is how many turns each session has before a fresh host is measured.
	freshTurns = 30
)

// resources are what an idle process holds.
type resources struct{ handles, threads, goroutines int }

// measureFreshHost measures a host that has not reloaded.
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

// compareResources compares the resources after all reloads with a fresh host's.
func (r *reloadProof) compareResources(ctx context.Context, fresh resources) ([]row, error) {
	r.prober.close()
	current, err := r.host.measureResources(ctx)
	if err != nil {
		return nil, err
	}
	return []row{{
		"reloads leak no file handles, threads or goroutines",
		fmt.Sprintf("fresh → after all reloads: %d → %d file handles, %d → %d threads, %d → %d goroutines",
			fresh.handles, current.handles, fresh.threads, current.threads, fresh.goroutines, current.goroutines),
		current.handles <= fresh.handles+moreHandles && current.threads <= fresh.threads+moreThreads && current.goroutines <= fresh.goroutines,
	}}, nil
}

// measureResources waits until two consecutive polls see equally many file handles, so that closed
// connections are gone, and terminates the process.
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
