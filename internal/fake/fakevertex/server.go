// Package fakevertex imitates Vertex AI's REST API for tests: Agent Engine sessions and memories,
// RAG corpus files, and long-running operations. It is strict: unknown fields, invalid ids and
// wrong credentials are errors, and numbers are doubles, as in the service.
package fakevertex

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"
)

// A Server is the service. Set the fields before the first request. It is safe for
// concurrent use.
type Server struct {
	// Project, Number and Location are the project id, its number and the location.
	Project, Number, Location string
	// Engines are the reasoning engines' ids.
	Engines []string
	// Corpora are the RAG corpora's ids.
	Corpora []string
	// Profiles are every user's profiles, by schema.
	Profiles map[string]any
	// Token is the access token and Key the API key that requests must have. If both are
	// empty, every request is accepted.
	Token, Key string
	// PageSize is the number of results on a page; 0 is 100.
	PageSize int
	// PollsUntilDone is how often an operation is polled until it is done; 0 returns
	// operations that are done.
	PollsUntilDone int
	// HiddenReads is how many reads from a new session are answered with 404.
	HiddenReads int
	// Fault returns a request's failure, or nil. It may be called concurrently.
	Fault func(r *http.Request) *Fault

	mu         sync.Mutex
	engines    map[string]*engine
	operations map[string]*operation
	files      map[string][]*ragFile // by corpus
	lastID     int64
	lastTime   time.Time
	requests   int
}

// A Fault is one request's failure.
type Fault struct {
	// Code and Status are the HTTP status and the error's status name. The code 200 is an error in
	// a successful response's body, 0 a lost connection.
	Code    int
	Status  string
	Message string
	// Late carries out the request before it fails.
	Late bool
}

// An apiError is an error response.
type apiError struct {
	code            int
	status, message string
}

func newError(code int, status, format string, args ...any) *apiError {
	return &apiError{code, status, fmt.Sprintf(format, args...)}
}

func badRequest(format string, args ...any) *apiError {
	return newError(http.StatusBadRequest, "INVALID_ARGUMENT", format, args...)
}

// maxBody limits a request's body.
const maxBody = 64 << 20

// ServeHTTP handles one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var fault *Fault
	if s.Fault != nil {
		fault = s.Fault(r)
	}
	if fault != nil && !fault.Late {
		writeFault(w, fault)
		return
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		writeError(w, badRequest("%v", err), http.StatusBadRequest)
		return
	}
	answer, failure := s.handleRequest(r, body)
	switch {
	case fault != nil:
		writeFault(w, fault)
	case failure != nil:
		writeError(w, failure, failure.code)
	default:
		writeJSON(w, http.StatusOK, answer)
	}
}

// Requests returns how many requests were accepted.
func (s *Server) Requests() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

func writeFault(w http.ResponseWriter, f *Fault) {
	if f.Code == 0 {
		panic(http.ErrAbortHandler)
	}
	code := f.Code
	if code == http.StatusOK {
		code = http.StatusInternalServerError
	}
	writeError(w, newError(code, f.Status, "%s", f.Message), f.Code)
}

func writeError(w http.ResponseWriter, e *apiError, httpCode int) {
	writeJSON(w, httpCode, map[string]any{"error": map[string]any{"code": e.code, "status": e.status, "message": e.message}})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(v) // the client is gone
}

// handleRequest authenticates a request and routes it.
func (s *Server) handleRequest(r *http.Request, body []byte) (any, *apiError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	if err := s.checkCredentials(r); err != nil {
		return nil, err
	}
	if path, ok := strings.CutPrefix(r.URL.Path, "/upload/v1beta1/"); ok && r.Method == http.MethodPost {
		return s.uploadFile(path, r.Header, body)
	}
	path, ok := strings.CutPrefix(r.URL.Path, "/v1beta1/")
	if !ok {
		return nil, newError(http.StatusNotFound, "NOT_FOUND", "The requested URL %s was not found on this server.", r.URL.Path)
	}
	if strings.Contains(path, "/operations/") {
		return s.pollOperation(path)
	}
	if location, ok := strings.CutSuffix(path, ":retrieveContexts"); ok && r.Method == http.MethodPost {
		if _, err := s.cutLocation(location + "/"); err != nil {
			return nil, err
		}
		return s.retrieveContexts(body)
	}
	path, err := s.cutLocation(path)
	if err != nil {
		return nil, err
	}
	kind, rest, _ := strings.Cut(path, "/")
	if kind == "ragCorpora" {
		return s.serveCorpus(rest, &request{method: r.Method, query: r.URL.Query()})
	}
	if kind != "reasoningEngines" {
		return nil, newError(http.StatusNotFound, "NOT_FOUND", "The requested URL %s was not found on this server.", r.URL.Path)
	}
	id, rest, _ := strings.Cut(rest, "/")
	e, err := s.findEngine(id)
	if err != nil {
		return nil, err
	}
	collection, rest, _ := strings.Cut(rest, "/")
	collection, verb, _ := strings.Cut(collection, ":")
	switch in := (&request{method: r.Method, rest: rest, query: r.URL.Query(), body: body}); {
	case collection == "sessions" && verb == "":
		return e.serveSessions(in)
	case collection == "memories":
		return e.serveMemories(in, verb)
	}
	return nil, newError(http.StatusNotFound, "NOT_FOUND", "The requested URL %s was not found on this server.", r.URL.Path)
}

