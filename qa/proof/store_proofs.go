package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
)

// storeProofs are the promises about the session store.
func storeProofs() []proof {
	return []proof{
		{"M10 kill -9 while sessions are written", forEachBackend(true, crashRows)},
		{"M12 shared keys of concurrent writers", forEachBackend(false, sharedRows)},
		{"M13 racing appends to one session", forEachBackend(false, raceRows)},
		{"M15 soak of 256 sessions", forEachBackend(false, soakRows)},
		{"M16 cost of a long session", forEachBackend(true, longSessionRows)},
		{"M17 throughput", forEachBackend(true, throughputRows)},
		{"retention", forEachBackend(true, retentionRows)},
		{"many sessions", forEachBackend(true, manySessionRows)},
		{"M19 outages of the database", forEachBackend(true, outageRows)},
		{"hung database", forEachBackend(true, hangRows)},
		{"commands that only look", forEachBackend(true, lookingRows)},
		{"kill -9 with Vertex AI sessions", vertexRows},
		{"replicas that are killed", forEachBackend(true, replicaRows)},
	}
}

// forEachBackend runs a proof on each available backend, or only on the durable ones.
func forEachBackend(durable bool, run func(ctx context.Context, s *sandbox) ([]row, error)) func(context.Context, *lab) ([]row, error) {
	return func(ctx context.Context, l *lab) ([]row, error) {
		backends, skipped, err := findBackends(ctx)
		if err != nil {
			return nil, err
		}
		for _, a := range skipped {
			fmt.Fprintln(l.progress, a)
		}
		var rows []row
		for _, b := range backends {
			if durable && !b.isDurable() {
				continue
			}
			backendRows, err := l.runRowsAt(ctx, b, run)
			if rows = append(rows, backendRows...); err != nil {
				return rows, fmt.Errorf("%s: %w", b.name, err)
			}
		}
		return rows, nil
	}
}

func (l *lab) runRowsAt(ctx context.Context, b backend, run func(ctx context.Context, s *sandbox) ([]row, error)) (rows []row, err error) {
	d, err := b.createDatabase(ctx, l.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.dropDatabase(ctx)) }()
	return run(ctx, &sandbox{l, d, rand.New(rand.NewPCG(l.seed, 0))})
}

// choose returns the value for the short form or the full form.
func (l *lab) choose(short, full int) int {
	if l.full {
		return full
	}
	return short
}

// runOnOther runs count on the same backend's other database.
func (s *sandbox) runOnOther(ctx context.Context, count func(context.Context, *sandbox) (int, error)) (int, error) {
	return s.runOnFresh(ctx, s.backend, count)
}

// crashRows is M10.
func crashRows(ctx context.Context, s *sandbox) ([]row, error) {
	c := newCrash(s, childNormal)
	if err := c.runRounds(ctx, s.choose(40, 1000)); err != nil {
		return nil, err
	}
	control, err := s.runOnOther(ctx, func(ctx context.Context, s *sandbox) (int, error) {
		early := newCrash(s, childAckFirst)
		err := early.runRounds(ctx, s.choose(5, 50))
		return early.lost, err
	})
	corruptedText := ""
	if s.file != "" {
		corruptedText = fmt.Sprintf(", %d times corrupted", c.corrupted)
	}
	return []row{{
		fmt.Sprintf("M10 %s: kill -9 loses, duplicates and tears no acknowledged event", s.name),
		fmt.Sprintf("%d kills, %d events acknowledged, %d lost, %d duplicated, %d torn%s; control, acknowledged before the append: %d lost",
			c.kills, c.total, c.lost, c.duplicated, c.torn, corruptedText, control),
		c.total > 0 && c.countViolations() == 0 && control > 0,
	}}, err
}

// sharedRows is M12.
func sharedRows(ctx context.Context, s *sandbox) ([]row, error) {
	sh := sharedWriters{writers: 64, users: 8, writes: s.choose(20, 1000)}
	lost, err := sh.countLost(ctx, s)
	if err != nil {
		return nil, err
	}
	control, err := s.runOnOther(ctx, sharedWriters{writers: 64, users: 8, writes: 5, singleMap: true}.countLost)
	return []row{{
		fmt.Sprintf("M12 %s: no app: or user: key of concurrent writers is lost", s.name),
		fmt.Sprintf("%d writers × %d writes, %d lost; control, one JSON map: %d lost", sh.writers, sh.writes, lost, control),
		lost == 0 && control > 0,
	}}, err
}
