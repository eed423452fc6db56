package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// towerDepth is how deep the lowest agent is below the root.
const towerDepth = 5

// towerApp returns an app with one agent on each level, each in its own file. The lowest agent
// answers.
func towerApp() files {
	fs := files{"tower/app.yaml": scriptedModel, "tower/script.yaml": "- text: \"{instruction}\"\n"}
	for floor := range towerDepth + 1 {
		fs["tower/"+floorFile(floor)] = floorAgent(floor, 0)
	}
	return fs
}

func floorFile(floor int) string {
	if floor == 0 {
		return "root_agent.yaml"
	}
	return fmt.Sprintf("floor%d.yaml", floor)
}

func floorAgent(floor, rule int) string {
	if floor == towerDepth {
		return fmt.Sprintf("name: floor%d\nmodel: demo\ninstruction: Rule %d.\n", floor, rule)
	}
	return fmt.Sprintf("name: floor%d\nagent_class: SequentialAgent\ndescription: Rule %d.\nsub_agents: [{config_path: %s}]\n", floor, rule, floorFile(floor+1))
}

// editRows is M9. It edits agents on all levels. Each edit must take effect in the next
// turn and equal a fresh load.
func editRows(ctx context.Context, l *lab) ([]row, error) {
	top := filepath.Join(l.dir, "edits")
	if err := towerApp().writeTo(top); err != nil {
		return nil, err
	}
	s, err := newWatchedHost(ctx, top, &loader.WatchOptions{Settle: time.Millisecond})
	if err != nil {
		return nil, err
	}
	first := s.activeRevision("tower")
	random := rand.New(rand.NewPCG(l.seed, 9))
	n, different, outdated, control, lastRule := l.choose(200, 1000), 0, 0, 0, 0
	for i := 1; i <= n; i++ {
		floor := random.IntN(towerDepth + 1)
		if floor == towerDepth {
			lastRule = i
		}
		if err := saveFile(filepath.Join(top, "tower", floorFile(floor)), floorAgent(floor, i)); err != nil {
			return nil, errors.Join(err, s.close())
		}
		if err := s.watch.Reload(ctx); err != nil {
			return nil, errors.Join(err, s.close())
		}
		fresh, ds := loader.New(listKinds(), nil).Load(ctx, filepath.Join(top, "tower"))
		if fresh == nil {
			return nil, errors.Join(ds.Err(), s.close())
		}
		if fresh.Revision() != s.activeRevision("tower") {
			different++
		}
		if fresh.Revision() != first {
			control++
		}
		fresh.Close()
		text, err := s.runTurn(ctx, "tower", fmt.Sprint(i))
		if err != nil {
			return nil, errors.Join(err, s.close())
		}
		if !strings.HasPrefix(text, fmt.Sprintf("Rule %d.", lastRule)) {
			outdated++
		}
	}
	return []row{{
		"M9: an edit of any agent takes effect in the next turn and equals a fresh load",
		fmt.Sprintf("%d edits on %d levels: %d revisions differ from a fresh load, %d outdated answers; control, agents kept from the first load: %d differ", n, towerDepth+1, different, outdated, control),
		different == 0 && outdated == 0 && control == n,
	}}, s.close()
}

// runTurn runs a turn in a new session and returns the last text.
func (s *watchedHost) runTurn(ctx context.Context, app, session string) (string, error) {
	text := ""
	for ev, err := range s.host.Run(ctx, &runtime.RunRequest{App: app, UserID: "user", SessionID: session, Message: model.UserText("hi"), CreateSession: true}) {
		if err != nil {
			return "", err
		}
		text = ev.Text()
	}
	return text, nil
}

