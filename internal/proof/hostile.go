package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"agenthost/pkg/server"
)

const (
	// measured are the turns by which a host's speed is told.
	measured = 400
	// slowedBy is how much more of the processor a turn may take after the
	// hostile clients than before: the sessions that they made are there.
	slowedBy = 1.5
	// moreGoroutines are those that a host may have beyond a fresh one's.
	moreGoroutines = 5
	// stuckAfter is when a session counts as held by somebody who left: a lease
	// that nobody gives back takes 15 s, a busy machine a second.
	stuckAfter = 5 * time.Second
)

// A siege is a host with honest clients, which others attack.
type siege struct {
	site   *site
	apps   string
	host   *host
	honest *reloading
	// kept is an honest session that nobody talks in meanwhile.
	kept  *client
	found *reckoning
	slow  int // clients that trickle, and were not turned away in time

	before, after time.Duration // of the processor, for a turn
	changed       int           // honest sessions and files that are not as they were
	stuck         int           // sessions of hostile clients that cannot be talked in
	left          holding
}

// hostileRows attacks a host at a place.
func hostileRows(ctx context.Context, s *site) ([]row, error) {
	g := &siege{site: s, apps: filepath.Join(s.dir, "siege-"+s.name)}
	if err := errors.Join(guide().write(g.apps), prey().write(g.apps)); err != nil {
		return nil, err
	}
	var fresh holding
	_, err := s.elsewhere(ctx, func(ctx context.Context, s *site) (_ int, err error) {
		fresh, err = freshHolding(ctx, s.lab, s.url, g.apps)
		return 0, err
	})
	if err != nil {
		return nil, err
	}
	if g.host, err = serveAt(ctx, s.lab, s.url, g.apps, "--dev", "--artifacts", "memory:"); err != nil {
		return nil, err
	}
	defer g.host.kill()
	if err := g.stand(ctx); err != nil {
		return nil, err
	}
	control, err := attackNaive(ctx, s.of(500, 2000))
	if err != nil {
		return nil, err
	}
	return []row{g.judge(fresh, control)}, nil
}

// judge makes the row. What the log calls an error is a failure too.
func (g *siege) judge(fresh holding, control *reckoning) row {
	log := g.host.log.String()
	if at := strings.Index(log, "SIGQUIT"); at >= 0 {
		log = log[:at]
	}
	panics, errs := strings.Count(log, "a handler panicked"), strings.Count(log, "level=ERROR")
	trouble := slices.Clone(g.found.first)
	if first := g.honest.first.Load(); first != nil {
		trouble = append(trouble, "an honest turn: "+(*first).Error())
	}
	if errs > 0 {
		trouble = append(trouble, "the log: "+log[:min(len(log), 1000)])
	}
	return row{
		fmt.Sprintf("hostile clients, %s: a host tells them nothing, breaks for none, keeps nothing of them, and others notice nothing", g.site.name),
		fmt.Sprintf("%d requests: %d answers of 5xx, %d with internal words, %d without an end, %d slow ones kept; %d panics, %d errors in the log%s; "+
			"%d honest turns meanwhile, %d failed, %d honest sessions or files changed, %d sessions stuck; a turn took %.2f ms of the processor before and %.2f after; "+
			"%d → %d file handles, %d → %d goroutines; control, a server of thirty lines: %d answers of 5xx, %d with internal words",
			g.found.shots, g.found.broken, g.found.telling, g.found.hanging, g.slow, panics, errs, told(trouble),
			g.honest.turns.Load(), g.honest.failed.Load(), g.changed, g.stuck, millis(g.before), millis(g.after),
			fresh.handles, g.left.handles, fresh.goroutines, g.left.goroutines, control.broken, control.telling),
		g.found.broken+g.found.telling+g.found.hanging+g.slow+panics+errs+g.changed+g.stuck == 0 &&
			g.honest.turns.Load() > 0 && g.honest.failed.Load() == 0 && float64(g.after) < slowedBy*float64(g.before) &&
			g.left.handles <= fresh.handles+moreHandles && g.left.goroutines <= fresh.goroutines+moreGoroutines &&
			control.broken > 0 && control.telling > 0,
	}
}

