package server

import (
	"bytes"
	"errors"
	"hash/maphash"
	"net/http"
	"runtime"
	"sync"
)

const (
	// defaultResponseBytes limits the large responses in progress.
	defaultResponseBytes = 256 << 20
	// userShareDivisor limits one user to 1/userShareDivisor of the budget.
	userShareDivisor = 4
)

var errResponsesFull = errors.New("too many large responses in progress, retry later")

// responseBudget limits the memory of large responses. It encodes few at a time,
// because encoding needs more memory than the result; it shares the buffer of identical
// responses; and it limits the bytes that clients have yet to read, in total and per
// user. It is safe for concurrent use.
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
	writeRawJSON(w, http.StatusOK, text)
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

// shareResponse counts a body against the budget, or returns the identical body of a
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
