package oauthweb_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"agenthost/internal/auth"
	"agenthost/internal/fake/fakeidp"
	"agenthost/internal/policy"
	"agenthost/internal/servertest"
	"agenthost/internal/testdb"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/storeurl"
	connections "agenthost/wing/connection"
	"agenthost/wing/connection/oauthweb"
)

const (
	oauthRedirect = "https://host.example.com/oauth/callback"
	clientPage    = "https://client.example.com/done"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// runBody returns the body for a run in user u's session.
func runBody(app, sess, text string) string {
	return fmt.Sprintf(`{"appName":%q,"userId":"u","sessionId":%q,"newMessage":{"parts":[{"text":%q}]}}`, app, sess, text)
}

func newAuth(t *testing.T, text string) *server.Auth {
	t.Helper()
	n, ds := spec.Parse("auth.yaml", []byte(text))
	a, more := auth.Decode(n, nil)
	if ds = append(ds, more...); ds.HasErrors() {
		t.Fatal(ds)
	}
	t.Cleanup(a.Close)
	return a
}

// An oauthWorld is an authorization server, a service that accepts its tokens, and an app with
// a tool for the service, served by replicas on one database.
type oauthWorld struct {
	idp      *fakeidp.Server
	dir, url string
	log      lockedBuffer
	// passed is how far the clock is ahead.
	passed atomic.Int64
	// timer makes replicas wait with a timer.
	timer bool
	// policy is nil without a policy file.
	policy *policy.Policy
	// accepted counts the service's authorized requests.
	mu       sync.Mutex
	accepted int
}

type lockedBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// newOAuthWorld returns a world with a database in a file.
func newOAuthWorld(t *testing.T) *oauthWorld {
	t.Helper()
	return newOAuthWorldAt(t, "sqlite:///"+filepath.Join(t.TempDir(), "s.db"))
}

// eachOAuthWorld runs a test with each engine's database.
func eachOAuthWorld(t *testing.T, test func(t *testing.T, w *oauthWorld)) {
	for _, engine := range testdb.Engines() {
		t.Run(engine.Name, func(t *testing.T) {
			at, drop, err := engine.Fresh(t.Context(), t.TempDir())
			if errors.Is(err, testdb.ErrAbsent) {
				t.Skip(err)
			}
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := drop(); err != nil {
					t.Error(err)
				}
			})
			test(t, newOAuthWorldAt(t, at))
		})
	}
}

func newOAuthWorldAt(t *testing.T, at string) *oauthWorld {
	t.Helper()
	return newOAuthWorldWith(t, at, "authorization_code")
}

