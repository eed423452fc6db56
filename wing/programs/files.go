package programs

import (
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
	"time"

	"agenthost/internal/limit"
	"agenthost/internal/regular"
	"agenthost/pkg/tool"
)

// Limits for the files that are collected from a session's folder.
const (
	maxCollected = 50
	maxListed    = 10_000
)

// writeFiles writes files to the folder.
func (f *folder) writeFiles(files map[string][]byte) error {
	if len(files) == 0 {
		return nil
	}
	f.files.Lock()
	defer f.files.Unlock()
	return f.writeInto(f.dir, files, 0o600)
}

// writeInto writes files below a folder. Links in the folder, which programs may have created,
// cannot lead outside.
func (f *folder) writeInto(dir string, files map[string][]byte, mode os.FileMode) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := f.writeFile(root, name, files[name], mode); err != nil {
			return fmt.Errorf("writing %s to the session's folder: %w", name, err)
		}
	}
	return nil
}

func (f *folder) writeFile(root *os.Root, name string, content []byte, mode os.FileMode) error {
	if !filepath.IsLocal(name) {
		return fs.ErrInvalid
	}
	for i := range name {
		if name[i] != '/' {
			continue
		}
		if err := root.Mkdir(name[:i], 0o700); err == nil && f.user != 0 {
			if err := root.Lchown(name[:i], f.user, f.user); err != nil {
				return err
			}
		}
	}
	_ = root.Remove(name) // a link or a pipe with that name; a folder makes the next step fail
	out, err := root.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	if f.user != 0 {
		if err := out.Chown(f.user, f.user); err != nil {
			out.Close()
			return err
		}
	}
	if _, err := out.Write(content); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}

// A fileVersion changes with a file's content.
type fileVersion struct {
	size     int64
	modified time.Time
}

// listVersions lists the files that match one of the patterns.
func (f *folder) listVersions(patterns []string) (map[string]fileVersion, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return listMatches(root, patterns)
}

// collectFiles reads the files that match one of the patterns and have changed. It reads regular
// files only, and follows no link to the outside.
func (f *folder) collectFiles(patterns []string, before map[string]fileVersion) (map[string][]byte, error) {
	if len(patterns) == 0 {
		return nil, nil
	}
	f.files.Lock()
	defer f.files.Unlock()
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	after, err := listMatches(root, patterns)
	if err != nil {
		return nil, err
	}
	files, left := map[string][]byte{}, int64(limit.ProgramFiles.Bytes)
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if old, ok := before[name]; ok && old.size == after[name].size && old.modified.Equal(after[name].modified) {
			continue
		}
		if len(files) == maxCollected {
			return nil, fmt.Errorf("more than %d files match", maxCollected)
		}
		b, err := readBounded(root, name, left)
		if err != nil {
			return nil, fmt.Errorf("reading %s in the session's folder: %w", name, err)
		}
		left -= int64(len(b))
		files[name] = b
	}
	return files, nil
}

func readBounded(root *os.Root, name string, size int64) ([]byte, error) {
	in, err := regular.Open(root.OpenFile, name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	b, err := io.ReadAll(io.LimitReader(in, size+1))
	if err == nil && int64(len(b)) > size {
		err = fmt.Errorf("all collected files exceed the limit of %d MiB", limit.ProgramFiles.Bytes>>20)
	}
	return b, err
}

// listMatches lists the regular files whose path matches a pattern. It opens no folder that is
// deeper than the patterns, because programs can nest folders without a limit.
func listMatches(root *os.Root, patterns []string) (map[string]fileVersion, error) {
	l := &fileLister{root: root, patterns: patterns, found: map[string]fileVersion{}}
	for _, pattern := range patterns {
		l.levels = max(l.levels, strings.Count(pattern, "/"))
	}
	return l.found, l.listFolder(".", 0)
}

type fileLister struct {
	root     *os.Root
	patterns []string
	// levels counts the folder levels below the root that can have matches.
	levels, listed int
	found          map[string]fileVersion
}

// listFolder lists a folder at a level. One that cannot be read has no matches.
func (l *fileLister) listFolder(name string, level int) error {
	dir, err := openFolder(l.root, name)
	if err != nil {
		return nil
	}
	defer dir.Close()
	for {
		entries, err := dir.ReadDir(entriesAtOnce)
		for _, e := range entries {
			if l.listed++; l.listed > maxListed {
				return fmt.Errorf("the session's folder exceeds the limit of %d files", maxListed)
			}
			if err := l.listEntry(path.Join(name, e.Name()), e, level); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}

func (l *fileLister) listEntry(name string, e fs.DirEntry, level int) error {
	if e.IsDir() && level < l.levels {
		return l.listFolder(name, level+1)
	}
	if !e.Type().IsRegular() || !slices.ContainsFunc(l.patterns, func(pattern string) bool { ok, _ := path.Match(pattern, name); return ok }) {
		return nil
	}
	if info, err := e.Info(); err == nil { // else it was deleted meanwhile
		l.found[name] = fileVersion{info.Size(), info.ModTime()}
	}
	return nil
}

// newCopy writes a skill's files to a new folder, and returns it. Its parent is deleted after the
// run.
func (a *folders) newCopy(f *folder, s *tool.SkillContent) (string, error) {
	parent, err := os.MkdirTemp(a.base, "skill-")
	if err != nil {
		return "", err
	}
	dir := filepath.Join(parent, s.Name)
	if err := errors.Join(os.Chmod(parent, 0o711), f.createFolder(dir)); err != nil {
		return "", err
	}
	return dir, f.writeInto(dir, s.Files, 0o700)
}
