package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"agenthost/qa/bench/internal/command"
	"agenthost/qa/bench/internal/engine"
)

// A sessionStorage is where both sides store sessions.
type sessionStorage struct {
	name string
	// engine is nil in memory.
	engine *engine.Engine
}

func allStorages() []sessionStorage {
	lite, pg := engine.SQLite(), engine.Postgres()
	return []sessionStorage{{name: "memory"}, {"sqlite", &lite}, {"postgres", &pg}}
}

// setupNames returns the adk-go configurations to try. The best result counts.
func (s sessionStorage) setupNames() []string {
	if s.engine == nil {
		return []string{""}
	}
	var names []string
	for _, setup := range s.engine.Setups() {
		names = append(names, setup.Name)
	}
	return names
}

// A work is a load on a storage with its targets.
type work struct {
	sessionStorage
	load
	// rateTarget is the minimum ratio between agenthost's turns per second and adk-go's, and
	// tailTarget between adk-go's p99 latency and agenthost's; 0 means no target.
	rateTarget, tailTarget float64
	// memory is agenthost's maximum memory in bytes; 0 means no limit.
	memory int64
	// floorLimit is a turn's maximum CPU time divided by a bare handler's; 0 means that none is
	// measured.
	floorLimit float64
}

func (w *work) name() string {
	what := fmt.Sprintf("%d clients", w.clients)
	switch {
	case w.startSpread > 0:
		what = fmt.Sprintf("%d open streams", w.clients)
	case w.script.Chunks > 0:
		what += fmt.Sprintf(", %d chunks", w.script.Chunks)
	case w.clients == 1:
		what = "1 client"
	}
	return fmt.Sprintf("%s %s, %s", w.sessionStorage.name, w.path, what)
}

// streamMemory is agenthost's maximum memory for all open streams.
const streamMemory = 350e6

// allWorks returns all comparisons.
func allWorks(quick bool) []*work {
	var all []*work
	for _, s := range allStorages() {
		for _, path := range []string{pathRun, pathStream} {
			for _, n := range []int{1, 32, 256} {
				all = append(all, newTurnWork(s, path, n, script{}))
			}
		}
	}
	memory, lite := allStorages()[0], allStorages()[1]
	for _, path := range []string{pathMessage, pathMessageStream} {
		for _, n := range []int{1, 32} {
			all = append(all, newTurnWork(memory, path, n, script{}))
		}
	}
	all = append(all, newTurnWork(memory, pathStream, 32, script{Chunks: 20}), openStreams(memory, 5000), openStreams(lite, 1000))
	if quick {
		for _, w := range all {
			w.buildQuick()
		}
	}
	return all
}

// newTurnWork returns work that takes the faster side about 1.5 seconds.
func newTurnWork(s sessionStorage, path string, clients int, sc script) *work {
	w := &work{sessionStorage: s, load: load{path: path, clients: clients, script: sc, limit: 4 * time.Second}}
	memory := s.engine == nil
	switch {
	case clients == 1 && memory:
		w.turns = 8000
	case clients == 1:
		w.turns = 1000
	case memory:
		w.turns = 20_000
	default:
		w.turns = 30 * clients
	}
	if memory && sc.Chunks == 0 {
		w.rateTarget, w.tailTarget = 3, 3
	}
	if memory && path == pathRun {
		w.floorLimit = 2.5
	}
	if !memory && clients == 256 {
		w.rateTarget = 10
	}
	return w
}

// openStreams returns a work with n concurrent streams, each with a chunk every second.
func openStreams(s sessionStorage, n int) *work {
	l := load{
		path: pathStream, clients: n, turns: n, script: script{Chunks: 19, Every: time.Second},
		startSpread: 10 * time.Second, limit: time.Minute,
	}
	return &work{sessionStorage: s, load: l, memory: streamMemory}
}

// buildQuick reduces the work for the quick form.
func (w *work) buildQuick() {
	if w.startSpread > 0 {
		w.clients, w.turns, w.script.Chunks, w.startSpread = w.clients/10, w.turns/10, 4, 2*time.Second
		return
	}
	w.turns, w.limit = max(w.turns/4, w.clients), 2*time.Second
}

// A bench has the settings for all comparisons.
type bench struct {
	dir      string
	rounds   int
	progress io.Writer
	profile  string // agenthost's CPU profile
}

func compareAll(ctx context.Context, o *options, out, progress io.Writer) (met bool, err error) {
	chosen, err := command.Chosen(o.Flags, allWorks(o.Quick), (*work).name)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "agenthost-http-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, rounds: 3, progress: progress, profile: o.profile}
	if o.Quick {
		b.rounds = 1
	}
	rep := &report{}
	for _, w := range chosen {
		fmt.Fprintln(progress, w.name())
		rep.lines = append(rep.lines, b.compareSides(ctx, w))
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	return rep.allMet(), rep.printTables(out)
}

// compareSides alternates between the sides.
func (b *bench) compareSides(ctx context.Context, w *work) *comparison {
	rounds := b.rounds
	if w.startSpread > 0 {
		rounds = 1 // it is long, and its speed does not count
	}
	l := &comparison{work: w, ours: &result{}}
	for _, name := range w.setupNames() {
		l.theirs = append(l.theirs, &result{setup: name})
	}
	floor := serverConfig{Side: floorName}
	if w.floorLimit > 0 {
		l.floor = &result{}
		var err error
		if floor.Answer, err = b.recordAnswer(ctx, w); err != nil {
			l.floor.err = err
		}
	}
	for range rounds {
		l.ours.addRound(b.runRound(ctx, w, serverConfig{Side: oursName, Profile: b.profile}))
		for _, t := range l.theirs {
			t.addRound(b.runRound(ctx, w, serverConfig{Side: theirsName, Setup: t.setup}))
		}
		if floor.Answer != nil {
			l.floor.addRound(b.runRound(ctx, w, floor))
		}
	}
	return l
}

// runRound starts a new process for a side with an empty database.
func (b *bench) runRound(ctx context.Context, w *work, at serverConfig) (o *outcome, err error) {
	at.Script = w.script
	if w.engine != nil {
		d, drop, err := w.engine.Create(ctx, b.dir)
		if err != nil {
			return nil, err
		}
		defer drop()
		at.URL = d.URL()
	}
	p, err := startProcess(ctx, &at)
	if err != nil {
		return nil, err
	}
	load := w.load
	load.stateless = at.Side == floorName
	load.a2aUser = map[string]string{oursName: "user", theirsName: "A2A_USER_"}[at.Side]
	o, err = load.runLoad(ctx, p)
	if err = errors.Join(err, p.stop()); err == nil {
		fmt.Fprintf(b.progress, "  %-9s %-16s %6.0f turns a second, %d of %d failed, p99 %s, CPU %s, %d MB\n",
			at.Side, at.Setup, o.rate(), o.failed, o.failed+o.answered, p99(o.took), o.cpuPerTurn(), o.peakMemory>>20)
	}
	return o, err
}

func p99(times []time.Duration) time.Duration {
	return quantile(times, 0.99).Round(10 * time.Microsecond)
}
