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
	reloadSaves = 100
	companions  = 3
	// turnPause is the pause between a client's turns.
	turnPause = 10 * time.Millisecond
	// saveLimit is the maximum time until a save takes effect.
	saveLimit = time.Second
)

// A reloadProof changes a host's agent during conversations.
type reloadProof struct {
	host   *host
	file   string // the agent's
	prober *client
	// turns and failed count the companions' turns.
	turns, failed atomic.Int64
	firstErr      atomic.Pointer[error] // the first failed turn's
	delays        []time.Duration
}

// reloadRows saves an agent repeatedly while clients run turns.
func reloadRows(ctx context.Context, l *lab) ([]row, error) {
	dir := filepath.Join(l.dir, "reload")
	apps := filepath.Join(dir, "apps")
	if err := guideApp().writeTo(apps); err != nil {
		return nil, err
	}
	fresh, err := measureFreshHost(ctx, l, "sqlite:///"+filepath.Join(dir, "idle.db"), apps)
	if err != nil {
		return nil, err
	}
	h, err := serveSQLite(ctx, l, filepath.Join(dir, "sessions.db"), apps)
	if err != nil {
		return nil, err
	}
	defer h.kill()
	r := &reloadProof{host: h, file: filepath.Join(apps, "guide", "root_agent.yaml"), prober: newClient(h.url, "guide", "asker")}
	var rows []row
	for _, show := range []func(context.Context) ([]row, error){r.saveUnderLoad, r.reloadDuringTurn, r.saveBroken} {
		more, err := show(ctx)
		if rows = append(rows, more...); err != nil {
			return rows, err
		}
	}
	more, err := r.compareResources(ctx, fresh)
	return append(rows, more...), err
}

// saveUnderLoad saves the agent a hundred times while companions run turns.
func (r *reloadProof) saveUnderLoad(ctx context.Context) ([]row, error) {
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for i := range companions {
		wg.Go(func() { r.runCompanion(ctx, newClient(r.host.url, "guide", fmt.Sprintf("companion-%d", i)), quit) })
	}
	var err error
	for rule := 1; rule <= reloadSaves && err == nil; rule++ {
		err = r.saveAndWait(ctx, rule)
	}
	close(quit)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	slices.Sort(r.delays)
	longest := r.delays[len(r.delays)-1]
	detail := ""
	if first := r.firstErr.Load(); first != nil {
		detail = ": " + (*first).Error()
	}
	return []row{
		{
			"no turn fails while an agent is saved repeatedly",
			fmt.Sprintf("%d saves, %d turns in %d sessions, %d failed%s", reloadSaves, r.turns.Load(), companions, r.failed.Load(), detail),
			r.turns.Load() > 0 && r.failed.Load() == 0,
		},
		{
			"a save takes effect within 1 s",
			fmt.Sprintf("longest %s, median %s", roundMillis(longest), roundMillis(r.delays[len(r.delays)/2])),
			longest < saveLimit,
		},
	}, nil
}

// saveAndWait saves a rule and polls until it is in an answer.
func (r *reloadProof) saveAndWait(ctx context.Context, rule int) error {
	saved := time.Now()
	if err := saveFile(r.file, guideAgent(rule)); err != nil {
		return err
	}
	err := pollUntil(ctx, fmt.Sprintf("rule %d", rule), func() (bool, error) {
		_, answered, err := r.askRule(ctx, r.prober, "hi")
		return answered == rule, err
	})
	r.delays = append(r.delays, time.Since(saved))
	return err
}

// askRule runs a turn and returns its number and the rule in the answer.
func (r *reloadProof) askRule(ctx context.Context, c *client, text string) (turn, rule int, err error) {
	answer, err := c.runTurn(ctx, text)
	if err != nil {
		return 0, 0, err
	}
	if _, err := fmt.Sscanf(answer, "Turn %d: Rule %d.", &turn, &rule); err != nil {
		return 0, 0, fmt.Errorf("answer %q: %w", answer, err)
	}
	return turn, rule, nil
}

// runCompanion runs turns until quit is closed. A turn also fails if the session lost
// its history or an older rule returns.
func (r *reloadProof) runCompanion(ctx context.Context, c *client, quit <-chan struct{}) {
	defer c.close()
	next := time.NewTicker(turnPause)
	defer next.Stop()
	latest := 0
	for n := 1; ; n++ {
		turn, rule, err := r.askRule(ctx, c, "hi")
		if err == nil && (turn != n || rule < latest) {
			err = fmt.Errorf("turn %d of rule %d, want turn %d of rule %d or later", turn, rule, n, latest)
		}
		latest = rule
		r.turns.Add(1)
		if err != nil {
			r.failed.Add(1)
			r.firstErr.CompareAndSwap(nil, &err)
		}
		select {
		case <-quit:
			return
		case <-next.C:
		}
	}
}

// reloadDuringTurn saves the agent while a turn is between two model calls.
func (r *reloadProof) reloadDuringTurn(ctx context.Context) ([]row, error) {
	slow := newClient(r.host.url, "guide", "slow")
	defer slow.close()
	var rule int
	var turnErr error
	var wg sync.WaitGroup
	wg.Go(func() { _, rule, turnErr = r.askRule(ctx, slow, "slow") })
	err := pollUntil(ctx, "the slow turn to begin", func() (bool, error) {
		// The session does not exist until the turn has stored its message.
		events, err := slow.readEvents(ctx)
		return err == nil && len(events) > 0, nil
	})
	if err == nil {
		err = r.saveAndWait(ctx, reloadSaves+1)
	}
	othersDone := time.Now()
	wg.Wait()
	outlivedBy := time.Since(othersDone)
	if err := errors.Join(err, turnErr); err != nil {
		return nil, err
	}
	return []row{{
		"a running turn completes on the revision that it started with",
		fmt.Sprintf("answered with rule %d, %s after other turns were answered with rule %d", rule, roundMillis(outlivedBy), reloadSaves+1),
		rule == reloadSaves && outlivedBy > 0,
	}}, nil
}

// saveBroken saves an agent with a misspelled field in line 3 and a new instruction,
// which must not take effect.
func (r *reloadProof) saveBroken(ctx context.Context) ([]row, error) {
	if err := saveFile(r.file, "name: guide\nmodel: demo\ndescripton: A guide.\ninstruction: Rule 999.\n"); err != nil {
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
	err := pollUntil(ctx, "the diagnostics", func() (bool, error) {
		err := r.prober.getJSON(ctx, "/apps/guide/diagnostics", &status)
		return len(status.Diagnostics) > 0, err
	})
	if err != nil {
		return nil, err
	}
	_, rule, err := r.askRule(ctx, r.prober, "hi")
	if err != nil {
		return nil, err
	}
	d := status.Diagnostics[0]
	return []row{{
		"a broken save changes nothing and is reported with its position",
		fmt.Sprintf("still rule %d; %s:%d:%d: %s", rule, filepath.Base(d.File), d.Line, d.Column, d.Message),
		rule == reloadSaves+1 && !status.OK && filepath.Base(d.File) == "root_agent.yaml" && d.Line == 3 && d.Column == 1,
	}}, nil
}

func roundMillis(d time.Duration) time.Duration { return d.Round(time.Millisecond) }
