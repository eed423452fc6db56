package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// A subjectSource has a token for each user, and another one after each rejection.
type subjectSource struct {
	mu       sync.Mutex
	rejected map[connection.User]int
}

func (s *subjectSource) Credential(_ context.Context, user connection.User) (*connection.Credential, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if user.UserID == "stranger" {
		return nil, &connection.ConsentError{}
	}
	return bearerCredential(fmt.Sprintf("login-%s-%d", user.UserID, s.rejected[user])), nil
}

func (s *subjectSource) Evict(user connection.User, _ *connection.Credential) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rejected[user]++
	return s.rejected[user] < 3
}

func (s *subjectSource) PerUser() bool { return true }

// An exchangeServer exchanges tokens that begin with login- for 60 s, and refuses those in
// refused.
type exchangeServer struct {
	*httptest.Server
	mu      sync.Mutex
	forms   []string
	refused map[string]bool
}

func newExchangeServer(t *testing.T) *exchangeServer {
	s := &exchangeServer{refused: map[string]bool{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		_ = r.ParseForm()
		subject := r.PostForm.Get("subject_token")
		s.forms = append(s.forms, r.PostForm.Encode())
		if s.refused[subject] {
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant", "error_description": "expired: " + subject})
			return
		}
		fmt.Fprintf(w, `{"access_token": "crm-%d-for-%s", "token_type": "Bearer", "issued_token_type": "urn:ietf:params:oauth:token-type:access_token", "expires_in": 60}`, len(s.forms), subject)
	}))
	t.Cleanup(s.Close)
	return s
}

func openExchange(t *testing.T, s *exchangeServer, subject *connection.Connection, now func() time.Time) connection.Source {
	t.Helper()
	n, ds := spec.Parse("app.yaml", []byte("oauth2: {grant: token_exchange, subject: login, token_url: \""+s.URL+"/token\", client_id: id, audience: crm, scopes: [a, b]}"))
	c := &Config{}
	if ds = append(ds, c.DecodeSpec(n)...); ds.HasErrors() {
		t.Fatal(ds)
	}
	source, err := c.openSource(connection.Env{HTTP: s.Client(), App: "shop", Name: "crm", Subject: subject, Now: now}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// TestTokenExchange checks that each user's token is exchanged once until it expires or changes
// (RFC 8693, 2.1), and that a token that the server refuses is replaced.
func TestTokenExchange(t *testing.T) {
	server := newExchangeServer(t)
	now := time.Unix(1e9, 0)
	subjects := &subjectSource{rejected: map[connection.User]int{}}
	source := openExchange(t, server, connection.New("login", subjects, []string{connection.HostOf(server.URL)}), func() time.Time { return now })
	ana, bob := connection.User{App: "shop", UserID: "ana"}, connection.User{App: "shop", UserID: "bob"}
	want := func(user connection.User, value string) *connection.Credential {
		t.Helper()
		got, err := source.Credential(t.Context(), user)
		if err != nil || got.Value != "Bearer "+value {
			t.Fatalf("%s: %v, %v, want %s", user.UserID, got, err, value)
		}
		return got
	}
	want(ana, "crm-1-for-login-ana-0")
	want(bob, "crm-2-for-login-bob-0")
	used := want(ana, "crm-1-for-login-ana-0")
	if form := "audience=crm&client_id=id&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&scope=a+b&subject_token=login-ana-0&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token"; server.forms[0] != form {
		t.Errorf("form = %s\nwant %s", server.forms[0], form)
	}
	source.Evict(ana, used)
	want(ana, "crm-3-for-login-ana-0")
	now = now.Add(time.Minute)
	want(ana, "crm-4-for-login-ana-0")
	subjects.Evict(ana, nil)
	want(ana, "crm-5-for-login-ana-1")
	server.refused["login-bob-0"] = true
	now = now.Add(time.Minute)
	want(bob, "crm-7-for-login-bob-1")
	if !source.PerUser() {
		t.Error("PerUser() = false")
	}
	if n := len(source.(*exchangedTokens).tokens); n > 2 {
		t.Errorf("%d tokens in memory, want at most one for each user", n)
	}
}

// TestTokenExchangeRefused checks the errors: they do not show the token, and a token goes only to
// its connection's hosts.
func TestTokenExchangeRefused(t *testing.T) {
	server := newExchangeServer(t)
	for i := range 4 {
		server.refused[fmt.Sprintf("login-ana-%d", i)] = true
	}
	subject := func(hosts ...string) *connection.Connection {
		return connection.New("login", &subjectSource{rejected: map[connection.User]int{}}, hosts)
	}
	text := func(subject *connection.Connection, user string) string {
		_, err := openExchange(t, server, subject, nil).Credential(t.Context(), connection.User{App: "shop", UserID: user})
		if err == nil {
			return ""
		}
		return err.Error()
	}
	if got := text(subject(connection.HostOf(server.URL)), "ana"); !strings.Contains(got, "requesting a token: 400 Bad Request: invalid_grant: expired: ***") {
		t.Errorf("error = %s", got)
	}
	before := len(server.forms)
	if got := text(subject("login.example.com"), "bob"); !strings.HasPrefix(got, "connection login: no credentials for host ") || len(server.forms) != before {
		t.Errorf("error = %s, %d requests more", got, len(server.forms)-before)
	}
	_, err := openExchange(t, server, subject(connection.HostOf(server.URL)), nil).Credential(t.Context(), connection.User{App: "shop", UserID: "stranger"})
	if consent := (*connection.ConsentError)(nil); !errors.As(err, &consent) {
		t.Errorf("error = %v, want a consent", err)
	}
	other := connection.New("login", static{&connection.Credential{In: connection.InQuery, Name: "key", Value: "v"}}, []string{connection.HostOf(server.URL)})
	if got := text(other, "ana"); got != "connection login has no bearer token to exchange" {
		t.Errorf("error = %s", got)
	}
}

// TestTokenExchangeBounded checks that the tokens in memory are bounded, and that a user's
// concurrent calls share one request.
func TestTokenExchangeBounded(t *testing.T) {
	s := &exchangedTokens{config: &oauthConfig{}, subject: connection.New("login", &subjectSource{}, nil), tokens: map[exchangeKey]*sharedToken{}}
	for i := range maxExchanged + 10 {
		s.findToken(exchangeKey{user: connection.User{App: "shop", UserID: fmt.Sprint(i)}}, "x")
	}
	if len(s.tokens) > maxExchanged {
		t.Errorf("%d tokens, want at most %d", len(s.tokens), maxExchanged)
	}
	key := exchangeKey{user: connection.User{App: "shop", UserID: "ana"}}
	first := s.findToken(key, "x")
	if again := s.findToken(key, "x"); again != first {
		t.Error("two tokens for one user")
	}
}
