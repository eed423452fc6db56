package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

// A stand is a host in this process whose apps follow a folder.
type watchedHost struct {
	dir       string
	store     *store.Store
	host      *runtime.Host
	watch     *loader.Watch
	loads     chan string // the description of each app that was swapped in
	stopWatch func()
}

// newWatchedHost makes a stand over a folder, and loads what is there.
func newWatchedHost(ctx context.Context, dir string, opts *loader.WatchOptions) (*watchedHost, error) {
	st, err := store.Open(ctx, "memory:", nil)
	if err != nil {
		return nil, err
	}
	s := &watchedHost{dir: dir, store: st, host: runtime.NewHost(st, nil), loads: make(chan string, 10_000), stopWatch: func() {}}
	opts.Revisions = st.Revisions
	s.watch = loader.NewWatch(loader.New(nil), s, []string{dir}, opts)
	return s, s.watch.Sync(ctx)
}

// Swap notes what is swapped in.
func (s *watchedHost) Swap(app *runtime.App) {
	s.host.Swap(app)
	s.loads <- app.Description
}

// Remove takes an app away.
func (s *watchedHost) Remove(name string) { s.host.Remove(name) }

// startWatch has the watch follow the folder until the stand closes.
func (s *watchedHost) startWatch(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- s.watch.Run(ctx) }()
	s.stopWatch = func() { cancel(); <-done }
}

func (s *watchedHost) close() error {
	s.stopWatch()
	s.host.Close()
	return s.store.Close()
}

// activeRevision is that which serves.
func (s *watchedHost) activeRevision(app string) string {
	st, _ := s.watch.Status(app)
	return st.Revision
}

// nextLoad waits for something to be swapped in; false when nothing is in time.
func (s *watchedHost) nextLoad(ctx context.Context, patience time.Duration) (string, bool) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case description := <-s.loads:
		return description, true
	case <-timer.C:
	case <-ctx.Done():
	}
	return "", false
}

// discardLoads drops the news that are there.
func (s *watchedHost) discardLoads() {
	for {
		select {
		case <-s.loads:
		default:
			return
		}
	}
}

// describedAgent is an agent file with a description, and an end that a part of the
// file does not have.
func describedAgent(description string) string {
	return "name: a\ndescription: " + description + "\ninstruction: Answer.\n# end\n"
}

// A way is a way of saving the file root_agent.yaml of a folder.
type saveMethod struct {
	name string
	save func(dir, text string) error
}

// rootAgentPath is the file that is saved.
func rootAgentPath(dir string) string { return filepath.Join(dir, "root_agent.yaml") }

// saveMethods are twelve of them.
func saveMethods() []saveMethod {
	return []saveMethod{
		{"in place", func(dir, text string) error { return os.WriteFile(rootAgentPath(dir), []byte(text), 0o600) }},
		{"renamed over it", func(dir, text string) error { return saveFile(rootAgentPath(dir), text) }},
		{"rsync", renameFrom(".root_agent.yaml.Xy12")},
		{"vim", func(dir, text string) error {
			return runSteps(
				func() error { return os.Rename(rootAgentPath(dir), rootAgentPath(dir)+".bak") },
				func() error { return os.WriteFile(rootAgentPath(dir), []byte(text), 0o600) },
				func() error { return os.Remove(rootAgentPath(dir) + ".bak") },
			)
		}},
		{"emacs", func(dir, text string) error {
			lock := filepath.Join(dir, ".#root_agent.yaml")
			return runSteps(
				func() error { return os.Symlink("ana@host.42", lock) },
				func() error { return saveFile(rootAgentPath(dir), text) },
				func() error { return os.Remove(lock) },
			)
		}},
		{"deleted and made anew", func(dir, text string) error {
			return runSteps(
				func() error { return os.Remove(rootAgentPath(dir)) },
				func() error {
					time.Sleep(50 * time.Millisecond)
					return os.WriteFile(rootAgentPath(dir), []byte(text), 0o600)
				},
			)
		}},
		{"in pieces", func(dir, text string) error { return writeInChunks(rootAgentPath(dir), text, 5, 30*time.Millisecond) }},
		{"emptied, a pause, written", func(dir, text string) error {
			return runSteps(
				func() error { return os.Truncate(rootAgentPath(dir), 0) },
				func() error {
					time.Sleep(60 * time.Millisecond)
					return os.WriteFile(rootAgentPath(dir), []byte(text), 0o600)
				},
			)
		}},
		{"a link turned", func(dir, text string) error {
			target := fmt.Sprintf("v%d.txt", time.Now().UnixNano())
			if err := os.WriteFile(filepath.Join(dir, target), []byte(text), 0o600); err != nil {
				return err
			}
			return replaceLink(target, rootAgentPath(dir))
		}},
		{"a ConfigMap", saveConfigMap},
		{"the folder replaced", func(dir, text string) error {
			fresh := dir + ".new"
			return runSteps(
				func() error { return files{"root_agent.yaml": text}.writeTo(fresh) },
				func() error { return os.RemoveAll(dir) },
				func() error { return os.Rename(fresh, dir) },
			)
		}},
		{"touched, its mode changed, then saved", func(dir, text string) error {
			return runSteps(
				func() error { return os.Chtimes(rootAgentPath(dir), time.Now(), time.Now()) },
				func() error { return os.Chmod(rootAgentPath(dir), 0o644) },
				func() error { return saveFile(rootAgentPath(dir), text) },
			)
		}},
	}
}

func runSteps(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func renameFrom(name string) func(dir, text string) error {
	return func(dir, text string) error {
		temp := filepath.Join(dir, name)
		if err := os.WriteFile(temp, []byte(text), 0o600); err != nil {
			return err
		}
		return os.Rename(temp, rootAgentPath(dir))
	}
}

// writeInChunks writes a file in so many pieces with pauses between them.
func writeInChunks(path, text string, n int, pause time.Duration) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_TRUNC|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range n {
		if i > 0 {
			time.Sleep(pause)
		}
		if _, err := f.WriteString(text[i*len(text)/n : (i+1)*len(text)/n]); err != nil {
			return err
		}
	}
	return f.Sync()
}

// replaceLink puts a link in the place of what is there.
func replaceLink(target, at string) error {
	if err := os.Symlink(target, at+".turn"); err != nil {
		return err
	}
	return os.Rename(at+".turn", at)
}

// saveConfigMap does what a kubelet does: a new folder, and ..data turned to it.
func saveConfigMap(dir, text string) error {
	version := fmt.Sprintf("..%d", time.Now().UnixNano())
	before, _ := os.Readlink(filepath.Join(dir, "..data"))
	return runSteps(
		func() error { return files{"root_agent.yaml": text}.writeTo(filepath.Join(dir, version)) },
		func() error { return replaceLink(version, filepath.Join(dir, "..data")) },
		func() error { return replaceLink("..data/root_agent.yaml", rootAgentPath(dir)) },
		func() error {
			if before == "" {
				return nil
			}
			return os.RemoveAll(filepath.Join(dir, before))
		},
	)
}
