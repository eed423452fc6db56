// Package fakeanthropic is an Anthropic server for tests: the Messages API, direct and as on Vertex
// AI, unary and streaming. It rejects what the service rejects, with its error bodies, and some of
// what the service repairs: two consecutive messages with the same role. It answers from a queue of
// [Reply] values, signs thinking blocks, and records every [Request].
package fakeanthropic

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"agenthost/internal/fake"
	"agenthost/internal/number"
)

// Key is the API key that the server accepts, and Token the bearer token on Vertex AI.
const (
	Key   = "sk-ant-test-1234"
	Token = "test-token-1234"
)

// A Server is a fake Anthropic server on a loopback port. Each accepted call takes a reply.
// Without replies it answers "ok". It is safe for concurrent use.
type Server struct {
	fake.Service[Request, Reply]

	mu      sync.Mutex
	issued  map[string]bool // thinking blocks that the server sent
	counter int
}

// A Request is one received request.
type Request struct {
	Path   string
	Header http.Header
	// Body is the decoded JSON, and Raw its text.
	Body map[string]any
	Raw  string
	// Rejected is the error message with which the server rejected the request.
	Rejected string
}

// New starts a server. The caller must close it.
func New() *Server {
	s := &Server{issued: map[string]bool{}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/messages", func(w http.ResponseWriter, r *http.Request) { s.handleMessages(w, r, "") })
	mux.HandleFunc("POST /v1/projects/{project}/locations/{location}/publishers/anthropic/models/{call}", s.handleVertex)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		s.writeFailure(w, Reply{Status: http.StatusNotFound, Message: "Not found"})
	})
	s.StartServer(mux)
	return s
}

// handleVertex serves MODEL:rawPredict and MODEL:streamRawPredict.
func (s *Server) handleVertex(w http.ResponseWriter, r *http.Request) {
	name, verb, _ := strings.Cut(r.PathValue("call"), ":")
	if verb != "rawPredict" && verb != "streamRawPredict" {
		s.writeFailure(w, Reply{Status: http.StatusNotFound, Message: "unknown method " + verb})
		return
	}
	s.handleMessages(w, r, name)
}

// handleMessages serves a call. model is empty for direct calls, which carry it.
func (s *Server) handleMessages(w http.ResponseWriter, r *http.Request, model string) {
	req := Request{Path: r.URL.Path, Header: r.Header.Clone()}
	failure := checkHeader(r.Header, model != "")
	if failure == nil {
		failure = readBody(r.Body, &req)
	}
	if failure == nil {
		failure = s.checkRequest(req.Body, model != "")
	}
	if failure == nil && model != "" && strings.HasSuffix(r.URL.Path, ":streamRawPredict") != (req.Body["stream"] == true) {
		failure = newInvalid("stream: does not match the method")
	}
	if failure != nil {
		req.Rejected = failure.Message
		s.RecordRequest(req)
		s.writeFailure(w, *failure)
		return
	}
	s.RecordRequest(req)
	reply := s.NextReply(Reply{Blocks: []Block{Text("ok")}})
	if model == "" {
		model, _ = req.Body["model"].(string)
	}
	w = reply.Odd.WrapWriter(w)
	if reply.Odd.Streams(req.Body["stream"] == true) {
		s.streamReply(w, r, reply, model)
		return
	}
	s.writeReply(w, r, reply, model)
}

func checkHeader(h http.Header, vertex bool) *Reply {
	switch {
	case vertex && h.Get("Authorization") != "Bearer "+Token:
		return &Reply{Status: http.StatusUnauthorized, Message: "Request had invalid authentication credentials."}
	case vertex:
		return nil
	case h.Get("X-Api-Key") != Key:
		return &Reply{Status: http.StatusUnauthorized, Message: "invalid x-api-key"}
	case h.Get("Anthropic-Version") != "2023-06-01":
		return newInvalid("anthropic-version: header is required")
	case h.Get("Content-Type") != "application/json":
		return newInvalid("content-type: must be application/json")
	}
	return nil
}

func readBody(body io.Reader, req *Request) *Reply {
	raw, err := io.ReadAll(body)
	if err != nil {
		return newInvalid("cannot read the body")
	}
	req.Raw = string(raw)
	if req.Body, err = number.DecodeObject(raw); err != nil {
		return newInvalid("The request body is not valid JSON")
	}
	return nil
}

// nextID returns a new ID with a prefix such as toolu_.
func (s *Server) nextID(prefix string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counter++
	return fmt.Sprintf("%s%04d", prefix, s.counter)
}

// issueBlock records a thinking block.
func (s *Server) issueBlock(content, signature string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued[content+"\x00"+signature] = true
}

func (s *Server) hasIssued(content, signature string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.issued[content+"\x00"+signature]
}
