package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	saves      = 100
	companions = 3
	// pause lies between the turns of a companion: people type.
	pause = 10 * time.Millisecond
	// soon is when a save has to be what is answered.
	soon = time.Second
)

// A reloading is a host whose one agent is changed while it talks.
type reloading struct {
	host  *host
	file  string // the agent's
	asker *client
	// turns and failed count those of the companions.
	turns, failed atomic.Int64
	first         atomic.Pointer[error] // why the first one failed
	delays        []time.Duration
}

// reload changes an agent again and again, while sessions talk with it.
func reload(ctx context.Context, l *lab) ([]row, error) {
	dir := filepath.Join(l.dir, "reload")
	apps := filepath.Join(dir, "apps")
	if err := guide().write(apps); err != nil {
		return nil, err
	}
	fresh, err := freshHolding(ctx, l, "sqlite:///"+filepath.Join(dir, "idle.db"), apps)
	if err != nil {
		return nil, err
	}
	h, err := serve(ctx, l, filepath.Join(dir, "sessions.db"), apps)
	if err != nil {
		return nil, err
	}
	defer h.kill()
	r := &reloading{host: h, file: filepath.Join(apps, "guide", "root_agent.yaml"), asker: newClient(h.url, "guide", "asker")}
	var rows []row
	for _, show := range []func(context.Context) ([]row, error){r.changes, r.inFlight, r.broken} {
		more, err := show(ctx)
		if rows = append(rows, more...); err != nil {
			return rows, err
		}
	}
	more, err := r.leftovers(ctx, fresh)
	return append(rows, more...), err
}

// changes saves the agent a hundred times while companions talk.
func (r *reloading) changes(ctx context.Context) ([]row, error) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for i := range companions {
		wg.Go(func() { r.accompany(ctx, newClient(r.host.url, "guide", fmt.Sprintf("companion-%d", i)), quit) })
	}
	var err error
	for rule := 1; rule <= saves && err == nil; rule++ {
		err = r.change(ctx, rule)
	}
	close(quit)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	slices.Sort(r.delays)
	longest := r.delays[len(r.delays)-1]
	trouble := ""
	if first := r.first.Load(); first != nil {
		trouble = ": " + (*first).Error()
	}
	return []row{
		{
			"no turn fails while an agent is changed",
			fmt.Sprintf("%d saves, %d turns in %d sessions, %d failed%s", saves, r.turns.Load(), companions, r.failed.Load(), trouble),
			r.turns.Load() > 0 && r.failed.Load() == 0,
		},
		{
			"a save is answered within 1 s",
			fmt.Sprintf("longest %s, median %s", round(longest), round(r.delays[len(r.delays)/2])),
			longest < soon,
		},
	}, nil
}

// change saves a rule and asks until it is what is answered.
func (r *reloading) change(ctx context.Context, rule int) error {
	saved := time.Now()
	if err := save(r.file, guideAgent(rule)); err != nil {
		return err
	}
	err := until(ctx, fmt.Sprintf("rule %d", rule), func() (bool, error) {
		_, told, err := r.ask(ctx, r.asker, "hi")
		return told == rule, err
	})
	r.delays = append(r.delays, time.Since(saved))
	return err
}

// ask takes a turn and returns its number and the rule that was answered.
func (r *reloading) ask(ctx context.Context, c *client, text string) (turn, rule int, err error) {
	answer, err := c.turn(ctx, text)
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscanf(answer, "Turn %d: Rule %d.", &turn, &rule); err != nil {
		return 0, 0, fmt.Errorf("answer %q: %w", answer, err)
	}
	return turn, rule, nil
}

// accompany talks until it is to quit. A turn fails also when the conversation
// was forgotten, or when an older rule comes back.
func (r *reloading) accompany(ctx context.Context, c *client, quit <-chan struct{}) {
	defer c.close()
	next := time.NewTicker(pause)
	defer next.Stop()
	latest := 0
	for n := 1; ; n++ {
		turn, rule, err := r.ask(ctx, c, "hi")
		if err == nil && (turn != n || rule < latest) {
			err = fmt.Errorf("turn %d of rule %d, want turn %d of rule %d or later", turn, rule, n, latest)
		}
		latest = rule
		r.turns.Add(1)
		if err != nil {
			r.failed.Add(1)
			r.first.CompareAndSwap(nil, &err)
		}
		select {
		case <-quit:
			return
		case <-next.C:
		}
	}
}

// inFlight changes the agent while a turn is between two calls of the model.
func (r *reloading) inFlight(ctx context.Context) ([]row, error) {
	slow := newClient(r.host.url, "guide", "slow")
	defer slow.close()
	var told int
	var failure error
	var wg sync.WaitGroup
	wg.Go(func() { _, told, failure = r.ask(ctx, slow, "slow") })
	err := until(ctx, "the slow turn to begin", func() (bool, error) {
		// Until the turn has stored its message there is no session.
		events, err := slow.stored(ctx)
		return err == nil && len(events) > 0, nil
	})
	if err == nil {
		err = r.change(ctx, saves+1)
	}
	meanwhile := time.Now()
	wg.Wait()
	outlived := time.Since(meanwhile)
	if err := errors.Join(err, failure); err != nil {
		return nil, err
	}
	return []row{{
		"a turn in flight ends on the text it began with",
		fmt.Sprintf("answered rule %d, %s after others were answered rule %d", told, round(outlived), saves+1),
		told == saves && outlived > 0,
	}}, nil
}

// broken saves an agent with a misspelt field in its third line, and a new
// instruction that must not be answered.
func (r *reloading) broken(ctx context.Context) ([]row, error) {
	if err := save(r.file, "name: guide\nmodel: demo\ndescripton: A guide.\ninstruction: Rule 999.\n"); err != nil {
		return nil, err
	}
	var status struct {
		OK          bool `json:"ok"`
		Diagnostics []struct {
			File    string `json:"file"`
			Line    int    `json:"line"`
			Column  int    `json:"column"`
			Message string `json:"message"`
		} `json:"diagnostics"`
	}
	err := until(ctx, "the diagnostics", func() (bool, error) {
		err := r.asker.read(ctx, "/apps/guide/diagnostics", &status)
		return len(status.Diagnostics) > 0, err
	})
	if err != nil {
		return nil, err
	}
	_, rule, err := r.ask(ctx, r.asker, "hi")
	if err != nil {
		return nil, err
	}
	d := status.Diagnostics[0]
	return []row{{
		"a broken save changes nothing, and is told with its place",
		fmt.Sprintf("still rule %d; %s:%d:%d: %s", rule, filepath.Base(d.File), d.Line, d.Column, d.Message),
		rule == saves+1 && !status.OK && filepath.Base(d.File) == "root_agent.yaml" && d.Line == 3 && d.Column == 1,
	}}, nil
}

func round(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
