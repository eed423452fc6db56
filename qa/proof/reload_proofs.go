package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"agenthost/pkg/loader"
)

// reloadProofs are the promises about hot reload.
func reloadProofs() []proof {
	return []proof{
		{"M1 M2 reload under load", reloadLoadRows},
		{"M20 soak", hostSoakRows},
		{"M3 damaged trees", malformedTreeRows},
		{"fuzz the loader", fuzzRows},
		{"M27 bombs", bombRows},
		{"M4 failing builds", failingBuildRows},
		{"M5 ways of saving", saveMethodRows},
		{"M6 killed watcher", killedWatcherRows},
		{"folders gone", goneFolderRows},
		{"M7 prefixes of files", halfWrittenRows},
		{"M8 config status and rollback", configRows},
		{"M9 random edits", editRows},
		{"a save among 100 apps", saveAmongManyRows},
	}
}

// loadLimit is the maximum time until a save is loaded.
const loadLimit = 3 * time.Second

// saveMethodRows is M5. It saves a file in twelve ways concurrently, each in its own app. Each save
// must be loaded, and nothing else.
func saveMethodRows(ctx context.Context, l *lab) ([]row, error) {
	c := &saveCount{lab: l, saves: l.choose(5, 1000)}
	var wg sync.WaitGroup
	errs := make([]error, len(saveMethods()))
	for i, w := range saveMethods() {
		wg.Go(func() { errs[i] = c.runMethod(ctx, filepath.Join(l.dir, "ways", fmt.Sprint(i)), w) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	controlLoads, err := countUnsettledLoads(ctx, filepath.Join(l.dir, "ways", "control"))
	return []row{{
		"M5: every way of saving is detected within 3 s, and no partial save is loaded",
		fmt.Sprintf("%d ways × %d saves: %d not loaded, %d loads of something else; control, loaded at the first poll: %d partial files loaded",
			len(saveMethods()), c.saves, c.late.Load(), c.partial.Load(), controlLoads),
		c.late.Load() == 0 && c.partial.Load() == 0 && controlLoads > 0,
	}}, err
}

// A saveCount counts save results.
type saveCount struct {
	lab           *lab
	saves         int // with each method
	late, partial atomic.Int64
}

// runMethod saves an app's file repeatedly with one method.
func (c *saveCount) runMethod(ctx context.Context, top string, w saveMethod) error {
	dir := filepath.Join(top, "app")
	if err := (files{"root_agent.yaml": describedAgent("first")}).writeTo(dir); err != nil {
		return err
	}
	s, err := newWatchedHost(ctx, top, &loader.WatchOptions{})
	if err != nil {
		return err
	}
	s.discardLoads()
	s.startWatch(ctx)
	for k := range c.saves {
		want := fmt.Sprintf("save-%d", k)
		if err := w.save(dir, describedAgent(want)); err != nil {
			return fmt.Errorf("%s: %w", w.name, errors.Join(err, s.close()))
		}
		switch got, ok := s.nextLoad(ctx, loadLimit); {
		case !ok:
			c.late.Add(1)
			fmt.Fprintf(c.lab.progress, "%s: save %d was not loaded\n", w.name, k)
		case got != want:
			c.partial.Add(1)
		}
	}
	c.partial.Add(int64(len(s.loads)))
	return s.close()
}

// countUnsettledLoads writes a file in chunks and counts the partial files loaded by a
// watch without a settle time.
func countUnsettledLoads(ctx context.Context, top string) (int, error) {
	dir := filepath.Join(top, "app")
	if err := (files{"root_agent.yaml": describedAgent("first")}).writeTo(dir); err != nil {
		return 0, err
	}
	s, err := newWatchedHost(ctx, top, &loader.WatchOptions{})
	if err != nil {
		return 0, err
	}
	s.discardLoads()
	wholeLoads := describedAgent("a description of some length")
	for n := range len(wholeLoads) {
		if err := os.WriteFile(rootAgentPath(dir), []byte(wholeLoads[:n]), 0o600); err != nil {
			return 0, errors.Join(err, s.close())
		}
		if err := s.watch.Sync(ctx); err != nil {
			return 0, errors.Join(err, s.close())
		}
	}
	return len(s.loads), s.close()
}

// killedWatcherRows is M6. It closes the file watcher repeatedly. The next save must be
// loaded each time.
func killedWatcherRows(ctx context.Context, l *lab) ([]row, error) {
	n, missed := l.choose(50, 1000), 0
	remake := func() (*fsnotify.Watcher, error) { return fsnotify.NewWatcher() }
	s, k, err := newKillableHost(ctx, filepath.Join(l.dir, "killed"), remake)
	if err != nil {
		return nil, err
	}
	for i := range n {
		k.closeLast()
		want := fmt.Sprintf("save-%d", i)
		if err := saveFile(rootAgentPath(filepath.Join(s.dir, "app")), describedAgent(want)); err != nil {
			return nil, errors.Join(err, s.close())
		}
		if got, ok := s.nextLoad(ctx, loadLimit); !ok || got != want {
			missed++
		}
	}
	if err := s.close(); err != nil {
		return nil, err
	}
	controlMissed, err := countMissedSaves(ctx, filepath.Join(l.dir, "deaf"))
	return []row{{
		"M6: a killed file watcher is recreated, and the next save is loaded",
		fmt.Sprintf("killed %d times, %d saves missed; control, not recreated and without polling: %d of 1 missed", n, missed, controlMissed),
		missed == 0 && controlMissed == 1,
	}}, err
}

// A watcherKiller closes the latest file watcher.
type watcherKiller struct {
	mu   sync.Mutex
	last *fsnotify.Watcher
	make func() (*fsnotify.Watcher, error)
}

func (k *watcherKiller) newWatcher() (*fsnotify.Watcher, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, err := k.make()
	if err == nil {
		k.last = w
	}
	return w, err
}

func (k *watcherKiller) closeLast() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last.Close()
}

// newKillableHost returns a host that detects changes by its file watcher only.
func newKillableHost(ctx context.Context, top string, remake func() (*fsnotify.Watcher, error)) (*watchedHost, *watcherKiller, error) {
	if err := (files{"app/root_agent.yaml": describedAgent("first")}).writeTo(top); err != nil {
		return nil, nil, err
	}
	k := &watcherKiller{make: remake}
	s, err := newWatchedHost(ctx, top, &loader.WatchOptions{Poll: time.Hour, Watcher: k.newWatcher})
	if err != nil {
		return nil, nil, err
	}
	s.discardLoads()
	s.startWatch(ctx)
	// The first save shows that the watcher works.
	if err := saveFile(rootAgentPath(filepath.Join(top, "app")), describedAgent("second")); err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	if _, ok := s.nextLoad(ctx, loadLimit); !ok {
		return nil, nil, errors.Join(errors.New("the file watcher did not detect a save"), s.close())
	}
	return s, k, nil
}

func countMissedSaves(ctx context.Context, top string) (int, error) {
	created := false
	s, k, err := newKillableHost(ctx, top, func() (*fsnotify.Watcher, error) {
		if created {
			return nil, errors.New("not recreated")
		}
		created = true
		return fsnotify.NewWatcher()
	})
	if err != nil {
		return 0, err
	}
	k.closeLast()
	// Closing the old watcher triggers one more poll. Wait until it is over.
	time.Sleep(500 * time.Millisecond)
	if err := saveFile(rootAgentPath(filepath.Join(top, "app")), describedAgent("third")); err != nil {
		return 0, errors.Join(err, s.close())
	}
	if _, ok := s.nextLoad(ctx, time.Second); ok {
		return 0, s.close()
	}
	return 1, s.close()
}

// halfWrittenRows is M7. It writes every prefix of a file in 10 ms steps. Only the complete file
// may be loaded.
func halfWrittenRows(ctx context.Context, l *lab) ([]row, error) {
	trees, prefixes, loads, wholeLoads := l.choose(10, 100), 0, 0, 0
	top := filepath.Join(l.dir, "half")
	dir := filepath.Join(top, "app")
	if err := (files{"root_agent.yaml": describedAgent("first")}).writeTo(dir); err != nil {
		return nil, err
	}
	s, err := newWatchedHost(ctx, top, &loader.WatchOptions{})
	if err != nil {
		return nil, err
	}
	s.discardLoads()
	s.startWatch(ctx)
	for i := range trees {
		want := fmt.Sprintf("tree %d of many", i)
		text := describedAgent(want)
		for n := range len(text) + 1 {
			prefixes++
			if err := os.WriteFile(rootAgentPath(dir), []byte(text[:n]), 0o600); err != nil {
				return nil, errors.Join(err, s.close())
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got, ok := s.nextLoad(ctx, loadLimit); ok && got == want {
			wholeLoads++
		} else if ok {
			loads++
		}
	}
	loads += len(s.loads)
	if err := s.close(); err != nil {
		return nil, err
	}
	controlLoads, err := countUnsettledLoads(ctx, filepath.Join(l.dir, "half-control"))
	return []row{{
		"M7: no prefix of a file that is being written is loaded",
		fmt.Sprintf("%d prefixes of %d files, 10 ms apart: %d loaded; %d complete files loaded; control, loaded at the first poll: %d prefixes of one file", prefixes, trees, loads, wholeLoads, controlLoads),
		loads == 0 && wholeLoads == trees && controlLoads > 0,
	}}, err
}

// saveAmongManyRows saves one of a hundred apps.
func saveAmongManyRows(ctx context.Context, l *lab) ([]row, error) {
	top := filepath.Join(l.dir, "hundred")
	if err := generateApps(100, 1).writeTo(top); err != nil {
		return nil, err
	}
	s, err := newWatchedHost(ctx, top, &loader.WatchOptions{})
	if err != nil {
		return nil, err
	}
	s.discardLoads()
	s.startWatch(ctx)
	var took []time.Duration
	for i := range 21 {
		file := filepath.Join(top, "app_050", "root_agent.yaml")
		began := time.Now()
		if err := saveFile(file, officeAgent("root")+fmt.Sprintf("# %d\n", i)); err != nil {
			return nil, errors.Join(err, s.close())
		}
		if _, ok := s.nextLoad(ctx, waitLimit); !ok {
			return nil, errors.Join(errors.New("a save was not loaded"), s.close())
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	return []row{{
		"a save is live in less than 300 ms, with 100 apps",
		fmt.Sprintf("median %s of %d saves, longest %s", roundMillis(median), len(took), roundMillis(took[len(took)-1])),
		median < 300*time.Millisecond,
	}}, s.close()
}
