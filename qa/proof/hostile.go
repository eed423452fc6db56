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
	"agenthost/wing/apptest/testweb"
	"agenthost/wing/chatpage"
	"agenthost/wing/connection/oauthweb"
	"agenthost/wing/devui"
	"agenthost/wing/evaluation/evalweb"
	"agenthost/wing/live/liveweb"
	"agenthost/wing/mcpserver"
	"agenthost/wing/operator"
	"agenthost/wing/outcomes"
	"agenthost/wing/revisions"
	"agenthost/wing/rollout"
	"agenthost/wing/why"
)

const (
	// measuredTurns is how many turns measure the CPU time per turn.
	measuredTurns = 400
	// maxSlowdown is the maximum ratio between a turn's CPU time after and before the attack. The
	// attackers' sessions remain stored.
	maxSlowdown = 1.5
	// moreGoroutines is how many more goroutines than a fresh host are permitted.
	moreGoroutines = 5
	// stuckAfter is the latency from which a session counts as stuck. An abandoned
	// lease takes 15 s to expire; a busy machine delays a turn by a second.
	stuckAfter = 5 * time.Second
)

// An attackProof runs honest and hostile clients on one host.
type attackProof struct {
	site   *sandbox
	apps   string
	host   *host
	honest *reloadProof
	// kept is an honest session without turns during the attack.
	kept     *client
	report   *attackReport
	slowKept int // slow clients that were not disconnected in time

	before, after time.Duration // CPU time per turn
	changed       int           // honest sessions and files that changed
	stuck         int           // hostile clients' sessions that accept no turn
	afterAttack   resources
}

// hostileRows attacks a host on one database kind.
func hostileRows(ctx context.Context, s *sandbox) ([]row, error) {
	g := &attackProof{site: s, apps: filepath.Join(s.dir, s.name, "siege")}
	if err := errors.Join(guideApp().writeTo(g.apps), victimApp().writeTo(g.apps)); err != nil {
		return nil, err
	}
	var fresh resources
	_, err := s.runOnOther(ctx, func(ctx context.Context, s *sandbox) (_ int, err error) {
		fresh, err = measureFreshHost(ctx, s.lab, s.url, g.apps)
		return 0, err
	})
	if err != nil {
		return nil, err
	}
	if g.host, err = serveStore(ctx, s.lab, s.url, g.apps, "--dev", "--artifacts", "memory:"); err != nil {
		return nil, err
	}
	defer g.host.kill()
	if err := g.runAttack(ctx); err != nil {
		return nil, err
	}
	control, err := attackNaiveHost(ctx, s.choose(500, 2000))
	if err != nil {
		return nil, err
	}
	return []row{g.buildRow(fresh, control)}, nil
}

// buildRow returns the row. Errors in the host log are failures.
func (g *attackProof) buildRow(fresh resources, control *attackReport) row {
	log := g.host.log.String()
	if at := strings.Index(log, "SIGQUIT"); at >= 0 {
		log = log[:at]
	}
	panics, errs := strings.Count(log, "handler panicked"), strings.Count(log, "level=ERROR")
	problems := slices.Clone(g.report.first)
	if first := g.honest.firstErr.Load(); first != nil {
		problems = append(problems, "an honest turn: "+(*first).Error())
	}
	if errs > 0 {
		problems = append(problems, "the log: "+log[:min(len(log), 1000)])
	}
	return row{
		fmt.Sprintf("hostile clients, %s: malformed traffic gets no internals, causes no failure, leaks nothing and disturbs no one", g.site.name),
		fmt.Sprintf("%d requests: %d unexplained 5xx, %d with internals, %d unfinished, %d slow clients kept; %d panics, %d errors in the log%s; "+
			"%d honest turns meanwhile, %d failed, %d honest sessions or files changed, %d sessions stuck; a turn took %.2f ms of CPU time before and %.2f ms after; "+
			"%d → %d file handles, %d → %d goroutines; control, a server of thirty lines: %d unexplained 5xx, %d with internals",
			g.report.requests, g.report.serverErrors, g.report.leaking, g.report.unfinished, g.slowKept, panics, errs, formatTrouble(problems),
			g.honest.turns.Load(), g.honest.failed.Load(), g.changed, g.stuck, toMillis(g.before), toMillis(g.after),
			fresh.handles, g.afterAttack.handles, fresh.goroutines, g.afterAttack.goroutines, control.serverErrors, control.leaking),
		g.report.serverErrors+g.report.leaking+g.report.unfinished+g.slowKept+panics+errs+g.changed+g.stuck == 0 &&
			g.honest.turns.Load() > 0 && g.honest.failed.Load() == 0 && float64(g.after) < maxSlowdown*float64(g.before) &&
			g.afterAttack.handles <= fresh.handles+moreHandles && g.afterAttack.goroutines <= fresh.goroutines+moreGoroutines &&
			control.serverErrors > 0 && control.leaking > 0,
	}
}

