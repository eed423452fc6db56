package programs

import (
	"crypto/rand"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// entriesAtOnce limits the folder entries that are in memory.
const entriesAtOnce = 256

// openFolder opens a folder to list it. It does not block if a program has replaced the folder
// with a pipe.
func openFolder(root *os.Root, name string) (*os.File, error) {
	return root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
}

// removeTree deletes a program folder with its content. It moves nested folders up instead of
// descending into them: [os.RemoveAll] opens a file for each level, and programs can nest folders
// without a limit.
func removeTree(dir string) error {
	root, err := os.OpenRoot(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer root.Close()
	for {
		entries, err := readSome(root, ".")
		if err != nil {
			return err
		}
		if len(entries) == 0 {
			return os.Remove(dir)
		}
		for _, e := range entries {
			if err := removeEntry(root, e.Name()); err != nil {
				return err
			}
		}
	}
}

// removeEntry deletes an entry in the root. It moves a folder's content to the root.
func removeEntry(root *os.Root, name string) error {
	for {
		err := root.Remove(name)
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		_ = root.Chmod(name, 0o700) // programs can make it unreadable
		entries, readErr := readSome(root, name)
		if readErr != nil || len(entries) == 0 {
			return errors.Join(err, readErr)
		}
		for _, e := range entries {
			inner := path.Join(name, e.Name())
			if root.Remove(inner) == nil {
				continue
			}
			_ = root.Chmod(inner, 0o700)
			if err := root.Rename(inner, rand.Text()); err != nil {
				return err
			}
		}
	}
}

// readSome returns a folder's first entries.
func readSome(root *os.Root, name string) ([]fs.DirEntry, error) {
	dir, err := openFolder(root, name)
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	entries, err := dir.ReadDir(entriesAtOnce)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return entries, err
}
