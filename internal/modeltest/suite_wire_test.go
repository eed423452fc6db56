package modeltest_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"
)

// suiteKey is the key for all models in the suite; some fakes accept only their own.
const suiteKey = "sk-ant-test-1234"

// A wire connects a model to a fake of its service. It records requests and causes faults.
type wire struct {
	transport http.RoundTripper
	base      string // the model's address
	fake      string // the fake's address, which is called instead

	// fault changes a response body; nil changes nothing.
	fault func(resp *http.Response, body []byte)
	// recorded, if set, is the body for all responses. The fake is not called.
	recorded []byte
	// stall, if set, is a response body that never ends. The fake is not called.
	stall *string
	// started, if set, is called when a request arrives.
	started func()

	mu       sync.Mutex
	requests []string
	log      bytes.Buffer // the model's
}

// wrapClient returns a client that uses the wire.
func (w *wire) wrapClient(c *http.Client) *http.Client {
	own := *c
	w.transport, own.Transport = c.Transport, w
	return &own
}

// RoundTrip sends one request.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	if w.started != nil {
		w.started()
	}
	if w.stall != nil {
		return w.answerSilence(req), nil
	}
	if w.recorded != nil {
		return newStreamAnswer(req, bytes.NewReader(w.recorded)), nil
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.requests = append(w.requests, string(body))
	w.mu.Unlock()
	req = req.Clone(req.Context())
	if req.URL, err = url.Parse(w.fake + strings.TrimPrefix(req.URL.String(), w.base)); err != nil {
		return nil, err
	}
	req.Host = req.URL.Host
	req.Body = io.NopCloser(bytes.NewReader(body))
	resp, err := w.transport.RoundTrip(req)
	if err != nil || w.fault == nil {
		return resp, err
	}
	whole, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	if err != nil {
		return nil, err
	}
	resp.ContentLength = -1
	resp.Header.Del("Content-Length")
	w.fault(resp, whole)
	return resp, nil
}

func (w *wire) lastRequest(t *testing.T) string {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.requests) == 0 {
		t.Fatal("no request was sent")
	}
	return w.requests[len(w.requests)-1]
}

// countRequests returns how many requests were sent.
func (w *wire) countRequests() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.requests)
}

func (w *wire) answerSilence(req *http.Request) *http.Response {
	return newStreamAnswer(req, io.MultiReader(strings.NewReader(*w.stall), &silentReader{req.Context()}))
}

func newStreamAnswer(req *http.Request, body io.Reader) *http.Response {
	return &http.Response{
		Status: "200 OK", StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/event-stream"}}, Request: req, Body: io.NopCloser(body),
	}
}

// recordStream answers all requests after the next one with its response.
func (w *wire) recordStream() {
	w.fault = func(resp *http.Response, body []byte) {
		w.recorded = body
		resp.Body = io.NopCloser(bytes.NewReader(body))
	}
}

// closeIdle closes the connections that no call uses.
func (w *wire) closeIdle() {
	if t, ok := w.transport.(*http.Transport); ok {
		t.CloseIdleConnections()
	}
}

// A silentReader blocks until its call ends.
type silentReader struct{ ctx context.Context }

// Read returns the call's error.
func (s *silentReader) Read([]byte) (int, error) {
	<-s.ctx.Done()
	return 0, s.ctx.Err()
}

// answerHTML replaces a response by a page.
func answerHTML(code int) func(*http.Response, []byte) {
	return func(resp *http.Response, _ []byte) {
		resp.StatusCode, resp.Status = code, http.StatusText(code)
		resp.Header.Set("Content-Type", "text/html")
		resp.Body = io.NopCloser(strings.NewReader("<html><p>welcome</p></html>"))
	}
}

// answerBody replaces a response body.
func answerBody(body string) func(*http.Response, []byte) {
	return func(resp *http.Response, _ []byte) { resp.Body = io.NopCloser(strings.NewReader(body)) }
}

// cutAfter ends a stream after the event that contains text: cleanly, or with a lost connection.
func cutAfter(text string, clean bool) func(*http.Response, []byte) {
	return func(resp *http.Response, body []byte) {
		end := bytes.Index(body, []byte(text))
		end += bytes.IndexByte(body[end:], '\n') + 1
		if body[end] == '\n' {
			end++ // the empty line after an event
		}
		resp.Body = cutBody(body[:end], clean)
	}
}

// cutInside ends a stream inside the event that contains text.
func cutInside(text string, clean bool) func(*http.Response, []byte) {
	return func(resp *http.Response, body []byte) {
		resp.Body = cutBody(body[:bytes.Index(body, []byte(text))+len(text)], clean)
	}
}

func cutBody(body []byte, clean bool) io.ReadCloser {
	if clean {
		return io.NopCloser(bytes.NewReader(body))
	}
	return io.NopCloser(io.MultiReader(bytes.NewReader(body), iotest.ErrReader(io.ErrUnexpectedEOF)))
}

// waitNever returns at once: tests look at the requested delays.
func waitNever(ctx context.Context, _ time.Duration) error { return ctx.Err() }
