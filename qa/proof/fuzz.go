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

// A fuzzer loads damaged trees whose files are in memory, because disk access would dominate a
// load's time. Its folders on disk have the undamaged files.
type fuzzer struct {
	seeds []files
	dirs  []string // the seeds'
	want  int64

	executions, refused, loaded, panics, wrong atomic.Int64

	mu sync.Mutex
	// trouble maps each problem to the mutations that caused it.
	trouble map[string]string
}

// fuzzRows loads randomly damaged apps.
func fuzzRows(ctx context.Context, l *lab) ([]row, error) {
	seeds, err := loadRealTrees()
	if err != nil {
		return nil, err
	}
	f := &fuzzer{seeds: seeds, want: int64(l.choose(20_000, 10_000_000)), trouble: map[string]string{}}
	for i, tree := range seeds {
		f.dirs = append(f.dirs, filepath.Join(l.dir, "fuzz", strconv.Itoa(i), "app"))
		if err := tree.writeTo(f.dirs[i]); err != nil {
			return nil, err
		}
	}
	var wg sync.WaitGroup
	errs := make([]error, goruntime.GOMAXPROCS(0))
	for i := range errs {
		wg.Go(func() { errs[i] = f.runWorker(ctx, l, newMutator(seeds, l.seed<<8+uint64(i), yamlTokens())) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	var control malformedTrees
	control.loadNaively(newMutator(seeds, l.seed, yamlTokens()), 500)
	return []row{{
		"Fuzz: the loader never panics on a damaged tree; it loads the app, or reports errors with a position and a rule",
		fmt.Sprintf("%s; control, a loader of forty lines: %d panics in %d", f.summarize(), control.panics, control.trees),
		f.executions.Load() >= f.want && f.panics.Load() == 0 && f.wrong.Load() == 0 && f.refused.Load() > f.want/4 && control.panics > 0,
	}}, nil
}

func (f *fuzzer) summarize() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	details := ""
	for _, problem := range slices.Sorted(maps.Keys(f.trouble)) {
		details += "; " + problem + " (" + f.trouble[problem] + ")"
	}
	return fmt.Sprintf("%d executions over %d apps: %d rejected, %d loaded, %d panics, %d without a position or a rule%s",
		f.executions.Load(), len(f.seeds), f.refused.Load(), f.loaded.Load(), f.panics.Load(), f.wrong.Load(), details)
}

// runWorker loads trees with its own loader until the total is reached.
func (f *fuzzer) runWorker(ctx context.Context, l *lab, d *mutator) error {
	open := map[string]string{} // file contents by full path
	ldr := loader.New(listKinds(), &loader.Options{Open: func(path string) ([]byte, bool) {
		text, ok := open[path]
		return []byte(text), ok
	}})
	for {
		n := f.executions.Add(1)
		if n > f.want {
			f.executions.Add(-1)
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		i := d.random.IntN(len(f.seeds))
		tree, changes := d.mutateTree(f.seeds[i])
		clear(open)
		for name := range f.seeds[i] {
			open[filepath.Join(f.dirs[i], filepath.FromSlash(name))] = tree[name]
		}
		if err := f.loadTree(ctx, ldr, f.dirs[i]); err != nil {
			f.mu.Lock()
			f.trouble[err.Error()] = changes
			f.mu.Unlock()
		}
		if n%100_000 == 0 && l.full {
			fmt.Fprintln(l.progress, f.summarize())
		}
	}
}

// loadTree loads the files in memory. It returns an error if the result is not as
// promised.
func (f *fuzzer) loadTree(ctx context.Context, ldr *loader.Loader, dir string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			f.panics.Add(1)
			err = fmt.Errorf("panic: %v", r)
		}
	}()
	app, ds := ldr.Load(ctx, dir)
	if app != nil {
		f.loaded.Add(1)
		app.Close()
	} else {
		f.refused.Add(1)
	}
	if ds.HasErrors() == (app != nil) {
		f.wrong.Add(1)
		return fmt.Errorf("app loaded: %v, with %d diagnostics", app != nil, len(ds))
	}
	for _, diagnostic := range ds {
		if !hasPositionAndRule(diagnostic) {
			f.wrong.Add(1)
			return fmt.Errorf("diagnostic without position or rule: %+v", diagnostic)
		}
	}
	return nil
}

// hasPositionAndRule reports whether a diagnostic has a rule, and a position or a whole
// file.
func hasPositionAndRule(d spec.Diagnostic) bool {
	whole := d.Pos.Line == 0 && d.Pos.Col == 0
	return d.Rule != "" && d.Message != "" && d.Pos.File != "" && (whole || d.Pos.Line > 0 && d.Pos.Col > 0)
}
