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

// loadClients talk while an app is reloaded; every other one streams, for as
// long as a streamed answer takes.
const loadClients = 64

// pair has two agents, one after the other, each of which says its rule. A turn
// that two revisions made says two rules.
func pair(rule int) files {
	return files{
		"pair/app.yaml": scripted + "reload: {keep_revisions: 5}\n",
		"pair/root_agent.yaml": fmt.Sprintf(`name: pair
agent_class: SequentialAgent
sub_agents:
  - {name: first, model: demo, instruction: Rule %[1]d.}
  - config_path: second.yaml
`, rule),
		"pair/second.yaml": fmt.Sprintf("{name: second, model: demo, instruction: Rule %d.}\n", rule),
		"pair/script.yaml": `- when: user == "slowly"
  text: "{instruction} and so on and on"
  chunks: 5
  delay: 100ms
- text: "{instruction}"
`,
	}
}

// A turnCount counts turns.
type turnCount struct {
	turns, failed, mixed atomic.Int64
	first                atomic.Pointer[error]
}

func (t *turnCount) add(err error, mixed bool) {
	t.turns.Add(1)
	if mixed {
		t.mixed.Add(1)
	}
	if err != nil {
		t.failed.Add(1)
		t.first.CompareAndSwap(nil, &err)
	}
}

// reloadUnderLoad reloads an app again and again while clients talk with it.
func reloadUnderLoad(ctx context.Context, l *lab) ([]row, error) {
	dir := filepath.Join(l.dir, "load")
	apps := filepath.Join(dir, "apps")
	if err := pair(0).write(apps); err != nil {
		return nil, err
	}
	fresh, err := afterLoad(ctx, l, dir, 0)
	if err != nil {
		return nil, err
	}
	n := 300
	if l.full {
		n = 10_000
	}
	after, err := afterLoad(ctx, l, dir, n)
	if err != nil {
		return nil, err
	}
	together, trouble := after.together, ""
	if first := together.first.Load(); first != nil {
		trouble = ": " + (*first).Error()
	}
	return []row{
		{
			"M1: no turn fails, is cut, or is of two revisions while an app is reloaded",
			fmt.Sprintf("%d reloads, %d clients, %d turns: %d failed or cut, %d mixed%s; control, a turn of two requests: %d mixed; a reload took %s at the median, %s at p99, settling included",
				n, loadClients, together.turns.Load(), together.failed.Load(), together.mixed.Load(), trouble, after.apart.mixed.Load(), round(after.at(50)), round(after.at(99))),
			together.turns.Load() > 0 && together.failed.Load() == 0 && together.mixed.Load() == 0 && after.apart.mixed.Load() > 0,
		},
		{
			"M2: reloads leave nothing behind",
			fmt.Sprintf("without → after %d reloads: %d → %d file handles, %d → %d threads, %d → %d goroutines",
				n, fresh.handles, after.handles, fresh.threads, after.threads, fresh.goroutines, after.goroutines),
			after.handles <= fresh.handles+moreHandles && after.threads <= fresh.threads+moreThreads && after.goroutines <= fresh.goroutines+5,
		},
	}, nil
}

// A loaded is a host after a load.
type loaded struct {
	holding
	took []time.Duration
	// together are turns, apart those that were two requests.
	together, apart *turnCount
}

func (l *loaded) at(percent int) time.Duration {
	slices.Sort(l.took)
	if len(l.took) == 0 {
		return 0
	}
	return l.took[(len(l.took)-1)*percent/100]
}

// afterLoad serves the apps of a folder under load with so many reloads, and
// looks at what is left.
func afterLoad(ctx context.Context, l *lab, dir string, reloads int) (*loaded, error) {
	apps := filepath.Join(dir, "apps")
	h, err := serve(ctx, l, filepath.Join(dir, fmt.Sprintf("after-%d.db", reloads)), apps)
	if err != nil {
		return nil, err
	}
	defer h.kill()
	quit := make(chan struct{})
	end := &loaded{together: new(turnCount), apart: new(turnCount)}
	var wg sync.WaitGroup
	for i := range loadClients {
		wg.Go(func() { talk(ctx, newClient(h.url, "pair", fmt.Sprintf("client-%d", i)), i%2 == 0, end.together, quit) })
	}
	wg.Go(func() { talkApart(ctx, newClient(h.url, "pair", "apart"), end.apart, quit) })
	err = end.reload(ctx, newClient(h.url, "pair", "none"), apps, reloads)
	close(quit)
	wg.Wait()
	if err == nil {
		end.holding, err = h.holding(ctx)
	}
	return end, err
}

// reload saves both files anew and asks for a reload, so many times.
func (l *loaded) reload(ctx context.Context, c *client, apps string, n int) error {
	defer c.close()
	if n == 0 {
		n = 1 // the same load for a while, without a change
	}
	for rule := range n {
		began := time.Now()
		for name, text := range pair(rule) {
			if strings.HasSuffix(name, "root_agent.yaml") || strings.HasSuffix(name, "second.yaml") {
				if err := save(filepath.Join(apps, name), text); err != nil {
					return err
				}
			}
		}
		body, err := c.ask(ctx, http.MethodPost, "/-/reload", nil)
		if err != nil {
			return err
		}
		if err := body.Close(); err != nil {
			return err
		}
		l.took = append(l.took, time.Since(began))
	}
	return nil
}

// turnsEach is after how many turns a client begins a new session: what long
// sessions cost is no matter here.
const turnsEach = 100

// talk takes turns until it is to quit. A streamed turn that ends early is cut.
func talk(ctx context.Context, c *client, streaming bool, t *turnCount, quit <-chan struct{}) {
	defer c.close()
	name := c.session
	for n := 0; ; n++ {
		c.session = fmt.Sprint(name, "-", n/turnsEach)
		events, err := turnOf(ctx, c, streaming)
		said := rules(events)
		if err == nil && len(said) != 2 {
			err = fmt.Errorf("%d answers, want 2", len(said))
		}
		t.add(err, err == nil && said[0] != said[1])
		select {
		case <-quit:
			return
		case <-time.After(pause):
		}
	}
}

func turnOf(ctx context.Context, c *client, streaming bool) ([]event, error) {
	if streaming {
		return c.stream(ctx, "slowly")
	}
	return c.run(ctx, "hi")
}

// rules are those that a turn's whole events say.
func rules(events []event) []string {
	var all []string
	for _, ev := range events {
		if rule, _, ok := strings.Cut(ev.text(), "."); ok && !ev.Partial {
			all = append(all, rule)
		}
	}
	return all
}

// talkApart takes what is one turn for others as two: nothing keeps a reload
// from between them.
func talkApart(ctx context.Context, c *client, t *turnCount, quit <-chan struct{}) {
	defer c.close()
	for {
		one, err := c.run(ctx, "hi")
		select {
		case <-quit:
			return
		case <-time.After(pause):
		}
		two, err2 := c.run(ctx, "hi")
		if err == nil {
			err = err2
		}
		t.add(err, err == nil && len(one) == 2 && len(two) == 2 && rules(one)[0] != rules(two)[0])
	}
}
