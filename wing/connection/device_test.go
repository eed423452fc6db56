package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"agenthost/internal/fake/fakeidp"
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

// A testClock is the clock for a host and its authorization server. Waiting advances it.
type testClock struct {
	mu  sync.Mutex
	now time.Time
	// onWait, if set, is called before a wait.
	onWait func()
}

func (c *testClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *testClock) wait(ctx context.Context, d time.Duration) error {
	if c.onWait != nil {
		c.onWait()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return ctx.Err()
}

// A deviceHost is a replica with the connection crm by device codes.
type deviceHost struct {
	*testHost
	clock *testClock
}

func newDeviceHost(t *testing.T, idp *fakeidp.Server, st connection.GrantStore) *deviceHost {
	t.Helper()
	clock := &testClock{now: time.Now().Round(0)} // stored times have no monotonic clock
	idp.Now = clock.read
	g := NewGrants(GrantOptions{Store: st, Keys: testKeys(t, keyOne), Now: clock.read, Wait: clock.wait})
	return &deviceHost{&testHost{g, openDeviceTokens(t, idp, g, "scopes: [read, write]")}, clock}
}

func openDeviceTokens(t *testing.T, idp *fakeidp.Server, g *Grants, more string) connection.Source {
	t.Helper()
	text := fmt.Sprintf("oauth2: {grant: device_code, issuer: %q, client_id: %s, client_secret: %s, %s}", idp.URL, fakeidp.ClientID, fakeidp.ClientSecret, more)
	n, ds := spec.Parse("app.yaml", []byte(text))
	var c Config
	if ds = append(ds, c.DecodeSpec(n)...); ds.HasErrors() {
		t.Fatal(ds)
	}
	source, err := c.openSource(connection.Env{App: "shop", Name: "crm"}, g)
	if err != nil {
		t.Fatal(err)
	}
	return source
}

// requestDevice starts a consent, and returns what the user sees and the answer.
func (h *deviceHost) requestDevice(t *testing.T) (address, userCode string, a connection.Answer) {
	t.Helper()
	address, config := h.request(t, ana)
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{fakeidp.ClientSecret, "device-", "device_code"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the request has %s: %s", secret, text)
		}
	}
	asked := config["exchangedAuthCredential"].(map[string]any)["oauth2"].(map[string]any)
	return address, asked["userCode"].(string), connection.Answer{State: connection.DeviceState(config), Device: true, User: &ana, SessionID: "s1", CallID: "c1"}
}

// TestDeviceConsent checks that a user's tokens arrive after the user has entered the code, on
// another replica than the one that asked, and that the code works once.
func TestDeviceConsent(t *testing.T) {
	idp, st := fakeidp.New(t), &visibleGrants{}
	address, userCode, a := newDeviceHost(t, idp, st).requestDevice(t)
	h := newDeviceHost(t, idp, st)
	waits := 0
	h.clock.onWait = func() {
		if waits++; waits == 3 {
			idp.Activate(t, address, userCode, true)
		}
	}
	if pending, err := h.grants.FindDevice(t.Context(), a.State); err != nil || pending.User != ana || pending.Connection != "crm" {
		t.Errorf("FindDevice = %v, %v", pending, err)
	}
	if err := h.grants.FinishConsent(t.Context(), a); err != nil {
		t.Fatal(err)
	}
	if got := h.token(t, ana); !idp.Accepts(got) || idp.Polls() != 3 {
		t.Errorf("token %q after %d polls, want a valid one after 3", got, idp.Polls())
	}
	if err := h.grants.FinishConsent(t.Context(), a); !errors.Is(err, connection.ErrNoConsent) {
		t.Errorf("second answer: %v, want %v", err, connection.ErrNoConsent)
	}
	for id, row := range st.rows {
		if strings.Contains(string(row.Sealed), "device-") || strings.Contains(id, a.State) || !row.Expires.IsZero() {
			t.Errorf("stored: %s %q", id, row.Sealed)
		}
	}
}