func (s *Server) checkCredentials(r *http.Request) *apiError {
	key, token := r.Header.Get("X-Goog-Api-Key"), r.Header.Get("Authorization")
	switch {
	case s.Token == "" && s.Key == "":
		return nil
	case s.Key != "" && key == s.Key && token == "":
		return nil
	case s.Token != "" && token == "Bearer "+s.Token && key == "":
		return nil
	}
	return newError(http.StatusUnauthorized, "UNAUTHENTICATED", "Request had invalid authentication credentials. Expected OAuth 2 access token, login cookie or other valid authentication credential.")
}

// cutLocation checks and removes projects/P/locations/L/. Express mode has neither.
func (s *Server) cutLocation(path string) (string, *apiError) {
	if !strings.HasPrefix(path, "projects/") {
		if s.Key == "" {
			return "", badRequest("Invalid resource name: %s", path)
		}
		return path, nil
	}
	parts := strings.SplitN(path, "/", 5)
	if len(parts) < 5 || parts[2] != "locations" {
		return "", badRequest("Invalid resource name: %s", path)
	}
	if parts[1] != s.Project && parts[1] != s.Number {
		return "", newError(http.StatusForbidden, "PERMISSION_DENIED", "Permission denied on resource project %s.", parts[1])
	}
	if parts[3] != s.Location {
		return "", newError(http.StatusNotFound, "NOT_FOUND", "The ReasoningEngine does not exist in location %s.", parts[3])
	}
	return parts[4], nil
}

func (s *Server) findEngine(id string) (*engine, *apiError) {
	for _, known := range s.Engines {
		if known != id {
			continue
		}
		if s.engines == nil {
			s.engines = map[string]*engine{}
		}
		if s.engines[id] == nil {
			s.engines[id] = &engine{server: s, id: id, sessions: map[string]*storedSession{}, app: map[string]any{}, users: map[string]map[string]any{}, memories: map[string]*storedMemory{}, ingested: map[string]bool{}}
		}
		return s.engines[id], nil
	}
	return nil, newError(http.StatusNotFound, "NOT_FOUND", "The ReasoningEngine projects/%s/locations/%s/reasoningEngines/%s does not exist.", s.Number, s.Location, id)
}

func (s *Server) parentName() string { return "projects/" + s.Number + "/locations/" + s.Location }

// nextTime returns a time after all earlier ones.
func (s *Server) nextTime() time.Time {
	now := time.Now().UTC().Truncate(time.Microsecond)
	if !now.After(s.lastTime) {
		now = s.lastTime.Add(time.Microsecond)
	}
	s.lastTime = now
	return now
}

// nextID returns a 19-digit number. Later ones are not greater.
func (s *Server) nextID() string {
	s.lastID++
	return fmt.Sprint(1_000_000_000_000_000_000 + (s.lastID*7_919_199_919_777)%8_999_999_999_999_999_999)
}

// An operation is a long-running operation.
type operation struct {
	name     string
	polls    int // until it is done
	response map[string]any
}

// startOperation returns an operation as its first response.
func (s *Server) startOperation(parent string, response map[string]any) map[string]any {
	o := &operation{parent + "/operations/" + s.nextID(), s.PollsUntilDone, response}
	if s.operations == nil {
		s.operations = map[string]*operation{}
	}
	s.operations[o.name] = o
	return o.encodeJSON()
}

func (o *operation) encodeJSON() map[string]any {
	v := map[string]any{"name": o.name, "metadata": map[string]any{"genericMetadata": map[string]any{}}}
	if o.polls <= 0 {
		v["done"], v["response"] = true, o.response
	}
	return v
}

func (s *Server) pollOperation(name string) (any, *apiError) {
	o := s.operations[name]
	if o == nil {
		return nil, newError(http.StatusNotFound, "NOT_FOUND", "Operation %s not found.", name)
	}
	o.polls--
	return o.encodeJSON(), nil
}

// RoundTrip carries out a request without a network, so that a Server is an HTTP client's
// transport.
func (s *Server) RoundTrip(r *http.Request) (res *http.Response, err error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	defer func() {
		p := recover()
		if failure, ok := p.(error); ok && errors.Is(failure, http.ErrAbortHandler) {
			err = io.ErrUnexpectedEOF
		} else if p != nil {
			panic(p)
		}
	}()
	c := r.Clone(r.Context())
	if c.Body == nil {
		c.Body = http.NoBody
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, c)
	return w.Result(), nil
}
