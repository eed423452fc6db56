package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// What one tree may cost, in time of the processor and in memory.
const (
	treeTime   = 100 * time.Millisecond
	treeMemory = 64 << 20
)

// malformed counts what became of trees that are not what people meant.
type malformed struct {
	trees, refused, loaded  int
	panics, changed, costly int
	longest                 time.Duration
	largest                 uint64
	// first is the first one that was not as it must be.
	first string
}

// malformedTrees is M3: folders of real apps are damaged in every way, and put
// where an app serves.
func malformedTrees(ctx context.Context, l *lab) ([]row, error) {
	seeds, err := realTrees()
	if err != nil {
		return nil, err
	}
	var m, control malformed
	marks := slices.Concat(marks(), bombs())
	d := newDamager(seeds, l.seed, marks)
	for n := l.times(4000, 1_000_000); m.trees < n; {
		if err := m.damage(ctx, l, d, min(n-m.trees, 200)); err != nil {
			return nil, err
		}
		if m.trees%10_000 == 0 && l.full {
			fmt.Fprintln(l.progress, m.shown())
		}
	}
	control.naively(newDamager(seeds, l.seed, marks), 500)
	return []row{{
		"M3: no tree that is damaged ends the program, changes what serves, or costs 100 ms or 64 MiB",
		fmt.Sprintf("%s, of %d apps; control, a loader of forty lines: %d panics, %d of %d wrong trees served", m.shown(), len(seeds), control.panics, control.changed, control.trees),
		m.panics == 0 && m.changed == 0 && m.costly == 0 && m.refused > m.trees/4 && control.panics > 0 && control.changed > 0,
	}}, nil
}

func (m *malformed) shown() string {
	first := ""
	if m.first != "" {
		first = ": " + m.first
	}
	return fmt.Sprintf("%d trees: %d refused, %d loaded, %d panics, %d changed what serves though they were refused, %d too dear%s; at most %s of the processor and %.1f MiB allocated",
		m.trees, m.refused, m.loaded, m.panics, m.changed, m.costly, first, m.longest.Round(time.Millisecond), float64(m.largest)/(1<<20))
}

// damage puts so many trees into the place of one app.
func (m *malformed) damage(ctx context.Context, l *lab, d *damager, n int) (err error) {
	top := filepath.Join(l.dir, "malformed")
	dir := filepath.Join(top, "app")
	if err := os.RemoveAll(top); err != nil {
		return err
	}
	good := files{"root_agent.yaml": saidAgent("Good.")}
	if err := good.write(dir); err != nil {
		return err
	}
	s, err := newStand(ctx, top, &loader.WatchOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	base := d.pick()
	for range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		tree, how := d.damaged(base)
		if err := replace(dir, tree); err != nil {
			return err
		}
		m.try(ctx, s, how)
		s.forget()
	}
	return nil
}

// try loads what is there, and looks at what it was.
func (m *malformed) try(ctx context.Context, s *stand, how string) {
	before := s.serves()
	spent := spend(func() error { return s.watch.Sync(ctx) })
	for range 2 { // others use the processor's caches too: the cheapest of three counts
		if spent.err == nil && (spent.time > treeTime || spent.memory > treeMemory) {
			again := spend(func() error {
				app, _ := loader.New(nil).Load(ctx, filepath.Join(s.dir, "app"))
				if app != nil {
					app.Close()
				}
				return nil
			})
			spent.time, spent.memory = min(spent.time, again.time), min(spent.memory, again.memory)
		}
	}
	m.trees++
	m.longest, m.largest = max(m.longest, spent.time), max(m.largest, spent.memory)
	st, known := s.watch.Status("app")
	panicked := func(d spec.Diagnostic) bool { return strings.Contains(d.Message, "panicked, which is a fault") }
	switch {
	case spent.err != nil || slices.ContainsFunc(st.Diagnostics, panicked):
		m.panics++
	case known && st.OK:
		m.loaded++
	default:
		m.refused++
		if s.serves() != before && known {
			m.changed++
		}
	}
	dear := spent.time > treeTime || spent.memory > treeMemory
	if dear {
		m.costly++
	}
	if m.first == "" && (spent.err != nil || dear || m.changed > 0) {
		m.first = fmt.Sprintf("%s: %v, %s, %d KiB", how, spent.err, spent.time, spent.memory>>10)
	}
}

// serves is the revision that the next turn would run.
func (s *stand) serves() string {
	app := s.host.App("app")
	if app == nil {
		return ""
	}
	return app.Revision
}
