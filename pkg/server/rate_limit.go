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

// A Rate is a number of runs per period. The zero Rate is unlimited.
type Rate struct {
	Runs int
	Per  time.Duration
}

// ParseRate parses a rate such as 60/1m or 60/m. An empty string is unlimited.
func ParseRate(text string) (Rate, error) {
	if text == "" {
		return Rate{}, nil
	}
	runs, per, _ := strings.Cut(text, "/")
	if per != "" && strings.Trim(per, "hms") == "" {
		per = "1" + per
	}
	n, err := strconv.Atoi(runs)
	d, perErr := time.ParseDuration(per)
	if err != nil || perErr != nil || n < 1 || d <= 0 {
		return Rate{}, fmt.Errorf("must be RUNS/TIME such as 60/1m, got %q", text)
	}
	return Rate{n, d}, nil
}

// String returns the form that ParseRate parses.
func (r Rate) String() string {
	if r.Runs == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%s", r.Runs, r.Per)
}

// A rateLimitError reports when the next run may start.
type rateLimitError struct{ after time.Duration }

// Error returns the detail of the response.
func (e *rateLimitError) Error() string {
	return fmt.Sprintf("rate limit exceeded, retry in %d s", e.retryAfterSeconds())
}

func (e *rateLimitError) retryAfterSeconds() int { return max(1, int(math.Ceil(e.after.Seconds()))) }

// maxTrackedNames limits the names whose runs are counted. Names with a full allowance
// are evicted first.
const maxTrackedNames = 100_000

// A rateLimiter is a token bucket per name. A bucket holds Rate.Runs tokens and refills
// evenly within Rate.Per. The zero value is unlimited.
type rateLimiter struct {
	rate  Rate
	clock func() time.Time

	mu sync.Mutex
	// fullAt is when the bucket of a name is full again.
	fullAt map[string]time.Time
}

// acquire takes a token of a name or returns a rateLimitError.
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
	// After this run, the bucket must be full again within the period.
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

// evictFull removes the full buckets, or all of them if that is not enough: exceeding a
// limit once is better than unbounded memory.
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

// refund returns the last token of a name.
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

// refundMissing returns the token of the app if the session does not exist, so that
// runs of invented sessions do not use up the allowance of other users. They still
// count for their own user.
func (s *Server) refundMissing(app string, err error) {
	if classifyError(session.Key{}, err).status == http.StatusNotFound {
		s.appLimiter.refund(app)
	}
}

// reserveRun counts a run for its user and its app. A run that exceeds one of the
// limits counts for neither.
func (s *Server) reserveRun(app, user string) error {
	if s.host.App(app) == nil {
		return nil // the run fails anyway; do not track invented names
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
