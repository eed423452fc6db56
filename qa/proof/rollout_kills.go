package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	rolloutFleets  = 4
	rolloutClients = 3 // for each app
	// rolloutTick is how often a host checks its rollouts, from its start.
	rolloutTick = 5 * time.Second
	// rolloutWait is wait in the apps' rollout.
	rolloutWait = time.Second
	// rolloutLimit is the maximum time for a rollout. A killed decider's lease ends after 30 s, and each
	// new decider can be killed too.
	rolloutLimit = 5 * time.Minute
)

// A stagedApp is an app whose changes reach some new sessions first. Its answers name its rule.
type stagedApp struct {
	name, model string
	// want are the events of each change, the last one with the status at the end.
	want []string
}

// stagedApps are an app with changes that work, and one with changes for which each tool call fails.
func stagedApps() []*stagedApp {
	return []*stagedApp{
		{"good", "large", []string{"started 0.2", "step 0.5", "promoted 1"}},
		{"faulty", "small", []string{"started 0.2", "aborted 0"}},
	}
}

// agentFile returns the agent after n changes.
func (a *stagedApp) agentFile(n int) string {
	model := a.model
	if n == 0 {
		model = "large"
	}
	return fmt.Sprintf(`name: clerk
model: %s
instruction: Rule %d
tools:
  - expr: {name: price, params: {net: number}, value: round(args.net * 1.21)}
`, model, n)
}

// appFiles returns the app before its changes.
func (a *stagedApp) appFiles() files {
	return files{
		a.name + "/app.yaml": `models:
  large: {provider: scripted, script: large.yaml}
  small: {provider: scripted, script: small.yaml}
reload: {sessions: new_sessions}
rollout:
  wait: 1s
  steps: [{share: 0.2, for: 5s, min: 5}, {share: 0.5, for: 5s, min: 5}, {share: 1}]
  abort: ["above(tool_error, 0.1)"]
`,
		a.name + "/root_agent.yaml": a.agentFile(0),
		a.name + "/large.yaml": `- {when: responses.price != nil, text: "{user} by {instruction}"}
- calls: [{name: price, args: {net: 100}}]
`,
		a.name + "/small.yaml": `- {when: responses.price != nil, text: "{user} by {instruction}"}
- calls: [{name: price, args: {net: "100 euro"}}]
`,
	}
}

// A rolloutView is what GET /apps/{app}/rollout returns.
type rolloutView struct {
	Status   string    `json:"status"`
	Reason   string    `json:"reason"`
	Revision string    `json:"revision"`
	Ended    time.Time `json:"ended"`
	Steps    []struct {
		Began time.Time `json:"began"`
	} `json:"steps"`
	Counted struct {
		Stable int `json:"stable"`
		Draft  int `json:"draft"`
	} `json:"counted"`
	Decider string         `json:"decider"`
	Events  []rolloutEvent `json:"events"`
}

type rolloutEvent struct {
	Number   int     `json:"number"`
	Kind     string  `json:"kind"`
	Revision string  `json:"revision"`
	Share    float64 `json:"share"`
	By       string  `json:"by"`
}

func readRollout(ctx context.Context, c *client) (v *rolloutView, err error) {
	v = &rolloutView{}
	err = c.getJSON(ctx, "/apps/"+c.app+"/rollout", v)
	return v, err
}

// A rolloutFleet is two hosts on one database that roll out changes of two apps.
type rolloutFleet struct {
	*fleet
	random *rand.Rand
	ready  []time.Time // when each host had started
	// killing reports that hosts are killed: another change begins when one has ended.
	killing atomic.Bool
	// deciders counts the killed hosts that decided a rollout.
	deciders int
	staged   []*stagedRun
}

// A stagedRun is an app's changes and its clients' sessions.
type stagedRun struct {
	app     *stagedApp
	ended   []*endedRollout
	clients []*shopper
	// last are the rules of sessions that began on each host after the last change.
	last []string
}

// An endedRollout is how a change has ended. Its number is that of its rule.
type endedRollout struct {
	number, stable int
	view           *rolloutView
}

// rolloutKillRows kills hosts while changes of their apps reach some sessions first.
func rolloutKillRows(ctx context.Context, l *lab) ([]row, error) {
	fleets := make([]*rolloutFleet, rolloutFleets)
	began := time.Now()
	err := runConcurrently(len(fleets), func(i int) (err error) {
		fleets[i], err = runRolloutFleet(ctx, l, i)
		return err
	})
	if err != nil {
		return nil, err
	}
	t := &rolloutTally{}
	for _, f := range fleets {
		t.addFleet(f)
	}
	t.duration = time.Since(began)
	found, changed := 0, 0
	if t.isKept() { // the controls alter results without a problem
		found, changed = countTamperedFound(fleets[0])
	}
	return []row{{
		"kill -9 of two replicas while they roll out changes: each change ends as it would have, each step is decided once, and no session is counted twice, loses a turn or changes its revision",
		fmt.Sprintf("%s; controls: %d of %d kinds of wrong events, counts and sessions found", t, found, changed),
		t.isKept() && t.kills == l.choose(20, 200) && found == changed && changed > 0,
	}}, nil
}

