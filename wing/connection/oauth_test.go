package connection

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"agenthost/internal/limit"
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// An authServer issues tokens that are valid for a minute, and a service accepts the last
// one.
type authServer struct {
	*httptest.Server
	mu       sync.Mutex
	issued   int
	forms    []string
	answer   func(w http.ResponseWriter, r *http.Request) bool
	issuer   string
	requests int
}

func newAuthServer(t *testing.T) *authServer {
	s := &authServer{}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	s.issuer = s.URL + "/tenant"
	t.Cleanup(s.Close)
	return s
}

func (s *authServer) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.answer != nil && s.answer(w, r):
	case r.URL.Path == "/tenant/.well-known/openid-configuration":
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": s.issuer, "token_endpoint": s.URL + "/token"})
	case r.URL.Path == "/token":
		id, secret, _ := r.BasicAuth()
		_ = r.ParseForm()
		s.forms = append(s.forms, id+":"+secret+" "+r.PostForm.Encode())
		s.issued++
		fmt.Fprintf(w, `{"access_token": "token-%d", "token_type": "bearer", "expires_in": 60}`, s.issued)
	case r.URL.Path == "/service":
		s.requests++
		if r.Header.Get("Authorization") != fmt.Sprintf("Bearer token-%d", s.issued) {
			w.WriteHeader(http.StatusUnauthorized)
		}
	default:
		http.NotFound(w, r)
	}
}

