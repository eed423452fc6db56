// Package fakegemini is a Gemini server for tests. It speaks the real HTTP of
// the Gemini API and of Vertex AI (generateContent, streamGenerateContent,
// countTokens, cachedContents), so that the SDK itself is under test. It answers
// from a queue of [Reply] values, and remembers every [Request].
//
//	s := fakegemini.New()
//	defer s.Close()
//	s.Enqueue(fakegemini.Text("hello"))
package fakegemini

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/genai"
)

// A Server is a fake Gemini on a loopback port. It is safe for use by many
// goroutines.
type Server struct {
	http *httptest.Server

	mu       sync.Mutex
	replies  []Reply
	requests []Request
	caches   caches
}

// A Request is one call that the server received.
type Request struct {
	// Path is the URL's path with its query.
	Path string
	// Model and Action are the parts of the path's last element, such as
	// gemini-x and generateContent.
	Model, Action string
	// Credential tells what the caller proved itself with, by the last four
	// characters: "key …cret" or "bearer …oken". Empty is nothing.
	Credential string
	// Header is without the credential.
	Header http.Header
	// Body is the decoded JSON.
	Body map[string]any

	user     string
	contents []*genai.Content
}

// New starts a server. The caller closes it.
func New() *Server {
	s := &Server{caches: caches{clock: time.Now, byName: map[string]*Cache{}, failures: map[string]Reply{}}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1beta/models/{call}", s.handleCall)
	mux.HandleFunc("POST /v1beta1/publishers/google/models/{call}", s.handleCall)
	mux.HandleFunc("POST /v1beta1/projects/{project}/locations/{location}/publishers/google/models/{call}", s.handleCall)
	s.routeCaches(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		Failure(http.StatusNotFound, "no such method: "+r.Method+" "+r.URL.Path).writeFailure(w)
	})
	s.http = httptest.NewServer(mux)
	return s
}

// URL is the base URL, without a trailing slash.
func (s *Server) URL() string { return s.http.URL }

// Client is an HTTP client whose idle connections Close ends.
func (s *Server) Client() *http.Client { return s.http.Client() }

// Close cuts open connections and stops the server.
func (s *Server) Close() {
	s.http.CloseClientConnections()
	s.http.Close()
}

// Enqueue appends replies. Each generate call takes one; when none is left, the
// server echoes the last user text.
func (s *Server) Enqueue(replies ...Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.replies = append(s.replies, replies...)
}

// Requests returns what was received so far, in order.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

func (s *Server) handleCall(w http.ResponseWriter, r *http.Request) {
	req, err := readRequest(r)
	if err != nil {
		Failure(http.StatusBadRequest, "Invalid JSON payload received. "+err.Error()).writeFailure(w)
		return
	}
	s.recordRequest(req)
	refused := s.checkCache(req)
	if refused == nil {
		refused = checkParts(req.Body)
	}
	if refused == nil {
		refused = checkCalls(req.contents)
	}
	switch {
	case req.Credential == "":
		Failure(http.StatusForbidden, "Method doesn't allow unregistered callers.").writeFailure(w)
	case refused != nil:
		refused.writeFailure(w)
	case req.Action == "generateContent":
		s.nextReply(req).writeUnary(w, r)
	case req.Action == "streamGenerateContent" && r.URL.Query().Get("alt") == "sse":
		s.nextReply(req).writeStream(w, r)
	case req.Action == "countTokens":
		writeJSON(w, http.StatusOK, map[string]any{"totalTokens": len(strings.Fields(req.user))})
	default:
		Failure(http.StatusNotFound, "no such action: "+req.Action).writeFailure(w)
	}
}

func (s *Server) recordRequest(req Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, req)
}

func (s *Server) nextReply(req Request) Reply {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.replies) == 0 {
		return Text(req.user)
	}
	reply := s.replies[0]
	s.replies = s.replies[1:]
	return reply
}

func readRequest(r *http.Request) (Request, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return Request{}, err
	}
	raw = defaultBody(raw)
	name, action, _ := strings.Cut(r.PathValue("call"), ":")
	req := Request{
		Path: r.URL.RequestURI(), Model: name, Action: action,
		Credential: credentialOf(r.Header), Header: publicHeader(r.Header),
	}
	var typed struct{ Contents []*genai.Content }
	if err := json.Unmarshal(raw, &typed); err != nil {
		return Request{}, err
	}
	req.user, req.contents = lastUserText(typed.Contents), typed.Contents
	return req, json.Unmarshal(raw, &req.Body)
}

func credentialOf(h http.Header) string {
	if key := h.Get("X-Goog-Api-Key"); key != "" {
		return "key …" + key[max(0, len(key)-4):]
	}
	if token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer "); ok && token != "" {
		return "bearer …" + token[max(0, len(token)-4):]
	}
	return ""
}

func publicHeader(h http.Header) http.Header {
	h = h.Clone()
	h.Del("X-Goog-Api-Key")
	h.Del("Authorization")
	return h
}

func lastUserText(contents []*genai.Content) string {
	for _, c := range slices.Backward(contents) {
		var b strings.Builder
		for _, p := range c.Parts {
			b.WriteString(p.Text)
		}
		if c.Role == genai.RoleUser && b.Len() > 0 {
			return b.String()
		}
	}
	return ""
}

// checkParts refuses parts without any data, as the service does.
func checkParts(body map[string]any) *Reply {
	contents, _ := body["contents"].([]any)
	if instruction := body["systemInstruction"]; instruction != nil {
		contents = append(slices.Clone(contents), instruction)
	}
	for i, c := range contents {
		content, _ := c.(map[string]any)
		parts, _ := content["parts"].([]any)
		for j, p := range parts {
			part, _ := p.(map[string]any)
			if !slices.ContainsFunc([]string{
				"text", "inlineData", "fileData", "functionCall", "functionResponse", "executableCode", "codeExecutionResult",
			}, func(key string) bool { return part[key] != nil }) {
				refused := Failure(http.StatusBadRequest, fmt.Sprintf("* GenerateContentRequest.contents[%d].parts[%d].data: required oneof field 'data' must have one initialized field", i, j))
				return &refused
			}
		}
	}
	return nil
}

// checkCalls refuses calls that are not answered right behind them.
func checkCalls(contents []*genai.Content) *Reply {
	for i, c := range contents {
		calls, answers := 0, 0
		for _, p := range c.Parts {
			if p.FunctionCall != nil {
				calls++
			}
		}
		if i+1 < len(contents) {
			for _, p := range contents[i+1].Parts {
				if p.FunctionResponse != nil {
					answers++
				}
			}
		}
		if calls > 0 && calls != answers {
			refused := Failure(http.StatusBadRequest, "Please ensure that the number of function response parts is equal to the number of function call parts of the function call turn.")
			return &refused
		}
	}
	return nil
}
