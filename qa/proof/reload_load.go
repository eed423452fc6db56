package main

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// loadClients is how many clients there are during reloads. Every other client streams.
const loadClients = 64

// pairApp returns an app with two agents in sequence, each of which answers with its rule. A turn's
// rules differ if it mixes two revisions.
func pairApp(rule int) files {
	return files{
		"pair/app.yaml": scriptedModel + "reload: {keep_revisions: 5}\n",
		"pair/root_agent.yaml": fmt.Sprintf(`name: pair
agent_class: SequentialAgent
sub_agents:
  - {name: first, model: demo, instruction: Rule %[1]d.}
  - config_path: second.yaml
`, rule),
		"pair/second.yaml": fmt.Sprintf("{name: second, model: demo, instruction: Rule %d.}\n", rule),
		"pair/script.yaml": `- when: user == "slowly"
  text: "{instruction} one two three four"
  chunks: 5
  delay: 100ms
- text: "{instruction}"
`,
	}
}

// A turnCount counts turns.
type turnCount struct {
	turns, failed, mixed atomic.Int64
	firstErr             atomic.Pointer[error]
}

func (t *turnCount) addTurn(err error, mixed bool) {
	t.turns.Add(1)
	if mixed {
		t.mixed.Add(1)
	}
	if err != nil {
		t.failed.Add(1)
		t.firstErr.CompareAndSwap(nil, &err)
	}
}

// reloadLoadRows is M1 and M2: it reloads an app repeatedly under load.
func reloadLoadRows(ctx context.Context, l *lab) ([]row, error) {
	dir := filepath.Join(l.dir, "load")
	apps := filepath.Join(dir, "apps")
	if err := pairApp(0).writeTo(apps); err != nil {
		return nil, err
	}
	fresh, err := runReloadLoad(ctx, l, dir, 0)
	if err != nil {
		return nil, err
	}
	n := 300
	if l.full {
		n = 10_000
	}
	after, err := runReloadLoad(ctx, l, dir, n)
	if err != nil {
		return nil, err
	}
	whole, detail := after.whole, ""
	if first := whole.firstErr.Load(); first != nil {
		detail = ": " + (*first).Error()
	}
	return []row{
		{
			"M1: no turn fails, is cut off or mixes two revisions while an app is reloaded",
			fmt.Sprintf("%d reloads, %d clients, %d turns: %d failed or cut off, %d mixed%s; control, a turn of two requests: %d mixed; reload latency %s median, %s p99, including the settle time",
				n, loadClients, whole.turns.Load(), whole.failed.Load(), whole.mixed.Load(), detail, after.split.mixed.Load(), roundMillis(after.percentile(50)), roundMillis(after.percentile(99))),
			whole.turns.Load() > 0 && whole.failed.Load() == 0 && whole.mixed.Load() == 0 && after.split.mixed.Load() > 0,
		},
		{
			"M2: reloads leak no file handles, threads or goroutines",
			fmt.Sprintf("before → after %d reloads: %d → %d file handles, %d → %d threads, %d → %d goroutines",
				n, fresh.handles, after.handles, fresh.threads, after.threads, fresh.goroutines, after.goroutines),
			after.handles <= fresh.handles+moreHandles && after.threads <= fresh.threads+moreThreads && after.goroutines <= fresh.goroutines+5,
		},
	}, nil
}

// A loadResult is a host's state after a load.
type loadResult struct {
	resources
	latencies []time.Duration
	// whole counts turns with one request, and split those with two requests.
	whole, split *turnCount
}

func (l *loadResult) percentile(percent int) time.Duration {
	slices.Sort(l.latencies)
	if len(l.latencies) == 0 {
		return 0
	}
	return l.latencies[(len(l.latencies)-1)*percent/100]
}

// runReloadLoad serves the app under load with that many reloads and measures the resources at the
// end.
func runReloadLoad(ctx context.Context, l *lab, dir string, reloads int) (*loadResult, error) {
	apps := filepath.Join(dir, "apps")
	h, err := serveSQLite(ctx, l, filepath.Join(dir, fmt.Sprintf("after-%d.db", reloads)), apps)
	if err != nil {
		return nil, err
	}
	defer h.kill()
	quit := make(chan struct{})
	end := &loadResult{whole: new(turnCount), split: new(turnCount)}
	var wg sync.WaitGroup
	for i := range loadClients {
		wg.Go(func() {
			runPairClient(ctx, newClient(h.url, "pair", fmt.Sprintf("client-%d", i)), i%2 == 0, end.whole, quit)
		})
	}
	wg.Go(func() { runSplitTurns(ctx, newClient(h.url, "pair", "apart"), end.split, quit) })
	err = end.reloadRepeatedly(ctx, newClient(h.url, "pair", "none"), apps, reloads)
	close(quit)
	wg.Wait()
	if err == nil {
		end.resources, err = h.measureResources(ctx)
	}
	return end, err
}

// reloadRepeatedly saves both files and requests a reload, n times.
func (l *loadResult) reloadRepeatedly(ctx context.Context, c *client, apps string, n int) error {
	defer c.close()
	if n == 0 {
		n = 1 // the same load without a change
	}
	for rule := range n {
		began := time.Now()
		for name, text := range pairApp(rule) {
			if strings.HasSuffix(name, "root_agent.yaml") || strings.HasSuffix(name, "second.yaml") {
				if err := saveFile(filepath.Join(apps, name), text); err != nil {
					return err
				}
			}
		}
		body, err := c.sendRequest(ctx, http.MethodPost, "/-/reload", nil)
		if err != nil {
			return err
		}
		if err := body.Close(); err != nil {
			return err
		}
		l.latencies = append(l.latencies, time.Since(began))
	}
	return nil
}

// turnsPerSession limits session lengths, so that their cost does not matter here.
const turnsPerSession = 100

// runPairClient runs turns until quit is closed. A streamed turn that ends early is cut
// off.
func runPairClient(ctx context.Context, c *client, streaming bool, t *turnCount, quit <-chan struct{}) {
	defer c.close()
	name := c.session
	for n := 0; ; n++ {
		c.session = fmt.Sprint(name, "-", n/turnsPerSession)
		events, err := runPairTurn(ctx, c, streaming)
		rules := answeredRules(events)
		if err == nil && len(rules) != 2 {
			err = fmt.Errorf("%d answers, want 2", len(rules))
		}
		t.addTurn(err, err == nil && rules[0] != rules[1])
		select {
		case <-quit:
			return
		case <-time.After(turnPause):
		}
	}
}

func runPairTurn(ctx context.Context, c *client, streaming bool) ([]event, error) {
	if streaming {
		return c.streamTurnEvents(ctx, "slowly")
	}
	return c.runTurnEvents(ctx, "hi")
}

// answeredRules returns the rules in a turn's complete events.
func answeredRules(events []event) []string {
	var all []string
	for _, ev := range events {
		if rule, _, ok := strings.Cut(ev.text(), "."); ok && !ev.Partial {
			all = append(all, rule)
		}
	}
	return all
}

// runSplitTurns runs each turn as two requests, so that a reload may happen between
// them.
func runSplitTurns(ctx context.Context, c *client, t *turnCount, quit <-chan struct{}) {
	defer c.close()
	for {
		one, err := c.runTurnEvents(ctx, "hi")
		select {
		case <-quit:
			return
		case <-time.After(turnPause):
		}
		two, err2 := c.runTurnEvents(ctx, "hi")
		if err == nil {
			err = err2
		}
		t.addTurn(err, err == nil && len(one) == 2 && len(two) == 2 && answeredRules(one)[0] != answeredRules(two)[0])
	}
}
