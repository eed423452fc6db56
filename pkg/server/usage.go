package server

import (
	"cmp"
	"slices"
	"time"
)

// A Usage is the current use of a limit.
type Usage struct {
	Name string `json:"name"`
	// Unit is what the numbers count.
	Unit string `json:"unit"`
	Used int64  `json:"used"`
	// Max is 0 without a limit.
	Max int64 `json:"max"`
}

// maxListedNames limits how many users and apps ListUsage names.
const maxListedNames = 20

// ListUsage returns what this server's limits have left: turns and responses in progress, change
// streams, and the users and apps that are nearest to their rate limits.
func (s *Services) ListUsage() []Usage {
	s.responses.mu.Lock()
	unread := s.responses.bytes
	s.responses.mu.Unlock()
	all := []Usage{
		{"running turns", "turns", int64(s.runs.count()), 0},
		{"unread responses", "bytes", unread, s.responses.max},
		{"change streams", "streams", int64(len(s.changeStreams)), int64(s.opts.MaxChangeStreams)},
	}
	all = append(all, s.userLimiter.listUsage("user ")...)
	return append(all, s.appLimiter.listUsage("app ")...)
}

// MaxRunTime returns the time limit for turns; 0 is unlimited.
func (s *Services) MaxRunTime() time.Duration { return s.opts.MaxRunTime }

// IsDraining reports that a shutdown has started.
func (s *Services) IsDraining() bool { return !s.runs.isOpen() }

// listUsage returns the names that have used most of their rate.
func (l *rateLimiter) listUsage(prefix string) (all []Usage) {
	if l.rate.Runs == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, each := l.clock(), l.rate.Per/time.Duration(l.rate.Runs)
	for name, full := range l.fullAt {
		if left := full.Sub(now); left > 0 {
			all = append(all, Usage{prefix + name, "turns in " + l.rate.Per.String(), int64((left + each - 1) / each), int64(l.rate.Runs)})
		}
	}
	slices.SortFunc(all, func(a, b Usage) int { return cmp.Or(cmp.Compare(b.Used, a.Used), cmp.Compare(a.Name, b.Name)) })
	return all[:min(len(all), maxListedNames)]
}
