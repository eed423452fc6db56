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
	"agenthost/pkg/store/storeurl"
)

// A watchedHost is a host in this process that watches an app folder.
type watchedHost struct {
	dir       string
	store     *store.Store
	host      *runtime.Host
	watch     *loader.Watch
	loads     chan string // describes the published apps
	stopWatch func()
}

// newWatchedHost creates a host and loads the folder's apps.
func newWatchedHost(ctx context.Context, dir string, opts *loader.WatchOptions) (*watchedHost, error) {
	s, err := newHostOfFolders(ctx, []string{dir}, opts)
	if s != nil {
		s.dir = dir
	}
	return s, err
}

// newHostOfFolders creates a host and loads the folders' apps.
func newHostOfFolders(ctx context.Context, folders []string, opts *loader.WatchOptions) (*watchedHost, error) {
	st, err := storeurl.Open(ctx, "memory:", nil)
	if err != nil {
		return nil, err
	}
	s := &watchedHost{store: st, host: runtime.NewHost(st, nil), loads: make(chan string, 10_000), stopWatch: func() {}}
	opts.Revisions = st.Revisions
	s.watch = loader.NewWatch(loader.New(listKinds(), nil), s, folders, opts)
	return s, s.watch.Sync(ctx)
}

// Swap publishes an app and records its description.
func (s *watchedHost) Swap(app *runtime.App) {
	s.host.Swap(app)
	s.loads <- app.Description()
}

// Remove removes an app.
func (s *watchedHost) Remove(name string) { s.host.Remove(name) }

// startWatch watches the folder until the host is closed.
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

// activeRevision returns an app's active revision.
func (s *watchedHost) activeRevision(app string) string {
	st, _ := s.watch.Status(app)
	return st.Revision
}

// nextLoad waits for the next published app. It returns false after the timeout.
func (s *watchedHost) nextLoad(ctx context.Context, timeout time.Duration) (string, bool) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case description := <-s.loads:
		return description, true
	case <-timer.C:
	case <-ctx.Done():
	}
	return "", false
}

// discardLoads discards the recorded loads.
func (s *watchedHost) discardLoads() {
	for {
		select {
		case <-s.loads:
		default:
			return
		}
	}
}

// describedAgent returns an agent file with a description. Its last line marks a
// complete file.
func describedAgent(description string) string {
	return "name: a\ndescription: " + description + "\ninstruction: Answer.\n# end\n"
}

// A saveMethod is one way to save root_agent.yaml in a folder.
type saveMethod struct {
	name string
	save func(dir, text string) error
}

func rootAgentPath(dir string) string { return filepath.Join(dir, "root_agent.yaml") }

// saveMethods returns twelve ways to save a file.
func saveMethods() []saveMethod {
	return []saveMethod{
		{"in place", func(dir, text string) error { return os.WriteFile(rootAgentPath(dir), []byte(text), 0o600) }},
		{"temporary file and rename", func(dir, text string) error { return saveFile(rootAgentPath(dir), text) }},
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
		{"deleted and recreated", func(dir, text string) error {
			return runSteps(
				func() error { return os.Remove(rootAgentPath(dir)) },
				func() error {
					time.Sleep(50 * time.Millisecond)
					return os.WriteFile(rootAgentPath(dir), []byte(text), 0o600)
				},
			)
		}},
		{"in chunks", func(dir, text string) error { return writeInChunks(rootAgentPath(dir), text, 5, 30*time.Millisecond) }},
		{"truncated, a pause, written", func(dir, text string) error {
			return runSteps(
				func() error { return os.Truncate(rootAgentPath(dir), 0) },
				func() error {
					time.Sleep(60 * time.Millisecond)
					return os.WriteFile(rootAgentPath(dir), []byte(text), 0o600)
				},
			)
		}},
		{"symbolic link replaced", func(dir, text string) error {
			target := fmt.Sprintf("v%d.txt", time.Now().UnixNano())
			if err := os.WriteFile(filepath.Join(dir, target), []byte(text), 0o600); err != nil {
				return err
			}
			return replaceLink(target, rootAgentPath(dir))
		}},
		{"ConfigMap", saveConfigMap},
		{"folder replaced", func(dir, text string) error {
			fresh := dir + ".new"
			return runSteps(
				func() error { return files{"root_agent.yaml": text}.writeTo(fresh) },
				func() error { return os.RemoveAll(dir) },
				func() error { return os.Rename(fresh, dir) },
			)
		}},
		{"touched, mode changed, then saved", func(dir, text string) error {
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

// writeInChunks writes a file in n chunks with pauses between them.
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

// replaceLink replaces a file by a symbolic link atomically.
func replaceLink(target, at string) error {
	if err := os.Symlink(target, at+".new"); err != nil {
		return err
	}
	return os.Rename(at+".new", at)
}

// saveConfigMap updates a folder like a kubelet: it creates a new folder and replaces
// the link ..data.
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
