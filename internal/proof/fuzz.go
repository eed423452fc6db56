package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	goruntime "runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"agenthost/pkg/loader"
	"agenthost/pkg/spec"
)

// A fuzzer loads damaged trees whose texts are in memory: a disk would make most
// of a load's time. Its folders are on the disk, with the files as they were.
type fuzzer struct {
	seeds []files
	dirs  []string // of the seeds
	want  int64

	executions, refused, loaded, panics, wrong atomic.Int64

	mu sync.Mutex
	// trouble is what was not as it must be, with the damage that did it.
	trouble map[string]string
}

// fuzzLoader has the loader read what nobody meant, as often as can be.
func fuzzLoader(ctx context.Context, l *lab) ([]row, error) {
	seeds, err := realTrees()
	if err != nil {
		return nil, err
	}
	z := &fuzzer{seeds: seeds, want: int64(l.times(20_000, 10_000_000)), trouble: map[string]string{}}
	for i, tree := range seeds {
		z.dirs = append(z.dirs, filepath.Join(l.dir, "fuzz", strconv.Itoa(i), "app"))
		if err := tree.write(z.dirs[i]); err != nil {
			return nil, err
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, goruntime.GOMAXPROCS(0))
	for i := range errs {
		wg.Go(func() { errs[i] = z.work(ctx, l, newDamager(seeds, l.seed<<8+uint64(i), marks())) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var control malformed
	control.naively(newDamager(seeds, l.seed, marks()), 500)
	return []row{{
		"Fuzz: the loader reads any damaged tree without a panic, and refuses it with a place and a rule, or has an app",
		fmt.Sprintf("%s; control, a loader of forty lines: %d panics in %d", z.shown(), control.panics, control.trees),
		z.executions.Load() >= z.want && z.panics.Load() == 0 && z.wrong.Load() == 0 && z.refused.Load() > z.want/4 && control.panics > 0,
	}}, nil
}

func (z *fuzzer) shown() string {
	z.mu.Lock()
	defer z.mu.Unlock()
	first := ""
	for _, what := range slices.Sorted(maps.Keys(z.trouble)) {
		first += "; " + what + " (" + z.trouble[what] + ")"
	}
	return fmt.Sprintf("%d executions over %d apps: %d refused, %d loaded, %d panics, %d without a place or a rule%s",
		z.executions.Load(), len(z.seeds), z.refused.Load(), z.loaded.Load(), z.panics.Load(), z.wrong.Load(), first)
}

// work loads trees with a loader of its own until there were enough.
func (z *fuzzer) work(ctx context.Context, l *lab, d *damager) error {
	open := map[string]string{} // the texts, by their full paths
	load := loader.New(&loader.Options{Open: func(path string) ([]byte, bool) {
		text, ok := open[path]
		return []byte(text), ok
	}})
	for {
		n := z.executions.Add(1)
		if n > z.want {
			z.executions.Add(-1)
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		i := d.random.IntN(len(z.seeds))
		tree, how := d.damaged(z.seeds[i])
		clear(open)
		for name := range z.seeds[i] {
			open[filepath.Join(z.dirs[i], filepath.FromSlash(name))] = tree[name]
		}
		if err := z.try(ctx, load, z.dirs[i]); err != nil {
			z.mu.Lock()
			z.trouble[err.Error()] = how
			z.mu.Unlock()
		}
		if n%100_000 == 0 && l.full {
			fmt.Fprintln(l.progress, z.shown())
		}
	}
}

// try loads what is open. The error says what was not as it must be.
func (z *fuzzer) try(ctx context.Context, load *loader.Loader, dir string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			z.panics.Add(1)
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	app, ds := load.Load(ctx, dir)
	if app != nil {
		z.loaded.Add(1)
		app.Close()
	} else {
		z.refused.Add(1)
	}
	if ds.HasErrors() == (app != nil) {
		z.wrong.Add(1)
		return fmt.Errorf("an app is there: %v, with %d problems", app != nil, len(ds))
	}
	for _, diagnostic := range ds {
		if !placed(diagnostic) {
			z.wrong.Add(1)
			return fmt.Errorf("no place or rule: %+v", diagnostic)
		}
	}
	return nil
}

// placed says whether a problem has a rule, and a place or the whole of a file.
func placed(d spec.Diagnostic) bool {
	whole := d.Pos.Line == 0 && d.Pos.Col == 0
	return d.Rule != "" && d.Message != "" && d.Pos.File != "" && (whole || d.Pos.Line > 0 && d.Pos.Col > 0)
}
