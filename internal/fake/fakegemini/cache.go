package fakegemini

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/genai"
)

// A Cache is a cached content.
type Cache struct {
	// Name is cachedContents/1 and so on; on Vertex AI it is prefixed with the project
	// path.
	Name string
	// Model is models/gemini-x; on Vertex AI it is the model path.
	Model string
	// Created and Expires are times on the server clock.
	Created, Expires time.Time
	// Body is the create request's JSON.
	Body map[string]any
}

// caches are a server's cached contents.
type caches struct {
	clock    func() time.Time
	created  int
	byName   map[string]*Cache
	failures map[string]Reply
}

// SetClock sets the clock for cache expiry. The default is time.Now.
func (s *Server) SetClock(now func() time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.caches.clock = now
}

// RefuseCaches makes cache requests with this HTTP method fail. A nil failure ends
// that.
func (s *Server) RefuseCaches(method string, failure *Reply) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.caches.failures, method)
	if failure != nil {
		s.caches.failures[method] = *failure
	}
}

// DropCaches deletes all caches, like another client would.
func (s *Server) DropCaches() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.caches.byName)
}

// Caches returns the caches that have not expired, by name.
func (s *Server) Caches() map[string]Cache {
	s.mu.Lock()
	defer s.mu.Unlock()
	live := map[string]Cache{}
	for name, c := range s.caches.byName {
		if s.caches.isLive(c) {
			live[name] = *c
		}
	}
	return live
}

func (c *caches) isLive(one *Cache) bool { return one != nil && c.clock().Before(one.Expires) }

// routeCaches adds the cachedContents methods for both backends.
func (s *Server) routeCaches(mux *http.ServeMux) {
	for _, prefix := range []string{"/v1beta/", "/v1beta1/projects/{project}/locations/{location}/"} {
		mux.HandleFunc("POST "+prefix+"cachedContents", s.handleCache(s.createCache))
		mux.HandleFunc("GET "+prefix+"cachedContents/{id}", s.handleCache(s.readCache))
		mux.HandleFunc("PATCH "+prefix+"cachedContents/{id}", s.handleCache(s.extendCache))
		mux.HandleFunc("DELETE "+prefix+"cachedContents/{id}", s.handleCache(s.deleteCache))
	}
}

// handleCache records a cache request and answers it or returns a failure.
func (s *Server) handleCache(answer func(r *http.Request, req Request) (any, *Reply)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		req, err := readRequest(r)
		if err != nil {
			Failure(http.StatusBadRequest, "Invalid JSON payload received. "+err.Error()).writeFailure(w)
			return
		}
		req.Action = "cachedContents " + r.Method
		s.RecordRequest(req)
		s.mu.Lock()
		defer s.mu.Unlock()
		if req.Credential == "" {
			Failure(http.StatusForbidden, "Method doesn't allow unregistered callers.").writeFailure(w)
			return
		}
		if failure, refused := s.caches.failures[r.Method]; refused {
			failure.writeFailure(w)
			return
		}
		body, failure := answer(r, req)
		if failure != nil {
			failure.writeFailure(w)
			return
		}
		writeJSON(w, http.StatusOK, body)
	}
}

func (s *Server) createCache(r *http.Request, req Request) (any, *Reply) {
	ttl, err := parseTTL(req.Body)
	if err != nil {
		return nil, new(Failure(http.StatusBadRequest, err.Error()))
	}
	of, _ := req.Body["model"].(string)
	if of == "" {
		return nil, new(Failure(http.StatusBadRequest, "model is required"))
	}
	s.caches.created++
	now := s.caches.clock()
	c := &Cache{
		Name: fmt.Sprintf("%scachedContents/%d", cacheParent(r), s.caches.created), Model: of,
		Created: now, Expires: now.Add(ttl), Body: req.Body,
	}
	s.caches.byName[c.Name] = c
	return c.resource(), nil
}

func parseTTL(body map[string]any) (time.Duration, error) {
	text, _ := body["ttl"].(string)
	ttl, err := time.ParseDuration(text)
	if err != nil || ttl <= 0 || !strings.HasSuffix(text, "s") {
		return 0, fmt.Errorf("ttl %q must be a duration such as 3.5s", text)
	}
	return ttl, nil
}

// cacheParent returns a cache name's prefix.
func cacheParent(r *http.Request) string {
	if r.PathValue("project") == "" {
		return ""
	}
	return "projects/" + r.PathValue("project") + "/locations/" + r.PathValue("location") + "/"
}

func (s *Server) findCache(r *http.Request) (*Cache, *Reply) {
	c := s.caches.byName[cacheParent(r)+"cachedContents/"+r.PathValue("id")]
	if !s.caches.isLive(c) {
		return nil, new(cacheNotFound())
	}
	return c, nil
}

func cacheNotFound() Reply {
	return Failure(http.StatusForbidden, "CachedContent not found (or permission denied)")
}

func (s *Server) readCache(r *http.Request, _ Request) (any, *Reply) {
	c, failure := s.findCache(r)
	if failure != nil {
		return nil, failure
	}
	return c.resource(), nil
}

func (s *Server) extendCache(r *http.Request, req Request) (any, *Reply) {
	c, failure := s.findCache(r)
	if failure != nil {
		return nil, failure
	}
	ttl, err := parseTTL(req.Body)
	if err != nil {
		return nil, new(Failure(http.StatusBadRequest, err.Error()))
	}
	c.Expires = s.caches.clock().Add(ttl)
	return c.resource(), nil
}

func (s *Server) deleteCache(r *http.Request, _ Request) (any, *Reply) {
	c, failure := s.findCache(r)
	if failure != nil {
		return nil, failure
	}
	delete(s.caches.byName, c.Name)
	return map[string]any{}, nil
}

func (c *Cache) resource() *genai.CachedContent {
	title, _ := c.Body["displayName"].(string)
	return &genai.CachedContent{
		Name: c.Name, Model: c.Model, DisplayName: title, CreateTime: c.Created, UpdateTime: c.Created, ExpireTime: c.Expires,
	}
}

// checkCache rejects a request whose cache does not exist or has another model, or that
// sets fields which only the cache may set.
func (s *Server) checkCache(req Request) *Reply {
	name, _ := req.Body["cachedContent"].(string)
	if name == "" {
		return nil
	}
	for _, key := range []string{"systemInstruction", "tools", "toolConfig"} {
		if req.Body[key] != nil {
			return new(Failure(http.StatusBadRequest,
				"CachedContent can not be used with GenerateContent request setting system_instruction, tools or tool_config."))
		}
	}
	if contents, _ := req.Body["contents"].([]any); len(contents) == 0 {
		return new(Failure(http.StatusBadRequest, "contents is not specified"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.caches.byName[name]
	switch {
	case !s.caches.isLive(c):
		return new(cacheNotFound())
	case c.Model != req.Model && !strings.HasSuffix(c.Model, "/"+req.Model):
		return new(Failure(http.StatusBadRequest, "Model used by GenerateContent request ("+req.Model+") and CachedContent ("+c.Model+") has to be the same."))
	}
	return nil
}

// defaultBody returns an empty JSON object for a request without a body, such as
// DELETE.
func defaultBody(raw []byte) []byte {
	if len(raw) == 0 {
		return json.RawMessage("{}")
	}
	return raw
}
