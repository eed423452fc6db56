package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	enduringClients = 64
	// sessionLife is how many turns a session has. Then a client begins another
	// one, and every other client deletes the old one.
	sessionLife = 20
	// slopeLimit is how much more memory a host may take after each hour, in MB.
	slopeLimit = 1.0
)

// A regime says how long a host is talked to, and how much.
type regime struct {
	length, reload, look time.Duration
	rate                 int // turns a second
	// keep leaves every other client's sessions there, so that the cache of
	// sessions fills. Without it all that are over are deleted.
	keep bool
	// hold has a turn begin with each revision that does not end.
	hold bool
}

// An endurance is a host that is talked to at an even pace and reloaded now and
// then, and whose memory is looked at all the while.
type endurance struct {
	regime
	host   *host
	file   string // the root agent's
	turns  turnCount
	rule   atomic.Int64 // the latest one that was answered
	saves  int
	saved  time.Time
	unseen int       // saves that were not answered in time
	alive  []float64 // the memory that lives, in MB, at each look
	ram    []float64 // what is in RAM then
}

// soakUnderReload is M20.
func soakUnderReload(ctx context.Context, l *lab) ([]row, error) {
	short := regime{length: 20 * time.Second, reload: 200 * time.Millisecond, look: 100 * time.Millisecond, rate: 200}
	e, control := &endurance{regime: short}, &endurance{regime: short}
	control.hold = true
	if l.full {
		e.regime = regime{length: time.Hour, reload: 30 * time.Second, look: 5 * time.Second, rate: 100, keep: true}
	}
	var wg sync.WaitGroup
	var failure error
	wg.Go(func() { failure = control.run(ctx, l, "soak-control") })
	err := e.run(ctx, l, "soak")
	wg.Wait()
	if err := errors.Join(err, failure); err != nil {
		return nil, err
	}
	return []row{e.judge(control)}, nil
}

// judge holds the long form against the limit, and the short one against what
// the control grows by. Neither says that a host grows as long as its doubt leaves
// it open; but the control has to be caught.
func (e *endurance) judge(control *endurance) row {
	trouble := ""
	if first := e.turns.first.Load(); first != nil {
		trouble = ": " + (*first).Error()
	}
	grown, held := e.growth(), control.growth()
	stays, figure := grown.slope < held.slope/5, fmt.Sprintf("%.3f ± %.3f MB more with each reload", grown.slope, grown.doubt)
	if e.length >= time.Hour {
		hours := e.reload.Hours()
		stays, figure = grown.slope-2*grown.doubt < slopeLimit*hours, fmt.Sprintf("%.2f ± %.2f MB more in an hour", grown.slope/hours, grown.doubt/hours)
	}
	half := len(e.ram) / 2
	return row{
		"M20: turns and reloads for a long time: none fails, and the memory that lives stays",
		fmt.Sprintf("%d turns in %s, %d failed%s; %d reloads of 50 agents, %d not seen; %.0f MB alive, %s; in RAM %.0f MB at most in the first half, %.0f in the second; control, turns that do not end hold their revisions: %.3f ± %.3f MB with each reload",
			e.turns.turns.Load(), e.length, e.turns.failed.Load(), trouble, e.saves, e.unseen, grown.mean, figure,
			slices.Max(e.ram[:half]), slices.Max(e.ram[half:]), held.slope, held.doubt),
		e.turns.turns.Load() > 0 && e.turns.failed.Load() == 0 && e.saves > 0 && e.unseen == 0 && stays && held.slope > 2*held.doubt,
	}
}

// staff is an app of fifty agents, each with its file. The first one answers; it
// has the others as tools.
func staff() files {
	fs := files{"staff/app.yaml": scripted + lookupTool, "staff/root_agent.yaml": staffAgent(0), "staff/script.yaml": `- when: user == "hold"
  text: Never.
  delay: 24h
- when: responses.note != nil
  text: "Turn {turn}: {instruction}"
- calls: [{name: note, args: {text: "a message"}}]
`}
	for i := range 49 {
		name := fmt.Sprintf("agent_%d", i)
		fs["staff/"+name+".yaml"] = officeAgent(name)
	}
	return fs
}

func staffAgent(rule int) string {
	var b strings.Builder
	fmt.Fprintf(&b, `name: staff
model: demo
instruction: Rule %d.
tools:
  - expr: {name: note, params: {text: string}, value: args.text, set: {last: args.text}}
`, rule)
	for i := range 49 {
		fmt.Fprintf(&b, "  - agent: {config_path: agent_%d.yaml}\n", i)
	}
	return b.String()
}

