package connection

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"agenthost/internal/fake/fakeidp"
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// A discoveredHost is a host's replica with a connection that has only a resource, or more.
type discoveredHost struct {
	testHost
	conn     *connection.Connection
	resource *fakeidp.Resource
}

// newDiscoveredHost returns a replica whose connection has a resource and more settings.
func newDiscoveredHost(t *testing.T, r *fakeidp.Resource, opts GrantOptions, more string, mayRegister func() error) *discoveredHost {
	t.Helper()
	opts.Keys = testKeys(t, keyOne)
	if opts.Store == nil {
		opts.Store = &connection.MemoryGrants{}
	}
	g := NewGrants(opts)
	n, ds := spec.Parse("app.yaml", fmt.Appendf(nil, "oauth2: {grant: authorization_code, resource: %q%s}", r.URL+r.Path, more))
	var c Config
	if ds = append(ds, c.DecodeSpec(n)...); ds.HasErrors() {
		t.Fatal(ds)
	}
	source, err := c.openSource(connection.Env{App: "shop", Name: "crm", MayRegister: mayRegister}, g)
	if err != nil {
		t.Fatal(err)
	}
	return &discoveredHost{testHost{g, source}, connection.New("crm", source, []string{connection.HostOf(r.URL)}), r}
}

// call sends a request to the resource, and returns its status, or asks for a consent.
func (h *discoveredHost) call(t *testing.T, user connection.User) (status string, err error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.resource.URL+h.resource.Path, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	resp, _, err := h.conn.Send(http.DefaultClient, req, user)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body)
	return resp.Status, nil
}

// consentTo authorizes what an error asks for.
func (h *discoveredHost) consentTo(t *testing.T, idp *fakeidp.Server, err error) error {
	t.Helper()
	missing := (*connection.ConsentError)(nil)
	if !errors.As(err, &missing) {
		t.Fatalf("%v, want a ConsentError", err)
	}
	config, err := missing.Request(t.Context(), "s1", "c1")
	if err != nil {
		return err
	}
	asked := config["exchangedAuthCredential"].(map[string]any)["oauth2"].(map[string]any)
	return h.grants.FinishConsent(t.Context(), answerOf(idp.Authorize(t, asked["authUri"].(string))))
}

func serveOK(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }

// TestDiscovery: a URL alone leads to the tokens: over the resource's metadata, which the 401 names
// or which is at the well-known place, and the server's metadata to a client that the server has, by
// its document or by a registration. Renewals need no discovery.
func TestDiscovery(t *testing.T) {
	document := "https://host.example.com/oauth/client.json"
	for _, tt := range []struct {
		name      string
		discovery fakeidp.Discovery
		more      string
		change    func(r *fakeidp.Resource)
	}{
		{"a registered client with Basic", fakeidp.Discovery{Registers: true, TokenAuth: authBasic}, "", nil},
		{"a registered client with its secret in the body", fakeidp.Discovery{Registers: true, TokenAuth: authPost}, "", nil},
		{"a registered public client", fakeidp.Discovery{Registers: true, TokenAuth: authNone}, "", nil},
		{"a client document", fakeidp.Discovery{Registers: true, TokenAuth: authNone, Documents: map[string]string{document: redirectURL}}, "", nil},
		{"the document's client", fakeidp.Discovery{Registers: true, TokenAuth: authBasic}, ", client_id: " + fakeidp.ClientID + ", client_secret: " + fakeidp.ClientSecret, nil},
		{"metadata at another place", fakeidp.Discovery{Registers: true, TokenAuth: authBasic, Scopes: "read write"}, "", func(r *fakeidp.Resource) {
			path := r.Path
			r.Challenge = fmt.Sprintf(`, resource_metadata="%s/.well-known/oauth-protected-resource%s", scope="write read"`, r.URL, path)
		}},
		{"the scopes of the resource", fakeidp.Discovery{Registers: true, TokenAuth: authBasic, Scopes: "read offline_access", Change: func(m map[string]any) {
			m["scopes_supported"] = []string{"read", "admin", "offline_access"}
		}}, "", func(r *fakeidp.Resource) {
			r.Metadata = func(m map[string]any) { m["scopes_supported"] = []string{"read"} }
		}},
		{"the document's scopes", fakeidp.Discovery{Registers: true, TokenAuth: authBasic, Scopes: "mine"}, ", scopes: [mine]", func(r *fakeidp.Resource) {
			r.Metadata = func(m map[string]any) { m["scopes_supported"] = []string{"read"} }
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			idp := fakeidp.New(t, redirectURL)
			idp.Discovery = tt.discovery
			r := fakeidp.NewResource(t, idp, "/mcp", serveOK)
			idp.Resource = r.URL + r.Path
			if tt.change != nil {
				tt.change(r)
			}
			now := time.Now()
			h := newDiscoveredHost(t, r, GrantOptions{RedirectURL: redirectURL, Now: func() time.Time { return now }}, tt.more, nil)
			_, err := h.call(t, ana)
			if err := h.consentTo(t, idp, err); err != nil {
				t.Fatal(err)
			}
			if status, err := h.call(t, ana); status != "200 OK" {
				t.Fatalf("with a token: %s, %v", status, err)
			}
			idp.Change = func(m map[string]any) { clear(m) } // a renewal reads no metadata
			now = now.Add(time.Hour)
			if status, err := h.call(t, ana); status != "200 OK" {
				t.Errorf("after an hour: %s, %v", status, err)
			}
			if refreshes, _ := idp.Counts(); refreshes != 1 {
				t.Errorf("%d renewals, want 1", refreshes)
			}
		})
	}
}