// brokenApps returns the loader tests' failing apps.
func brokenApps() (map[string]files, error) {
	names, err := filepath.Glob(filepath.Join("pkg", "loader", "testdata", "err", "*.txtar"))
	if err != nil {
		return nil, err
	}
	all := map[string]files{}
	for _, name := range names {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			return nil, err
		}
		app := files{}
		for _, f := range archive.Files {
			if f.Name != "want" && f.Name != "env" {
				app[f.Name] = string(f.Data)
			}
		}
		if app["root_agent.yaml"]+app["app.yaml"] != "" {
			all[name] = app // without both files the folder is not an app
		}
	}
	return all, nil
}

// failingBuildRows is M4. It replaces a served app by each failing app. The active
// revision must not change, and the next good save must be loaded.
func failingBuildRows(ctx context.Context, l *lab) ([]row, error) {
	all, err := brokenApps()
	if err != nil {
		return nil, err
	}
	top := filepath.Join(l.dir, "failing")
	good := files{"root_agent.yaml": "name: a\nmodel: demo\ninstruction: Good.\n", "app.yaml": scriptedModel, "script.yaml": "- text: \"{instruction}\"\n"}
	dir := filepath.Join(top, "app")
	if err := good.writeTo(dir); err != nil {
		return nil, err
	}
	s, err := newWatchedHost(ctx, top, &loader.WatchOptions{Settle: time.Millisecond})
	if err != nil {
		return nil, err
	}
	t := buildFailures{watchedHost: s, good: s.activeRevision("app")}
	for name, app := range all {
		if err := t.tryBuild(ctx, name, dir, app); err != nil {
			return nil, fmt.Errorf("%s: %w", name, errors.Join(err, s.close()))
		}
		if err := replaceFiles(dir, good); err != nil {
			return nil, errors.Join(err, s.close())
		}
		if _, err := s.reloadChanged(ctx); err != nil || s.activeRevision("app") != t.good {
			t.stuck++
		}
	}
	return []row{{
		"M4: a failing build changes nothing, is reported, and ends with the next good save",
		fmt.Sprintf("%d kinds of failure: %d changed the active revision, %d unreported, %d blocked a good save; control, good saves of another revision: %d of 1 loaded", t.tried, t.changed, t.unreported, t.stuck, s.countGoodSave(ctx, dir)),
		t.tried >= 40 && t.changed == 0 && t.unreported == 0 && t.stuck == 0,
	}}, s.close()
}

// buildFailures counts the results from failing builds.
type buildFailures struct {
	*watchedHost
	good                              string // the revision that must stay active
	tried, changed, unreported, stuck int
}

// tryBuild writes files into the app's folder. Files that cause only warnings do not count.
func (t *buildFailures) tryBuild(ctx context.Context, name, dir string, app files) error {
	if err := replaceFiles(dir, app); err != nil {
		return err
	}
	if loads, err := t.reloadChanged(ctx); loads || err != nil {
		return err
	}
	t.tried++
	st, _ := t.watch.Status("app")
	text, err := t.runTurn(ctx, "app", name)
	if err != nil || !strings.HasPrefix(text, "Good.") || st.Revision != t.good || t.host.App("app").Revision() != t.good {
		t.changed++
	}
	if st.OK || len(st.Diagnostics) == 0 {
		t.unreported++
	}
	return nil
}

// reloadChanged reloads and reports whether the active revision changed.
func (s *watchedHost) reloadChanged(ctx context.Context) (bool, error) {
	before := s.activeRevision("app")
	err := s.watch.Reload(ctx)
	return s.activeRevision("app") != before, err
}

// countGoodSave returns 1 if a good save is loaded.
func (s *watchedHost) countGoodSave(ctx context.Context, dir string) int {
	if err := saveFile(filepath.Join(dir, "root_agent.yaml"), "name: a\nmodel: demo\ninstruction: Better.\n"); err != nil {
		return 0
	}
	if changed, err := s.reloadChanged(ctx); err != nil || !changed {
		return 0
	}
	return 1
}

// replaceFiles replaces a folder's contents.
func replaceFiles(dir string, fs files) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return fs.writeTo(dir)
}
