package store

import (
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
)

// An openDatabase knows the files that SQLite has open. What is committed to a file
// that no longer has its name is lost with the process: nobody may be told that it
// is stored. One look costs some microseconds, so each commit and each read has
// one.
type fileWatch struct {
	files    []watchedFile
	logger   *slog.Logger
	replaced atomic.Bool // and logged
}

// An openFile is a path, and the file that it named when it was opened.
type watchedFile struct {
	path string
	info os.FileInfo
}

// newFileWatch remembers a database file and its journal, which SQLite has open.
func newFileWatch(path string, logger *slog.Logger) (*fileWatch, error) {
	f := &fileWatch{logger: logger}
	for _, path := range []string{path, path + "-wal"} {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("watching the database file: %w", err)
		}
		f.files = append(f.files, watchedFile{path, info})
	}
	return f, nil
}

// checkReplaced returns errReplaced when a path names another file by now, or none.
func (f *fileWatch) checkReplaced() error {
	if f == nil {
		return nil
	}
	for _, open := range f.files {
		if info, err := os.Stat(open.path); err == nil && os.SameFile(info, open.info) {
			continue
		}
		if !f.replaced.Swap(true) {
			f.logger.Error("database file removed or replaced: nothing is stored until it is back or the server restarts", "path", open.path)
		}
		return fmt.Errorf("%w: %s", errReplaced, open.path)
	}
	if f.replaced.Load() && f.replaced.Swap(false) {
		f.logger.Warn("database file is back", "path", f.files[0].path)
	}
	return nil
}