// run serves the app, for as long as that is to last.
func (e *endurance) run(ctx context.Context, l *lab, name string) (err error) {
	dir := filepath.Join(l.dir, name)
	apps := filepath.Join(dir, "apps")
	if err := staff().write(apps); err != nil {
		return err
	}
	e.file = filepath.Join(apps, "staff", "root_agent.yaml")
	if e.host, err = serveAt(ctx, l, "sqlite:///"+filepath.Join(dir, "sessions.db"), apps, "--pprof"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.host.kill()) }()
	talk, cancel := context.WithTimeout(ctx, e.length)
	defer cancel()
	var wg sync.WaitGroup
	for i := range enduringClients {
		wg.Go(func() { e.talk(talk, i) })
	}
	err = e.attend(talk, &wg)
	cancel()
	wg.Wait()
	return errors.Join(err, ctx.Err())
}

// attend saves the agent and looks at the host's memory until the time is over.
func (e *endurance) attend(ctx context.Context, held *sync.WaitGroup) error {
	look, reload := time.NewTicker(e.look), time.NewTicker(e.reload)
	defer look.Stop()
	defer reload.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			if err := e.see(); err != nil {
				return err
			}
		case <-reload.C:
			if err := e.change(ctx, held); err != nil {
				return err
			}
		}
	}
}

// see looks at the host's memory, first at what is in RAM: a collection follows.
func (e *endurance) see() error {
	ram, err := e.host.resident()
	if err != nil {
		return err
	}
	alive, _, err := e.host.live()
	e.ram, e.alive = append(e.ram, ram), append(e.alive, alive)
	return err
}

// change saves the agent, unless the last save is still to be seen.
func (e *endurance) change(ctx context.Context, held *sync.WaitGroup) error {
	if e.rule.Load() < int64(e.saves) {
		if time.Since(e.saved) < max(seenWithin, e.reload) {
			return nil
		}
		e.unseen++
	}
	e.saves++
	e.saved = time.Now()
	if e.hold {
		n := e.saves
		held.Go(func() { e.holdOn(ctx, n) })
	}
	return save(e.file, staffAgent(e.saves))
}

// holdOn begins a turn that does not end by itself.
func (e *endurance) holdOn(ctx context.Context, n int) {
	c := newClient(e.host.url, "staff", fmt.Sprint("held-", n))
	defer c.close()
	_, _ = c.run(ctx, "hold")
}

// talk takes turns at an even pace, in one session after the other.
func (e *endurance) talk(ctx context.Context, i int) {
	each := time.Second / time.Duration(e.rate)
	if wait(ctx, each*time.Duration(i)) != nil {
		return
	}
	next := time.NewTicker(each * enduringClients)
	defer next.Stop()
	for n := 0; ; n++ {
		c := newClient(e.host.url, "staff", fmt.Sprintf("client-%d-%d", i, n))
		// The first sessions end at different times.
		for turn := 1; turn <= sessionLife && (n > 0 || turn <= 1+i%sessionLife); turn++ {
			e.turn(ctx, c, turn, i%4 == 0)
			select {
			case <-ctx.Done():
				c.close()
				return
			case <-next.C:
			}
		}
		if i%2 == 0 || !e.keep {
			e.forget(ctx, c)
		}
		c.close()
	}
}

// turn takes one turn. It fails also when the conversation was forgotten, or
// when an older rule comes back.
func (e *endurance) turn(ctx context.Context, c *client, want int, streaming bool) {
	before := e.rule.Load()
	take := c.run
	if streaming {
		take = c.stream
	}
	events, err := take(ctx, "hi")
	if ctx.Err() != nil {
		return
	}
	var turn int
	var rule int64
	if err == nil {
		_, err = fmt.Sscanf(lastText(events), "Turn %d: Rule %d.", &turn, &rule)
	}
	if err == nil && (turn != want || rule < before) {
		err = fmt.Errorf("turn %d of rule %d, want turn %d of rule %d or later", turn, rule, want, before)
	}
	e.turns.add(err, false)
	for seen := e.rule.Load(); rule > seen && !e.rule.CompareAndSwap(seen, rule); seen = e.rule.Load() {
	}
}

// forget deletes a session. It counts as a turn when it fails.
func (e *endurance) forget(ctx context.Context, c *client) {
	body, err := c.ask(ctx, http.MethodDelete, "/apps/"+c.app+"/users/user/sessions/"+c.session, nil)
	if err == nil {
		err = body.Close()
	}
	if err != nil && ctx.Err() == nil {
		e.turns.add(err, false)
	}
}
