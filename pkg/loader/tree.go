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

// A folderHasher computes the hash of an app folder. It does not read files again that
// cannot have changed.
type folderHasher struct {
	states map[string]fileState
	// folders are the folders of the last hash, the app's own first. Their number is
	// limited.
	folders []string
}

// A fileState is the state of a file when it was read.
type fileState struct {
	size     int64
	modified time.Time
	id       os.FileInfo
	read     time.Time
	sum      [sha256.Size]byte
}

// racyWindow is the minimum age of a modification time at reading for equal times to
// mean equal content: file systems have coarse timestamps.
const racyWindow = 2 * time.Second

// hashFolder hashes the folder and its subfolders, except hidden ones and those that
// cannot contain parts of an app, and then the outside files that the app depends on.
// The error is a [*limitError] if the folder is too large.
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
			return // deleted in the meantime, the next poll reports it
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

// readState returns the state of a file, from the cache if it is unchanged.
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

// A walker visits the files and folders below a root, sorted by name. Like the loader,
// it follows links that stay below the root. It enters a folder once, even if several
// links lead to it. It stops with a [*limitError] at the limits of an app folder.
type walker struct {
	root    string
	entered map[string]bool
	// entries is the remaining number of entries.
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

// readDir lists a folder by name, up to the remaining number of entries.
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
