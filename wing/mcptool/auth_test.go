package mcptool

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	connections "agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A userSource has a token for each user, and another one after a rejection.
type userSource struct{ rejected atomic.Int64 }

func (s *userSource) Credential(_ context.Context, user connections.User) (*connections.Credential, error) {
	token := "token-of-" + user.UserID
	if s.rejected.Load() > 0 {
		token += "-renewed"
	}
	return &connections.Credential{In: "header", Name: "Authorization", Value: "Bearer " + token, Secrets: []string{token}}, nil
}

func (s *userSource) Evict(connections.User, *connections.Credential) bool {
	return s.rejected.Add(1) == 1
}

func (s *userSource) PerUser() bool { return true }

// setConnection gives a tool set the connection crm.
func setConnection(set tool.Set, source connections.Source, hosts ...string) {
	s := set.(*serverSet)
	s.env.Connection = connections.New("crm", source, hosts)
	s.links.keepsLinks = false
}

func callAs(t *testing.T, set tool.Set, user string) (string, error) {
	t.Helper()
	call := &tool.Call{State: mapState{}, Args: map[string]any{}, Origin: model.Origin{App: "shop", UserID: user}}
	tools, err := set.(tool.SessionSet).ListTools(t.Context(), call)
	if err != nil {
		return "", err
	}
	res, err := tools[0].Run(t.Context(), call)
	if err != nil {
		return "", err
	}
	content := res.Response["content"].([]any)[0].(map[string]any)
	return content["text"].(string), nil
}

// TestConnectionOfUsers checks that each user has a session with the server, authorized by
// the own token, and that results do not show tokens.
func TestConnectionOfUsers(t *testing.T) {
	var opened atomic.Int64
	h := serveTokens(t, &opened)
	set := buildSet(t, "mcp", "url: "+h.URL)
	setConnection(set, &userSource{}, connections.HostOf(h.URL))
	for range 2 {
		for _, user := range []string{"ana", "bob"} {
			if got, err := callAs(t, set, user); err != nil || got != "Bearer *** Bearer ***" {
				t.Errorf("%s: %q, %v", user, got, err)
			}
		}
	}
	if opened.Load() != 2 {
		t.Errorf("%d sessions, want 2", opened.Load())
	}
}

// TestConnectionRenewed checks that a request that the server rejects with 401 is repeated
// with another token.
func TestConnectionRenewed(t *testing.T) {
	var opened atomic.Int64
	h := serveTokens(t, &opened)
	next := h.Config.Handler
	h.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.Header.Get("Authorization"), "-renewed") {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		next.ServeHTTP(w, r)
	})
	set, source := buildSet(t, "mcp", "url: "+h.URL), &userSource{}
	setConnection(set, source, connections.HostOf(h.URL))
	if got, err := callAs(t, set, "ana"); err != nil || got != "Bearer *** Bearer ***" || source.rejected.Load() != 1 {
		t.Errorf("%q, %v after %d rejections", got, err, source.rejected.Load())
	}
}

// TestConnectionRedirect checks that a redirect to another host, and from there back, does not get
// the token, nor the document's headers.
func TestConnectionRedirect(t *testing.T) {
	var leaked atomic.Bool
	var home *httptest.Server
	foreign := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leaked.CompareAndSwap(false, r.Header.Get("Authorization")+r.Header.Get("X-Key") != "")
		http.Redirect(w, r, home.URL+"/back", http.StatusFound)
	}))
	t.Cleanup(foreign.Close)
	home = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/back" {
			leaked.CompareAndSwap(false, r.Header.Get("Authorization")+r.Header.Get("X-Key") != "")
			return
		}
		http.Redirect(w, r, foreign.URL, http.StatusFound)
	}))
	t.Cleanup(home.Close)
	get, err := http.NewRequestWithContext(t.Context(), http.MethodGet, home.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	set := buildSet(t, "mcp", "url: "+home.URL)
	setConnection(set, &userSource{}, connections.HostOf(home.URL))
	s := set.(*serverSet)
	l := s.newLink(http.Header{}, connections.User{App: "shop", UserID: "ana"})
	resp, err := s.server.newHTTPClient(s.env, l, http.Header{"X-Key": {"k3y"}}).Do(get)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.Request.URL.Path != "/back" || leaked.Load() {
		t.Errorf("ended at %s, leaked %v", resp.Request.URL.Path, leaked.Load())
	}
}

// TestAuthWithCommand checks that programs have no connection.
func TestAuthWithCommand(t *testing.T) {
	n, ds := spec.Parse("app.yaml", []byte("command: [server]\nauth: crm"))
	kind, _ := Kinds().Lookup("mcp")
	plan, more := kind.Decode(n)
	ds = append(append(ds, more...), plan.Config.(spec.Checker).Check(n)...)
	if len(ds) != 1 || ds[0].Message != "auth requires url" {
		t.Errorf("%v, want auth requires url", ds)
	}
}