// TestRegistration: all users and replicas of an app share one registered client. A client that the
// server has forgotten is registered again, and the policy can forbid registrations.
func TestRegistration(t *testing.T) {
	idp := fakeidp.New(t, redirectURL)
	idp.Discovery = fakeidp.Discovery{Registers: true, TokenAuth: authBasic}
	r := fakeidp.NewResource(t, idp, "/mcp", serveOK)
	idp.Resource = r.URL + r.Path
	opts := GrantOptions{Store: &connection.MemoryGrants{}, RedirectURL: redirectURL}
	for _, user := range []string{"ana", "bob", "eve"} {
		h := newDiscoveredHost(t, r, opts, "", nil)
		_, err := h.call(t, connection.User{App: "shop", UserID: user})
		if err := h.consentTo(t, idp, err); err != nil {
			t.Fatal(err)
		}
	}
	if count := idp.Forget(); count != 1 {
		t.Errorf("%d registered clients, want 1", count)
	}
	h := newDiscoveredHost(t, r, opts, "", nil)
	zoe := connection.User{App: "shop", UserID: "zoe"}
	_, err := h.source.Credential(t.Context(), zoe)
	missing := (*connection.ConsentError)(nil)
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	config, err := missing.Request(t.Context(), "s1", "c1")
	if err != nil {
		t.Fatal(err)
	}
	state := config["exchangedAuthCredential"].(map[string]any)["oauth2"].(map[string]any)["state"].(string)
	err = h.grants.FinishConsent(t.Context(), connection.Answer{State: state, Code: "code", Issuer: idp.URL})
	if want := "connection crm: requesting a token: 400 Bad Request: invalid_client: rejected"; err == nil || err.Error() != want {
		t.Errorf("with a forgotten client: %v\nwant %s", err, want)
	}
	_, err = h.call(t, zoe)
	if err := h.consentTo(t, idp, err); err != nil || idp.Forget() != 1 {
		t.Errorf("after that: %v", err)
	}
	refused := newDiscoveredHost(t, r, GrantOptions{RedirectURL: redirectURL}, "", func() error { return errors.New("app shop may not register clients") })
	_, err = refused.call(t, ana)
	err = refused.consentTo(t, idp, err)
	if want := "connection crm: a client at " + idp.URL + ": app shop may not register clients"; err == nil || err.Error() != want {
		t.Errorf("refused: %v\nwant %s", err, want)
	}
}

