package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	soakClients = 64
	// sessionLife is how many turns a session has. A client then starts another session, and every
	// other client deletes the old one.
	sessionLife = 20
	// slopeLimit is the maximum memory growth in MB per hour.
	slopeLimit = 1.0
)

// A soakConfig sets a soak's length and load.
type soakConfig struct {
	length, reloadEvery, measureEvery time.Duration
	rate                              int // turns a second
	// keepSessions keeps every other client's sessions, which fills the session cache. Otherwise
	// all finished sessions are deleted.
	keepSessions bool
	// holdTurns starts a turn that never completes with each revision.
	holdTurns bool
}

// A hostSoak runs turns on a host at a constant rate, reloads its app and measures its
// memory.
type hostSoak struct {
	soakConfig
	host        *host
	file        string // the root agent's
	turns       turnCount
	rule        atomic.Int64 // latest rule in an answer
	saves       int
	saved       time.Time
	missedSaves int       // saves that no answer reflected in time
	liveMB      []float64 // live memory at each measurement
	residentMB  []float64 // resident memory at each measurement
}

// hostSoakRows is M20.
func hostSoakRows(ctx context.Context, l *lab) ([]row, error) {
	short := soakConfig{length: 20 * time.Second, reloadEvery: 200 * time.Millisecond, measureEvery: 100 * time.Millisecond, rate: 200}
	e, control := &hostSoak{soakConfig: short}, &hostSoak{soakConfig: short}
	control.holdTurns = true
	if l.full {
		e.soakConfig = soakConfig{length: time.Hour, reloadEvery: 30 * time.Second, measureEvery: 5 * time.Second, rate: 100, keepSessions: true}
	}
	var wg sync.WaitGroup
	var controlErr error
	wg.Go(func() { controlErr = control.runSoak(ctx, l, "soak-control") })
	err := e.runSoak(ctx, l, "soak")
	wg.Wait()
	if err := errors.Join(err, controlErr); err != nil {
		return nil, err
	}
	return []row{e.buildRow(control)}, nil
}

// buildRow compares the full form with the limit and the short form with the control's growth.
// Growth within the standard error is not reported as growth, but the control's growth must exceed
// it.
func (e *hostSoak) buildRow(control *hostSoak) row {
	detail := ""
	if first := e.turns.firstErr.Load(); first != nil {
		detail = ": " + (*first).Error()
	}
	fit, heldTurns := e.fitGrowth(), control.fitGrowth()
	stable, growthText := fit.slope < heldTurns.slope/5, fmt.Sprintf("%.3f ± %.3f MB more per reload", fit.slope, fit.stdErr)
	if e.length >= time.Hour {
		hours := e.reloadEvery.Hours()
		stable, growthText = fit.slope-2*fit.stdErr < slopeLimit*hours, fmt.Sprintf("%.2f ± %.2f MB more per hour", fit.slope/hours, fit.stdErr/hours)
	}
	half := len(e.residentMB) / 2
	return row{
		"M20: over a long time of turns and reloads none fails, and live memory does not grow",
		fmt.Sprintf("%d turns in %s, %d failed%s; %d reloads of 50 agents, %d missed; %.0f MB live, %s; resident %.0f MB at most in the first half, %.0f MB in the second; control, turns that never complete retain their revisions: %.3f ± %.3f MB per reload",
			e.turns.turns.Load(), e.length, e.turns.failed.Load(), detail, e.saves, e.missedSaves, fit.mean, growthText,
			slices.Max(e.residentMB[:half]), slices.Max(e.residentMB[half:]), heldTurns.slope, heldTurns.stdErr),
		e.turns.turns.Load() > 0 && e.turns.failed.Load() == 0 && e.saves > 0 && e.missedSaves == 0 && stable && heldTurns.slope > 2*heldTurns.stdErr,
	}
}

