package loader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A tree knows the content of an app's folder by a hash. Files that cannot have
// changed since they were last read are not read again.
type folderHasher struct {
	states map[string]fileState
	// folders are those of the last hash, the app's own first; no more than may
	// be watched.
	folders []string
}

// A mark is a file as it was when it was read.
type fileState struct {
	size     int64
	modified time.Time
	id       os.FileInfo
	read     time.Time
	sum      [sha256.Size]byte
}

// racyWindow is how long a file's time of change must lie back at reading for equal
// times to mean equal content: file systems keep coarse times.
const racyWindow = 2 * time.Second

// hashFolder reads the folder and everything below it, but for hidden folders and
// those that hold no part of an app, and then the files elsewhere that the app
// depends on. The error is a [*limitError] when the folder is too large.
func (t *folderHasher) hashFolder(ctx context.Context, dir string, outside []string) (string, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	h, now := sha256.New(), time.Now()
	next, folders, left := map[string]fileState{}, []string{root}, int64(maxFolderBytes)
	note := func(path, rel string, info fs.FileInfo) {
		m, err := t.readState(path, info, now)
		if err != nil {
			return // removed in the meantime: the next poll sees it
		}
		next[path] = m
		fmt.Fprintf(h, "%q %x\n", rel, m.sum)
	}
	w := newWalker(root)
	w.folder = func(real, rel string) {
		if len(folders) < maxWatchedFolders {
			folders = append(folders, real)
		}
		fmt.Fprintf(h, "%q -> %q\n", rel, strings.TrimPrefix(real, root))
	}
	w.file = func(path, rel string, info fs.FileInfo) {
		if info == nil {
			return
		}
		if info.Size() <= maxFile {
			left -= info.Size()
		}
		if left >= 0 {
			note(path, rel, info)
		}
	}
	if err = w.walkFolder(ctx, root, "", 0); err == nil && left < 0 {
		err = folderTooLarge
	}
	h.Write([]byte("outside\n"))
	for _, file := range outside {
		if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
			note(file, file, info)
		}
	}
	t.states, t.folders = next, folders
	return hex.EncodeToString(h.Sum(nil)), err
}

// readState returns the mark of a file, from the last time where it is the same.
func (t *folderHasher) readState(path string, info fs.FileInfo, now time.Time) (fileState, error) {
	m := fileState{size: info.Size(), modified: info.ModTime(), id: info, read: now}
	old, known := t.states[path]
	if known && old.size == m.size && old.modified.Equal(m.modified) && os.SameFile(old.id, info) && old.read.Sub(old.modified) > racyWindow {
		return old, nil
	}
	if info.Size() > maxFile {
		return m, nil
	}
	b, err := readRegular(path)
	m.sum = sha256.Sum256(b)
	return m, err
}

// A walker visits the files and folders below a root in the order of their
// names. It follows links as the loader does: while they stay below the root.
// A folder is entered once, whatever leads to it. It stops with a
// [*limitError] at the limits of an app's folder.
type walker struct {
	root    string
	entered map[string]bool
	// entries is how many more may be read.
	entries int
	// file gets whatever is no folder; info is nil when it is no regular file.
	file   func(path, rel string, info fs.FileInfo)
	folder func(real, rel string)
}

func newWalker(root string) *walker {
	return &walker{root: root, entered: map[string]bool{root: true}, entries: maxFolderEntries, folder: func(string, string) {}}
}

// walkFolder visits a folder, whose path has no links in it.
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
		// A folder that cannot be read now is read at the next poll.
		if err := w.walkFolder(ctx, real, rel, depth+1); isLimitError(err) || ctx.Err() != nil {
			return err
		}
	}
	return nil
}

// readDir lists a folder by name, and reads no more entries than are allowed.
func (w *walker) readDir(dir string) ([]fs.DirEntry, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	entries, err := f.ReadDir(w.entries + 1)
	if err == io.EOF {
		err = nil // an empty folder
	}
	if w.entries -= len(entries); w.entries < 0 {
		return nil, folderTooFull
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, err
}

// resolveEntry returns what an entry is after following links, and its path
// without them; nil when there is nothing.
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
