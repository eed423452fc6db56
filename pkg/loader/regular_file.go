package loader

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"syscall"
)

var errNotRegular = errors.New("not a regular file")

// openRegular opens a regular file. It rejects pipes and devices, so that reading
// cannot block or be endless.
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

// readRegular reads a regular file up to the size limit.
func readRegular(path string) ([]byte, error) {
	f, err := openRegular(os.OpenFile, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile+1))
}

// A regularFS gives access to the regular files in a folder. Links cannot leave the
// folder.
type regularFS struct{ root *os.Root }

// Open opens a regular file.
func (p regularFS) Open(name string) (fs.File, error) {
	f, err := openRegular(p.root.OpenFile, name)
	if err != nil {
		return nil, err
	}
	return f, nil
}

// Stat follows links; see [fs.StatFS].
func (p regularFS) Stat(name string) (fs.FileInfo, error) { return p.root.Stat(name) }
