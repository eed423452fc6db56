// Package fakebucket fakes Google Cloud Storage and Amazon S3 for tests. It supports what artifacts
// need: lists with prefix, delimiter and pages, reads, conditional uploads and deletes. Objects are
// kept in memory.
package fakebucket

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// pageSize is how many objects a list may have. It is small, so that tests see several pages.
const pageSize = 7

type object struct {
	contentType string
	metadata    map[string]string
	createdAt   time.Time
	content     []byte
}

// objects are all buckets' objects, by bucket and name.
type objects struct {
	mu  sync.Mutex
	all map[string]object
}

func (s *objects) get(name string) (object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	o, ok := s.all[name]
	return o, ok
}

// add returns false if first is set and the object exists.
func (s *objects) add(name string, o object, first bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, exists := s.all[name]; exists && first {
		return false
	}
	if s.all == nil {
		s.all = map[string]object{}
	}
	s.all[name] = o
	return true
}

func (s *objects) remove(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, exists := s.all[name]
	delete(s.all, name)
	return exists
}

// list returns a page of the names after a name, and whether there are more.
func (s *objects) list(bucket, prefix, delimiter, after string) (names []string, more bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, full := range slices.Sorted(maps.Keys(s.all)) {
		name, inBucket := strings.CutPrefix(full, bucket+"/")
		rest, hasPrefix := strings.CutPrefix(name, prefix)
		if !inBucket || !hasPrefix || name <= after || delimiter != "" && strings.Contains(rest, delimiter) {
			continue
		}
		if len(names) == pageSize {
			return names, true
		}
		names = append(names, name)
	}
	return names, false
}

// checkName returns an error for an invalid object name.
func checkName(name string) error {
	if name == "" || name == "." || name == ".." || len(name) > 1024 || strings.ContainsAny(name, "\r\n") {
		return fmt.Errorf("invalid object name %q", name)
	}
	return nil
}
