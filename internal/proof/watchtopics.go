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

// watchTopics are what a host promises of the changes of its files.
func watchTopics() []topic {
	return []topic{
		{"M1 M2 reload under load", reloadUnderLoad},
		{"M20 soak", soakUnderReload},
		{"M3 trees that are damaged", malformedTrees},
		{"fuzz the loader", fuzzLoader},
		{"M27 bombs", resourceBombs},
		{"M4 builds that fail", failingBuilds},
		{"M5 ways of saving", waysOfSaving},
		{"M6 a watcher that is killed", killedWatcher},
		{"M7 trees that are half written", halfWritten},
		{"M8 a config that answers", answerableConfig},
		{"M9 random edits", randomEdits},
		{"a save among 100 apps", saveAmongMany},
	}
}

// seenWithin is when a save has to be loaded at the latest.
const seenWithin = 3 * time.Second

// times is a number of the short form, or of the long one.
func (l *lab) times(short, full int) int {
	if l.full {
		return full
	}
	return short
}

// waysOfSaving saves a file in twelve ways, and sees each save loaded, and
// nothing else. The ways have an app each, and are taken side by side.
func waysOfSaving(ctx context.Context, l *lab) ([]row, error) {
	c := &saveCount{lab: l, saves: l.times(5, 1000)}
	var wg sync.WaitGroup
	errs := make([]error, len(ways()))
	for i, w := range ways() {
		wg.Go(func() { errs[i] = c.try(ctx, filepath.Join(l.dir, "ways", fmt.Sprint(i)), w) })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	taken, err := takenAtOnce(ctx, filepath.Join(l.dir, "ways", "control"))
	return []row{{
		"M5: every way of saving is seen within 3 s, and no part of a save is loaded",
		fmt.Sprintf("%d ways × %d saves: %d not loaded, %d loads of something else; control, loaded at the first look: %d parts of files were",
			len(ways()), c.saves, c.late.Load(), c.partial.Load(), taken),
		c.late.Load() == 0 && c.partial.Load() == 0 && taken > 0,
	}}, err
}

// A saveCount counts what became of saves.
type saveCount struct {
	lab           *lab
	saves         int // in each way
	late, partial atomic.Int64
}

// try saves the file of an app in one way, again and again.
func (c *saveCount) try(ctx context.Context, top string, w way) error {
	dir := filepath.Join(top, "app")
	if err := (files{"root_agent.yaml": saidAgent("first")}).write(dir); err != nil {
		return err
	}
	s, err := newStand(ctx, top, &loader.WatchOptions{})
	if err != nil {
		return err
	}
	s.forget()
	s.run(ctx)
	for k := range c.saves {
		want := fmt.Sprintf("save-%d", k)
		if err := w.save(dir, saidAgent(want)); err != nil {
			return fmt.Errorf("%s: %w", w.name, errors.Join(err, s.close()))
		}
		switch got, ok := s.next(ctx, seenWithin); {
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

// takenAtOnce writes a file in pieces, and counts how many of them a watch takes
// that does not wait until all is quiet.
func takenAtOnce(ctx context.Context, top string) (int, error) {
	dir := filepath.Join(top, "app")
	if err := (files{"root_agent.yaml": saidAgent("first")}).write(dir); err != nil {
		return 0, err
	}
	s, err := newStand(ctx, top, &loader.WatchOptions{})
	if err != nil {
		return 0, err
	}
	s.forget()
	whole := saidAgent("a description of some length")
	for n := range len(whole) {
		if err := os.WriteFile(root(dir), []byte(whole[:n]), 0o600); err != nil {
			return 0, errors.Join(err, s.close())
		}
		if err := s.watch.Sync(ctx); err != nil {
			return 0, errors.Join(err, s.close())
		}
	}
	return len(s.loads), s.close()
}

// killedWatcher closes what tells of changes again and again; the next save is
// loaded each time.
func killedWatcher(ctx context.Context, l *lab) ([]row, error) {
	n, lost := l.times(50, 1000), 0
	remake := func() (*fsnotify.Watcher, error) { return fsnotify.NewWatcher() }
	s, k, err := killable(ctx, filepath.Join(l.dir, "killed"), remake)
	if err != nil {
		return nil, err
	}
	for i := range n {
		k.kill()
		want := fmt.Sprintf("save-%d", i)
		if err := save(root(filepath.Join(s.dir, "app")), saidAgent(want)); err != nil {
			return nil, errors.Join(err, s.close())
		}
		if got, ok := s.next(ctx, seenWithin); !ok || got != want {
			lost++
		}
	}
	if err := s.close(); err != nil {
		return nil, err
	}
	deaf, err := deafAfterKill(ctx, filepath.Join(l.dir, "deaf"))
	return []row{{
		"M6: a file watcher that is killed is made anew, and the next save is loaded",
		fmt.Sprintf("killed %d times, %d saves not loaded; control, one that is not made anew, and no looks: %d of 1", n, lost, deaf),
		lost == 0 && deaf == 1,
	}}, err
}

// A killer ends the watcher that was made last.
type killer struct {
	mu   sync.Mutex
	last *fsnotify.Watcher
	make func() (*fsnotify.Watcher, error)
}

func (k *killer) watcher() (*fsnotify.Watcher, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	w, err := k.make()
	if err == nil {
		k.last = w
	}
	return w, err
}

func (k *killer) kill() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last.Close()
}

// killable is a stand that finds changes by its watcher alone.
func killable(ctx context.Context, top string, remake func() (*fsnotify.Watcher, error)) (*stand, *killer, error) {
	if err := (files{"app/root_agent.yaml": saidAgent("first")}).write(top); err != nil {
		return nil, nil, err
	}
	k := &killer{make: remake}
	s, err := newStand(ctx, top, &loader.WatchOptions{Poll: time.Hour, Watcher: k.watcher})
	if err != nil {
		return nil, nil, err
	}
	s.forget()
	s.run(ctx)
	// The first save shows that the watcher is there.
	if err := save(root(filepath.Join(top, "app")), saidAgent("second")); err != nil {
		return nil, nil, errors.Join(err, s.close())
	}
	if _, ok := s.next(ctx, seenWithin); !ok {
		return nil, nil, errors.Join(errors.New("the watcher saw nothing"), s.close())
	}
	return s, k, nil
}

func deafAfterKill(ctx context.Context, top string) (int, error) {
	made := false
	s, k, err := killable(ctx, top, func() (*fsnotify.Watcher, error) {
		if made {
			return nil, errors.New("not made anew")
		}
		made = true
		return fsnotify.NewWatcher()
	})
	if err != nil {
		return 0, err
	}
	k.kill()
	// The end of the old watcher makes one more look, which must be over.
	time.Sleep(500 * time.Millisecond)
	if err := save(root(filepath.Join(top, "app")), saidAgent("third")); err != nil {
		return 0, errors.Join(err, s.close())
	}
	if _, ok := s.next(ctx, time.Second); ok {
		return 0, s.close()
	}
	return 1, s.close()
}

// halfWritten writes every prefix of apps, each a moment after the other: none
// of them is loaded, the whole is.
func halfWritten(ctx context.Context, l *lab) ([]row, error) {
	trees, prefixes, loads, whole := l.times(10, 100), 0, 0, 0
	top := filepath.Join(l.dir, "half")
	dir := filepath.Join(top, "app")
	if err := (files{"root_agent.yaml": saidAgent("first")}).write(dir); err != nil {
		return nil, err
	}
	s, err := newStand(ctx, top, &loader.WatchOptions{})
	if err != nil {
		return nil, err
	}
	s.forget()
	s.run(ctx)
	for i := range trees {
		want := fmt.Sprintf("tree %d of many", i)
		text := saidAgent(want)
		for n := range len(text) + 1 {
			prefixes++
			if err := os.WriteFile(root(dir), []byte(text[:n]), 0o600); err != nil {
				return nil, errors.Join(err, s.close())
			}
			time.Sleep(10 * time.Millisecond)
		}
		if got, ok := s.next(ctx, seenWithin); ok && got == want {
			whole++
		} else if ok {
			loads++
		}
	}
	loads += len(s.loads)
	if err := s.close(); err != nil {
		return nil, err
	}
	taken, err := takenAtOnce(ctx, filepath.Join(l.dir, "half-control"))
	return []row{{
		"M7: no prefix of a file that is being written is loaded",
		fmt.Sprintf("%d prefixes of %d files, 10 ms apart: %d loaded, and %d of the whole files; control, loaded at the first look: %d of one file's", prefixes, trees, loads, whole, taken),
		loads == 0 && whole == trees && taken > 0,
	}}, err
}

// saveAmongMany saves one of a hundred apps.
func saveAmongMany(ctx context.Context, l *lab) ([]row, error) {
	top := filepath.Join(l.dir, "hundred")
	if err := many(100, 1).write(top); err != nil {
		return nil, err
	}
	s, err := newStand(ctx, top, &loader.WatchOptions{})
	if err != nil {
		return nil, err
	}
	s.forget()
	s.run(ctx)
	var took []time.Duration
	for i := range 21 {
		file := filepath.Join(top, "app_050", "root_agent.yaml")
		began := time.Now()
		if err := save(file, officeAgent("root")+fmt.Sprintf("# %d\n", i)); err != nil {
			return nil, errors.Join(err, s.close())
		}
		if _, ok := s.next(ctx, patience); !ok {
			return nil, errors.Join(errors.New("a save was not loaded"), s.close())
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	median := took[len(took)/2]
	return []row{{
		"a save is live in less than 300 ms, with 100 apps",
		fmt.Sprintf("median %s of %d saves, longest %s", round(median), len(took), round(took[len(took)-1])),
		median < 300*time.Millisecond,
	}}, s.close()
}
