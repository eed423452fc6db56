package sqlstore

import (
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"
)

// A fileWatch detects that the database files that SQLite has open were removed
// or replaced. Commits to an unlinked file are lost when the process ends, so
// they must not be acknowledged. A check takes a few microseconds; every commit
// and every read makes one.
type fileWatch struct {
	files    []watchedFile
	logger   *slog.Logger
	replaced atomic.Bool // and already logged
}

// A watchedFile is a path and the file at this path when the database was
// opened.
type watchedFile struct {
	path string
	info os.FileInfo
}

// newFileWatch watches a database file and its write-ahead log.
func newFileWatch(path string, logger *slog.Logger) (*fileWatch, error) {
	f := &fileWatch{logger: logger}
	for _, path := range []string{path, path + "-wal"} {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("watching database file: %w", err)
		}
		f.files = append(f.files, watchedFile{path, info})
	}
	return f, nil
}

// checkReplaced returns errReplaced if a path no longer names the open file.
func (f *fileWatch) checkReplaced() error {
	if f == nil {
		return nil
	}
	for _, open := range f.files {
		if info, err := os.Stat(open.path); err == nil && os.SameFile(info, open.info) {
			continue
		}
		if !f.replaced.Swap(true) {
			f.logger.Error("database file removed or replaced; writes fail until it is restored or the server restarts", "path", open.path)
		}
		return fmt.Errorf("%w: %s", errReplaced, open.path)
	}
	if f.replaced.Load() && f.replaced.Swap(false) {
		f.logger.Warn("database file restored", "path", f.files[0].path)
	}
	return nil
}