// TestStepUp: a service that requires another scope leads to a consent with it, as often as it asks
// for a new one, at most three times; a scope that a consent had ends the request.
func TestStepUp(t *testing.T) {
	idp := fakeidp.New(t, redirectURL)
	idp.Discovery = fakeidp.Discovery{Registers: true, TokenAuth: authBasic, Scopes: "read"}
	wanted := ""
	r := fakeidp.NewResource(t, idp, "/mcp", func(w http.ResponseWriter, _ *http.Request) {
		if wanted != "" {
			w.Header().Set("WWW-Authenticate", `Basic realm="x", Bearer error="insufficient_scope", scope="`+wanted+`"`)
			w.WriteHeader(http.StatusForbidden)
		}
	})
	r.Challenge = `, scope="read"`
	idp.Resource = r.URL + r.Path
	h := newDiscoveredHost(t, r, GrantOptions{RedirectURL: redirectURL}, "", nil)
	_, err := h.call(t, ana)
	if err := h.consentTo(t, idp, err); err != nil {
		t.Fatal(err)
	}
	wanted = "a"
	_, err = h.call(t, ana)
	if !errors.As(err, new(*connection.ConsentError)) {
		t.Fatalf("without the scope: %v, want a ConsentError", err)
	}
	wanted = ""
	if status, err := h.call(t, ana); status != "200 OK" {
		t.Errorf("a user who has not consented to more keeps the token: %s, %v", status, err)
	}
	for _, step := range []struct{ wanted, scopes string }{{"read a", "read a"}, {"b", "read a b"}, {"c", "read a b c"}} {
		wanted, idp.Scopes = step.wanted, step.scopes
		_, err := h.call(t, ana)
		if err := h.consentTo(t, idp, err); err != nil {
			t.Fatalf("%s: %v", step.wanted, err)
		}
	}
	for scope, want := range map[string]string{
		"a c":     `connection crm: the service requires the scopes "a c", which the authorization had`,
		"d":       `connection crm: the service requires more scopes after 3 authorizations with more: "d"`,
		`"\\ \x"`: `connection crm: the service requires the scopes "", which the authorization had`,
	} {
		wanted = scope
		if _, err := h.call(t, ana); err == nil || err.Error() != want {
			t.Errorf("%s: %v\nwant %s", scope, err, want)
		}
	}
	wanted = ""
	if status, err := h.call(t, ana); status != "200 OK" {
		t.Errorf("the token is kept: %s, %v", status, err)
	}
}

// TestMovedServer: a service that rejects new tokens, because it has another authorization server
// now, leads to a consent there, with another client.
func TestMovedServer(t *testing.T) {
	first, second := fakeidp.New(t, redirectURL), fakeidp.New(t, redirectURL)
	now := first
	r := fakeidp.NewResource(t, first, "/mcp", serveOK)
	inner := r.Config.Handler
	for _, idp := range []*fakeidp.Server{first, second} {
		idp.Discovery = fakeidp.Discovery{Registers: true, TokenAuth: authBasic, Resource: r.URL + r.Path}
	}
	r.Metadata = func(m map[string]any) { m["authorization_servers"] = []string{now.URL} }
	r.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if now == second && req.URL.Path == r.Path && !second.Accepts(req.Header.Get("Authorization")) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if now == second && req.URL.Path == r.Path {
			return
		}
		inner.ServeHTTP(w, req)
	})
	h := newDiscoveredHost(t, r, GrantOptions{RedirectURL: redirectURL}, "", nil)
	_, err := h.call(t, ana)
	if err := h.consentTo(t, first, err); err != nil {
		t.Fatal(err)
	}
	now = second
	_, err = h.call(t, ana)
	if err := h.consentTo(t, second, err); err != nil {
		t.Fatal(err)
	}
	if status, err := h.call(t, ana); status != "200 OK" || first.Forget() != 1 || second.Forget() != 1 {
		t.Errorf("at the second server: %s, %v", status, err)
	}
}

