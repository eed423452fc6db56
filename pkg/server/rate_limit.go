package server

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"agenthost/pkg/session"
)

// A Rate is so many runs in a time. The zero Rate is no limit.
type Rate struct {
	Runs int
	Per  time.Duration
}

// ParseRate reads 60/1m, and 60/m, which is the same. An empty text is no limit.
func ParseRate(text string) (Rate, error) {
	if text == "" {
		return Rate{}, nil
	}
	runs, per, _ := strings.Cut(text, "/")
	if per != "" && strings.Trim(per, "hms") == "" {
		per = "1" + per
	}
	n, err := strconv.Atoi(runs)
	d, wrong := time.ParseDuration(per)
	if err != nil || wrong != nil || n < 1 || d <= 0 {
		return Rate{}, fmt.Errorf("%q: write RUNS/TIME, such as 60/1m", text)
	}
	return Rate{n, d}, nil
}

// String is what ParseRate reads.
func (r Rate) String() string {
	if r.Runs == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.Runs, r.Per)
}

// A limitedError says when to come again.
type rateLimitError struct{ after time.Duration }

// Error is what the client is told.
func (e *rateLimitError) Error() string {
	return fmt.Sprintf("too many runs: try again in %d s", e.retryAfterSeconds())
}

func (e *rateLimitError) retryAfterSeconds() int { return max(1, int(math.Ceil(e.after.Seconds()))) }

// maxTrackedNames bounds the names that are remembered. Those that have all of their
// runs left are forgotten first; nobody gains by that.
const maxTrackedNames = 100_000

// rateLimiter counts the runs of each name. A name has as many at once as the rate
// has in its time, and gets them back evenly. The zero value has no limit.
type rateLimiter struct {
	rate  Rate
	clock func() time.Time

	mu sync.Mutex
	// fullAt is when a name has all of its runs again.
	fullAt map[string]time.Time
}

// acquire is one run of a name, or says how long there is none.
func (l *rateLimiter) acquire(name string) error {
	if l.rate.Runs == 0 {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now, each := l.clock(), l.rate.Per/time.Duration(l.rate.Runs)
	full := l.fullAt[name]
	if full.Before(now) {
		full = now
	}
	// With a run more, it must not take longer than the whole time to be full.
	full = full.Add(each)
	if over := full.Sub(now) - l.rate.Per; over > 0 {
		return &rateLimitError{over}
	}
	if l.fullAt == nil {
		l.fullAt = map[string]time.Time{}
	}
	if len(l.fullAt) >= maxTrackedNames {
		l.evictFull(now)
	}
	l.fullAt[name] = full
	return nil
}

// evictFull drops the names that have all of their runs, or else all: a limit that
// is let go for once is better than memory without end.
func (l *rateLimiter) evictFull(now time.Time) {
	for name, full := range l.fullAt {
		if full.Before(now) {
			delete(l.fullAt, name)
		}
	}
	if len(l.fullAt) >= maxTrackedNames {
		clear(l.fullAt)
	}
}

// refund gives back the last run of a name.
func (l *rateLimiter) refund(name string) {
	if l.rate.Runs == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if full, ok := l.fullAt[name]; ok {
		l.fullAt[name] = full.Add(-l.rate.Per / time.Duration(l.rate.Runs))
	}
}

// refundMissing gives an app back the run of a session that does not exist: runs of
// made-up sessions must not use up what other users need. They count for their own
// user.
func (s *Server) refundMissing(app string, err error) {
	if classifyError(session.Key{}, err).status == http.StatusNotFound {
		s.appLimiter.refund(app)
	}
}

// reserveRun counts a run for its user and its app. A run that one of them refuses
// counts for neither.
func (s *Server) reserveRun(app, user string) error {
	if s.host.App(app) == nil {
		return nil // it fails at once, and names that are made up need no memory
	}
	if err := s.userLimiter.acquire(user); err != nil {
		return err
	}
	if err := s.appLimiter.acquire(app); err != nil {
		s.userLimiter.refund(user)
		return err
	}
	return nil
}
