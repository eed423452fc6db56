package bucketstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"agenthost/internal/limit"
)

// The limits for requests to a bucket.
const (
	maxBucketAttempts = 5
	bucketBackoff     = 200 * time.Millisecond
	maxBucketBackoff  = 10 * time.Second
)

// A bucketClient sends requests to a bucket service. It retries temporary
// failures, such as status 503 or a lost connection.
type bucketClient struct {
	client *http.Client
	// sign authenticates a request. Its errors are not retried.
	sign func(ctx context.Context, r *http.Request, body []byte) error
	// explain extracts the reason from an error response's body.
	explain func(body []byte) string
}

func newBucketClient(o *Options) *bucketClient {
	w := &bucketClient{client: o.HTTP}
	if w.client == nil {
		// Own connections, so that close can close the idle ones.
		w.client = &http.Client{Transport: &http.Transport{
			Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16,
			IdleConnTimeout: 90 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
		}}
	}
	c := *w.client
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	w.client = &c
	return w
}

// A bucketRequest is one HTTP request.
type bucketRequest struct {
	method, url string
	header      http.Header
	body        []byte
	// maxBytes limits the response body.
	maxBytes int64
}

type bucketResponse struct {
	status int
	header http.Header
	body   []byte
}

// A bucketError is a bucket service's error response.
type bucketError struct {
	status int
	reason string
}

// Error returns the status and the reason.
func (e *bucketError) Error() string {
	text := strconv.Itoa(e.status) + " " + http.StatusText(e.status)
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

// errTooLarge is the error cause for a response that exceeds its limit.
var errTooLarge = errors.New("exceeds the limit")

// errAuthentication is the error for a request that cannot be authenticated.
var errAuthentication = errors.New("authenticating request")

// sendRequest sends a request and retries temporary failures. A status from 400 is a *bucketError.
func (w *bucketClient) sendRequest(ctx context.Context, a *bucketRequest) (*bucketResponse, error) {
	pause := bucketBackoff
	for try := 1; ; try++ {
		got, err := w.sendOnce(ctx, a)
		wait := pause/2 + rand.N(pause/2)
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, errTooLarge), errors.Is(err, errAuthentication):
			return nil, err
		case err == nil && !isRetryableStatus(got.status):
			return w.checkStatus(got)
		case try == maxBucketAttempts && err != nil:
			return nil, err
		case try == maxBucketAttempts:
			return w.checkStatus(got)
		case err == nil:
			wait = max(wait, parseRetryAfter(got.header))
		}
		if err := sleepContext(ctx, wait); err != nil {
			return nil, err
		}
		pause = min(2*pause, maxBucketBackoff)
	}
}

// sendOnce makes one attempt.
func (w *bucketClient) sendOnce(ctx context.Context, a *bucketRequest) (*bucketResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, limit.BucketListing.Time)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, a.method, a.url, bytes.NewReader(a.body))
	if err != nil {
		return nil, err
	}
	for name, values := range a.header {
		r.Header[name] = values
	}
	if err := w.sign(ctx, r, a.body); err != nil {
		return nil, fmt.Errorf("%w: %w", errAuthentication, err)
	}
	res, err := w.client.Do(r)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, a.maxBytes+1))
	if err == nil && int64(len(body)) > a.maxBytes {
		err = fmt.Errorf("response %w of %s", errTooLarge, limit.FormatBytes(int(a.maxBytes)))
	}
	return &bucketResponse{res.StatusCode, res.Header, body}, err
}

func (w *bucketClient) checkStatus(got *bucketResponse) (*bucketResponse, error) {
	if got.status < 300 {
		return got, nil
	}
	reason := []rune(w.explain(got.body))
	return nil, &bucketError{got.status, string(reason[:min(len(reason), 300)])}
}

func (w *bucketClient) close() { w.client.CloseIdleConnections() }

// isRetryableStatus reports whether the same request may succeed later.
func isRetryableStatus(status int) bool {
	return status == http.StatusRequestTimeout || status == http.StatusTooManyRequests || status >= 500
}

// parseRetryAfter returns the delay that the service asks for, up to the
// maximum backoff.
func parseRetryAfter(h http.Header) time.Duration {
	seconds, err := strconv.Atoi(h.Get("Retry-After"))
	if err != nil || seconds < 0 {
		return 0
	}
	return min(time.Duration(seconds)*time.Second, maxBucketBackoff)
}

func sleepContext(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// errorStatus returns a bucketError's status, or 0.
func errorStatus(err error) int {
	var refused *bucketError
	if errors.As(err, &refused) {
		return refused.status
	}
	return 0
}
