package evalrun

import (
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"agenthost/internal/regular"
)

// The limits for the cache of judge answers.
const (
	maxAnswer      = 256 << 10
	maxAnswerBytes = 64 << 20
	maxAnswers     = 50_000
	maxAnswerAge   = 30 * 24 * time.Hour
	// touchAfter is the age from which using an answer renews its time.
	touchAfter = 24 * time.Hour
)

const (
	answerSuffix  = ".json"
	tempSuffix    = ".tmp"
	answerVersion = 1
)

// An AnswerCache keeps judge answers in a folder, each in a file named after the hash of the
// model's settings and the prompt. It holds answers for at most 30 days, and at most 64 MiB;
// [AnswerCache.Close] deletes the rest. It is safe for concurrent use, also by several
// processes: a file that cannot be read counts as missing, and is written again.
type AnswerCache struct {
	root  *os.Root
	now   func() time.Time
	dirty atomic.Bool
}

// A cachedAnswer is a cache file's content.
type cachedAnswer struct {
	Version int    `json:"version"`
	Key     string `json:"key"`
	Answer  string `json:"answer"`
}

// OpenAnswerCache opens the cache in a folder, which it creates if necessary. Now is the
// clock; nil is [time.Now].
func OpenAnswerCache(dir string, now func() time.Time) (*AnswerCache, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("creating the judge answer cache: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("opening the judge answer cache: %w", err)
	}
	if now == nil {
		now = time.Now
	}
	return &AnswerCache{root: root, now: now}, nil
}

// filePath returns the file for a key, which is a hexadecimal hash.
func filePath(key string) string { return path.Join(key[:2], key[2:]+answerSuffix) }

// getAnswer returns the answer for a key. One that is too old, too large or not readable is
// missing.
func (c *AnswerCache) getAnswer(key string) (string, bool) {
	name := filePath(key)
	f, err := regular.Open(c.root.OpenFile, name, os.O_RDONLY)
	if err != nil {
		return "", false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() > 2*maxAnswer || c.now().Sub(info.ModTime()) > maxAnswerAge {
		return "", false
	}
	text, err := io.ReadAll(io.LimitReader(f, 2*maxAnswer))
	var entry cachedAnswer
	if err != nil || json.Unmarshal(text, &entry) != nil || entry.Version != answerVersion || entry.Key != key || entry.Answer == "" {
		return "", false
	}
	if now := c.now(); now.Sub(info.ModTime()) > touchAfter {
		_ = c.root.Chtimes(name, now, now) // the age is only a limit
	}
	return entry.Answer, true
}

// putAnswer stores an answer. A failure is ignored: the answer is requested again.
func (c *AnswerCache) putAnswer(key, answer string) {
	if answer == "" || len(answer) > maxAnswer {
		return
	}
	text, err := json.Marshal(cachedAnswer{answerVersion, key, answer})
	if err != nil {
		return
	}
	c.dirty.Store(true)
	name := filePath(key)
	if err := c.root.Mkdir(path.Dir(name), 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return
	}
	temp := name + "." + rand.Text() + tempSuffix
	if err := c.root.WriteFile(temp, text, 0o600); err == nil {
		err = c.root.Rename(temp, name)
		if err == nil {
			return
		}
	}
	_ = c.root.Remove(temp) // else it is pruned
}

// deleteAnswer deletes the answer for a key.
func (c *AnswerCache) deleteAnswer(key string) { _ = c.root.Remove(filePath(key)) }

// Close deletes what is beyond the limits, the oldest answers first, and closes the cache.
func (c *AnswerCache) Close() error {
	var err error
	if c.dirty.Load() {
		err = c.pruneFiles()
	}
	return cmp.Or(err, c.root.Close())
}

// A cacheFile is a file in the cache.
type cacheFile struct {
	path     string
	size     int64
	modified time.Time
}

func (c *AnswerCache) pruneFiles() error {
	files, err := c.listFiles()
	if err != nil {
		return fmt.Errorf("pruning the judge answer cache: %w", err)
	}
	slices.SortFunc(files, func(a, b cacheFile) int { return b.modified.Compare(a.modified) })
	kept, size := 0, int64(0)
	for _, f := range files {
		age := c.now().Sub(f.modified)
		abandoned := strings.HasSuffix(f.path, tempSuffix) && age > time.Hour
		if abandoned || age > maxAnswerAge || kept == maxAnswers || size+f.size > maxAnswerBytes {
			_ = c.root.Remove(f.path) // another process may have removed it
			continue
		}
		kept++
		size += f.size
	}
	return nil
}

// listFiles lists the cache files. Files with other names are not touched.
func (c *AnswerCache) listFiles() ([]cacheFile, error) {
	var files []cacheFile
	err := fs.WalkDir(c.root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, answerSuffix) && !strings.HasSuffix(name, tempSuffix) {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if info, err := d.Info(); err == nil {
			files = append(files, cacheFile{name, info.Size(), info.ModTime()})
		}
		return nil
	})
	return files, err
}
