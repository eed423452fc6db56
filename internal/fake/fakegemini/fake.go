// Package fakegemini is a Gemini server for tests. It implements the HTTP API for Gemini and Vertex
// AI (generateContent, streamGenerateContent, countTokens, cachedContents) and the Live API
// ([Server.HandleLive]), so that tests run the real SDK. It rejects what the service rejects:
// illegal function names, parts without data or with two kinds of data, calls without responses,
// turns in a wrong order. It answers from a queue of [Reply] values and records every [Request].
//
//	s := fakegemini.New()
//	defer s.Close()
//	s.Enqueue(fakegemini.Text("hello"))
package fakegemini

import (
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/fake"
	"agenthost/internal/number"
)

// A Server is a fake Gemini server on a loopback port. Each generate call takes a reply.
// Without replies it echoes the last user text. It is safe for concurrent use.
type Server struct {
	fake.Service[Request, Reply]
	mux *http.ServeMux

	mu     sync.Mutex
	caches caches
	live   liveState
}

// A Request is one received request.
type Request struct {
	// Path is the URL's path with its query.
	Path string
	// Model and Action are the last path element's parts, such as gemini-x and generateContent.
	Model, Action string
	// Credential is the credential's type and last four characters: "key …cret" or "bearer …oken".
	// It is empty without a credential.
	Credential string
	// Header has no credential.
	Header http.Header
	// Body is the decoded JSON.
	Body map[string]any

	user     string
	contents []*genai.Content
}

// New starts a server. The caller must close it.
func New() *Server {
	s := newServer()
	s.StartServer(s.mux)
	return s
}

func newServer() *Server {
	s := &Server{caches: caches{clock: time.Now, byName: map[string]*Cache{}, failures: map[string]Reply{}}}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1beta/models/{call}", s.handleCall)
	mux.HandleFunc("POST /v1beta1/publishers/google/models/{call}", s.handleCall)
	mux.HandleFunc("POST /v1beta1/projects/{project}/locations/{location}/publishers/google/models/{call}", s.handleCall)
	s.routeCaches(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if isLive(r.URL.Path) {
			s.serveLive(w, r)
			return
		}
		Failure(http.StatusNotFound, "unknown method: "+r.Method+" "+r.URL.Path).writeFailure(w)
	})
	s.mux = mux
	return s
}

func (s *Server) handleCall(w http.ResponseWriter, r *http.Request) {
	req, err := readRequest(r)
	if err != nil {
		Failure(http.StatusBadRequest, "Invalid JSON payload received. "+err.Error()).writeFailure(w)
		return
	}
	s.RecordRequest(req)
	failure := s.checkCache(req)
	for _, check := range []func(Request) *Reply{checkTools, checkParts, checkTurns} {
		if failure == nil {
			failure = check(req)
		}
	}
	switch {
	case req.Credential == "":
		Failure(http.StatusForbidden, "Method doesn't allow unregistered callers.").writeFailure(w)
	case failure != nil:
		failure.writeFailure(w)
	case req.Action == "generateContent":
		s.NextReply(Text(req.user)).writeUnary(w, r)
	case req.Action == "streamGenerateContent" && r.URL.Query().Get("alt") == "sse":
		s.NextReply(Text(req.user)).writeStream(w, r)
	case req.Action == "countTokens":
		writeJSON(w, http.StatusOK, map[string]any{"totalTokens": len(strings.Fields(req.user))})
	default:
		Failure(http.StatusNotFound, "unknown action: "+req.Action).writeFailure(w)
	}
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
	if req.Body, err = number.DecodeObject(raw); err != nil {
		return Request{}, err
	}
	contents, err := decodeContents(raw)
	req.user, req.contents = lastUserText(contents), contents
	return req, err
}

// largeNumber matches a number that encoding/json cannot decode into genai's types.
var largeNumber = regexp.MustCompile(`([:,\[]\s*)-?[0-9.]+[eE]\+?[0-9]{3,}`)

// decodeContents decodes a request's contents; their numbers may be rounded.
func decodeContents(raw []byte) ([]*genai.Content, error) {
	var typed struct{ Contents []*genai.Content }
	err := json.Unmarshal(largeNumber.ReplaceAll(raw, []byte("${1}0")), &typed)
	return typed.Contents, err
}

func credentialOf(h http.Header) string {
	if key := h.Get("X-Goog-Api-Key"); key != "" {
		return "key …" + key[max(0, len(key)-4):]
	}
	if token, ok := strings.CutPrefix(h.Get("Authorization"), "Bearer "); ok && token != "" {
		return "bearer …" + token[max(0, len(token)-4):]
	}
	if token, ok := strings.CutPrefix(h.Get("Authorization"), "Token "); ok && token != "" {
		return "token …" + token[max(0, len(token)-4):]
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