// openSource returns the source from a document; SERVER is the server address.
func (s *authServer) openSource(t *testing.T, yaml string, now func() time.Time) connection.Source {
	t.Helper()
	n, ds := spec.Parse("app.yaml", []byte(strings.ReplaceAll(yaml, "SERVER", s.URL)))
	var c Config
	if ds = append(ds, c.DecodeSpec(n)...); ds.HasErrors() {
		t.Fatal(ds)
	}
	source, err := c.openSource(connection.Env{Now: now}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// open returns the connection from a document, for the server's host.
func (s *authServer) open(t *testing.T, yaml string, now func() time.Time) *connection.Connection {
	t.Helper()
	return connection.New("crm", s.openSource(t, yaml, now), []string{connection.HostOf(s.URL)})
}

func (s *authServer) call(t *testing.T, c *connection.Connection) (int, []string, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/service", strings.NewReader("body"))
	if err != nil {
		t.Fatal(err)
	}
	resp, secrets, err := c.Send(http.DefaultClient, req, connection.User{App: "shop", UserID: "ana"})
	if err != nil {
		return 0, secrets, err
	}
	_ = resp.Body.Close()
	return resp.StatusCode, secrets, nil
}

const clientYAML = "oauth2: {grant: client_credentials, token_url: SERVER/token, client_id: id, client_secret: 's3cr:t'}"

// TestClientCredentials checks when tokens are requested: once, again shortly before they
// expire, and once when the service rejects one.
func TestClientCredentials(t *testing.T) {
	s := newAuthServer(t)
	now := time.Unix(1000, 0)
	c := s.open(t, clientYAML, func() time.Time { return now })
	expect := func(what string, issued, requests int) {
		t.Helper()
		status, secrets, err := s.call(t, c)
		if err != nil || status != http.StatusOK || s.issued != issued || s.requests != requests {
			t.Errorf("%s: status %d, %v, %d tokens, %d requests, want %d, %d", what, status, err, s.issued, s.requests, issued, requests)
		}
		if want := fmt.Sprintf("token-%d", issued); len(secrets) == 0 || secrets[len(secrets)-1] != want {
			t.Errorf("%s: secrets %q, want %q at the end", what, secrets, want)
		}
	}
	expect("first", 1, 1)
	expect("again", 1, 2)
	now = now.Add(49 * time.Second)
	expect("before it expires", 1, 3)
	now = now.Add(time.Second)
	expect("10 s before it expires", 2, 4)
	s.issued = 7 // the server has revoked the token
	expect("rejected", 8, 6)
	if got, want := s.forms[0], "id:s3cr%3At grant_type=client_credentials"; got != want {
		t.Errorf("token request %q, want %q", got, want)
	}
}

// TestClientCredentialsConcurrently checks that 50 calls without a token request one. The
// control has a source for each call.
func TestClientCredentialsConcurrently(t *testing.T) {
	for _, shared := range []bool{true, false} {
		s := newAuthServer(t)
		one := s.open(t, clientYAML, nil)
		var wg sync.WaitGroup
		for range 50 {
			c := one
			if !shared {
				c = s.open(t, clientYAML, nil)
			}
			wg.Go(func() {
				if _, err := c.Credential(t.Context(), connection.User{}); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if want := map[bool]int{true: 1, false: 50}[shared]; s.issued != want {
			t.Errorf("shared %v: %d token requests, want %d", shared, s.issued, want)
		}
	}
}

// TestClientCredentialsCanceled checks that a canceled call does not wait for another call's
// request.
func TestClientCredentialsCanceled(t *testing.T) {
	s := newAuthServer(t)
	source := s.openSource(t, clientYAML, nil).(*sharedToken)
	source.slot <- struct{}{}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := source.Credential(ctx, connection.User{}); err == nil || s.issued != 0 {
		t.Errorf("Credential = %v after %d requests, want an error after 0", err, s.issued)
	}
}

// TestDiscoveryRequiresIssuer checks that the metadata must be the issuer's, and that options are
// sent.
func TestDiscoveryRequiresIssuer(t *testing.T) {
	const yaml = `oauth2: {grant: client_credentials, issuer: SERVER/tenant, client_id: id, client_secret: s3cret,
  token_auth: client_secret_post, scopes: [a, b], audience: crm}`
	s := newAuthServer(t)
	if status, _, err := s.call(t, s.open(t, yaml, nil)); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v", status, err)
	}
	if got, want := s.forms[0], ": audience=crm&client_id=id&client_secret=s3cret&grant_type=client_credentials&scope=a+b"; got != want {
		t.Errorf("token request %q, want %q", got, want)
	}
	s.issuer = "https://evil.example.com"
	_, _, err := s.call(t, s.open(t, yaml, nil))
	want := fmt.Sprintf(`connection crm: metadata of %s/tenant: the metadata names another issuer: "https://evil.example.com"`, s.URL)
	if err == nil || err.Error() != want {
		t.Errorf("another issuer: %v, want %s", err, want)
	}
}

// TestTokenErrors checks token endpoint errors: they are bounded, and show neither the secret nor a
// token. The control takes any access_token, and returns the body as the error.
func TestTokenErrors(t *testing.T) {
	tests := []struct {
		name, body string
		status     int
		want       string
	}{
		{"secret at the limit", `{"error": "x", "error_description": "` + strings.Repeat("y", 197) + `s3cr:t"}`, 401, "requesting a token: 401 Unauthorized: x: " + strings.Repeat("y", 197) + "***"},
		{"refused", `{"error": "invalid_client", "error_description": "bad s3cr:t\nhere"}`, 401, "requesting a token: 401 Unauthorized: invalid_client: bad *** here"},
		{"not JSON", `<html>`, 502, "requesting a token: 502 Bad Gateway"},
		{"no token", `{"token_type": "Bearer"}`, 200, "requesting a token: the response has no valid access_token"},
		{"line break", `{"token_type": "Bearer", "access_token": "a\r\nX: b"}`, 200, "requesting a token: the response has no valid access_token"},
		{"the token as the type", `{"token_type": "\u001b[31mmac t0ken", "access_token": "t0ken"}`, 200, "requesting a token: token_type must be Bearer, got an unknown type"},
		{"no type", `{"access_token": "t0ken"}`, 200, "requesting a token: token_type must be Bearer, got none"},
		{"another type", `{"token_type": "mac", "access_token": "t0ken"}`, 200, `requesting a token: token_type must be Bearer, got "mac"`},
		{"invalid", `{"access_token": "t0ken"`, 200, "requesting a token: the response is not valid token JSON"},
		{"large", strings.Repeat(" ", limit.TokenAnswer.Bytes+1), 200, "requesting a token: token response exceeds the limit of 256 KiB"},
		{"redirect", "", 307, "requesting a token: 307 Temporary Redirect"},
	}
	control := 0
	for _, tt := range tests {
		var naive struct {
			AccessToken string `json:"access_token"`
		}
		if json.Unmarshal([]byte(tt.body), &naive); naive.AccessToken != "" || strings.Contains(tt.body, "s3cr:t") || len(tt.body) > limit.TokenAnswer.Bytes {
			control++
		}
		t.Run(tt.name, func(t *testing.T) {
			s := newAuthServer(t)
			s.answer = func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/token" {
					return false
				}
				w.Header().Set("Location", s.URL+"/elsewhere")
				w.WriteHeader(tt.status)
				_, _ = w.Write([]byte(tt.body))
				return true
			}
			_, _, err := s.call(t, s.open(t, clientYAML, nil))
			if want := "connection crm: " + tt.want; err == nil || err.Error() != want {
				t.Errorf("Send error = %v, want %s", err, want)
			}
		})
	}
	if control < len(tests)/2 {
		t.Errorf("control: %d of %d responses fool a client without checks", control, len(tests))
	}
	t.Logf("shown: %d responses of a hostile token endpoint: no token, secret or long error; control, a client without checks: %d accepted or shown", len(tests), control)
}

// TestSeconds: a server may write its times as strings or with a fraction.
func TestSeconds(t *testing.T) {
	for raw, want := range map[string]int64{
		`3600`: 3600, `"3599"`: 3599, `3599.5`: 3599, `"0"`: 0, `null`: 0, `""`: 0, `-5`: 0, `1e300`: maxSeconds, `"1e300"`: maxSeconds,
	} {
		token := tokenResponse{}
		if err := json.Unmarshal([]byte(`{"expires_in": `+raw+`}`), &token); err != nil || int64(token.ExpiresIn) != want {
			t.Errorf("%s: %d, %v, want %d", raw, token.ExpiresIn, err, want)
		}
	}
	for _, raw := range []string{`"soon"`, `true`, `[]`, `"NaN"`} {
		if err := json.Unmarshal([]byte(`{"expires_in": `+raw+`}`), &tokenResponse{}); err == nil {
			t.Errorf("%s is accepted", raw)
		}
	}
}
