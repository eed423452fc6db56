package loader

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

var errNotRegular = errors.New("not a regular file")

// openRegular opens a regular file. A pipe would have nobody on its other end, and
// a device no end: they are refused, and never waited for.
func openRegular(open func(name string, flag int, perm os.FileMode) (*os.File, error), name string) (*os.File, error) {
	f, err := open(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errNotRegular
		if info.IsDir() {
			err = syscall.EISDIR
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// readRegular reads a regular file anywhere, up to the largest that is read.
func readRegular(path string) ([]byte, error) {
	f, err := openRegular(os.OpenFile, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// A plainFS has the regular files of a folder, and nothing that leads out of it.
type regularFS struct{ root *os.Root }

// Open opens a regular file.
func (p regularFS) Open(name string) (fs.File, error) {
	f, err := openRegular(p.root.OpenFile, name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Stat tells of a file, and follows links.
func (p regularFS) Stat(name string) (fs.FileInfo, error) { return p.root.Stat(name) }