// formatTrouble returns the problems in parentheses, or an empty string.
func formatTrouble(problems []string) string {
	if len(problems) == 0 {
		return ""
	}
	return " (" + strings.Join(problems, "; ") + ")"
}

func toMillis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// runAttack runs the attack and compares the state before and after it.
func (g *attackProof) runAttack(ctx context.Context) (err error) {
	g.honest = &reloadProof{host: g.host}
	g.kept = newClient(g.host.url, "guide", "kept")
	defer g.kept.close()
	if _, err := g.kept.runTurn(ctx, "hi"); err != nil {
		return err
	}
	before, err := g.snapshotHonest(ctx)
	if err != nil {
		return err
	}
	if g.before, err = g.turnCost(ctx, "before"); err != nil {
		return err
	}
	if err := g.sendAttack(ctx); err != nil {
		return err
	}
	if g.after, err = g.turnCost(ctx, "after"); err != nil {
		return err
	}
	after, err := g.snapshotHonest(ctx)
	if err != nil {
		return err
	}
	for i := range before {
		if before[i] != after[i] {
			g.changed++
		}
	}
	g.stuck = g.countStuckSessions(ctx)
	g.afterAttack, err = g.host.measureResources(ctx)
	return err
}

// snapshotHonest returns the honest session's events and its app's files.
func (g *attackProof) snapshotHonest(ctx context.Context) ([]string, error) {
	events, err := g.kept.readEvents(ctx)
	if err != nil {
		return nil, err
	}
	seen := []string{fmt.Sprint(events)}
	for _, name := range slices.Sorted(maps.Keys(guideApp())) {
		text, err := os.ReadFile(filepath.Join(g.apps, name))
		if err != nil {
			return nil, err
		}
		seen = append(seen, string(text))
	}
	return seen, nil
}

// sendAttack sends all hostile requests while honest clients run turns and slow clients
// send single bytes.
func (g *attackProof) sendAttack(ctx context.Context) error {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for i := range companions {
		wg.Go(func() { g.honest.runCompanion(ctx, newClient(g.host.url, "guide", fmt.Sprint("honest-", i)), quit) })
	}
	var slow sync.WaitGroup
	slow.Go(func() { g.slowKept = g.countSlowClientsKept(ctx) })
	a := &requestGenerator{random: rand.New(rand.NewPCG(g.site.seed, 0)), patterns: server.New(nil, &server.Options{Metrics: server.NewMetrics(""), Extensions: serverExtensions()}).Patterns()}
	var err error
	g.report, err = sendHostileRequests(ctx, g.hostAddr(), a, g.site.choose(1500, 10_000))
	slow.Wait()
	close(quit)
	wg.Wait()
	return err
}

func (g *attackProof) hostAddr() string { return strings.TrimPrefix(g.host.url, "http://") }

// turnCost returns a turn's CPU time.
func (g *attackProof) turnCost(ctx context.Context, name string) (time.Duration, error) {
	pid := g.host.cmd.Process.Pid
	before, err := processorTime(pid)
	if err != nil {
		return 0, err
	}
	err = runConcurrently(companions, func(i int) error {
		c := newClient(g.host.url, "guide", fmt.Sprint(name, "-", i))
		defer c.close()
		for range measuredTurns / companions {
			if _, err := c.runTurn(ctx, "hi"); err != nil {
				return err
			}
		}
		return nil
	})
	after, failure := processorTime(pid)
	return (after - before) / measuredTurns, errors.Join(err, failure)
}

// countStuckSessions runs a turn in each session that hostile clients used and counts
// the failures.
func (g *attackProof) countStuckSessions(ctx context.Context) (stuck int) {
	for i := range victimSessions {
		c := newClient(g.host.url, victimName, fmt.Sprint("victim-", i))
		c.user = hostileUser
		began := time.Now()
		if _, err := c.runTurn(ctx, "hi"); err != nil || time.Since(began) > stuckAfter {
			stuck++
			fmt.Fprintf(g.site.progress, "%s, %s: a turn took %s: %v\n", g.site.name, c.session, roundMillis(time.Since(began)), err)
		}
		c.close()
	}
	return stuck
}

// serverExtensions lists what adds routes to agenthost's server.
func serverExtensions() []func(*server.Services) *server.Extension {
	return []func(*server.Services) *server.Extension{liveweb.Extend(nil), devui.Extend(nil), evalweb.Extend(nil), why.Extend(nil), testweb.Extend(nil), oauthweb.Extend(nil), chatpage.Extend(&chatpage.Options{All: true}), outcomes.Extend(), revisions.Extend(nil), mcpserver.Extend(&mcpserver.Options{All: true}), operator.Extend(nil), rollout.Extend(nil)}
}
