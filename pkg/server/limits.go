package server

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"net/http"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"
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

// Error returns the response detail.
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
	// fullAt is when a name's bucket is full again.
	fullAt map[string]time.Time
}

// acquire takes a token for a name or returns a rateLimitError.
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
		// Evict the full buckets, or all if that is not enough: exceeding a limit once is better
		// than unbounded memory.
		maps.DeleteFunc(l.fullAt, func(_ string, full time.Time) bool { return full.Before(now) })
		if len(l.fullAt) >= maxTrackedNames {
			clear(l.fullAt)
		}
	}
	l.fullAt[name] = full
	return nil
}

// refund returns a name's last token.
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

const (
	// defaultResponseBytes limits the large responses in progress.
	defaultResponseBytes = 256 << 20
	// userShareDivisor limits one user to 1/userShareDivisor of the budget.
	userShareDivisor = 4
)

var errResponsesFull = NewError(http.StatusServiceUnavailable, "too many large responses in progress, retry later")

// responseBudget limits the memory for large responses. It encodes few at a time, because
// encoding needs more memory than the result; it shares the buffer between identical
// responses; and it limits the bytes that clients have yet to read, in total and per user. It
// is safe for concurrent use.
type responseBudget struct {
	max      int64
	encoders chan struct{}
	seed     maphash.Seed

	mu        sync.Mutex
	responses map[uint64]*sharedResponse
	users     map[string]int64
	bytes     int64
}

// A sharedResponse is a response body that one or more clients read.
type sharedResponse struct {
	body    []byte
	readers int
	user    string // whose share it counts against
}

func newResponseBudget(limit int64) *responseBudget {
	if limit == 0 {
		limit = defaultResponseBytes
	}
	return &responseBudget{
		max: limit, encoders: make(chan struct{}, max(4, runtime.GOMAXPROCS(0))), seed: maphash.MakeSeed(),
		responses: map[uint64]*sharedResponse{}, users: map[string]int64{},
	}
}

// checkUser returns an error if the budget is exhausted, in total or for the user. A
// request that writes calls it first.
func (b *responseBudget) checkUser(user string) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.bytes >= b.max || b.users[user] >= b.max/userShareDivisor {
		return errResponsesFull
	}
	return nil
}

// sendResponse encodes a JSON response and writes it. Exempt responses are always sent:
// they report a completed write.
func (b *responseBudget) sendResponse(w http.ResponseWriter, r *http.Request, q responseRequest) error {
	text, release, err := b.encodeResponse(r, q)
	if err != nil {
		return err
	}
	defer release()
	WriteRawJSON(w, http.StatusOK, text)
	return nil
}

// A responseRequest describes a response to encode.
type responseRequest struct {
	user   string
	exempt bool
	encode func() ([]byte, error)
}

func (b *responseBudget) encodeResponse(r *http.Request, q responseRequest) (text []byte, release func(), err error) {
	select {
	case b.encoders <- struct{}{}:
		defer func() { <-b.encoders }()
	case <-r.Context().Done():
		return nil, nil, r.Context().Err()
	}
	if text, err = q.encode(); err != nil || len(text) <= maxChunk {
		return text, func() {}, err
	}
	return b.shareResponse(text, q)
}

// shareResponse counts a body against the budget, or returns the identical body from a
// response in progress.
func (b *responseBudget) shareResponse(text []byte, q responseRequest) ([]byte, func(), error) {
	sum := maphash.Bytes(b.seed, text)
	b.mu.Lock()
	defer b.mu.Unlock()
	t := b.responses[sum]
	if t != nil && !bytes.Equal(t.body, text) {
		return text, func() {}, nil // hash collision; not counted
	}
	if t == nil {
		n := int64(len(text))
		total, own := b.bytes, b.users[q.user]
		if !q.exempt && (total > 0 && total+n > b.max || own > 0 && own+n > b.max/userShareDivisor) {
			return nil, nil, errResponsesFull
		}
		t = &sharedResponse{body: bytes.Clone(text), user: q.user} // without its spare capacity
		b.responses[sum] = t
		b.bytes, b.users[q.user] = total+n, own+n
	}
	t.readers++
	return t.body, sync.OnceFunc(func() { b.releaseResponse(sum, t) }), nil
}

func (b *responseBudget) releaseResponse(sum uint64, t *sharedResponse) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.readers--; t.readers > 0 {
		return
	}
	n := int64(len(t.body))
	delete(b.responses, sum)
	b.bytes -= n
	if b.users[t.user] -= n; b.users[t.user] == 0 {
		delete(b.users, t.user)
	}
}
