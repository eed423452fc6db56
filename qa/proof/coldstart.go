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
	memoryLimit = 48.0 // MB
	// idleTime is the pause before an idle host's memory is measured.
	idleTime = 500 * time.Millisecond
)

// coldStartRows starts the host with ten apps, each time on a new database.
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
			"a host with ten apps answers within 100 ms of its start",
			fmt.Sprintf("%s from exec to the first answer, best of %d", roundMillis(quickest), coldStarts),
			quickest < startLimit,
		},
		{
			fmt.Sprintf("an idle host uses less than %.0f MB", memoryLimit),
			fmt.Sprintf("%.1f MB resident after the first answer, %.1f MB of it anonymous, maximum of %d", peak, ownPeak, coldStarts),
			peak < memoryLimit,
		},
	}, nil
}

// measureStart returns the time to the first answer, and the resident and anonymous
// memory after it.
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