// newOAuthWorldWith returns a world with a database and a grant.
func newOAuthWorldWith(t *testing.T, at, grant string) *oauthWorld {
	t.Helper()
	w := &oauthWorld{idp: fakeidp.New(t, oauthRedirect, clientPage), dir: t.TempDir(), url: at}
	service := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !w.idp.Accepts(r.Header.Get("Authorization")) {
			rw.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.accepted++
		_, _ = rw.Write([]byte("customer of " + r.Header.Get("Authorization")))
	}))
	t.Cleanup(service.Close)
	w.dir = filepath.Join(w.dir, "shop")
	files := map[string]string{
		"app.yaml": fmt.Sprintf(`connections:
  crm: {oauth2: {grant: %s, issuer: %q, client_id: %s, client_secret: "${env:CRM_SECRET}", scopes: [read]}}
models: {m: {provider: scripted, script: m.script.yaml}}
`, grant, w.idp.URL, fakeidp.ClientID),
		"m.script.yaml":   "- when: responses.find != nil\n  text: found\n- calls: [{name: find}]\n",
		"root_agent.yaml": fmt.Sprintf("name: desk\nmodel: m\ninstruction: Help.\ntools:\n  - http: {name: find, url: %q, auth: crm}\n", service.URL+"/find"),
	}
	if err := os.Mkdir(w.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

// pass waits by advancing the clock that all replicas and the authorization server use. It suits
// one waiter: many would advance the clock past a running renewal's lease.
func (w *oauthWorld) pass(ctx context.Context, d time.Duration) error {
	w.passed.Add(int64(d))
	return ctx.Err()
}

func (w *oauthWorld) now() time.Time { return time.Now().Add(time.Duration(w.passed.Load())) }

// open starts a replica, and returns the function that ends it.
func (w *oauthWorld) open(t *testing.T, callers *server.Auth) (*servertest.Env, func()) {
	t.Helper()
	st, err := storeurl.Open(t.Context(), w.url, &storeurl.Options{Schemes: testenv.Schemes()})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := connections.ParseKeys("MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=")
	if err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.NewTextHandler(&w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	wait := w.pass
	if w.timer {
		wait = nil
	}
	grants := connections.NewGrants(connections.GrantOptions{Store: st.Grants, Keys: keys, RedirectURL: oauthRedirect, Logger: logger, Now: w.now, Wait: wait})
	host := runtime.NewHost(st, &runtime.Options{Consents: grants, Logger: logger})
	kinds := testenv.Kinds()
	kinds.Connections = connections.NewKind(grants)
	loaded, ds := loader.New(kinds, &loader.Options{
		Logger: logger, Policy: w.policy, Env: func(name string) (string, bool) { return fakeidp.ClientSecret, name == "CRM_SECRET" },
	}).LoadFiles(t.Context(), w.dir)
	if loaded == nil {
		t.Fatal(ds)
	}
	host.Swap(loaded.App)
	end := sync.OnceFunc(func() {
		host.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(end)
	srv := server.New(host, &server.Options{Extensions: []func(*server.Services) *server.Extension{oauthweb.Extend(grants)}, Logger: logger, AutoCreateSession: true, Auth: callers})
	return &servertest.Env{Host: host, Store: st, Server: srv}, end
}

// ask runs the agent until it asks for the credential.
func (w *oauthWorld) ask(t *testing.T, e *servertest.Env, id string) (callID, authURI string) {
	t.Helper()
	callID, authURI, _ = w.askCode(t, e, id)
	return callID, authURI
}

// askCode is ask with the request's user code.
func (w *oauthWorld) askCode(t *testing.T, e *servertest.Env, id string) (callID, authURI, userCode string) {
	t.Helper()
	rec := e.Serve("POST", "/run", runBody("shop", id, "find the customer"))
	var events []struct {
		Content struct {
			Parts []struct {
				FunctionCall *struct {
					ID, Name string
					Args     struct {
						AuthConfig struct {
							ExchangedAuthCredential struct {
								OAuth2 struct{ AuthURI, UserCode string }
							}
						}
					}
				}
			}
		}
	}
	if err := json.Unmarshal(rec.Body.Bytes(), &events); err != nil {
		t.Fatalf("%s: %v", rec.Body, err)
	}
	for _, ev := range events {
		for _, p := range ev.Content.Parts {
			if p.FunctionCall != nil && p.FunctionCall.Name == runtime.RequestCredential {
				asked := p.FunctionCall.Args.AuthConfig.ExchangedAuthCredential.OAuth2
				callID, authURI, userCode = p.FunctionCall.ID, asked.AuthURI, asked.UserCode
			}
		}
	}
	if authURI == "" {
		t.Fatalf("no request for a credential: %s", rec.Body)
	}
	return callID, authURI, userCode
}

func answerBody(id, callID, response string) string {
	return fmt.Sprintf(`{"appName":"shop","userId":"u","sessionId":%q,"newMessage":{"role":"user","parts":[{"functionResponse":{"id":%q,"name":"adk_request_credential","response":%s}}]}}`, id, callID, response)
}

// expectNoSecrets checks what was stored and logged.
func (w *oauthWorld) expectNoSecrets(t *testing.T, e *servertest.Env, id string) {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), session.Key{App: "shop", User: "u", ID: id}, nil)
	if err != nil {
		t.Fatal(err)
	}
	text := w.log.String()
	for _, ev := range sess.Events() {
		raw, err := json.Marshal(ev)
		if err != nil {
			t.Fatal(err)
		}
		text += string(raw)
	}
	for _, secret := range []string{"access-", "refresh-", "code-", "device-", fakeidp.ClientSecret, "code_verifier", "codeVerifier"} {
		if strings.Contains(text, secret) {
			t.Errorf("events or log have %s:\n%s", secret, text)
		}
	}
}

// TestConsentAcrossReplicas checks that a call continues after the user has authorized it in a
// browser, although the host was restarted meanwhile, the browser reached one replica, and the
// client another.
func TestConsentAcrossReplicas(t *testing.T) { eachOAuthWorld(t, testConsentAcrossReplicas) }

func testConsentAcrossReplicas(t *testing.T, w *oauthWorld) {
	first, end := w.open(t, nil)
	callID, authURI := w.ask(t, first, "s")
	end()
	second, _ := w.open(t, nil)
	third, _ := w.open(t, nil)
	to := w.idp.Authorize(t, authURI)
	for _, want := range []struct {
		status int
		text   string
	}{{200, "The connection crm of shop is authorized for u."}, {400, "has expired or has been used"}} {
		rec := serveAnswer(second, to)
		if rec.Code != want.status || !strings.Contains(rec.Body.String(), want.text) {
			t.Errorf("callback: %d %s, want %d %s", rec.Code, rec.Body, want.status, want.text)
		}
	}
	rec := third.Serve("POST", "/run", answerBody("s", callID, `{}`))
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"text":"found"`) || w.accepted != 1 {
		t.Errorf("answer: %d %s, %d authorized requests", rec.Code, rec.Body, w.accepted)
	}
	w.expectNoSecrets(t, third, "s")
}

// TestConcurrentTurns checks that 50 turns on two replicas with one database, whose token the
// service rejects, make one refresh, and that none fails.
func TestConcurrentTurns(t *testing.T) { eachOAuthWorld(t, testConcurrentTurns) }

func testConcurrentTurns(t *testing.T, w *oauthWorld) {
	w.timer = true
	first, _ := w.open(t, nil)
	second, _ := w.open(t, nil)
	callID, authURI := w.ask(t, first, "s")
	serveAnswer(first, w.idp.Authorize(t, authURI))
	first.Serve("POST", "/run", answerBody("s", callID, `{}`))
	w.idp.ExpireAll()
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			rec := []*servertest.Env{first, second}[i%2].Serve("POST", "/run", runBody("shop", fmt.Sprint("s", i), "find"))
			if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"text":"found"`) || strings.Contains(rec.Body.String(), "error") {
				t.Errorf("turn %d: %d %s", i, rec.Code, rec.Body)
			}
		})
	}
	wg.Wait()
	if refreshes, _ := w.idp.Counts(); refreshes != 1 || w.accepted != 51 {
		t.Errorf("%d refreshes and %d authorized requests, want 1 and 51", refreshes, w.accepted)
	}
}

