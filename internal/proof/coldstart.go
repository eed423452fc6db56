package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

const (
	starts      = 5
	startLimit  = 100 * time.Millisecond
	memoryLimit = 40.0 // MB
	// rest is how long a host is left alone before its memory is looked at.
	rest = 500 * time.Millisecond
)

// coldStart starts the host on ten apps, each time on a new database.
func coldStart(ctx context.Context, l *lab) ([]row, error) {
	dir := filepath.Join(l.dir, "coldstart")
	apps := filepath.Join(dir, "apps")
	if err := many(10, 1).write(apps); err != nil {
		return nil, err
	}
	var quickest time.Duration
	var most, own float64
	for i := range starts {
		took, mb, mine, err := start(ctx, l, filepath.Join(dir, fmt.Sprintf("sessions-%d.db", i)), apps)
		if err != nil {
			return nil, err
		}
		most, own = max(most, mb), max(own, mine)
		if i == 0 || took < quickest {
			quickest = took
		}
	}
	return []row{
		{
			"ten apps answer within 100 ms of the start",
			fmt.Sprintf("%s from exec to the first answer, best of %d", round(quickest), starts),
			quickest < startLimit,
		},
		{
			"an idle host takes less than 40 MB",
			fmt.Sprintf("%.1f MB resident after the first answer, %.1f of them no pages of files, most of %d", most, own, starts),
			most < memoryLimit,
		},
	}, nil
}

// start measures the time to the first answer, and the memory afterwards: all of
// it, and what of it is the process's own.
func start(ctx context.Context, l *lab, db, apps string) (took time.Duration, all, own float64, err error) {
	h, err := serve(ctx, l, db, apps)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, h.kill()) }()
	c := newClient(h.url, "app_007", "first")
	defer c.close()
	if _, err := c.turn(ctx, "hi"); err != nil {
		return 0, 0, 0, err
	}
	took = time.Since(h.born)
	select {
	case <-time.After(rest):
	case <-ctx.Done():
		return 0, 0, 0, ctx.Err()
	}
	all, err = h.resident()
	if err == nil {
		own, err = h.own()
	}
	return took, all, own, err
}
