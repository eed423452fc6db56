package loader

import (
	"bytes"
	"io/fs"
	"path"
	"time"
)

// A fileSet is a read-only file system of files by path, without folders.
type fileSet map[string][]byte

// Open opens a file.
func (s fileSet) Open(name string) (fs.File, error) {
	content, ok := s[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &setFile{bytes.NewReader(content), path.Base(name)}, nil
}

// setFile is an open file of a set and its file info.
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

// Mode is that of a read-only regular file.
func (f *setFile) Mode() fs.FileMode { return 0o444 }

// ModTime is the zero time.
func (f *setFile) ModTime() time.Time { return time.Time{} }

// IsDir returns false.
func (f *setFile) IsDir() bool { return false }

// Sys is nil.
func (f *setFile) Sys() any { return nil }
