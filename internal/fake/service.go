// Package fake is what fake model services share: a server on a loopback port that records its
// requests and answers from a reply queue, and functions that write replies, events and failures.
package fake

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	"agenthost/internal/number"
)

// A Service is a server on a loopback port with a queue of replies of type R and recorded requests
// of type Q. It is safe for concurrent use.
type Service[Q, R any] struct {
	http *httptest.Server

	mu       sync.Mutex
	replies  []R
	requests []Q
}

// StartServer starts a server that answers with h. The caller must close it.
func (s *Service[Q, R]) StartServer(h http.Handler) { s.http = httptest.NewServer(h) }

// StartServerOn starts the server on the caller's listener.
func (s *Service[Q, R]) StartServerOn(l net.Listener, h http.Handler) {
	s.http = &httptest.Server{Listener: l, Config: &http.Server{Handler: h}}
	s.http.Start()
}

// URL returns the base URL without a trailing slash.
func (s *Service[Q, R]) URL() string { return s.http.URL }

// Client returns an HTTP client. Close closes its idle connections.
func (s *Service[Q, R]) Client() *http.Client { return s.http.Client() }

// Close closes open connections and stops the server.
func (s *Service[Q, R]) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Enqueue appends replies. Each call that the service answers takes one.
func (s *Service[Q, R]) Enqueue(replies ...R) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = append(s.replies, replies...)
}

// NextReply takes the next reply. It returns otherwise if there is none.
func (s *Service[Q, R]) NextReply(otherwise R) R {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.replies) == 0 {
		return otherwise
	}
	reply := s.replies[0]
	s.replies = s.replies[1:]
	return reply
}

// RecordRequest appends a request to those that Requests returns.
func (s *Service[Q, R]) RecordRequest(req Q) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
}

// Requests returns the received requests in order.
func (s *Service[Q, R]) Requests() []Q {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// DecodeBody returns a request body, a JSON object, with all digits of its numbers.
func DecodeBody(r *http.Request) (map[string]any, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	return number.DecodeObject(raw)
}

// SignalStart calls the function that a reply has for when its request arrives, if any.
func SignalStart(started func()) {
	if started != nil {
		started()
	}
}

// WaitForHold waits until hold is closed; it does not wait for nil. It returns false if the
// caller disconnects before.
func WaitForHold(r *http.Request, hold <-chan struct{}) bool {
	if hold == nil {
		return true
	}
	select {
	case <-hold:
		return true
	case <-r.Context().Done():
		return false
	}
}

// WriteEvent sends v as JSON in a stream event.
func WriteEvent(w http.ResponseWriter, v any) {
	fmt.Fprint(w, "data: ")
	_ = json.NewEncoder(w).Encode(v)
	fmt.Fprintln(w)
	_ = http.NewResponseController(w).Flush()
}

// A Failure is a failed response.
type Failure struct {
	Status     int
	RetryAfter string // header; not sent if empty
	// Raw is the body; if it is empty, the body is Body as JSON.
	Raw  string
	Body any
}

// WriteFailure sends a failure. The caller sets the content type.
func WriteFailure(w http.ResponseWriter, f Failure) {
	if f.RetryAfter != "" {
		w.Header().Set("Retry-After", f.RetryAfter)
	}
	w.WriteHeader(f.Status)
	if f.Raw != "" {
		fmt.Fprint(w, f.Raw)
		return
	}
	_ = json.NewEncoder(w).Encode(f.Body)
}
