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

	"agenthost/internal/limit"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
)

// Save writes YAML files, by their paths in the app's folder, and returns after the app was
// reloaded. A new app is created in the first folder with apps. If the app would have errors with
// these files, nothing is written, and the diagnostics contain them, with paths that begin with the
// app's name. The error for an invalid app or file name is [session.ErrInvalid].
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
	got := w.loader.WithFiles(dir, files).loadApp(ctx, dir, nil, nil)
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

// checkSaveRequest rejects invalid app names, and files that are not YAML files
// within the app's folder.
func checkSaveRequest(app string, files map[string][]byte) error {
	if !appName.MatchString(app) || app == "user" {
		return fmt.Errorf("app name must be a letter followed by letters, digits, _ or -, and not user, got %q: %w", app, session.ErrInvalid)
	}
	for name, text := range files {
		hidden := slices.ContainsFunc(strings.Split(name, "/"), func(step string) bool { return strings.HasPrefix(step, ".") })
		ext := path.Ext(name)
		switch {
		case !fs.ValidPath(name) || hidden || strings.ContainsAny(name, `\:`) || ext != ".yaml" && ext != ".yml":
			return fmt.Errorf("file name must be the path of a .yaml or .yml file within the app's folder, got %q: %w", name, session.ErrInvalid)
		case len(text) > limit.AppFile.Bytes:
			return fmt.Errorf("file %s has %d bytes, which exceeds the limit of %d: %w", name, len(text), limit.AppFile.Bytes, session.ErrInvalid)
		}
	}
	return nil
}

// findOrCreateFolder returns an app's folder, and whether it was created.
func (w *Watch) findOrCreateFolder(app string) (dir string, made bool, err error) {
	if s, ok := w.Status(app); ok {
		return s.Dir, false, nil
	}
	i := slices.IndexFunc(w.folders, func(f *watchedFolder) bool { return isFolderOfApps(f.dir) })
	if i < 0 {
		return "", false, fmt.Errorf("cannot create app %s: the host serves individual apps, not a folder of apps: %w", app, session.ErrInvalid)
	}
	dir = filepath.Join(w.folders[i].dir, app)
	err = os.Mkdir(dir, 0o755)
	if errors.Is(err, fs.ErrExist) {
		return dir, false, nil
	}
	return dir, err == nil, err
}

// WithFiles returns a loader that reads these files, by their paths in an app's folder, instead of
// those on disk.
func (l *Loader) WithFiles(dir string, files map[string][]byte) *Loader {
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
	return New(l.kinds, &opts)
}

// writeFiles writes each file atomically, and the root agent last, so that the app
// changes only when all other files are there.
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
	// The watch ignores folders that begin with a dot, and the loader such files.
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

// checkParentFolders rejects a path that leads through a file, or through a link that leaves the
// app, with [session.ErrInvalid].
func checkParentFolders(root *os.Root, name string) error {
	for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
		info, err := root.Stat(dir)
		if errors.Is(err, fs.ErrNotExist) {
			if _, err := root.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
				continue
			}
		}
		if err != nil || !info.IsDir() {
			return fmt.Errorf("%s must be a folder within the app's folder: %w", dir, session.ErrInvalid)
		}
	}
	return nil
}
