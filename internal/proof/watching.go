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
type stand struct {
	dir    string
	store  *store.Store
	host   *runtime.Host
	watch  *loader.Watch
	loads  chan string // the description of each app that was swapped in
	ending func()
}

// newStand makes a stand over a folder, and loads what is there.
func newStand(ctx context.Context, dir string, opts *loader.WatchOptions) (*stand, error) {
	st, err := store.Open(ctx, "memory:", nil)
	if err != nil {
		return nil, err
	}
	s := &stand{dir: dir, store: st, host: runtime.NewHost(st, nil), loads: make(chan string, 10_000), ending: func() {}}
	opts.Revisions = st.Revisions
	s.watch = loader.NewWatch(loader.New(nil), s, []string{dir}, opts)
	return s, s.watch.Sync(ctx)
}

// Swap notes what is swapped in.
func (s *stand) Swap(app *runtime.App) {
	s.host.Swap(app)
	s.loads <- app.Description
}

// Remove takes an app away.
func (s *stand) Remove(name string) { s.host.Remove(name) }

// run has the watch follow the folder until the stand closes.
func (s *stand) run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.watch.Run(ctx) }()
	s.ending = func() { cancel(); <-ended }
}

func (s *stand) close() error {
	s.ending()
	s.host.Close()
	return s.store.Close()
}

// revision is that which serves.
func (s *stand) revision(app string) string {
	st, _ := s.watch.Status(app)
	return st.Revision
}

// next waits for something to be swapped in; false when nothing is in time.
func (s *stand) next(ctx context.Context, patience time.Duration) (string, bool) {
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case description := <-s.loads:
		return description, true
	case <-late.C:
	case <-ctx.Done():
	}
	return "", false
}

// forget drops the news that are there.
func (s *stand) forget() {
	for {
		select {
		case <-s.loads:
		default:
			return
		}
	}
}

// saidAgent is an agent file with a description, and an end that a part of the
// file does not have.
func saidAgent(description string) string {
	return "name: a\ndescription: " + description + "\ninstruction: Answer.\n# end\n"
}

// A way is a way of saving the file root_agent.yaml of a folder.
type way struct {
	name string
	save func(dir, text string) error
}

// root is the file that is saved.
func root(dir string) string { return filepath.Join(dir, "root_agent.yaml") }

// ways are twelve of them.
func ways() []way {
	return []way{
		{"in place", func(dir, text string) error { return os.WriteFile(root(dir), []byte(text), 0o600) }},
		{"renamed over it", func(dir, text string) error { return save(root(dir), text) }},
		{"rsync", renamedFrom(".root_agent.yaml.Xy12")},
		{"vim", func(dir, text string) error {
			return inTurn(
				func() error { return os.Rename(root(dir), root(dir)+".bak") },
				func() error { return os.WriteFile(root(dir), []byte(text), 0o600) },
				func() error { return os.Remove(root(dir) + ".bak") },
			)
		}},
		{"emacs", func(dir, text string) error {
			lock := filepath.Join(dir, ".#root_agent.yaml")
			return inTurn(
				func() error { return os.Symlink("ana@host.42", lock) },
				func() error { return save(root(dir), text) },
				func() error { return os.Remove(lock) },
			)
		}},
		{"deleted and made anew", func(dir, text string) error {
			return inTurn(
				func() error { return os.Remove(root(dir)) },
				func() error { time.Sleep(50 * time.Millisecond); return os.WriteFile(root(dir), []byte(text), 0o600) },
			)
		}},
		{"in pieces", func(dir, text string) error { return inPieces(root(dir), text, 5, 30*time.Millisecond) }},
		{"emptied, a pause, written", func(dir, text string) error {
			return inTurn(
				func() error { return os.Truncate(root(dir), 0) },
				func() error { time.Sleep(60 * time.Millisecond); return os.WriteFile(root(dir), []byte(text), 0o600) },
			)
		}},
		{"a link turned", func(dir, text string) error {
			target := fmt.Sprintf("v%d.txt", time.Now().UnixNano())
			if err := os.WriteFile(filepath.Join(dir, target), []byte(text), 0o600); err != nil {
				return err
			}
			return turn(target, root(dir))
		}},
		{"a ConfigMap", configMap},
		{"the folder replaced", func(dir, text string) error {
			fresh := dir + ".new"
			return inTurn(
				func() error { return files{"root_agent.yaml": text}.write(fresh) },
				func() error { return os.RemoveAll(dir) },
				func() error { return os.Rename(fresh, dir) },
			)
		}},
		{"touched, its mode changed, then saved", func(dir, text string) error {
			return inTurn(
				func() error { return os.Chtimes(root(dir), time.Now(), time.Now()) },
				func() error { return os.Chmod(root(dir), 0o644) },
				func() error { return save(root(dir), text) },
			)
		}},
	}
}

func inTurn(steps ...func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

func renamedFrom(name string) func(dir, text string) error {
	return func(dir, text string) error {
		beside := filepath.Join(dir, name)
		if err := os.WriteFile(beside, []byte(text), 0o600); err != nil {
			return err
		}
		return os.Rename(beside, root(dir))
	}
}

// inPieces writes a file in so many pieces with pauses between them.
func inPieces(path, text string, n int, pause time.Duration) error {
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

// turn puts a link in the place of what is there.
func turn(target, at string) error {
	if err := os.Symlink(target, at+".turn"); err != nil {
		return err
	}
	return os.Rename(at+".turn", at)
}

// configMap does what a kubelet does: a new folder, and ..data turned to it.
func configMap(dir, text string) error {
	version := fmt.Sprintf("..%d", time.Now().UnixNano())
	before, _ := os.Readlink(filepath.Join(dir, "..data"))
	return inTurn(
		func() error { return files{"root_agent.yaml": text}.write(filepath.Join(dir, version)) },
		func() error { return turn(version, filepath.Join(dir, "..data")) },
		func() error { return turn("..data/root_agent.yaml", root(dir)) },
		func() error {
			if before == "" {
				return nil
			}
			return os.RemoveAll(filepath.Join(dir, before))
		},
	)
}