// TestDiscoveryErrors: metadata that is not the resource's or the server's, or that a client cannot
// use, ends the discovery with the reason and what to set. No token is requested.
func TestDiscoveryErrors(t *testing.T) {
	for _, tt := range []struct {
		name   string
		server func(m map[string]any)
		change func(r *fakeidp.Resource)
		more   string
		want   string
	}{
		{"another resource", nil, func(r *fakeidp.Resource) {
			r.Metadata = func(m map[string]any) { m["resource"] = "https://evil.example.com/mcp" }
		}, "", `discovering the authorization server: the metadata is for another resource: "https://evil.example.com/mcp", want RESOURCE/mcp`},
		{"a longer path", nil, func(r *fakeidp.Resource) {
			r.Metadata = func(m map[string]any) { m["resource"] = r.URL + "/mc" }
		}, "", `discovering the authorization server: the metadata is for another resource: "RESOURCE/mc", want RESOURCE/mcp`},
		{"no metadata", nil, func(r *fakeidp.Resource) {
			r.Challenge = `, resource_metadata="` + r.URL + `/none"`
		}, "", `discovering the authorization server: metadata of the resource HOST: 404 Not Found; set issuer and client_id of connection crm`},
		{"metadata without TLS", nil, func(r *fakeidp.Resource) {
			r.Challenge = `, resource_metadata="http://evil.example.com/x"`
		}, "", `discovering the authorization server: resource_metadata of HOST: the address of the authorization server must start with https://`},
		{"no server", nil, func(r *fakeidp.Resource) {
			r.Metadata = func(m map[string]any) { m["authorization_servers"] = []string{} }
		}, "", `the metadata of the resource names no authorization server: set issuer of connection crm`},
		{"a server without TLS", nil, func(r *fakeidp.Resource) {
			r.Metadata = func(m map[string]any) { m["authorization_servers"] = []string{"http://evil.example.com"} }
		}, "", `the address of the authorization server must start with https://`},
		{"another issuer than the document's", nil, nil, ", issuer: https://login.example.com", `the metadata of the resource does not name the issuer https://login.example.com, but SERVER`},
		{"another issuer in its metadata", func(m map[string]any) { m["issuer"] = "https://evil.example.com" }, nil, "", `metadata of SERVER: the metadata names another issuer: "https://evil.example.com"`},
		{"no PKCE", func(m map[string]any) { delete(m, "code_challenge_methods_supported") }, nil, "", `metadata of SERVER does not list S256 under code_challenge_methods_supported: the server does not protect codes (PKCE, RFC 7636)`},
		{"no authorization endpoint", func(m map[string]any) { delete(m, "authorization_endpoint") }, nil, "", `metadata of SERVER has no authorization_endpoint`},
		{"no registration", func(m map[string]any) { delete(m, "registration_endpoint") }, nil, "", `SERVER registers no clients: register one with the redirect URL ` + redirectURL + `, and set client_id of connection crm`},
		{"registration without TLS", func(m map[string]any) { m["registration_endpoint"] = "http://evil.example.com/register" }, nil, "", `metadata of SERVER: registration_endpoint: the address of the authorization server must start with https://`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			idp := fakeidp.New(t, redirectURL)
			idp.Discovery = fakeidp.Discovery{Registers: true, TokenAuth: authBasic, Change: func(m map[string]any) {
				if tt.server != nil {
					tt.server(m)
				}
			}}
			r := fakeidp.NewResource(t, idp, "/mcp", serveOK)
			if tt.change != nil {
				tt.change(r)
			}
			h := newDiscoveredHost(t, r, GrantOptions{RedirectURL: redirectURL}, tt.more, nil)
			_, err := h.call(t, ana)
			err = h.consentTo(t, idp, err)
			// The first well-known place has no metadata, so the error is the last one's.
			want := "connection crm: " + strings.NewReplacer("RESOURCE", r.URL, "HOST", connection.HostOf(r.URL), "SERVER", idp.URL).Replace(tt.want)
			if err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
			if _, issued := idp.Counts(); issued > 0 {
				t.Error("tokens were issued")
			}
		})
	}
}

// TestRegistrationAnswers: what a server answers to a registration, other than a client, ends the
// discovery with the reason.
func TestRegistrationAnswers(t *testing.T) {
	for answer, want := range map[string]string{
		`x`:                    "the response is not valid JSON",
		`{}`:                   "the response has no valid client_id",
		`{"client_id":7}`:      "the response is not valid JSON",
		`{"client_id":"a\nb"}`: "the response has no valid client_id",
		`{"client_id":"` + strings.Repeat("x", maxClientValue+1) + `"}`: "the response has no valid client_id",
		`{"client_id":"a","client_secret":"b\u0000"}`:                   "the response has no valid client_secret",
		strings.Repeat(" ", 300<<10):                                    "token response exceeds the limit of 256 KiB",
	} {
		idp := fakeidp.New(t, redirectURL)
		idp.Discovery = fakeidp.Discovery{Registers: true, TokenAuth: authBasic}
		liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, answer)
		}))
		defer liar.Close()
		idp.Change = func(m map[string]any) { m["registration_endpoint"] = liar.URL }
		r := fakeidp.NewResource(t, idp, "/mcp", serveOK)
		h := newDiscoveredHost(t, r, GrantOptions{RedirectURL: redirectURL}, "", nil)
		_, err := h.call(t, ana)
		err = h.consentTo(t, idp, err)
		if want := "connection crm: registering a client at " + idp.URL + ": " + want + "; set client_id of connection crm"; err == nil || err.Error() != want {
			t.Errorf("%.60s:\ngot  %v\nwant %s", answer, err, want)
		}
	}
}

