// Package fakeidp is an authorization server for tests, and a service that accepts its tokens. It
// follows RFC 6749, 7591, 7636, 8628, 8707, 9207 and 9728 strictly: it rejects unknown and repeated parameters, compares redirect addresses exactly,
// requires PKCE with S256, issues codes that work once, and rotates refresh tokens. A refresh
// token that is used twice revokes all tokens of its user, as RFC 9700 requires.
package fakeidp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// The client and its redirect address.
const (
	ClientID     = "client-of-tests"
	ClientSecret = "s3cret-of-client"
)

// A Server is an authorization server with one client. Its fields may be set before it is
// used.
type Server struct {
	*httptest.Server
	// Redirects are the registered addresses: a loopback address without a port is registered with
	// any port (RFC 8252, 7.3). Lifetime is how long access tokens are valid, in seconds.
	Redirects []string
	Lifetime  int
	// Audience, if set, is required.
	Audience string
	// Answer, if set, may answer a token endpoint request instead of the server.
	Answer func(w http.ResponseWriter, r *http.Request) bool
	// Interval is the least time between two polls of a device code in seconds, DeviceLifetime
	// how long one is valid; Now is their clock.
	Interval, DeviceLifetime int
	Now                      func() time.Time
	// Discovery is what clients find out by themselves.
	Discovery
	// Accounts, if set, are those that a person chooses from in a page. Without them the server
	// consents at once.
	Accounts []string
	// Hold, if set, is called before a refresh is answered, while other requests are served.
	Hold func()

	mu    sync.Mutex
	codes map[string]codeGrant
	// registered are the clients by their IDs.
	registered map[string]*client
	devices    map[string]*device
	refresh    map[string]*family
	access     map[string]*family
	problems   []string
	consents   []Grant
	// refreshes is how many refresh tokens were exchanged, issued all responses with tokens.
	refreshes, issued int
	polls             int
}

type codeGrant struct {
	challenge, redirect string
	grant               Grant
}

// A family is one consent's tokens.
type family struct {
	grant          Grant
	current, token string
	revoked        bool
}

// New starts a server that closes when the test ends. Requests that violate a standard fail the
// test.
func New(t *testing.T, redirects ...string) *Server {
	s := Start(redirects...)
	t.Cleanup(func() {
		s.Close()
		for _, p := range s.Problems() {
			t.Errorf("authorization server: %s", p)
		}
	})
	return s
}

// Start starts a server that the caller closes.
func Start(redirects ...string) *Server {
	s := &Server{Redirects: redirects, Lifetime: 3600, Interval: 5, DeviceLifetime: 600, Now: time.Now, codes: map[string]codeGrant{}, registered: map[string]*client{}, devices: map[string]*device{}, refresh: map[string]*family{}, access: map[string]*family{}}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serveRequest))
	return s
}

func (c *client) isRegistered(redirect string) bool {
	u, err := url.Parse(redirect)
	if err == nil && u.Hostname() == "127.0.0.1" && slices.Contains(c.redirects, "http://127.0.0.1"+u.Path) {
		return true
	}
	return slices.Contains(c.redirects, redirect)
}

// Problems returns the rejected requests, and drops them.
func (s *Server) Problems() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.problems
	s.problems = nil
	return all
}

// Counts returns how many refresh tokens were exchanged, and how many responses had tokens.
func (s *Server) Counts() (refreshes, issued int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refreshes, s.issued
}

// Accepts reports whether an Authorization header has a valid token.
func (s *Server) Accepts(header string) bool { return s.FindGrant(header) != nil }

// RevokeAll revokes all tokens.
func (s *Server) RevokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.refresh {
		f.revoked = true
	}
}

// ExpireAll makes services reject the access tokens.
func (s *Server) ExpireAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.access {
		f.token = ""
	}
}

// Authorize opens an authorization URL as the user's browser does, and returns where it is sent.
func (s *Server) Authorize(t *testing.T, address string) *url.URL {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	to, err := resp.Location()
	if err != nil {
		t.Fatalf("%s: %s", address, resp.Status)
	}
	return to
}

func (s *Server) serveRequest(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case s.metadataPath():
		s.writeMetadata(w)
	case "/register":
		s.serveRegister(w, r)
	case "/authorize":
		s.serveAuthorize(w, r)
	case "/device":
		s.serveDevice(w, r)
	case "/activate":
		s.serveActivate(w, r)
	case "/token":
		if s.Answer == nil || !s.Answer(w, r) {
			s.issueTokens(w, r)
		}
	default:
		http.NotFound(w, r)
	}
}

// rejectRequest answers with an error, and records why.
func (s *Server) rejectRequest(w http.ResponseWriter, code, format string, args ...any) {
	s.mu.Lock()
	s.problems = append(s.problems, fmt.Sprintf(format, args...))
	s.mu.Unlock()
	s.sendError(w, code)
}

func (s *Server) sendError(w http.ResponseWriter, code string) {
	w.WriteHeader(http.StatusBadRequest)
	_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": "rejected"})
}

// checkParameters returns the unknown, repeated and missing parameters.
func checkParameters(form url.Values, required, optional string) error {
	for name, values := range form {
		if len(values) != 1 || !slices.Contains(strings.Fields(required+" "+optional), name) {
			return fmt.Errorf("parameter %s is unknown or repeated", name)
		}
	}
	for _, name := range strings.Fields(required) {
		if form.Get(name) == "" {
			return fmt.Errorf("parameter %s is missing", name)
		}
	}
	return nil
}

