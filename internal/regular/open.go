// Package regular opens regular files, and rejects the rest of what a hostile folder may have
// under their names.
package regular

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

var errNotRegular = errors.New("not a regular file")

// Open opens a regular file by a function such as [os.OpenFile] or [os.Root.OpenFile]. It
// rejects pipes and devices, so that opening and reading can neither block nor be endless.
func Open(open func(name string, flag int, perm os.FileMode) (*os.File, error), name string, flag int) (*os.File, error) {
	f, err := open(name, flag|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: errNotRegular}
		if info.IsDir() {
			err = &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