// TestConsentOfClient checks ADK's answer, with the address to which the browser was sent: its
// code is redeemed, tokens in it are rejected, and an answer before the user has authorized
// the call asks again.
func TestConsentOfClient(t *testing.T) {
	w := newOAuthWorld(t)
	e, _ := w.open(t, nil)
	callID, _ := w.ask(t, e, "s")
	rec := e.Serve("POST", "/run", answerBody("s", callID, `{"exchangedAuthCredential":{"authType":"oauth2","oauth2":{"accessToken":"planted"}}}`))
	servertest.ExpectResponse(t, rec, 400, fmt.Sprintf(`{"detail":"the answer to the credential %s must not have accessToken: the host requests the tokens itself"}`, callID))
	rec = e.Serve("POST", "/run", answerBody("s", callID, `{"exchangedAuthCredential":{"oauth2":{"authResponseUri":"https://client.example.com/done?code=x&state=forged"}}}`))
	if rec.Code != 400 || !strings.Contains(rec.Body.String(), "start again in the conversation") {
		t.Errorf("forged state: %d %s", rec.Code, rec.Body)
	}
	rec = e.Serve("POST", "/run", answerBody("s", callID, `{}`))
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), runtime.RequestCredential) || w.accepted != 0 {
		t.Errorf("early answer: %d %s, want another request", rec.Code, rec.Body)
	}
	callID, authURI := w.ask(t, e, "s2")
	u, err := url.Parse(authURI)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("redirect_uri", clientPage) // as ADK's web client does
	u.RawQuery = query.Encode()
	response, err := json.Marshal(map[string]any{"exchangedAuthCredential": map[string]any{"authType": "oauth2", "oauth2": map[string]any{
		"authResponseUri": w.idp.Authorize(t, u.String()).String(), "redirectUri": clientPage,
	}}})
	if err != nil {
		t.Fatal(err)
	}
	rec = e.Serve("POST", "/run", answerBody("s2", callID, string(response)))
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"text":"found"`) || w.accepted != 1 {
		t.Errorf("answer: %d %s, %d authorized requests", rec.Code, rec.Body, w.accepted)
	}
	w.expectNoSecrets(t, e, "s2")
}

// TestDeviceCodeAcrossReplicas checks that a call continues after the user has entered the code,
// although the host was restarted meanwhile; that early answers report it, and that a denied code
// is replaced by a new one.
func TestDeviceCodeAcrossReplicas(t *testing.T) {
	w := newOAuthWorldWith(t, "sqlite:///"+filepath.Join(t.TempDir(), "s.db"), "device_code")
	w.idp.Now = w.now
	first, end := w.open(t, nil)
	callID, authURI, userCode := w.askCode(t, first, "s")
	if want := w.idp.URL + "/activate?user_code=" + userCode; authURI != want {
		t.Errorf("authUri %s, want %s", authURI, want)
	}
	const early = `{"detail":"connection crm is not authorized yet: enter the code at the request's address, then answer again"}`
	servertest.ExpectResponse(t, first.Serve("POST", "/run", answerBody("s", callID, `{}`)), 400, early)
	end()
	second, _ := w.open(t, nil)
	rec := second.Serve("POST", "/run", answerBody("s", callID, `{"exchangedAuthCredential":{"oauth2":{"accessToken":"planted"}}}`))
	servertest.ExpectResponse(t, rec, 400, fmt.Sprintf(`{"detail":"the answer to the credential %s must not have accessToken: the host requests the tokens itself"}`, callID))
	w.idp.Activate(t, authURI, userCode, true)
	rec = second.Serve("POST", "/run", answerBody("s", callID, `{}`))
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"text":"found"`) || w.accepted != 1 {
		t.Errorf("answer: %d %s, %d authorized requests", rec.Code, rec.Body, w.accepted)
	}
	w.expectNoSecrets(t, second, "s")

	w.idp.RevokeAll()
	w.idp.ExpireAll()
	callID, authURI, userCode = w.askCode(t, second, "s2")
	w.idp.Activate(t, authURI, userCode, false)
	rec = second.Serve("POST", "/run", answerBody("s2", callID, `{}`))
	servertest.ExpectResponse(t, rec, 400, `{"detail":"connection crm: the authorization was denied: answer again to get a new code"}`)
	rec = second.Serve("POST", "/run", answerBody("s2", callID, `{}`))
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"userCode":`) || strings.Contains(rec.Body.String(), userCode) {
		t.Errorf("answer after a denial: %d %s, want a request with a new code", rec.Code, rec.Body)
	}
	w.expectNoSecrets(t, second, "s2")
}

// serveWith is serve with headers.
func serveWith(e *servertest.Env, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(method, path, strings.NewReader(body))
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		r.Header.Set(name, value)
	}
	e.Server.ServeHTTP(w, r)
	return w
}

// serveAnswer sends the form on the page that asks.
func serveAnswer(e *servertest.Env, to *url.URL) *httptest.ResponseRecorder {
	return serveWith(e, "POST", to.Path, to.RawQuery, "Content-Type: application/x-www-form-urlencoded")
}

// TestCallbackWithoutAuth checks that a host without authentication asks, because a proxy before it
// may authenticate many users, unless only browsers on this machine reach it.
func TestCallbackWithoutAuth(t *testing.T) {
	w := newOAuthWorld(t)
	e, _ := w.open(t, nil)
	_, authURI := w.ask(t, e, "s")
	rec := e.Serve("GET", w.idp.Authorize(t, authURI).RequestURI(), "")
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), "that talk with the user <b>u</b> get access") {
		t.Errorf("callback: %d %s, want a question", rec.Code, rec.Body)
	}
	if _, issued := w.idp.Counts(); issued != 0 {
		t.Errorf("%d tokens before the answer, want 0", issued)
	}
	for redirect, local := range map[string]bool{"http://127.0.0.1:8000/oauth/callback": true, "http://localhost/oauth/callback": true, oauthRedirect: false, "": false, "http://127.0.0.1.example.com/": false} {
		if got := connections.NewGrants(connections.GrantOptions{RedirectURL: redirect}).IsLocal(); got != local {
			t.Errorf("IsLocal of %q = %v, want %v", redirect, got, local)
		}
	}
}

// TestCallbackWithAuth checks that a browser without authentication gets a form with the
// conversation's user, and that another user is rejected.
func TestCallbackWithAuth(t *testing.T) {
	w := newOAuthWorld(t)
	open, end := w.open(t, nil)
	_, authURI := w.ask(t, open, "s")
	end()
	e, _ := w.open(t, newAuth(t, "tokens: [{token: t0ken-of-bob-bob-bob-bob, claims: {sub: bob}}]"))
	to := w.idp.Authorize(t, authURI)
	rec := serveWith(e, "GET", to.RequestURI(), "", "Authorization: Bearer t0ken-of-bob-bob-bob-bob")
	if rec.Code != 403 {
		t.Errorf("another user: %d %s, want 403", rec.Code, rec.Body)
	}
	rec = e.Serve("GET", to.RequestURI(), "")
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), "that talk with the user <b>u</b> get access") {
		t.Errorf("without authentication: %d %s, want a question", rec.Code, rec.Body)
	}
	if _, issued := w.idp.Counts(); issued != 0 {
		t.Errorf("%d tokens before the answer, want 0", issued)
	}
	rec = serveWith(e, "POST", "/oauth/callback", to.RawQuery, "Content-Type: application/x-www-form-urlencoded", "Origin: https://evil.example.com")
	if rec.Code != 403 {
		t.Errorf("form of another site: %d %s, want 403", rec.Code, rec.Body)
	}
	rec = serveWith(e, "POST", "/oauth/callback", to.RawQuery, "Content-Type: application/x-www-form-urlencoded")
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), "is authorized for u") {
		t.Errorf("answer: %d %s", rec.Code, rec.Body)
	}
	rec = e.Serve("GET", "/oauth/callback?state=%3Cscript%3E", "")
	if rec.Code != 400 || strings.Contains(rec.Body.String(), "<script>") {
		t.Errorf("unknown state: %d %s", rec.Code, rec.Body)
	}
}

// TestDiscoveredConsent: the URL of an MCP server is enough. Its 401 leads over its metadata to the
// authorization server, to the host's client document there, and to the user's consent; the call
// continues on another replica after a restart.
func TestDiscoveredConsent(t *testing.T) { eachOAuthWorld(t, testDiscoveredConsent) }

func testDiscoveredConsent(t *testing.T, w *oauthWorld) {
	serving := mcp.NewServer(&mcp.Implementation{Name: "crm", Version: "1"}, nil)
	mcp.AddTool(serving, &mcp.Tool{Name: "find"}, func(context.Context, *mcp.CallToolRequest, struct{}) (*mcp.CallToolResult, any, error) {
		return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "a customer"}}}, nil, nil
	})
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return serving }, &mcp.StreamableHTTPOptions{Stateless: true})
	service := fakeidp.NewResource(t, w.idp, "/mcp", handler.ServeHTTP)
	w.idp.Discovery = fakeidp.Discovery{
		Registers: true, TokenAuth: "none", Resource: service.URL + "/mcp",
		Documents: map[string]string{"https://host.example.com/oauth/client.json": oauthRedirect},
	}
	authorizes := "authorize_oauth_" + strings.NewReplacer(".", "_", ":", "_").Replace(strings.TrimPrefix(service.URL, "http://")) + "_mcp"
	for name, text := range map[string]string{
		"app.yaml":        "models: {m: {provider: scripted, script: m.script.yaml}}\n",
		"m.script.yaml":   "- when: responses.find != nil\n  text: found\n- when: responses." + authorizes + " != nil\n  calls: [{name: find}]\n- calls: [{name: " + authorizes + "}]\n",
		"root_agent.yaml": fmt.Sprintf("name: desk\nmodel: m\ninstruction: Help.\ntools:\n  - mcp: {url: %q, auth: oauth}\n", service.URL+"/mcp"),
	} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	granted, ds := spec.Parse("policy.yaml", []byte("grants: [{network: [127.0.0.1]}]"))
	if w.policy, _ = policy.Decode(granted); len(ds) > 0 {
		t.Fatal(ds)
	}
	first, end := w.open(t, nil)
	callID, authURI := w.ask(t, first, "s")
	end()
	second, _ := w.open(t, nil)
	third, _ := w.open(t, nil)
	to, name := w.idp.Authorize(t, authURI), strings.TrimPrefix(service.URL, "http://")+"/mcp"
	rec := second.Serve("GET", to.RequestURI(), "")
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), "account at the connection <b>"+name+"</b>") {
		t.Errorf("question: %d %s, want the address %s", rec.Code, rec.Body, name)
	}
	rec = serveAnswer(second, to)
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), "The connection "+name+" of shop") {
		t.Fatalf("callback: %d %s, want the address %s", rec.Code, rec.Body, name)
	}
	rec = third.Serve("POST", "/run", answerBody("s", callID, `{}`))
	if rec.Code != 200 || !strings.Contains(rec.Body.String(), `"text":"found"`) || !strings.Contains(rec.Body.String(), "a customer") {
		t.Errorf("answer: %d %s", rec.Code, rec.Body)
	}
	w.expectNoSecrets(t, third, "s")
}

// TestClientDocument: the host serves its client metadata to everyone, if it has a public address.
func TestClientDocument(t *testing.T) {
	e, _ := newOAuthWorld(t).open(t, nil)
	rec := e.Serve("GET", connections.ClientDocumentPath, "")
	if got := rec.Body.String(); rec.Code != 200 || !strings.HasPrefix(got, `{"client_id":"https://host.example.com/oauth/client.json"`) || rec.Header().Get("Content-Type") != "application/json" {
		t.Errorf("%d %s", rec.Code, got)
	}
}
