package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// tree knows the content of an app's folder by a hash. Files that cannot have
// changed since they were last read are not read again.
type tree struct {
	marks map[string]mark
}

// mark is a file as it was when it was read.
type mark struct {
	size     int64
	modified time.Time
	id       os.FileInfo
	read     time.Time
	sum      [sha256.Size]byte
}

// racy is how long a file's time of change must lie back at reading for equal
// times to mean equal content: file systems keep coarse times.
const racy = 2 * time.Second

// hash reads the folder and everything below it, but for hidden folders and
// those that hold no part of an app.
func (t *tree) hash(dir string, now time.Time) (string, error) {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	next := map[string]mark{}
	w := newWalker(root)
	w.file = func(path, rel string, info fs.FileInfo) {
		m, err := t.look(path, info, now)
		if err != nil {
			return // it went away while we looked: the next look will tell
		}
		next[path] = m
		fmt.Fprintf(h, "%q %x\n", rel, m.sum)
	}
	w.folder = func(real, rel string) { fmt.Fprintf(h, "%q -> %q\n", rel, strings.TrimPrefix(real, root)) }
	err = w.walk(root, "")
	t.marks = next
	return hex.EncodeToString(h.Sum(nil)), err
}

// hashFiles is the hash of files elsewhere, such as shared ones and secrets; one
// that is not there has none.
func hashFiles(files []string) string {
	h := sha256.New()
	for _, file := range files {
		if b, err := readPlain(file); err == nil {
			fmt.Fprintf(h, "%q %x\n", file, sha256.Sum256(b))
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (t *tree) look(path string, info fs.FileInfo, now time.Time) (mark, error) {
	m := mark{size: info.Size(), modified: info.ModTime(), id: info, read: now}
	old, known := t.marks[path]
	if known && old.size == m.size && old.modified.Equal(m.modified) && os.SameFile(old.id, info) && old.read.Sub(old.modified) > racy {
		return old, nil
	}
	if info.Size() > maxFile {
		return m, nil
	}
	b, err := readPlain(path)
	m.sum = sha256.Sum256(b)
	return m, err
}

// walker visits the files and folders below a root in the order of their
// names. It follows links as the loader does: while they stay below the root.
// A folder is entered once, whatever leads to it.
type walker struct {
	root    string
	entered map[string]bool
	file    func(path, rel string, info fs.FileInfo)
	folder  func(real, rel string)
}

func newWalker(root string) *walker {
	return &walker{root: root, entered: map[string]bool{root: true}}
}

func (w *walker) walk(dir, rel string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		path, rel := filepath.Join(dir, e.Name()), filepath.Join(rel, e.Name())
		info, err := os.Stat(path)
		switch {
		case err != nil:
		case info.Mode().IsRegular() && w.file != nil:
			w.file(path, rel, info)
		case info.IsDir() && !isPassedOver(e.Name()):
			w.enter(path, rel)
		}
	}
	return err
}

func (w *walker) enter(path, rel string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil || w.entered[real] || !strings.HasPrefix(real, w.root+string(filepath.Separator)) {
		return
	}
	w.entered[real] = true
	w.folder(real, rel)
	_ = w.walk(real, rel) // a folder that cannot be read now is read at the next look
}

func isPassedOver(name string) bool {
	return strings.HasPrefix(name, ".") || name == "tmp" || name == "__pycache__" || name == "node_modules"
}

// folders lists a folder and the folders below it that are watched.
func folders(dir string) []string {
	root, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	all := []string{root}
	w := newWalker(root)
	w.folder = func(real, _ string) { all = append(all, real) }
	_ = w.walk(root, "") // what cannot be read cannot be watched either
	return all
}
