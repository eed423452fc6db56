package loader

import (
	"bytes"
	"io/fs"
	"path"
	"time"
)

// A fileSet is files by path, as a file system without folders.
type fileSet map[string][]byte

// Open opens a file.
func (s fileSet) Open(name string) (fs.File, error) {
	content, ok := s[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &setFile{bytes.NewReader(content), path.Base(name)}, nil
}

// setFile is a file of a set, and what is known of it.
type setFile struct {
	*bytes.Reader
	name string
}

// Stat tells of the file.
func (f *setFile) Stat() (fs.FileInfo, error) { return f, nil }

// Close does nothing.
func (f *setFile) Close() error { return nil }

// Name is the last part of the file's path.
func (f *setFile) Name() string { return f.name }

// Mode is that of a regular file that nobody writes.
func (f *setFile) Mode() fs.FileMode { return 0o444 }

// ModTime is not known.
func (f *setFile) ModTime() time.Time { return time.Time{} }

// IsDir says no.
func (f *setFile) IsDir() bool { return false }

// Sys is nil.
func (f *setFile) Sys() any { return nil }