// runRolloutFleet kills one fleet's hosts, and lets the last changes end.
func runRolloutFleet(ctx context.Context, l *lab, i int) (f *rolloutFleet, err error) {
	dir := filepath.Join(l.dir, fmt.Sprint("rollout-", i))
	f = &rolloutFleet{random: rand.New(rand.NewPCG(l.seed, uint64(i))), ready: make([]time.Time, 2)}
	for _, a := range stagedApps() {
		if err := a.appFiles().writeTo(filepath.Join(dir, "apps")); err != nil {
			return nil, err
		}
		f.staged = append(f.staged, &stagedRun{app: a})
	}
	store := "sqlite:///" + filepath.Join(dir, "sessions.db")
	if f.fleet, err = newFleet(ctx, &fleet{lab: l, store: store, apps: filepath.Join(dir, "apps")}, 2); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.close()) }()
	for i := range f.ready {
		f.ready[i] = time.Now()
	}
	if err := f.runChanges(ctx, l.choose(20, 200)/rolloutFleets); err != nil {
		return nil, err
	}
	return f, f.readSessions(ctx)
}

// runChanges changes both apps while clients begin sessions and hosts are killed.
func (f *rolloutFleet) runChanges(ctx context.Context, kills int) error {
	// The hosts outlive the changes: hosting is their context.
	hosting := ctx
	ctx, cancel := context.WithCancel(hosting)
	defer cancel()
	f.killing.Store(true)
	quit := make(chan struct{})
	var clients sync.WaitGroup
	for _, s := range f.staged {
		for n := range rolloutClients {
			c := s.newShopper(f, n)
			clients.Go(func() { c.runUntil(ctx, quit) })
		}
	}
	tasks := []func() error{func() error { return f.killHosts(hosting, kills) }}
	for _, s := range f.staged {
		tasks = append(tasks, func() error { return s.changeRepeatedly(ctx, f) })
	}
	err := runConcurrently(len(tasks), func(i int) error {
		err := tasks[i]()
		if err != nil {
			cancel() // the others cannot end
		}
		return err
	})
	close(quit)
	clients.Wait()
	return err
}

// killHosts kills and restarts one host after the other. Half of the kills hit a host around its check,
// the others come at any time and prefer a host that decides a rollout.
func (f *rolloutFleet) killHosts(ctx context.Context, kills int) error {
	defer f.killing.Store(false)
	for range kills {
		victim, atCheck := f.random.IntN(2), f.random.IntN(2) == 0
		at := time.Now().Add(200*time.Millisecond + time.Duration(f.random.Int64N(int64(3*time.Second))))
		if atCheck {
			next := time.Since(f.ready[victim]).Truncate(rolloutTick) + rolloutTick
			at = f.ready[victim].Add(next + time.Duration(f.random.Int64N(int64(120*time.Millisecond))) - 20*time.Millisecond)
		}
		// The deciders are read shortly before, so that the kill is in time.
		if err := waitFor(ctx, time.Until(at)-50*time.Millisecond); err != nil {
			return err
		}
		decides := f.isDecider(ctx, victim)
		if !decides && !atCheck && f.isDecider(ctx, 1-victim) {
			victim, decides = 1-victim, true
		}
		if decides {
			f.deciders++
		}
		if err := waitFor(ctx, time.Until(at)); err != nil {
			return err
		}
		if err := f.hosts[victim].kill(); err != nil {
			return err
		}
		f.kills++
		if err := f.startHost(ctx, victim); err != nil {
			return err
		}
		f.ready[victim] = time.Now()
	}
	return nil
}

// isDecider reports whether a host decides an app's rollout, by the other host.
func (f *rolloutFleet) isDecider(ctx context.Context, host int) bool {
	process := fmt.Sprintf("/%d/", f.hosts[host].cmd.Process.Pid)
	return slices.ContainsFunc(f.staged, func(s *stagedRun) bool {
		c := newClient(f.hosts[1-host].url, s.app.name, "none")
		defer c.close()
		v, err := readRollout(ctx, c)
		return err == nil && strings.Contains(v.Decider, process)
	})
}

// changeRepeatedly changes the app, and again when the change has ended, as long as hosts are killed.
func (s *stagedRun) changeRepeatedly(ctx context.Context, f *rolloutFleet) error {
	c := newClient(f.proxy.url, s.app.name, "none")
	defer c.close()
	last, stable := "", 0
	for n := 1; n == 1 || f.killing.Load(); n++ {
		if err := saveFile(filepath.Join(f.apps, s.app.name, "root_agent.yaml"), s.app.agentFile(n)); err != nil {
			return err
		}
		v, err := waitForEnd(ctx, c, last)
		if err != nil {
			return fmt.Errorf("change %d of app %s: %w", n, s.app.name, err)
		}
		s.ended = append(s.ended, &endedRollout{n, stable, v})
		if last = v.Revision; v.Status == "promoted" {
			stable = n
		}
	}
	return nil
}

// waitForEnd waits until the rollout after the last revision's has ended or paused.
func waitForEnd(ctx context.Context, c *client, last string) (*rolloutView, error) {
	ctx, cancel := context.WithTimeout(ctx, rolloutLimit)
	defer cancel()
	var latest *rolloutView
	for {
		// An error is a host that was killed.
		v, err := readRollout(ctx, c)
		if err == nil {
			latest = v
		}
		if err == nil && v.Revision != "" && v.Revision != last && v.Status != "running" {
			return v, nil
		}
		if waitFor(ctx, 100*time.Millisecond) != nil {
			return nil, fmt.Errorf("not ended, last %+v: %w", latest, errors.Join(err, ctx.Err()))
		}
	}
}