// told is what went wrong, for a row.
func told(trouble []string) string {
	if len(trouble) == 0 {
		return ""
	}
	return " (" + strings.Join(trouble, "; ") + ")"
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// stand lets the attack come, and looks before and after it.
func (g *siege) stand(ctx context.Context) (err error) {
	g.honest = &reloading{host: g.host}
	g.kept = newClient(g.host.url, "guide", "kept")
	defer g.kept.close()
	if _, err := g.kept.turn(ctx, "hi"); err != nil {
		return err
	}
	before, err := g.look(ctx)
	if err != nil {
		return err
	}
	if g.before, err = g.turnCost(ctx, "before"); err != nil {
		return err
	}
	if err := g.attack(ctx); err != nil {
		return err
	}
	if g.after, err = g.turnCost(ctx, "after"); err != nil {
		return err
	}
	after, err := g.look(ctx)
	if err != nil {
		return err
	}
	for i := range before {
		if before[i] != after[i] {
			g.changed++
		}
	}
	g.stuck = g.tryPrey(ctx)
	g.left, err = g.host.holding(ctx)
	return err
}

// look is what the honest session and the files of its app are.
func (g *siege) look(ctx context.Context) ([]string, error) {
	events, err := g.kept.stored(ctx)
	if err != nil {
		return nil, err
	}
	seen := []string{fmt.Sprint(events)}
	for _, name := range slices.Sorted(maps.Keys(guide())) {
		text, err := os.ReadFile(filepath.Join(g.apps, name))
		if err != nil {
			return nil, err
		}
		seen = append(seen, string(text))
	}
	return seen, nil
}

// attack fires all shots while honest clients talk, and slow ones trickle.
func (g *siege) attack(ctx context.Context) error {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for i := range companions {
		wg.Go(func() { g.honest.accompany(ctx, newClient(g.host.url, "guide", fmt.Sprint("honest-", i)), quit) })
	}
	var slow sync.WaitGroup
	slow.Go(func() { g.slow = g.trickle(ctx) })
	a := &armoury{dice: rand.New(rand.NewPCG(g.site.seed, 0)), patterns: server.New(nil, &server.Options{Metrics: server.NewMetrics("")}).Patterns()}
	var err error
	g.found, err = fire(ctx, g.addr(), a, g.site.of(1500, 10_000))
	slow.Wait()
	close(quit)
	wg.Wait()
	return err
}

func (g *siege) addr() string { return strings.TrimPrefix(g.host.url, "http://") }

// turnCost is the time of the processor that a turn takes.
func (g *siege) turnCost(ctx context.Context, name string) (time.Duration, error) {
	pid := g.host.cmd.Process.Pid
	before, err := processorTime(pid)
	if err != nil {
		return 0, err
	}
	err = together(companions, func(i int) error {
		c := newClient(g.host.url, "guide", fmt.Sprint(name, "-", i))
		defer c.close()
		for range measured / companions {
			if _, err := c.turn(ctx, "hi"); err != nil {
				return err
			}
		}
		return nil
	})
	after, failure := processorTime(pid)
	return (after - before) / measured, errors.Join(err, failure)
}

// tryPrey takes a turn in each session that hostile clients talked of, and counts
// those where that fails: nothing that was cut off may hold one.
func (g *siege) tryPrey(ctx context.Context) (stuck int) {
	for i := range preySessions {
		c := newClient(g.host.url, preyApp, fmt.Sprint("prey-", i))
		c.user = hostileUser
		began := time.Now()
		if _, err := c.turn(ctx, "hi"); err != nil || time.Since(began) > stuckAfter {
			stuck++
			fmt.Fprintf(g.site.progress, "%s, %s: a turn took %s: %v\n", g.site.name, c.session, round(time.Since(began)), err)
		}
		c.close()
	}
	return stuck
}
