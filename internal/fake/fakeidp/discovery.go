package fakeidp

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// A client is one that may use the server: the one of all tests, one by its metadata document, or a
// registered one.
type client struct {
	secret    string
	redirects []string
	// auth is the method at the token endpoint.
	auth string
}

// A Discovery configures what clients find out by themselves. Its zero value offers nothing.
type Discovery struct {
	// Registers accepts registrations (RFC 7591), with the authentication method TokenAuth.
	Registers bool
	TokenAuth string
	// Documents are clients by the address of their metadata document, with their redirect address.
	Documents map[string]string
	// Resource is what tokens must be requested for (RFC 8707), and Scopes are those to request.
	Resource, Scopes string
	// Path is the issuer's, such as /shop. The metadata is then only where RFC 8414 has it, and
	// without a path only where OpenID Connect has it.
	Path string
	// Change changes the server's metadata.
	Change func(metadata map[string]any)
}

// Issuer returns the server's name.
func (s *Server) Issuer() string { return s.URL + s.Path }

func (s *Server) metadataPath() string {
	if s.Path == "" {
		return "/.well-known/openid-configuration"
	}
	return "/.well-known/oauth-authorization-server" + s.Path
}

// writeMetadata answers with the server's metadata (RFC 8414, 2).
func (s *Server) writeMetadata(w http.ResponseWriter) {
	metadata := map[string]any{
		"issuer": s.Issuer(), "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
		"device_authorization_endpoint":                  s.URL + "/device",
		"authorization_response_iss_parameter_supported": true,
		"code_challenge_methods_supported":               []string{"S256"},
	}
	if s.Registers {
		metadata["registration_endpoint"] = s.URL + "/register"
		metadata["token_endpoint_auth_methods_supported"] = []string{s.TokenAuth}
	}
	if s.Documents != nil {
		metadata["client_id_metadata_document_supported"] = true
	}
	if s.Change != nil {
		s.Change(metadata)
	}
	_ = json.NewEncoder(w).Encode(metadata)
}

// findClient returns a client by its ID, or nil.
func (s *Server) findClient(id string) *client {
	if id == ClientID {
		return &client{ClientSecret, s.Redirects, "client_secret_basic"}
	}
	if redirect, ok := s.Documents[id]; ok {
		return &client{"", []string{redirect}, "none"}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.registered[id]
}

// Forget removes the registered clients, and returns how many there were.
func (s *Server) Forget() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := len(s.registered)
	clear(s.registered)
	return count
}

// CountClients returns how many clients have been registered.
func (s *Server) CountClients() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.registered)
}

// serveRegister registers a client (RFC 7591, 3.1).
func (s *Server) serveRegister(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Name      string   `json:"client_name"`
		Redirects []string `json:"redirect_uris"`
		Grants    []string `json:"grant_types"`
		Responses []string `json:"response_types"`
		TokenAuth string   `json:"token_endpoint_auth_method"`
		Kind      string   `json:"application_type"`
		Scope     string   `json:"scope"`
	}
	body := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	body.DisallowUnknownFields()
	switch err := body.Decode(&asked); {
	case !s.Registers:
		http.NotFound(w, r)
		return
	case err != nil || r.Method != http.MethodPost || r.Header.Get("Content-Type") != "application/json":
		s.rejectRequest(w, "invalid_client_metadata", "register: %v", err)
		return
	case asked.Name == "" || len(asked.Redirects) != 1 || asked.TokenAuth != s.TokenAuth || asked.Scope != s.Scopes ||
		!slices.Equal(asked.Grants, []string{"authorization_code", "refresh_token"}) || !slices.Equal(asked.Responses, []string{"code"}):
		s.rejectRequest(w, "invalid_client_metadata", "register: %+v", asked)
		return
	}
	isLocal := strings.HasPrefix(asked.Redirects[0], "http://127.0.0.1")
	if want := map[bool]string{true: "native", false: "web"}[isLocal]; asked.Kind != want {
		s.rejectRequest(w, "invalid_client_metadata", "register: application_type %s, want %s", asked.Kind, want)
		return
	}
	id, c := "registered-"+rand.Text(), &client{redirects: asked.Redirects, auth: asked.TokenAuth}
	answer := map[string]any{"client_id": id, "redirect_uris": asked.Redirects, "token_endpoint_auth_method": c.auth}
	if c.auth != "none" {
		c.secret = "registered-secret-" + rand.Text()
		answer["client_secret"], answer["client_secret_expires_at"] = c.secret, 0
	}
	s.mu.Lock()
	s.registered[id] = c
	s.mu.Unlock()
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(answer)
}

// A Resource is a service that accepts the server's tokens, and names the server in its metadata
// (RFC 9728). Its fields may be set before it is used.
type Resource struct {
	*httptest.Server
	// Path is where the service is, such as /mcp.
	Path string
	// Challenge is appended to the header of a response with 401.
	Challenge string
	// Metadata changes the metadata.
	Metadata func(metadata map[string]any)
	// Serve answers authorized requests, and may reject them.
	Serve http.HandlerFunc
}

// NewResource starts a service at a path that accepts the tokens of a server. It closes with the
// test.
func NewResource(t *testing.T, s *Server, path string, serve http.HandlerFunc) *Resource {
	r := &Resource{Path: path, Serve: serve}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case req.URL.Path == "/.well-known/oauth-protected-resource"+r.Path:
			metadata := map[string]any{"resource": r.URL + r.Path, "authorization_servers": []string{s.Issuer()}}
			if r.Metadata != nil {
				r.Metadata(metadata)
			}
			_ = json.NewEncoder(w).Encode(metadata)
		case req.URL.Path != r.Path:
			http.NotFound(w, req)
		case !s.Accepts(req.Header.Get("Authorization")):
			w.Header().Set("WWW-Authenticate", fmt.Sprintf("Bearer realm=%q%s", "test, of = challenges", r.Challenge))
			w.WriteHeader(http.StatusUnauthorized)
		default:
			r.Serve(w, req)
		}
	}))
	t.Cleanup(r.Close)
	return r
}

// checkTarget checks a request's resource and scopes.
func (s *Server) checkTarget(form url.Values, hasScopes bool) error {
	switch {
	case form.Get("resource") != s.Resource:
		return fmt.Errorf("resource %q, want %q", form.Get("resource"), s.Resource)
	case hasScopes && s.Resource != "" && form.Get("scope") != s.Scopes:
		return fmt.Errorf("scope %q, want %q", form.Get("scope"), s.Scopes)
	}
	return nil
}