// staffApp returns an app with fifty agents, each in its own file. The root agent has the others as
// tools.
func staffApp() files {
	fs := files{"staff/app.yaml": scriptedModel + lookupTool, "staff/root_agent.yaml": staffAgent(0), "staff/script.yaml": `- when: user == "hold"
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

// runSoak serves the app under load for the configured length.
func (e *hostSoak) runSoak(ctx context.Context, l *lab, name string) (err error) {
	dir := filepath.Join(l.dir, name)
	apps := filepath.Join(dir, "apps")
	if err := staffApp().writeTo(apps); err != nil {
		return err
	}
	e.file = filepath.Join(apps, "staff", "root_agent.yaml")
	if e.host, err = serveStore(ctx, l, "sqlite:///"+filepath.Join(dir, "sessions.db"), apps, "--pprof"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.host.kill()) }()
	soakCtx, cancel := context.WithTimeout(ctx, e.length)
	defer cancel()
	var wg sync.WaitGroup
	for i := range soakClients {
		wg.Go(func() { e.runClient(soakCtx, i) })
	}
	err = e.reloadAndMeasure(soakCtx, &wg)
	cancel()
	wg.Wait()
	return errors.Join(err, ctx.Err())
}

// reloadAndMeasure saves the agent and measures memory until the context ends.
func (e *hostSoak) reloadAndMeasure(ctx context.Context, heldTurns *sync.WaitGroup) error {
	measureTicker, reloadTicker := time.NewTicker(e.measureEvery), time.NewTicker(e.reloadEvery)
	defer measureTicker.Stop()
	defer reloadTicker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-measureTicker.C:
			// The resident memory comes first, because liveMemory runs a garbage collection.
			ram, err := e.host.residentMemory()
			if err != nil {
				return err
			}
			liveMB, _, err := e.host.liveMemory()
			if err != nil {
				return err
			}
			e.residentMB, e.liveMB = append(e.residentMB, ram), append(e.liveMB, liveMB)
		case <-reloadTicker.C:
			if err := e.saveNextRule(ctx, heldTurns); err != nil {
				return err
			}
		}
	}
}

// saveNextRule saves the agent, unless the previous save is not visible yet.
func (e *hostSoak) saveNextRule(ctx context.Context, heldTurns *sync.WaitGroup) error {
	if e.rule.Load() < int64(e.saves) {
		if time.Since(e.saved) < max(loadLimit, e.reloadEvery) {
			return nil
		}
		e.missedSaves++
	}
	e.saves++
	e.saved = time.Now()
	if e.holdTurns {
		n := e.saves
		heldTurns.Go(func() { e.blockTurn(ctx, n) })
	}
	return saveFile(e.file, staffAgent(e.saves))
}

// blockTurn starts a turn that completes only when the context ends.
func (e *hostSoak) blockTurn(ctx context.Context, n int) {
	c := newClient(e.host.url, "staff", fmt.Sprint("held-", n))
	defer c.close()
	_, _ = c.runTurnEvents(ctx, "hold")
}

// runClient runs turns at a constant rate in consecutive sessions.
func (e *hostSoak) runClient(ctx context.Context, i int) {
	each := time.Second / time.Duration(e.rate)
	if waitFor(ctx, each*time.Duration(i)) != nil {
		return
	}
	next := time.NewTicker(each * soakClients)
	defer next.Stop()
	for n := 0; ; n++ {
		c := newClient(e.host.url, "staff", fmt.Sprintf("client-%d-%d", i, n))
		// The first sessions have different lengths.
		for turn := 1; turn <= sessionLife && (n > 0 || turn <= 1+i%sessionLife); turn++ {
			e.runTurn(ctx, c, turn, i%4 == 0)
			select {
			case <-ctx.Done():
				c.close()
				return
			case <-next.C:
			}
		}
		if i%2 == 0 || !e.keepSessions {
			e.deleteSession(ctx, c)
		}
		c.close()
	}
}

// runTurn runs one turn. The turn fails if the session lost its history or an older
// rule returns.
func (e *hostSoak) runTurn(ctx context.Context, c *client, want int, streaming bool) {
	before := e.rule.Load()
	send := c.runTurnEvents
	if streaming {
		send = c.streamTurnEvents
	}
	events, err := send(ctx, "hi")
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
	e.turns.addTurn(err, false)
	for seen := e.rule.Load(); rule > seen && !e.rule.CompareAndSwap(seen, rule); seen = e.rule.Load() {
	}
}

// deleteSession deletes a session. A failure counts as a failed turn.
func (e *hostSoak) deleteSession(ctx context.Context, c *client) {
	err := c.deleteSession(ctx)
	if err != nil && ctx.Err() == nil {
		e.turns.addTurn(err, false)
	}
}
