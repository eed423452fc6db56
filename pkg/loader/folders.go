package loader

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// Open opens the folder of an app that the watch knows, for reading. The error
// is [session.ErrNotFound] when there is no such app.
func (w *Watch) Open(app string) (*os.Root, error) {
	s, ok := w.Status(app)
	if !ok {
		return nil, fmt.Errorf("app %s: %w", app, session.ErrNotFound)
	}
	return os.OpenRoot(s.Dir)
}

// Save writes YAML files into an app's folder, by their paths in it, and returns
// when the watch has taken them in. An app that there is not yet is made in the
// first folder of apps. Nothing is written when the app would have errors with
// these files: the diagnostics tell them, with files named from the app on. The error of a name that no file of an
// app may have is [session.ErrInvalid].
func (w *Watch) Save(ctx context.Context, app string, files map[string][]byte) (spec.Diagnostics, error) {
	if err := checkSaveRequest(app, files); err != nil {
		return nil, err
	}
	w.saveMu.Lock()
	defer w.saveMu.Unlock()
	dir, made, err := w.findOrCreateFolder(app)
	if err != nil {
		return nil, err
	}
	got := w.loader.withEditedFiles(dir, files).loadApp(ctx, dir, nil, nil)
	if got.app == nil {
		if made {
			err = os.Remove(dir)
		}
		return relativeToApps(dir, got.ds), err
	}
	got.app.Close()
	if err := writeFiles(dir, files); err != nil {
		return nil, err
	}
	return relativeToApps(dir, got.ds), w.pollUntilSettled(ctx, pollMode{}, func(name string) bool { return name == app })
}

// relativeToApps names the files of an app's folder as who writes them does: with the
// app, and without where the folder lies on this machine.
func relativeToApps(dir string, ds spec.Diagnostics) spec.Diagnostics {
	below := func(at *spec.Pos) {
		if rel, err := filepath.Rel(filepath.Dir(dir), at.File); err == nil && filepath.IsLocal(rel) {
			at.File = filepath.ToSlash(rel)
		}
	}
	named := slices.Clone(ds)
	for i := range named {
		below(&named[i].Pos)
		named[i].Also = slices.Clone(named[i].Also)
		for k := range named[i].Also {
			below(&named[i].Also[k].Pos)
		}
	}
	return named
}

// checkSaveRequest refuses names that lead out of the app, or that no document has.
func checkSaveRequest(app string, files map[string][]byte) error {
	if !appName.MatchString(app) || app == "user" {
		return fmt.Errorf("an app cannot be called %q: use a letter first, then letters, digits, _ and -; user is taken: %w", app, session.ErrInvalid)
	}
	for name, text := range files {
		hidden := slices.ContainsFunc(strings.Split(name, "/"), func(step string) bool { return strings.HasPrefix(step, ".") })
		ext := path.Ext(name)
		switch {
		case !fs.ValidPath(name) || hidden || strings.ContainsAny(name, `\:`) || ext != ".yaml" && ext != ".yml":
			return fmt.Errorf("a file of an app cannot be called %q: it is a .yaml or .yml below the app's folder: %w", name, session.ErrInvalid)
		case len(text) > maxFile:
			return fmt.Errorf("file %s has %d bytes, and may have %d: %w", name, len(text), maxFile, session.ErrInvalid)
		}
	}
	return nil
}

// findOrCreateFolder is an app's folder, which may have to be made.
func (w *Watch) findOrCreateFolder(app string) (dir string, made bool, err error) {
	if s, ok := w.Status(app); ok {
		return s.Dir, false, nil
	}
	i := slices.IndexFunc(w.dirs, func(dir string) bool { return !isApp(dir) })
	if i < 0 {
		return "", false, fmt.Errorf("app %s: new apps need a folder of apps to stand in, and this host serves single apps: %w", app, session.ErrInvalid)
	}
	dir = filepath.Join(w.dirs[i], app)
	err = os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return dir, false, nil
	}
	return dir, err == nil, err
}

// withEditedFiles is a loader that finds these files in a folder.
func (l *Loader) withEditedFiles(dir string, files map[string][]byte) *Loader {
	opts := l.opts
	open := opts.Open
	opts.Open = func(file string) ([]byte, bool) {
		rel, err := filepath.Rel(dir, file)
		if text, ok := files[filepath.ToSlash(rel)]; ok && err == nil {
			return text, true
		}
		if open == nil {
			return nil, false
		}
		return open(file)
	}
	return New(&opts)
}

// writeFiles writes each file whole or not at all, the agent at the root last: what
// is seen before that is the app as it was.
func writeFiles(dir string, files map[string][]byte) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	names := slices.Sorted(maps.Keys(files))
	slices.SortStableFunc(names, func(a, b string) int { return writeOrder(a) - writeOrder(b) })
	for _, name := range names {
		if err := writeFile(root, name, files[name]); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	return nil
}

func writeOrder(name string) int {
	if name == agentFile {
		return 1
	}
	return 0
}

// checkParentFolders refuses a path that leads through a file, or through a link out of the
// app: [session.ErrInvalid].
func checkParentFolders(root *os.Root, name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := root.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		if err != nil || !info.IsDir() {
			return fmt.Errorf("%s is not a folder of the app, or a link that leads out of it: %w", dir, session.ErrInvalid)
		}
	}
	return nil
}

func writeFile(root *os.Root, name string, text []byte) error {
	if old, err := root.ReadFile(name); err == nil && bytes.Equal(old, text) {
		return nil
	}
	if err := checkParentFolders(root, name); err != nil {
		return err
	}
	if err := root.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	// Folders that begin with a dot are not looked at, nor are such files read.
	draft := path.Join(path.Dir(name), "."+path.Base(name)+".new")
	f, err := root.OpenFile(draft, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, bytes.NewReader(text))
	if err = errors.Join(err, f.Close()); err == nil {
		err = root.Rename(draft, name)
	}
	if err != nil {
		_ = root.Remove(draft)
	}
	return err
}