// TestDeviceAnswers checks the errors in answers, and how often each polls.
func TestDeviceAnswers(t *testing.T) {
	const pending = "connection crm is not authorized yet: enter the code at the request's address, then answer again"
	tests := []struct {
		name string
		// act is what happens between the request and the answer.
		act   func(t *testing.T, h *deviceHost, idp *fakeidp.Server, address, userCode string, a *connection.Answer)
		want  string
		polls int
		kept  bool
	}{
		{"unanswered", func(*testing.T, *deviceHost, *fakeidp.Server, string, string, *connection.Answer) {}, pending, 5, true},
		{"slow down", func(_ *testing.T, _ *deviceHost, idp *fakeidp.Server, _, _ string, _ *connection.Answer) {
			idp.SlowDown()
		}, pending, 3, true},
		{"denied", func(t *testing.T, _ *deviceHost, idp *fakeidp.Server, address, userCode string, _ *connection.Answer) {
			idp.Activate(t, address, userCode, false)
		}, "connection crm: the authorization was denied: answer again to get a new code", 1, false},
		{"expired at the server", func(_ *testing.T, h *deviceHost, idp *fakeidp.Server, _, _ string, _ *connection.Answer) {
			idp.Now = func() time.Time { return h.clock.read().Add(time.Hour) }
		}, "connection crm: the code has expired: answer again to get a new code", 1, false},
		{"late", func(_ *testing.T, h *deviceHost, _ *fakeidp.Server, _, _ string, _ *connection.Answer) {
			h.clock.now = h.clock.now.Add(10 * time.Minute)
		}, connection.ErrNoConsent.Error(), 0, false},
		{"server error", func(_ *testing.T, _ *deviceHost, idp *fakeidp.Server, _, _ string, _ *connection.Answer) {
			idp.Answer = func(w http.ResponseWriter, _ *http.Request) bool { w.WriteHeader(503); return true }
		}, "connection crm: requesting a token: 503 Service Unavailable", 0, true},
		{"another error", func(_ *testing.T, _ *deviceHost, idp *fakeidp.Server, _, _ string, _ *connection.Answer) {
			idp.Answer = func(w http.ResponseWriter, r *http.Request) bool {
				w.WriteHeader(400)
				_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant", "error_description": r.PostFormValue("device_code")})
				return true
			}
		}, "connection crm: requesting a token: 400 Bad Request: invalid_grant: ***: answer again to get a new code", 0, false},
		{"guessed state", func(_ *testing.T, _ *deviceHost, _ *fakeidp.Server, _, _ string, a *connection.Answer) {
			a.State += "x"
		}, connection.ErrNoConsent.Error(), 0, true},
		{"another user", func(_ *testing.T, _ *deviceHost, _ *fakeidp.Server, _, _ string, a *connection.Answer) {
			a.User = &connection.User{App: "shop", UserID: "bob"}
		}, connection.ErrNoConsent.Error(), 0, true},
		{"another session", func(_ *testing.T, _ *deviceHost, _ *fakeidp.Server, _, _ string, a *connection.Answer) {
			a.SessionID = "s2"
		}, connection.ErrNoConsent.Error(), 0, true},
		{"another call", func(_ *testing.T, _ *deviceHost, _ *fakeidp.Server, _, _ string, a *connection.Answer) {
			a.CallID = "c2"
		}, connection.ErrNoConsent.Error(), 0, true},
		{"in a browser", func(_ *testing.T, _ *deviceHost, _ *fakeidp.Server, _, _ string, a *connection.Answer) {
			a.Device, a.Code = false, "x"
		}, connection.ErrNoConsent.Error(), 0, true},
		{"changed connection", func(t *testing.T, h *deviceHost, idp *fakeidp.Server, _, _ string, _ *connection.Answer) {
			openDeviceTokens(t, idp, h.grants, "scopes: [other]")
		}, "connection crm has changed: start again in the conversation", 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			idp := fakeidp.New(t)
			h := newDeviceHost(t, idp, &connection.MemoryGrants{})
			address, userCode, a := h.requestDevice(t)
			state := a.State
			tt.act(t, h, idp, address, userCode, &a)
			err := h.grants.FinishConsent(t.Context(), a)
			if err == nil || err.Error() != tt.want || idp.Polls() != tt.polls {
				t.Errorf("FinishConsent = %v after %d polls, want %s after %d", err, idp.Polls(), tt.want, tt.polls)
			}
			own := (*connection.AnswerError)(nil)
			if !errors.As(err, &own) || own.Pending != (tt.want == pending) {
				t.Errorf("%T %v: Pending", err, err)
			}
			if _, err := h.grants.FindDevice(t.Context(), state); (err == nil) != tt.kept {
				t.Errorf("FindDevice = %v, want kept %v", err, tt.kept)
			}
		})
	}
}

