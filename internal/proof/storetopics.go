package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
)

// storeTopics are the promises of the store. Each has a control that must fail.
func storeTopics() []topic {
	return []topic{
		{"M10 kill -9 while sessions are written", atEach(true, crashRows)},
		{"M12 shared keys of many writers", atEach(false, sharedRows)},
		{"M13 many stores race for one session", atEach(false, raceRows)},
		{"M15 soak of 256 sessions", atEach(false, soakRows)},
		{"M16 cost of a long session", atEach(true, longRows)},
		{"M17 throughput", atEach(true, speedRows)},
		{"M19 the database is gone, or full", atEach(true, outageRows)},
		{"replicas that are killed", atEach(true, replicaRows)},
	}
}

// atEach tries something at every place that can be reached, or only at those
// that outlive the process.
func atEach(durable bool, show func(ctx context.Context, s *site) ([]row, error)) func(context.Context, *lab) ([]row, error) {
	return func(ctx context.Context, l *lab) ([]row, error) {
		there, absent, err := reachable(ctx)
		if err != nil {
			return nil, err
		}
		for _, a := range absent {
			fmt.Fprintln(l.progress, a)
		}
		var rows []row
		for _, at := range there {
			if durable && !at.durable() {
				continue
			}
			more, err := l.showAt(ctx, at, show)
			if rows = append(rows, more...); err != nil {
				return rows, fmt.Errorf("%s: %w", at.name, err)
			}
		}
		return rows, nil
	}
}

func (l *lab) showAt(ctx context.Context, at place, show func(ctx context.Context, s *site) ([]row, error)) (rows []row, err error) {
	d, err := at.fresh(ctx, l.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.drop(ctx)) }()
	return show(ctx, &site{l, d, rand.New(rand.NewPCG(l.seed, 0))})
}

// of chooses between the short form and the full one.
func (l *lab) of(short, full int) int {
	if l.full {
		return full
	}
	return short
}

// elsewhere counts something on another database of the same place.
func (s *site) elsewhere(ctx context.Context, count func(context.Context, *site) (int, error)) (int, error) {
	return s.tryOut(ctx, s.place, count)
}

// crashRows is M10.
func crashRows(ctx context.Context, s *site) ([]row, error) {
	c := newCrash(s, childNormal)
	if err := c.rounds(ctx, s.of(40, 1000)); err != nil {
		return nil, err
	}
	control, err := s.elsewhere(ctx, func(ctx context.Context, s *site) (int, error) {
		early := newCrash(s, childEarly)
		err := early.rounds(ctx, s.of(5, 50))
		return early.lost, err
	})
	whole := ""
	if s.file != "" {
		whole = fmt.Sprintf(", %d times broken", c.spoil)
	}
	return []row{{
		fmt.Sprintf("M10 %s: kill -9 loses no acknowledged event, doubles and tears none", s.name),
		fmt.Sprintf("%d kills, %d events acknowledged, %d lost, %d doubled, %d torn%s; control, acknowledged early: %d lost",
			c.kills, c.total, c.lost, c.doubled, c.torn, whole, control),
		c.total > 0 && c.bad() == 0 && control > 0,
	}}, err
}

// sharedRows is M12.
func sharedRows(ctx context.Context, s *site) ([]row, error) {
	sh := sharing{writers: 64, users: 8, writes: s.of(20, 1000)}
	lost, err := sh.lost(ctx, s)
	if err != nil {
		return nil, err
	}
	control, err := s.elsewhere(ctx, sharing{writers: 64, users: 8, writes: 5, whole: true}.lost)
	return []row{{
		fmt.Sprintf("M12 %s: no app: or user: key of concurrent writers is lost", s.name),
		fmt.Sprintf("%d writers × %d writes, %d lost; control, one JSON map: %d lost", sh.writers, sh.writes, lost, control),
		lost == 0 && control > 0,
	}}, err
}
