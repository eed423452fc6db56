package loader

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agenthost/internal/regular"
)

// A regularFS gives access to the regular files in a folder. Links cannot leave the
// folder.
type regularFS struct{ root *os.Root }

// Open opens a regular file.
func (p regularFS) Open(name string) (fs.File, error) {
	f, err := regular.Open(p.root.OpenFile, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Stat follows links; see [fs.StatFS].
func (p regularFS) Stat(name string) (fs.FileInfo, error) { return p.root.Stat(name) }

// A fileSet is a read-only file system with files by path, without folders.
type fileSet map[string][]byte

// Open opens a file.
func (s fileSet) Open(name string) (fs.File, error) {
	content, ok := s[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &setFile{bytes.NewReader(content), path.Base(name)}, nil
}

// setFile is an open file from a set and its file info.
type setFile struct {
	*bytes.Reader
	name string
}

// Stat returns the file itself.
func (f *setFile) Stat() (fs.FileInfo, error) { return f, nil }

// Close does nothing.
func (f *setFile) Close() error { return nil }

// Name returns the base name.
func (f *setFile) Name() string { return f.name }

// Mode is a read-only regular file's mode.
func (f *setFile) Mode() fs.FileMode { return 0o444 }

// ModTime is the zero time.
func (f *setFile) ModTime() time.Time { return time.Time{} }

// IsDir returns false.
func (f *setFile) IsDir() bool { return false }

// Sys is nil.
func (f *setFile) Sys() any { return nil }

// A walker visits the files and folders below a root, sorted by name. Like the loader, it follows
// links that stay below the root. It enters a folder once, even if several links lead to it. It
// stops with a [*limitError] at the app folder limits.
type walker struct {
	root    string
	entered map[string]bool
	// entries is how many more entries may be read.
	entries int
	// file is called for everything but folders. info is nil if it is not a regular
	// file.
	file   func(path, rel string, info fs.FileInfo)
	folder func(real, rel string)
}

func newWalker(root string) *walker {
	return &walker{root: root, entered: map[string]bool{root: true}, entries: maxFolderEntries, folder: func(string, string) {}}
}

// walkFolder visits a folder, whose path contains no links.
func (w *walker) walkFolder(ctx context.Context, dir, rel string, depth int) error {
	entries, err := w.readDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		path, rel := filepath.Join(dir, e.Name()), filepath.Join(rel, e.Name())
		info, real := resolveEntry(path, e)
		switch {
		case info == nil || !info.IsDir():
			if info != nil && !info.Mode().IsRegular() {
				info = nil
			}
			w.file(path, rel, info)
			continue
		case isIgnored(e.Name()) || w.entered[real] || !strings.HasPrefix(real, w.root+string(filepath.Separator)):
			continue
		case depth >= maxFolderDepth:
			return folderTooDeep
		}
		w.entered[real] = true
		w.folder(real, rel)
		// Retry an unreadable folder at the next poll.
		if err := w.walkFolder(ctx, real, rel, depth+1); isLimitError(err) || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// readDir lists a folder by name, up to the entries that may still be read.
func (w *walker) readDir(dir string) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(w.entries + 1)
	if errors.Is(err, io.EOF) {
		err = nil // an empty folder
	}
	if w.entries -= len(entries); w.entries < 0 {
		return nil, folderTooFull
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// resolveEntry follows links and returns the target and its path, or nil if it does not
// exist.
func resolveEntry(path string, e fs.DirEntry) (info fs.FileInfo, real string) {
	if e.Type()&fs.ModeSymlink == 0 {
		info, err := e.Info()
		if err != nil {
			return nil, ""
		}
		return info, path
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, ""
	}
	if info.IsDir() {
		if real, err = filepath.EvalSymlinks(path); err != nil {
			return nil, ""
		}
	}
	return info, real
}

func isIgnored(name string) bool {
	return strings.HasPrefix(name, ".") || name == "tmp" || name == "__pycache__" || name == "node_modules"
}

// escapesFolder reports whether a path leaves the folder that it is relative to, or
// would do so with backslashes as separators.
func escapesFolder(given string) bool {
	file := path.Clean(given)
	return path.IsAbs(given) || strings.Contains(given, "\\") || file == ".." || strings.HasPrefix(file, "../")
}

// isSharedFile reports whether a path is a YAML file next to the app folder, which
// several apps may include.
func isSharedFile(file string) bool {
	name, ok := strings.CutPrefix(file, "../")
	return ok && !strings.ContainsAny(name, `/\`) && !strings.HasPrefix(name, ".") && (path.Ext(name) == ".yaml" || path.Ext(name) == ".yml")
}

// formatDir formats a folder for messages.
func formatDir(dir string) string { return filepath.ToSlash(filepath.Clean(dir)) }

var errChanged = errors.New("file changed since it was read: run check again")

// replaceFile atomically replaces the content that was read. It does not follow
// links: their targets may not belong to the app.
func replaceFile(root *os.Root, file string, read, text []byte) error {
	info, err := root.Lstat(file)
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return errors.New("not a regular file: repair its target instead")
	}
	temp := path.Join(path.Dir(file), "."+path.Base(file)+"."+rand.Text())
	if err := createFile(root, temp, info.Mode().Perm(), text); err != nil {
		return errors.Join(err, removeIfExists(root, temp))
	}
	now, err := root.ReadFile(file)
	if err == nil && !bytes.Equal(now, read) {
		err = errChanged
	}
	if err == nil {
		err = root.Rename(temp, file)
	}
	if err != nil {
		return errors.Join(err, removeIfExists(root, temp))
	}
	return nil
}

func createFile(root *os.Root, file string, mode fs.FileMode, text []byte) error {
	f, err := root.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

func removeIfExists(root *os.Root, file string) error {
	if err := root.Remove(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