// TestDeviceIntervalOfReplicas checks that answers on all replicas together poll no faster than
// the interval: the server reports a faster poll.
func TestDeviceIntervalOfReplicas(t *testing.T) {
	idp, st := fakeidp.New(t), &connection.MemoryGrants{}
	first := newDeviceHost(t, idp, st)
	_, _, a := first.requestDevice(t)
	second := newDeviceHost(t, idp, st)
	second.grants.opts.Now, second.grants.opts.Wait = first.clock.read, first.clock.wait
	idp.Now = first.clock.read
	for _, h := range []*deviceHost{first, second, first} {
		own := (*connection.AnswerError)(nil)
		if err := h.grants.FinishConsent(t.Context(), a); !errors.As(err, &own) || !own.Pending {
			t.Errorf("FinishConsent = %v, want a pending consent", err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := first.grants.FinishConsent(ctx, a); !errors.Is(err, context.Canceled) {
		t.Errorf("canceled answer: %v", err)
	}
}

// TestDeviceImmediate checks an answer that does not wait: it polls only when the next poll is due.
func TestDeviceImmediate(t *testing.T) {
	idp := fakeidp.New(t)
	h := newDeviceHost(t, idp, &connection.MemoryGrants{})
	address, userCode, a := h.requestDevice(t)
	a.Immediate = true
	h.clock.onWait = func() { t.Error("the answer waits") }
	for i, polls := range []int{0, 1} {
		own := (*connection.AnswerError)(nil)
		if err := h.grants.FinishConsent(t.Context(), a); !errors.As(err, &own) || !own.Pending || idp.Polls() != polls {
			t.Errorf("answer %d: %v after %d polls, want a pending consent after %d", i+1, err, idp.Polls(), polls)
		}
		h.clock.now = h.clock.now.Add(10 * time.Second)
	}
	idp.Activate(t, address, userCode, true)
	if err := h.grants.FinishConsent(t.Context(), a); err != nil {
		t.Error(err)
	}
}

// TestDeviceResponses checks device authorization endpoint responses that people must not see, and
// the time bounds.
func TestDeviceResponses(t *testing.T) {
	tests := []struct{ body, want string }{
		{`[]`, "the response is not valid device code JSON"},
		{`{"user_code":"A","verification_uri":"https://x.example.com"}`, "the response has no device_code"},
		{`{"device_code":"d","verification_uri":"https://x.example.com"}`, "the response has no valid user_code"},
		{`{"device_code":"d","user_code":"A\u001b[2J","verification_uri":"https://x.example.com"}`, "the response has no valid user_code"},
		{`{"device_code":"d","user_code":"A","verification_uri":"javascript:alert(1)"}`, "verification_uri: the address of the authorization server must be a URL with a host"},
		{`{"device_code":"d","user_code":"A","verification_uri":"https://x.example.com","verification_uri_complete":"http://x.example.com?c=A"}`, "verification_uri_complete: the address of the authorization server must start with https://"},
		{`{"device_code":"d","user_code":"A","verification_url":"https://x.example.com","interval":1e9}`, "the response is not valid device code JSON"},
		{`{"device_code":"d","user_code":"A","verification_url":"https://x.example.com","interval":1000000000}`, ""},
	}
	for _, tt := range tests {
		got := ""
		if err := new(deviceResponse).decodeJSON([]byte(tt.body)); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.body, got, tt.want)
		}
	}
}

// TestDeviceWithoutEndpoint checks metadata without a device authorization endpoint.
func TestDeviceWithoutEndpoint(t *testing.T) {
	idp := fakeidp.New(t)
	idp.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"issuer": idp.URL, "token_endpoint": idp.URL + "/token"})
	})
	h := newDeviceHost(t, idp, &connection.MemoryGrants{})
	_, err := h.source.Credential(t.Context(), ana)
	missing := (*connection.ConsentError)(nil)
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	_, err = missing.Request(t.Context(), "s1", "c1")
	if want := fmt.Sprintf("connection crm: metadata of %s has no device_authorization_endpoint", idp.URL); err == nil || err.Error() != want {
		t.Errorf("Request = %v, want %s", err, want)
	}
}