// TestClientDocument: a host with a public https address has a document with its client metadata,
// whose address is the client ID.
func TestClientDocument(t *testing.T) {
	for redirect, want := range map[string]string{
		redirectURL: `{"client_id":"https://host.example.com/oauth/client.json","client_name":"agenthost","redirect_uris":["https://host.example.com/oauth/callback"],` +
			`"grant_types":["authorization_code","refresh_token"],"response_types":["code"],"token_endpoint_auth_method":"none","application_type":"web"}`,
		"http://127.0.0.1:8000/oauth/callback": "",
		"https://localhost/oauth/callback":     "",
		"":                                     "",
	} {
		if got := string(NewGrants(GrantOptions{RedirectURL: redirect}).ClientDocument()); got != want {
			t.Errorf("%s: %s\nwant %s", redirect, got, want)
		}
	}
}

// TestStoredServers: what is stored with consents and tokens is encrypted: no row has the secret of
// a registered client.
func TestStoredServers(t *testing.T) {
	idp, st := fakeidp.New(t, redirectURL), &visibleGrants{}
	idp.Discovery = fakeidp.Discovery{Registers: true, TokenAuth: authBasic}
	r := fakeidp.NewResource(t, idp, "/mcp", serveOK)
	idp.Resource = r.URL + r.Path
	h := newDiscoveredHost(t, r, GrantOptions{Store: st, RedirectURL: redirectURL}, "", nil)
	_, err := h.call(t, ana)
	if err := h.consentTo(t, idp, err); err != nil {
		t.Fatal(err)
	}
	for id, row := range st.rows {
		raw, err := json.Marshal(row)
		if err != nil || strings.Contains(string(raw), "registered-") || strings.Contains(string(row.Sealed), "secret") {
			t.Errorf("stored in plain text: %s %q, %v", id, row.Sealed, err)
		}
	}
	if len(st.rows) != 2 {
		t.Errorf("%d rows, want a token and a client", len(st.rows))
	}
}

// TestFoundNames: the name of a connection that finds itself has the address, but not its query,
// which can be a key, and fits into the names of tools at all model services.
func TestFoundNames(t *testing.T) {
	long := "https://mcp.eu.production.example.com/v1/projects/forty-two/servers/contacts"
	for address, want := range map[string]struct{ name, service string }{
		"https://mcp.example.com/mcp":            {"oauth_mcp_example_com_mcp", "mcp.example.com/mcp"},
		"https://MCP.example.com:8443/":          {"oauth_mcp_example_com_8443", "MCP.example.com:8443"},
		"https://mcp.example.com/mcp?key=s3cret": {"oauth_mcp_example_com_mcp_f2b580ac", "mcp.example.com/mcp"},
		long:                                     {"oauth_mcp_eu_production_example_com_v1_projec_2fe31a99", strings.TrimPrefix(long, "https://")},
	} {
		name, c := kind{}.Discover(spec.Text{Value: address})
		s := &userTokens{config: c.(*Config).OAuth2, name: name}
		if name != want.name || s.serviceName() != want.service {
			t.Errorf("%s: %s %s, want %s %s", address, name, s.serviceName(), want.name, want.service)
		}
		if tool := "authorize_" + name; len(tool) > 64 {
			t.Errorf("%s has %d bytes, want at most 64", tool, len(tool))
		}
	}
	declared := &userTokens{config: &oauthConfig{Resource: spec.Text{Value: long}}, name: "crm"}
	if got := declared.serviceName(); got != "crm" {
		t.Errorf("a declared connection: %s, want crm", got)
	}
}

// TestLocalRegistration: a host that only its own machine reaches needs no public address for a
// client that it registers: the browser comes back to its own one.
func TestLocalRegistration(t *testing.T) {
	idp := fakeidp.New(t, redirectURL)
	idp.Discovery = fakeidp.Discovery{Registers: true, TokenAuth: authNone}
	r := fakeidp.NewResource(t, idp, "/mcp", serveOK)
	idp.Resource = r.URL + r.Path
	h := newDiscoveredHost(t, r, GrantOptions{LocalURL: "http://127.0.0.1:8000/oauth/callback"}, "", nil)
	_, err := h.call(t, ana)
	if err := h.consentTo(t, idp, err); err != nil {
		t.Fatal(err)
	}
	if status, err := h.call(t, ana); status != "200 OK" || !h.grants.IsLocal() {
		t.Errorf("with a token: %s, %v", status, err)
	}
}
