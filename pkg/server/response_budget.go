package server

import (
	"bytes"
	"errors"
	"hash/maphash"
	"net/http"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"agenthost/internal/safe"
)

const (
	// defaultResponseBytes bounds the large answers that are under way.
	defaultResponseBytes = 256 << 20
	// userShareDivisor is the part of them that one user may have, one in so many.
	userShareDivisor = 4
	// freeMemoryThreshold is from how many bytes of answers on memory is given back to
	// the system when they have all been read.
	freeMemoryThreshold = 64 << 20
	// freeMemoryDelay is how long after the last large answer that happens.
	freeMemoryDelay = time.Second
)

var errResponsesFull = errors.New("too many large answers are being read: retry later")

// responseBudget bounds the memory of large answers. Few are made at a time, since what
// they are made of takes more memory than they do; those that are the same share
// one text; and the texts that clients have yet to read have a limit on the whole
// and for each user. Many goroutines may use it.
type responseBudget struct {
	max      int64
	encoders chan struct{}
	seed     maphash.Seed

	mu        sync.Mutex
	responses map[uint64]*sharedResponse
	users     map[string]int64
	bytes     int64
	peak      int64 // since memory was given back
}

// An answerText is a text that one client or more read.
type sharedResponse struct {
	body    []byte
	readers int
	user    string // whose share it counts for
}

func newResponseBudget(most int64) *responseBudget {
	if most == 0 {
		most = defaultResponseBytes
	}
	return &responseBudget{
		max: most, encoders: make(chan struct{}, max(4, runtime.GOMAXPROCS(0))), seed: maphash.MakeSeed(),
		responses: map[uint64]*sharedResponse{}, users: map[string]int64{},
	}
}

// checkUser returns an error when no large answer of the user would be sent. A
// request that writes asks before it does.
func (a *responseBudget) checkUser(user string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.bytes >= a.max || a.users[user] >= a.max/userShareDivisor {
		return errResponsesFull
	}
	return nil
}

// sendResponse makes a JSON answer for a user and writes it. An answer that reports what
// was written has to be sent whatever the limit.
func (a *responseBudget) sendResponse(w http.ResponseWriter, r *http.Request, q responseRequest) error {
	text, release, err := a.encodeResponse(r, q)
	if err != nil {
		return err
	}
	defer release()
	writeRawJSON(w, http.StatusOK, text)
	return nil
}

// An answerRequest is an answer that is yet to be made.
type responseRequest struct {
	user   string
	exempt bool
	encode func() ([]byte, error)
}

func (a *responseBudget) encodeResponse(r *http.Request, q responseRequest) (text []byte, release func(), err error) {
	select {
	case a.encoders <- struct{}{}:
		defer func() { <-a.encoders }()
	case <-r.Context().Done():
		return nil, nil, r.Context().Err()
	}
	if text, err = q.encode(); err != nil || len(text) <= maxChunk {
		return text, func() {}, err
	}
	return a.shareResponse(text, q)
}

// shareResponse counts a text, or finds one that is the same.
func (a *responseBudget) shareResponse(text []byte, q responseRequest) ([]byte, func(), error) {
	sum := maphash.Bytes(a.seed, text)
	a.mu.Lock()
	defer a.mu.Unlock()
	t := a.responses[sum]
	if t != nil && !bytes.Equal(t.body, text) {
		return text, func() {}, nil // never seen; not counted
	}
	if t == nil {
		n := int64(len(text))
		total, own := a.bytes, a.users[q.user]
		if !q.exempt && (total > 0 && total+n > a.max || own > 0 && own+n > a.max/userShareDivisor) {
			return nil, nil, errResponsesFull
		}
		t = &sharedResponse{body: bytes.Clone(text), user: q.user} // without what it grew into
		a.responses[sum] = t
		a.bytes, a.users[q.user] = total+n, own+n
		a.peak = max(a.peak, a.bytes)
	}
	t.readers++
	return t.body, sync.OnceFunc(func() { a.releaseResponse(sum, t) }), nil
}

func (a *responseBudget) releaseResponse(sum uint64, t *sharedResponse) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t.readers--; t.readers > 0 {
		return
	}
	n := int64(len(t.body))
	delete(a.responses, sum)
	a.bytes -= n
	if a.users[t.user] -= n; a.users[t.user] == 0 {
		delete(a.users, t.user)
	}
	if a.bytes == 0 && a.peak >= freeMemoryThreshold {
		time.AfterFunc(freeMemoryDelay, func() {
			defer safe.Recover(func(*safe.Panic) {}) // memory is returned later, then
			a.freeMemory()
		})
	}
}

// freeMemory returns memory to the system: the collector does so by itself only
// after minutes when nothing else runs.
func (a *responseBudget) freeMemory() {
	a.mu.Lock()
	quiet := a.bytes == 0 && a.peak >= freeMemoryThreshold
	if quiet {
		a.peak = 0
	}
	a.mu.Unlock()
	if quiet {
		debug.FreeOSMemory()
	}
}
