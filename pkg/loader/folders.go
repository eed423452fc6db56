package loader

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"agenthost/internal/limit"
	"agenthost/internal/regular"
)

// Discover lists the app folders in a folder: the folder itself if it is an app, else
// its subfolders that are apps, sorted by name. It ignores folders whose names begin
// with a dot or an underscore.
func Discover(dir string) ([]string, error) {
	found := listFolder(dir)
	if found.err != nil {
		return nil, fmt.Errorf("finding apps: %w", found.err)
	}
	return found.apps, nil
}

// A folderListing is what a folder contains.
type folderListing struct {
	// apps are the app folders: the folder itself, or subfolders sorted by name.
	apps []string
	// candidates are the entries that are apps or may become one.
	candidates []string
	// unknown are the entries that may be apps but cannot be examined, with the system's errors.
	unknown map[string]error
	// err is the reason why the folder cannot be read.
	err error
}

// listFolder lists the apps in a folder; see [Discover].
func listFolder(dir string) folderListing {
	switch is, err := findAppFile(dir); {
	case is:
		return folderListing{apps: []string{dir}}
	case err != nil:
		return folderListing{err: err}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return folderListing{err: err}
	}
	l := folderListing{unknown: map[string]error{}}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") || strings.HasPrefix(e.Name(), "_") {
			continue
		}
		sub := filepath.Join(dir, e.Name())
		l.candidates = append(l.candidates, sub)
		switch is, err := findAppFile(sub); {
		case is:
			l.apps = append(l.apps, sub)
		case err != nil:
			l.unknown[sub] = err
		}
	}
	return l
}

// findAppFile reports whether a folder is an app. The error is the reason why that is
// unknown. A path that does not exist or is not a folder is not an app.
func findAppFile(dir string) (bool, error) {
	var unknown error
	for _, name := range []string{agentFile, appFile} {
		info, err := os.Stat(filepath.Join(dir, name))
		switch {
		case err == nil && info.Mode().IsRegular():
			return true, nil
		case err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR):
			unknown = err
		}
	}
	return false, unknown
}

// isFolderOfApps reports whether a folder exists and is not an app itself.
func isFolderOfApps(dir string) bool {
	is, err := findAppFile(dir)
	info, statErr := os.Stat(dir)
	return !is && err == nil && statErr == nil && info.IsDir()
}

// misnamedFiles returns common wrong names for agentFile and appFile, with the correct names.
func misnamedFiles() [][2]string {
	return [][2]string{
		{"root_agent.yml", agentFile},
		{"agent.yaml", agentFile},
		{"agent.yml", agentFile},
		{"root-agent.yaml", agentFile},
		{"app.yml", appFile},
	}
}

// FindMisnamed finds a file with a wrong name that would make the folder, or a folder
// in it, an app. It returns the path and the correct name, or empty strings.
func FindMisnamed(dir string) (file, name string) {
	folders := []string{dir}
	entries, _ := os.ReadDir(dir) // an unreadable folder has no file to rename
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), "_") {
			folders = append(folders, filepath.Join(dir, e.Name()))
		}
	}
	for _, folder := range folders {
		for _, names := range misnamedFiles() {
			file := filepath.Join(folder, names[0])
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				return file, names[1]
			}
		}
	}
	return "", ""
}

// A folderHasher hashes an app folder. It does not read files again that cannot have changed.
type folderHasher struct {
	states map[string]fileState
	// folders are the folders in the last hash, the app's own first. Their number is limited.
	folders []string
}

// A fileState is a file's state when it was read.
type fileState struct {
	size     int64
	modified time.Time
	changed  time.Time // see changeTime
	id       os.FileInfo
	read     time.Time
	sum      [sha256.Size]byte
}

// isSameFile reports whether a file has another state's size and times.
func (f fileState) isSameFile(now fileState) bool {
	return f.size == now.size && f.modified.Equal(now.modified) && f.changed.Equal(now.changed) && os.SameFile(f.id, now.id)
}

// isSettled reports whether equal times mean equal content.
func (f fileState) isSettled() bool {
	return f.read.Sub(f.modified) > racyWindow && f.read.Sub(f.changed) > racyWindow
}

// racyWindow is how old the times must be at reading for equal times to mean equal content: file
// systems have coarse timestamps.
const racyWindow = 2 * time.Second

// hashFolder hashes the folder and its subfolders, except hidden ones and those that cannot contain
// app parts, and then the outside files that the app depends on. The error is a [*limitError] if
// the folder is too large.
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
		if info.Size() <= int64(limit.AppFile.Bytes) {
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

// readState returns a file's state, from the cache if it is unchanged.
func (t *folderHasher) readState(path string, info fs.FileInfo, now time.Time) (fileState, error) {
	m := fileState{size: info.Size(), modified: info.ModTime(), changed: changeTime(info), id: info, read: now}
	if old, known := t.states[path]; known && old.isSameFile(m) && old.isSettled() {
		return old, nil
	}
	if info.Size() > int64(limit.AppFile.Bytes) {
		if slices.Contains([]string{".json", ".yaml", ".yml"}, filepath.Ext(path)) { // a tool's document, which is hashed when it is loaded
			m.sum = sha256.Sum256(fmt.Appendf(nil, "%d %d %d", info.Size(), m.modified.UnixNano(), m.changed.UnixNano()))
		}
		return m, nil
	}
	f, err := regular.Open(os.OpenFile, path, os.O_RDONLY)
	if err != nil {
		return m, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(limit.AppFile.Bytes)+1))
	m.sum = sha256.Sum256(b)
	return m, err
}
