package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

const (
	coldStarts  = 5
	startLimit  = 100 * time.Millisecond
	memoryLimit = 40.0 // MB
	// idleTime is how long a host is left alone before its memory is looked at.
	idleTime = 500 * time.Millisecond
)

// coldStartRows starts the host on ten apps, each time on a new database.
func coldStartRows(ctx context.Context, l *lab) ([]row, error) {
	dir := filepath.Join(l.dir, "coldstart")
	apps := filepath.Join(dir, "apps")
	if err := generateApps(10, 1).writeTo(apps); err != nil {
		return nil, err
	}
	var quickest time.Duration
	var peak, ownPeak float64
	for i := range coldStarts {
		took, mb, anon, err := measureStart(ctx, l, filepath.Join(dir, fmt.Sprintf("sessions-%d.db", i)), apps)
		if err != nil {
			return nil, err
		}
		peak, ownPeak = max(peak, mb), max(ownPeak, anon)
		if i == 0 || took < quickest {
			quickest = took
		}
	}
	return []row{
		{
			"ten apps answer within 100 ms of the start",
			fmt.Sprintf("%s from exec to the first answer, best of %d", roundMillis(quickest), coldStarts),
			quickest < startLimit,
		},
		{
			"an idle host takes less than 40 MB",
			fmt.Sprintf("%.1f MB resident after the first answer, %.1f of them no pages of files, most of %d", peak, ownPeak, coldStarts),
			peak < memoryLimit,
		},
	}, nil
}

// measureStart measures the time to the first answer, and the memory afterwards: all of
// it, and what of it is the process's own.
func measureStart(ctx context.Context, l *lab, db, apps string) (took time.Duration, all, ownPeak float64, err error) {
	h, err := serveSQLite(ctx, l, db, apps)
	if err != nil {
		return 0, 0, 0, err
	}
	defer func() { err = errors.Join(err, h.kill()) }()
	c := newClient(h.url, "app_007", "first")
	defer c.close()
	if _, err := c.runTurn(ctx, "hi"); err != nil {
		return 0, 0, 0, err
	}
	took = time.Since(h.startedAt)
	select {
	case <-time.After(idleTime):
	case <-ctx.Done():
		return 0, 0, 0, ctx.Err()
	}
	all, err = h.residentMemory()
	if err == nil {
		ownPeak, err = h.anonMemory()
	}
	return took, all, ownPeak, err
}
