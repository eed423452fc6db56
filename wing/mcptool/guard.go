package mcptool

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// The bounds on what a server may start or send by itself. A server that exceeds one loses its
// connection; the next call opens another.
const (
	// maxServerRequests limits the server requests that wait for their response.
	maxServerRequests = 16
	// maxStreamBytes limits the response to one request as a stream, after decompression.
	maxStreamBytes = 64 << 20
	// A server stream that belongs to no request may have maxStreamBytes at once, and then
	// streamRate bytes each second.
	streamRate = 256 << 10
	// A server may end its streams maxReopened times at once, and then once in reopenTime.
	maxReopened = 30
	reopenTime  = 5 * time.Second
	// maxHeaderBytes limits a response's headers.
	maxHeaderBytes = 64 << 10
	// sendTimeout limits how long a server may take to accept a message without a response.
	sendTimeout = 10 * time.Second
)

// A faultError reports why a connection was closed: the server exceeded a limit.
type faultError struct{ text string }

func (e faultError) Error() string { return "the connection was closed: " + e.text }

// A connGuard bounds what a server can make agenthost hold over one connection. It is safe for
// concurrent use.
type connGuard struct {
	// abort ends the connection, and bind returns a context that ends with it.
	abort func(error)
	bind  func(context.Context) (context.Context, context.CancelFunc)
	now   func() time.Time

	mu sync.Mutex
	// open are the server's requests without a response, by id.
	open map[string]bool
	// hasEnded is set after abort: what the server has sent until then does not count.
	hasEnded         bool
	stream, reopened quota
	// discovering is set while server/discover was the last request.
	discovering bool
}

// newGuard returns the guard for a connection that lives as long as the context.
func newGuard(life context.Context, abort func(error), now func() time.Time) *connGuard {
	return &connGuard{
		abort: abort, now: now, open: map[string]bool{},
		bind: func(ctx context.Context) (context.Context, context.CancelFunc) {
			inner, cancel := context.WithCancel(ctx)
			stop := context.AfterFunc(life, cancel)
			return inner, func() { stop(); cancel() }
		},
		stream:   quota{burst: maxStreamBytes, perSecond: streamRate},
		reopened: quota{burst: maxReopened, perSecond: 1 / reopenTime.Seconds()},
	}
}

// openRequest records a server request. It returns false for one that is left out.
func (g *connGuard) openRequest(id string) bool {
	g.mu.Lock()
	again := g.open[id]
	tooMany := !again && len(g.open) >= maxServerRequests
	if !tooMany {
		g.open[id] = true
	}
	g.mu.Unlock()
	if tooMany {
		_ = g.abortWith(fmt.Sprintf("the server has more than %d requests without a response", maxServerRequests))
	}
	return !again && !tooMany
}

// recordMethod records a request's method.
func (g *connGuard) recordMethod(method string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.discovering = method == discoverMethod
}

// isDiscovering reports whether server/discover was the last request.
func (g *connGuard) isDiscovering() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.discovering
}

// isAborted reports whether the server has exceeded a limit.
func (g *connGuard) isAborted() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.hasEnded
}

// closeRequest records that the server has accepted a response.
func (g *connGuard) closeRequest(id string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.open, id)
}

// chargeStream charges for bytes in the stream that belongs to no request.
func (g *connGuard) chargeStream(n int) error {
	g.mu.Lock()
	ok := g.stream.chargeTokens(float64(n), g.now())
	g.mu.Unlock()
	if ok {
		return nil
	}
	return g.abortWith(fmt.Sprintf("the server sends more than %d KiB each second without a request", streamRate>>10))
}

// chargeReopened charges for a stream that is opened.
func (g *connGuard) chargeReopened() error {
	g.mu.Lock()
	ok := g.reopened.chargeTokens(1, g.now())
	g.mu.Unlock()
	if ok {
		return nil
	}
	return g.abortWith(fmt.Sprintf("the server has ended its streams more than %d times", maxReopened))
}

// checkHeader checks the size of a response's headers; the library keeps some.
func (g *connGuard) checkHeader(header http.Header) error {
	size := 0
	for name, values := range header {
		for _, value := range values {
			size += len(name) + len(value)
		}
	}
	if size <= maxHeaderBytes {
		return nil
	}
	return g.abortWith(fmt.Sprintf("the headers of a response exceed the limit of %d KiB", maxHeaderBytes>>10))
}

// abortWith ends the connection, and returns the error.
func (g *connGuard) abortWith(text string) error {
	err := faultError{text}
	g.mu.Lock()
	g.hasEnded = true
	g.mu.Unlock()
	g.abort(err)
	return err
}

// A quota is a token bucket: burst at once, and then perSecond.
type quota struct {
	burst, perSecond, used float64
	at                     time.Time
}

// chargeTokens charges n to the quota. It returns false if there is less.
func (q *quota) chargeTokens(n float64, now time.Time) bool {
	if !q.at.IsZero() {
		q.used = max(0, q.used-now.Sub(q.at).Seconds()*q.perSecond)
	}
	q.at = now
	q.used += n
	return q.used <= q.burst
}

// A guardedBody is a response body that ends with its connection.
type guardedBody struct {
	io.ReadCloser
	release context.CancelFunc
	charge  func(n int) error
}

// Read implements [io.Reader].
func (b *guardedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.charge != nil {
		if chargeErr := b.charge(n); chargeErr != nil {
			return 0, chargeErr
		}
	}
	return n, err
}

// Close implements [io.Closer].
func (b *guardedBody) Close() error {
	defer b.release()
	return b.ReadCloser.Close()
}

// chargeResponse returns the function that charges for one response's stream.
func (g *connGuard) chargeResponse() func(n int) error {
	left := maxStreamBytes
	return func(n int) error {
		if left -= n; left >= 0 {
			return nil
		}
		return g.abortWith(fmt.Sprintf("the response to a request exceeds the limit of %d MiB", maxStreamBytes>>20))
	}
}
