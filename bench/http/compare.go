package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"agenthost/bench/internal/command"
	"agenthost/bench/internal/engine"
)

const (
	oursName   = "agenthost"
	theirsName = "adk-go"
)

// A storage is where both sides keep sessions.
type storage struct {
	name string
	// engine is nil in memory.
	engine *engine.Engine
}

func storages() []storage {
	lite, pg := engine.SQLite(), engine.Postgres()
	return []storage{{name: "memory"}, {"sqlite", &lite}, {"postgres", &pg}}
}

// setups are the ways to open adk-go's sessions, of which the best counts.
func (s storage) setups() []string {
	if s.engine == nil {
		return []string{""}
	}
	var names []string
	for _, setup := range s.engine.Setups() {
		names = append(names, setup.Name)
	}
	return names
}

// A work is a load on a storage, and what agenthost promises for it.
type work struct {
	storage
	load
	// rate is how many times more turns than adk-go agenthost has to answer in a
	// second, and tail how many times less its p99 has to be; 0 demands nothing.
	rate, tail float64
	// memory is the most that agenthost may have, in bytes; 0 is no bound.
	memory int64
}

func (w *work) name() string {
	what := fmt.Sprintf("%d clients", w.clients)
	switch {
	case w.over > 0:
		what = fmt.Sprintf("%d open streams", w.clients)
	case w.script.Pieces > 0:
		what += fmt.Sprintf(", %d pieces", w.script.Pieces)
	case w.clients == 1:
		what = "1 client"
	}
	return fmt.Sprintf("%s %s, %s", w.storage.name, w.path, what)
}

// streamMemory is what agenthost may have for all open streams.
const streamMemory = 250e6

// works are all that is compared.
func works(quick bool) []*work {
	var all []*work
	for _, s := range storages() {
		for _, path := range []string{pathRun, pathStream} {
			for _, n := range []int{1, 32, 256} {
				all = append(all, turns(s, path, n, script{}))
			}
		}
	}
	memory, lite := storages()[0], storages()[1]
	all = append(all, turns(memory, pathStream, 32, script{Pieces: 20}), streams(memory, 5000), streams(lite, 1000))
	if quick {
		for _, w := range all {
			w.shorten()
		}
	}
	return all
}

// turns are as many turns as the faster side makes in about a second and a half.
func turns(s storage, path string, clients int, sc script) *work {
	w := &work{storage: s, load: load{path: path, clients: clients, script: sc, limit: 4 * time.Second}}
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
	if memory && sc.Pieces == 0 {
		w.rate, w.tail = 3, 3
	}
	if !memory && clients == 256 {
		w.rate = 10
	}
	return w
}

// streams are open side by side; each gets a piece every second.
func streams(s storage, n int) *work {
	l := load{
		path: pathStream, clients: n, turns: n, script: script{Pieces: 19, Every: time.Second},
		over: 10 * time.Second, limit: time.Minute,
	}
	return &work{storage: s, load: l, memory: streamMemory}
}

// shorten makes it quick.
func (w *work) shorten() {
	if w.over > 0 {
		w.clients, w.turns, w.script.Pieces, w.over = w.clients/10, w.turns/10, 4, 2*time.Second
		return
	}
	w.turns, w.limit = max(w.turns/4, w.clients), 2*time.Second
}

// A bench is how it is measured.
type bench struct {
	dir     string
	rounds  int
	note    io.Writer
	profile string // of agenthost
}

func compareAll(ctx context.Context, o *options, out, progress io.Writer) (met bool, err error) {
	chosen, err := command.Chosen(o.Flags, works(o.Quick), (*work).name)
	if err != nil {
		return false, err
	}
	dir, err := os.MkdirTemp("", "agenthost-http-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, rounds: 3, note: progress, profile: o.profile}
	if o.Quick {
		b.rounds = 1
	}
	rep := &report{}
	for _, w := range chosen {
		fmt.Fprintln(progress, w.name())
		rep.lines = append(rep.lines, b.compare(ctx, w))
		if err := ctx.Err(); err != nil {
			return false, err
		}
	}
	return rep.met(), rep.print(out)
}

// compare lets the sides do a work in turns.
func (b *bench) compare(ctx context.Context, w *work) *line {
	rounds := b.rounds
	if w.over > 0 {
		rounds = 1 // it is long, and what counts is not its speed
	}
	l := &line{work: w, ours: &result{}}
	for _, name := range w.setups() {
		l.theirs = append(l.theirs, &result{setup: name})
	}
	for range rounds {
		l.ours.add(b.round(ctx, w, serving{Side: oursName, Profile: b.profile}))
		for _, t := range l.theirs {
			t.add(b.round(ctx, w, serving{Side: theirsName, Setup: t.setup}))
		}
	}
	return l
}

// round gives a side a new process and an empty database.
func (b *bench) round(ctx context.Context, w *work, at serving) (o *outcome, err error) {
	at.Script = w.script
	if w.engine != nil {
		d, drop, err := w.engine.Create(ctx, b.dir)
		if err != nil {
			return nil, err
		}
		defer drop()
		at.URL = d.URL()
	}
	p, err := start(ctx, &at)
	if err != nil {
		return nil, err
	}
	o, err = w.run(ctx, p)
	if err = errors.Join(err, p.stop()); err == nil {
		fmt.Fprintf(b.note, "  %-9s %-16s %6.0f answered a second, %d of %d failed, p99 %s, CPU %s, %d MB\n",
			at.Side, at.Setup, o.rate(), o.failed, o.failed+o.answered, at99(o.took), o.each(), o.peak>>20)
	}
	return o, err
}

func at99(times []time.Duration) time.Duration { return at(times, 0.99).Round(10 * time.Microsecond) }
