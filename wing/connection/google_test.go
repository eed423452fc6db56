package connection

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/spec"
)

// newServiceAccount returns a key for a service account whose tokens come from an address.
func newServiceAccount(t *testing.T, tokenURL string) (*rsa.PublicKey, string) {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	key, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "robot@p.example.com", "private_key_id": "k1", "token_uri": tokenURL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &private.PublicKey, string(key)
}

// readAssertion checks a JWT's signature, and returns its claims.
func readAssertion(t *testing.T, key *rsa.PublicKey, token string) map[string]any {
	t.Helper()
	words := strings.Split(token, ".")
	if len(words) != 3 {
		t.Fatalf("assertion %q is not a JWT", token)
	}
	sum := sha256.Sum256([]byte(words[0] + "." + words[1]))
	signature, err := base64.RawURLEncoding.DecodeString(words[2])
	if err == nil {
		err = rsa.VerifyPKCS1v15(key, crypto.SHA256, sum[:], signature)
	}
	if err != nil {
		t.Fatalf("signature: %v", err)
	}
	text, err := base64.RawURLEncoding.DecodeString(words[1])
	claims := map[string]any{}
	if err == nil {
		err = json.Unmarshal(text, &claims)
	}
	if err != nil {
		t.Fatal(err)
	}
	return claims
}

// googleYAML is a connection for a service account with its key.
func googleYAML(key, rest string) string {
	return fmt.Sprintf("google: {service_account: %q, %s}", key, rest)
}

// A service account signs a request for a token (RFC 7523, 2.1), which all calls share: an
// access token for scopes, or an ID token for an audience.
func TestServiceAccount(t *testing.T) {
	for _, tt := range []struct {
		rest, claim, want string
	}{
		{"scopes: [a, b]", "scope", "a b"},
		{"audience: 'https://svc.example.com'", "target_audience", "https://svc.example.com"},
	} {
		s := newAuthServer(t)
		public, key := newServiceAccount(t, s.URL+"/token")
		var token string
		s.answer = func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/service" {
				s.requests++
				if r.Header.Get("Authorization") != "Bearer "+token {
					w.WriteHeader(http.StatusUnauthorized)
				}
				return true
			}
			s.issued++
			if r.FormValue("grant_type") != "urn:ietf:params:oauth:grant-type:jwt-bearer" {
				t.Errorf("grant_type %q", r.FormValue("grant_type"))
			}
			claims := readAssertion(t, public, r.FormValue("assertion"))
			if claims["iss"] != "robot@p.example.com" || claims["aud"] != s.URL+"/token" || claims[tt.claim] != tt.want {
				t.Errorf("claims %v, want %s %s", claims, tt.claim, tt.want)
			}
			body := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp": %d}`, time.Now().Add(time.Hour).Unix()))
			token = "e30." + body + ".c2ln"
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token": %q, "id_token": %q, "token_type": "Bearer", "expires_in": 3600}`, token, token)
			return true
		}
		c := s.open(t, googleYAML(key, tt.rest), nil)
		for range 3 {
			status, secrets, err := s.call(t, c)
			if err != nil || status != http.StatusOK || len(secrets) == 0 || secrets[0] != token {
				t.Errorf("%s: status %d, %v", tt.rest, status, err)
			}
		}
		if s.issued != 1 || s.requests != 3 {
			t.Errorf("%s: %d tokens for %d requests, want 1 for 3", tt.rest, s.issued, s.requests)
		}
	}
}

// Token endpoint failures name the status, and neither the key nor the response.
func TestServiceAccountFailures(t *testing.T) {
	s := newAuthServer(t)
	_, key := newServiceAccount(t, s.URL+"/token")
	for _, tt := range []struct {
		status     int
		body, want string
	}{
		{400, `{"error": "invalid_grant", "error_description": "secret of the server"}`, "connection crm: requesting a token: 400 Bad Request"},
		{200, "garbage", "connection crm: requesting a Google token failed"},
		{302, "", "connection crm: requesting a token: 302 Found"},
	} {
		s.answer = func(w http.ResponseWriter, _ *http.Request) bool {
			if tt.status == 302 {
				w.Header().Set("Location", "https://evil.example.com")
			}
			w.WriteHeader(tt.status)
			fmt.Fprint(w, tt.body)
			return true
		}
		_, _, err := s.call(t, s.open(t, googleYAML(key, "scopes: [a]"), nil))
		if err == nil || err.Error() != tt.want {
			t.Errorf("%d %s: %v, want %s", tt.status, tt.body, err, tt.want)
		}
	}
	bad := strings.Replace(key, "BEGIN PRIVATE", "BEGIN BROKEN", 1)
	if _, _, err := s.call(t, s.open(t, googleYAML(bad, "scopes: [a]"), nil)); err == nil || strings.Contains(err.Error(), "BROKEN") {
		t.Errorf("invalid key: %v", err)
	}
}

// The host's account authorizes only requests to Google, or to the audience of its ID tokens.
func TestHostAccount(t *testing.T) {
	for yaml, want := range map[string]string{
		"{google: {scopes: [a]}, hosts: [sheets.googleapis.com, '*.googleapis.com']}": "",
		"{google: {audience: 'https://svc.example.com/x'}, hosts: [svc.example.com]}": "",
		"{google: {scopes: [a]}}":                                                     "hosts is required for the host's account",
		"{google: {scopes: [a]}, hosts: [evilgoogleapis.com]}":                        `the host's access tokens go only to *.googleapis.com, got "evilgoogleapis.com"`,
		"{google: {audience: 'https://svc.example.com'}, hosts: ['*.example.com']}":   `the host's ID tokens go only to their audience, got "*.example.com"`,
		"{google: {audience: 'https://svc.example.com'}, hosts: [other.example.com]}": `the host's ID tokens go only to their audience, got "other.example.com"`,
		"{google: {audience: svc, scopes: [a]}, hosts: [x.googleapis.com]}":           "google requires exactly one of scopes and audience",
		"{google: {audience: 'http://svc.example.com'}, hosts: [svc.example.com]}":    `audience must be a URL that starts with https://, got "http://svc.example.com"`,
		`{google: {scopes: [a], service_account: '{"type": "external_account"}'}}`:    "service_account must be a key with the type service_account",
		"{google: {scopes: [a], service_account: hunter2}}":                           "service_account must be a service account key in JSON",
		`{google: {scopes: [a], service_account: '{"type": "service_account"}'}}`:     "service_account requires client_email and private_key in its JSON",
		`{google: {scopes: [a], service_account: '{"type": "service_account", "client_email": "a", "private_key": "b", "token_uri": "http://example.com"}'}}`: "token_uri of service_account must start with https://",
	} {
		n, ds := spec.Parse("app.yaml", []byte(yaml))
		var c Config
		ds = append(ds, c.DecodeSpec(n)...)
		got := ""
		for _, d := range ds {
			if d.Severity == spec.Error {
				got += d.Message
			}
			if strings.Contains(d.String(), "hunter2") {
				t.Errorf("the diagnostic shows the key: %s", d)
			}
		}
		if got != want {
			t.Errorf("%s:\n%s\nwant %s", yaml, got, want)
		}
	}
}
