package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agenthost/qa/bench/internal/engine"
)

const (
	// floorTurns is how many turns a session has in a round. The first is not measured, because it
	// also acquires the session's lease.
	floorTurns    = 6
	floorSessions = 10 // in a round
	// floorLimit is a durable turn's maximum wall time, divided by the floor's.
	floorLimit = 1.3
)

// measureDistance compares an agent's durable turn with the same statements without agenthost, by
// wall time. The median round counts.
func (b *bench) measureDistance(ctx context.Context) (m measurement, err error) {
	m = measurement{engine: b.Name, what: "durable turn, 1 session, ms", floorLimit: floorLimit}
	fmt.Fprintln(b.progress, b.Name, m.what)
	if b.Name == engine.SQLite().Name && !engine.HasC() {
		m.note = "needs cgo"
		return m, nil
	}
	p, err := b.openPair(ctx)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	var ours, floors []float64
	for round := range b.pairs {
		for i := range 2 {
			run, took := p.host.runTurn, &ours
			if (round+i)%2 == 1 { // the first one alternates as well
				run, took = p.floor.runTurn, &floors
			}
			median, err := medianRound(ctx, round, run)
			if err != nil {
				return m, err
			}
			*took = append(*took, median)
		}
	}
	slices.Sort(ours)
	slices.Sort(floors)
	m.ours, m.floor = ours[len(ours)/2], floors[len(floors)/2]
	return m, nil
}

// medianRound runs a round's turns and returns their median wall time in ms.
func medianRound(ctx context.Context, round int, run func(context.Context, string) error) (float64, error) {
	var took []float64
	for i := range floorSessions {
		for turn := range floorTurns {
			began := time.Now()
			if err := run(ctx, floorSession(round, i)); err != nil {
				return 0, err
			}
			if turn > 0 {
				took = append(took, float64(time.Since(began))/float64(time.Millisecond))
			}
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

func floorSession(round, i int) string { return fmt.Sprintf("floor-%d-%d", round, i) }

// A pair is agenthost and the floor, each on its own database. Both were filled by agenthost in the
// same way.
type pair struct {
	host            *hostStore
	floor           *floor
	hostAt, floorAt *engine.Database
	drops           []func()
}

func (b *bench) openPair(ctx context.Context) (p *pair, err error) {
	p = &pair{}
	defer func() {
		if err != nil {
			err = errors.Join(err, p.close())
		}
	}()
	var filled *hostStore
	if p.floorAt, filled, err = b.openFilled(ctx, p); err == nil {
		err = filled.close()
	}
	if err == nil {
		p.floor, err = openFloor(ctx, p.floorAt)
	}
	if err == nil {
		p.hostAt, p.host, err = b.openFilled(ctx, p)
	}
	return p, err
}

// openFilled opens agenthost on a new database, which the pair drops, and fills it.
func (b *bench) openFilled(ctx context.Context, p *pair) (*engine.Database, *hostStore, error) {
	at, drop, err := b.Create(ctx, b.dir)
	if err != nil {
		return nil, nil, err
	}
	p.drops = append(p.drops, drop)
	h, err := openHost(ctx, at)
	if err != nil {
		return nil, nil, err
	}
	if err := b.fillTurns(ctx, h); err != nil {
		return nil, nil, errors.Join(err, h.close())
	}
	return at, h, nil
}

// fillTurns creates the sessions for all rounds and runs a turn in each.
func (b *bench) fillTurns(ctx context.Context, h *hostStore) error {
	for n := range b.pairs * floorSessions {
		id := floorSession(n/floorSessions, n%floorSessions)
		if err := h.createSession(ctx, id); err != nil {
			return err
		}
		if err := h.runTurn(ctx, id); err != nil {
			return err
		}
	}
	return nil
}

func (p *pair) close() (err error) {
	if p.host != nil {
		err = p.host.close()
	}
	if p.floor != nil {
		err = errors.Join(err, p.floor.close())
	}
	for _, drop := range p.drops {
		drop()
	}
	return err
}