func (s *Server) serveAuthorize(w http.ResponseWriter, r *http.Request) {
	q, err := readRequest(r)
	if err == nil {
		err = checkParameters(q, "response_type client_id redirect_uri state code_challenge code_challenge_method", "scope access_type prompt audience resource")
	}
	if err == nil {
		err = s.checkTarget(q, true)
	}
	c := s.findClient(q.Get("client_id"))
	switch {
	case err != nil:
		s.rejectRequest(w, "invalid_request", "authorize: %s", err)
	case q.Get("response_type") != "code" || c == nil || q.Get("audience") != s.Audience:
		s.rejectRequest(w, "invalid_request", "authorize: response_type, client_id or audience")
	case !c.isRegistered(q.Get("redirect_uri")):
		s.rejectRequest(w, "invalid_request", "authorize: redirect_uri %s is not registered", q.Get("redirect_uri"))
	case q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) != 43 || len(q.Get("state")) < 43:
		s.rejectRequest(w, "invalid_request", "authorize: code_challenge or state")
	default:
		s.answerConsent(w, r, q)
	}
}

// readRequest returns a client's request, which the form of the page repeats.
func readRequest(r *http.Request) (url.Values, error) {
	if r.Method == http.MethodGet {
		return r.URL.Query(), nil
	}
	if err := r.ParseForm(); err != nil {
		return nil, err
	}
	return url.ParseQuery(r.PostForm.Get("request"))
}

// newCode returns a new code for a request that was consented to.
func (s *Server) newCode(q url.Values, grant Grant) string {
	code := "code-" + rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.codes[code] = codeGrant{q.Get("code_challenge"), q.Get("redirect_uri"), grant}
	s.consents = append(s.consents, grant)
	return code
}

// authenticateClient checks the client's authentication, and answers if it is wrong.
func (s *Server) authenticateClient(w http.ResponseWriter, r *http.Request) bool {
	err := r.ParseForm()
	id, secret, isBasic := r.BasicAuth()
	method := map[bool]string{true: "client_secret_basic", false: "client_secret_post"}[isBasic]
	if !isBasic {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
		if secret == "" {
			method = "none"
		}
	}
	c := s.findClient(id)
	if err == nil && c == nil && strings.HasPrefix(id, "registered-") { // it was forgotten
		s.sendError(w, "invalid_client")
		return false
	}
	if err != nil || r.Method != http.MethodPost || c == nil || c.secret != secret || c.auth != method || isBasic && r.PostForm.Has("client_id") && r.PostForm.Get("client_id") != id {
		s.rejectRequest(w, "invalid_client", "%s: client authentication", r.URL.Path)
		return false
	}
	r.PostForm.Set("client_id", id)
	r.PostForm.Del("client_secret")
	return true
}

func (s *Server) issueTokens(w http.ResponseWriter, r *http.Request) {
	if !s.authenticateClient(w, r) {
		return
	}
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		s.redeemCode(w, r.PostForm)
	case deviceGrantType:
		s.redeemDevice(w, r.PostForm)
	case "refresh_token":
		if s.Hold != nil {
			s.Hold()
		}
		s.rotateToken(w, r.PostForm)
	default:
		s.rejectRequest(w, "unsupported_grant_type", "token: grant_type")
	}
}

func (s *Server) redeemCode(w http.ResponseWriter, form url.Values) {
	err := checkParameters(form, "grant_type code redirect_uri code_verifier client_id", "resource")
	if err == nil {
		err = s.checkTarget(form, false)
	}
	s.mu.Lock()
	grant, known := s.codes[form.Get("code")]
	delete(s.codes, form.Get("code"))
	s.mu.Unlock()
	sum := sha256.Sum256([]byte(form.Get("code_verifier")))
	switch {
	case err != nil:
		s.rejectRequest(w, "invalid_request", "token: %s", err)
	case !known:
		s.rejectRequest(w, "invalid_grant", "token: unknown or used code")
	case form.Get("redirect_uri") != grant.redirect || form.Get("client_id") != grant.grant.Client || len(form.Get("code_verifier")) < 43 || base64.RawURLEncoding.EncodeToString(sum[:]) != grant.challenge:
		s.rejectRequest(w, "invalid_grant", "token: redirect_uri or code_verifier")
	default:
		s.sendTokens(w, &family{grant: grant.grant})
	}
}

// rotateToken exchanges a refresh token. A second use revokes the family. That does not violate the
// protocol: the client finds out by invalid_grant.
func (s *Server) rotateToken(w http.ResponseWriter, form url.Values) {
	err := checkParameters(form, "grant_type refresh_token client_id", "resource")
	if err == nil {
		err = s.checkTarget(form, false)
	}
	if err != nil {
		s.rejectRequest(w, "invalid_request", "token: %s", err)
		return
	}
	token := form.Get("refresh_token")
	s.mu.Lock()
	f := s.refresh[token]
	valid := f != nil && !f.revoked && f.current == token
	if f != nil && !valid {
		f.revoked = true
	}
	if valid {
		s.refreshes++
		f.current = ""
	}
	s.mu.Unlock()
	if !valid {
		s.sendError(w, "invalid_grant")
		return
	}
	s.sendTokens(w, f)
}

func (s *Server) sendTokens(w http.ResponseWriter, f *family) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.issued++
	f.token, f.current = "access-"+rand.Text(), "refresh-"+rand.Text()
	s.access[f.token], s.refresh[f.current] = f, f
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": f.token, "refresh_token": f.current, "token_type": "Bearer", "expires_in": s.Lifetime,
	})
}
