package connection

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/internal/fake/fakeidp"
	"agenthost/internal/limit"
	"agenthost/pkg/connection"
	"agenthost/pkg/spec"
)

const redirectURL = "https://host.example.com/oauth/callback"

// A testHost is a host's replica with the connection crm.
type testHost struct {
	grants *Grants
	source connection.Source
}

var ana = connection.User{App: "shop", UserID: "ana"}

func testKeys(t *testing.T, text string) *Keys {
	t.Helper()
	keys, err := ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

const keyOne, keyTwo = "MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE=", "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="

func newTestHost(t *testing.T, idp *fakeidp.Server, st connection.GrantStore, now func() time.Time) *testHost {
	t.Helper()
	g := NewGrants(GrantOptions{Store: st, Keys: testKeys(t, keyOne), RedirectURL: redirectURL, Now: now})
	return &testHost{g, openUserTokens(t, idp, g, "scopes: [read, write]")}
}

func openUserTokens(t *testing.T, idp *fakeidp.Server, g *Grants, more string) connection.Source {
	t.Helper()
	text := fmt.Sprintf("oauth2: {grant: authorization_code, issuer: %q, client_id: %s, client_secret: %s, %s}", idp.URL, fakeidp.ClientID, fakeidp.ClientSecret, more)
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

// request starts a consent, and returns what the user opens.
func (h *testHost) request(t *testing.T, user connection.User) (authURI string, config map[string]any) {
	t.Helper()
	_, err := h.source.Credential(t.Context(), user)
	missing := (*connection.ConsentError)(nil)
	if !errors.As(err, &missing) {
		t.Fatalf("Credential = %v, want a ConsentError", err)
	}
	if config, err = missing.Request(t.Context(), "s1", "c1"); err != nil {
		t.Fatal(err)
	}
	oauth := config["exchangedAuthCredential"].(map[string]any)["oauth2"].(map[string]any)
	return oauth["authUri"].(string), config
}

// answerOf returns the answer in the address to which the server sends the browser.
func answerOf(to *url.URL) connection.Answer {
	q := to.Query()
	return connection.Answer{State: q.Get("state"), Code: q.Get("code"), Issuer: q.Get("iss"), Error: q.Get("error")}
}

func (h *testHost) authorize(t *testing.T, idp *fakeidp.Server, user connection.User) {
	t.Helper()
	address, _ := h.request(t, user)
	if err := h.grants.FinishConsent(t.Context(), answerOf(idp.Authorize(t, address))); err != nil {
		t.Fatal(err)
	}
}

func (h *testHost) token(t *testing.T, user connection.User) string {
	t.Helper()
	got, err := h.source.Credential(t.Context(), user)
	if err != nil {
		t.Fatal(err)
	}
	return got.Value
}

// visibleGrants is a store whose rows a test reads.
type visibleGrants struct {
	connection.MemoryGrants
	mu   sync.Mutex
	rows map[string]connection.Grant
}

func (v *visibleGrants) SwapGrant(ctx context.Context, g *connection.Grant) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ok, err := v.MemoryGrants.SwapGrant(ctx, g)
	if ok {
		if v.rows == nil {
			v.rows = map[string]connection.Grant{}
		}
		v.rows[g.ID] = *g
	}
	return ok, err
}

func (v *visibleGrants) DeleteGrant(ctx context.Context, id string, version int64) (bool, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	ok, err := v.MemoryGrants.DeleteGrant(ctx, id, version)
	if ok {
		delete(v.rows, id)
	}
	return ok, err
}

// TestConsentAcrossReplicas checks the flow over two replicas: the first ends, the tokens belong to
// the request's user, and the request has no secrets.
func TestConsentAcrossReplicas(t *testing.T) {
	idp, st := fakeidp.New(t, redirectURL), &visibleGrants{}
	first := newTestHost(t, idp, st, nil)
	address, config := first.request(t, ana)
	text, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{fakeidp.ClientSecret, "codeVerifier", "code_verifier"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("the request has %s: %s", secret, text)
		}
	}
	second := newTestHost(t, idp, st, nil)
	if err := second.grants.FinishConsent(t.Context(), answerOf(idp.Authorize(t, address))); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*testHost{first, second} {
		if got := h.token(t, ana); !idp.Accepts(got) {
			t.Errorf("token %q is not valid", got)
		}
	}
	if _, err := first.source.Credential(t.Context(), connection.User{App: "shop", UserID: "bob"}); !errors.As(err, new(*connection.ConsentError)) {
		t.Errorf("another user: %v, want a ConsentError", err)
	}
	if _, err := first.source.Credential(t.Context(), connection.User{App: "other", UserID: "ana"}); !errors.As(err, new(*connection.ConsentError)) {
		t.Errorf("another app: %v, want a ConsentError", err)
	}
	for id, row := range st.rows {
		if strings.Contains(string(row.Sealed), "access-") || strings.Contains(id, "ana") {
			t.Errorf("stored in plain text: %s %q", id, row.Sealed)
		}
	}
}

// TestConsentAnswers checks answers that are not the request's. Each uses up the state, except
// those for other users, sessions and calls. The control is the same answer without the change: it
// gets a token. Of 20 equal answers at once, one gets a token.
func TestConsentAnswers(t *testing.T) {
	now := time.Now()
	idp := fakeidp.New(t, redirectURL)
	tests := []struct {
		name   string
		change func(a *connection.Answer)
		want   string
	}{
		{"state", func(a *connection.Answer) { a.State += "x" }, connection.ErrNoConsent.Error()},
		{"no state", func(a *connection.Answer) { a.State = "" }, connection.ErrNoConsent.Error()},
		{"issuer", func(a *connection.Answer) { a.Issuer = "https://evil.example.com" }, `connection crm: the answer is from the issuer "https://evil.example.com", want ` + idp.URL},
		{"no issuer", func(a *connection.Answer) { a.Issuer = "" }, "connection crm: the answer does not name its issuer"},
		{"refused", func(a *connection.Answer) { a.Code, a.Error = "", "access_denied" }, "connection crm: the authorization server refused: access_denied"},
		{"no code", func(a *connection.Answer) { a.Code = "" }, "connection crm: the answer has no code"},
		{"user", func(a *connection.Answer) {
			a.User, a.SessionID, a.CallID = &connection.User{App: "shop", UserID: "bob"}, "s1", "c1"
		}, connection.ErrNoConsent.Error()},
		{"session", func(a *connection.Answer) { a.User, a.SessionID, a.CallID = &ana, "s2", "c1" }, connection.ErrNoConsent.Error()},
		{"call", func(a *connection.Answer) { a.User, a.SessionID, a.CallID = &ana, "s1", "c2" }, connection.ErrNoConsent.Error()},
		{"late", func(*connection.Answer) { now = now.Add(consentLifetime) }, connection.ErrNoConsent.Error()},
	}
	control := 0
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			other := fakeidp.New(t, redirectURL)
			newTestHost(t, other, &connection.MemoryGrants{}, func() time.Time { return now }).authorize(t, other, ana)
			_, issued := other.Counts()
			control += issued
			h := newTestHost(t, idp, &connection.MemoryGrants{}, func() time.Time { return now })
			address, _ := h.request(t, ana)
			a := answerOf(idp.Authorize(t, address))
			tt.change(&a)
			if err := h.grants.FinishConsent(t.Context(), a); err == nil || err.Error() != tt.want {
				t.Errorf("FinishConsent = %v, want %s", err, tt.want)
			}
			if _, issued := idp.Counts(); issued != 0 {
				t.Errorf("%d tokens issued", issued)
			}
		})
	}
	h := newTestHost(t, idp, &connection.MemoryGrants{}, nil)
	address, _ := h.request(t, ana)
	a := answerOf(idp.Authorize(t, address))
	var accepted atomic.Int64
	var answers sync.WaitGroup
	for range 20 {
		answers.Go(func() {
			if err := h.grants.FinishConsent(t.Context(), a); err == nil {
				accepted.Add(1)
			} else if !errors.Is(err, connection.ErrNoConsent) {
				t.Errorf("a repeated answer: %v, want %v", err, connection.ErrNoConsent)
			}
		})
	}
	answers.Wait()
	if accepted.Load() != 1 {
		t.Errorf("%d of 20 equal answers accepted, want 1", accepted.Load())
	}
	address, _ = newTestHost(t, idp, h.grants.opts.Store, nil).request(t, connection.User{App: "shop", UserID: "bob"})
	openUserTokens(t, idp, h.grants, "scopes: [other]")
	err := h.grants.FinishConsent(t.Context(), answerOf(idp.Authorize(t, address)))
	if want := "connection crm has changed: start again in the conversation"; err == nil || err.Error() != want {
		t.Errorf("changed connection: %v, want %s", err, want)
	}
	if control != len(tests) {
		t.Errorf("control: %d of %d answers without the change got a token", control, len(tests))
	}
	t.Logf("shown: %d changed answers: no token; %d of 20 equal answers at once got one; control, without the change: %d tokens", len(tests), accepted.Load(), control)
}

// TestRefreshOnce checks that 50 calls on two replicas that need a new token make one refresh, and
// that none fails. The control has no lock: the server detects that the refresh token is used
// twice, and revokes all tokens.
func TestRefreshOnce(t *testing.T) {
	for _, locked := range []bool{true, false} {
		t.Run(fmt.Sprintf("locked=%v", locked), func(t *testing.T) {
			now := time.Now()
			clock := func() time.Time { return now }
			idp := fakeidp.New(t, redirectURL)
			var st connection.GrantStore = &connection.MemoryGrants{}
			if !locked {
				st = &unlockedGrants{st}
			}
			hosts := []*testHost{newTestHost(t, idp, st, clock), newTestHost(t, idp, st, clock)}
			hosts[0].authorize(t, idp, ana)
			now = now.Add(2 * time.Hour)
			var wg sync.WaitGroup
			var mu sync.Mutex
			arrived, failed := 0, 0
			all := make(chan struct{})
			idp.Hold = func() { // the control refreshes at the same time
				mu.Lock()
				if arrived++; arrived == 2 {
					close(all)
				}
				mu.Unlock()
				if !locked {
					<-all
				}
			}
			for i := range 50 {
				wg.Go(func() {
					got, err := hosts[i%2].source.Credential(t.Context(), ana)
					mu.Lock()
					defer mu.Unlock()
					if err != nil || !idp.Accepts(got.Value) {
						failed++
					}
				})
			}
			wg.Wait()
			refreshes, _ := idp.Counts()
			if locked && (refreshes != 1 || failed != 0) {
				t.Errorf("%d refreshes, %d of 50 calls failed, want 1 and 0", refreshes, failed)
			}
			if !locked && failed == 0 {
				t.Error("no call failed without the lock: the test shows nothing")
			}
		})
	}
}

// unlockedGrants stores every change, whatever the version, and shows no lease.
type unlockedGrants struct{ connection.GrantStore }

func (u *unlockedGrants) GetGrant(ctx context.Context, id string) (*connection.Grant, error) {
	g, err := u.GrantStore.GetGrant(ctx, id)
	if g != nil {
		g.BusyUntil = time.Time{}
	}
	return g, err
}

func (u *unlockedGrants) SwapGrant(ctx context.Context, g *connection.Grant) (bool, error) {
	for {
		stored, err := u.GrantStore.GetGrant(ctx, g.ID)
		if err != nil {
			return false, err
		}
		next := *g
		if next.Version = 1; stored != nil {
			next.Version = stored.Version + 1
		}
		if ok, err := u.GrantStore.SwapGrant(ctx, &next); ok || err != nil {
			return ok, err
		}
	}
}

// TestRefreshRefused checks that a refused refresh asks for consent again, and that a replica
// that ended during a refresh does not block the others.
func TestRefreshRefused(t *testing.T) {
	now := time.Now()
	idp, st := fakeidp.New(t, redirectURL), &connection.MemoryGrants{}
	h := newTestHost(t, idp, st, func() time.Time { return now })
	h.authorize(t, idp, ana)
	source := h.source.(*userTokens)
	tok, row, err := source.readToken(t.Context(), ana)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := source.swapToken(t.Context(), ana, tok, row.Version, now.Add(2*time.Hour+renewalLease())); err != nil { // its replica ends now
		t.Fatal(err)
	}
	now = now.Add(2 * time.Hour)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("canceled"))
	if _, err := h.source.Credential(ctx, ana); err == nil || err.Error() != "canceled" {
		t.Errorf("while another replica renews: %v, want canceled", err)
	}
	now = now.Add(renewalLease())
	if got := h.token(t, ana); !idp.Accepts(got) {
		t.Errorf("token %q is not valid", got)
	}
	idp.RevokeAll()
	now = now.Add(2 * time.Hour)
	if _, err := h.source.Credential(t.Context(), ana); !errors.As(err, new(*connection.ConsentError)) {
		t.Errorf("after the refusal: %v, want a ConsentError", err)
	}
	h.authorize(t, idp, ana)
	if got := h.token(t, ana); !idp.Accepts(got) {
		t.Errorf("token %q is not valid", got)
	}
}

// TestRefreshAfterRejection checks that a token that a service rejects is renewed once.
func TestRefreshAfterRejection(t *testing.T) {
	idp := fakeidp.New(t, redirectURL)
	h := newTestHost(t, idp, &connection.MemoryGrants{}, nil)
	h.authorize(t, idp, ana)
	idp.ExpireAll()
	for range 2 {
		rejected, err := h.source.Credential(t.Context(), ana)
		if err != nil {
			t.Fatal(err)
		}
		if !idp.Accepts(rejected.Value) && !h.source.Evict(ana, rejected) {
			t.Error("Evict = false, want another token")
		}
	}
	if refreshes, _ := idp.Counts(); refreshes != 1 {
		t.Errorf("%d refreshes, want 1", refreshes)
	}
}

// TestRejectionDuringRenewal checks that a call whose token was rejected does not make the
// replica that renews it lose the new refresh token.
func TestRejectionDuringRenewal(t *testing.T) {
	idp := fakeidp.New(t, redirectURL)
	h := newTestHost(t, idp, &connection.MemoryGrants{}, nil)
	h.authorize(t, idp, ana)
	old, err := h.source.Credential(t.Context(), ana)
	if err != nil {
		t.Fatal(err)
	}
	h.source.Evict(ana, old)
	idp.Hold = func() { h.source.Evict(ana, old) }
	for range 2 {
		if got := h.token(t, ana); !idp.Accepts(got) {
			t.Errorf("token %q is not valid", got)
		}
	}
	if refreshes, _ := idp.Counts(); refreshes != 1 {
		t.Errorf("%d refreshes, want 1", refreshes)
	}
}

// TestTokenServerFailures checks that bad answers to a refresh are bounded errors without
// secrets, after which the refresh token still works.
func TestTokenServerFailures(t *testing.T) {
	tests := []struct{ name, body, want string }{
		{"garbage", "\x00\x01garbage", "requesting a token: the response is not valid token JSON"},
		{"10 MB", strings.Repeat(" ", 10<<20), "requesting a token: token response exceeds the limit of 256 KiB"},
		{"no token", `{"token_type": "Bearer"}`, "requesting a token: the response has no valid access_token"},
		{"other type", `{"token_type": "DPoP", "access_token": "t0ken"}`, `requesting a token: token_type must be Bearer, got "DPoP"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			now := time.Now()
			idp := fakeidp.New(t, redirectURL)
			h := newTestHost(t, idp, &connection.MemoryGrants{}, func() time.Time { return now })
			h.authorize(t, idp, ana)
			now = now.Add(2 * time.Hour)
			idp.Answer = func(w http.ResponseWriter, _ *http.Request) bool {
				_, _ = w.Write([]byte(tt.body))
				return true
			}
			if _, err := h.source.Credential(t.Context(), ana); err == nil || err.Error() != tt.want {
				t.Errorf("Credential = %v, want %s", err, tt.want)
			}
			idp.Answer = nil
			if got := h.token(t, ana); !idp.Accepts(got) {
				t.Errorf("token %q is not valid", got)
			}
		})
	}
	idp := fakeidp.New(t, redirectURL)
	h := newTestHost(t, idp, &connection.MemoryGrants{}, nil)
	address, _ := h.request(t, ana)
	a := answerOf(idp.Authorize(t, address))
	idp.Answer = func(w http.ResponseWriter, r *http.Request) bool {
		_ = r.ParseForm()
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": "invalid_grant", "error_description": r.PostForm.Encode() + fakeidp.ClientSecret})
		return true
	}
	err := h.grants.FinishConsent(t.Context(), a)
	for _, secret := range []string{a.Code, fakeidp.ClientSecret} {
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("FinishConsent = %v, want an error without %s", err, secret)
		}
	}
}

// TestKeysReplaced checks how keys are replaced, and that a row cannot be moved to another user.
func TestKeysReplaced(t *testing.T) {
	row := &connection.Grant{ID: "a", User: ana, Connection: "crm"}
	row.Sealed = testKeys(t, keyOne).SealText(row, []byte("text"))
	if got, err := testKeys(t, keyTwo+"\n"+keyOne).OpenSealed(row); err != nil || string(got) != "text" {
		t.Errorf("open with both keys = %q, %v", got, err)
	}
	moved := *row
	moved.User.UserID = "bob"
	for name, open := range map[string]func() ([]byte, error){
		"another key":  func() ([]byte, error) { return testKeys(t, keyTwo).OpenSealed(row) },
		"another user": func() ([]byte, error) { return testKeys(t, keyOne).OpenSealed(&moved) },
	} {
		if _, err := open(); !errors.Is(err, errSealed) {
			t.Errorf("open with %s = %v, want %v", name, err, errSealed)
		}
	}
	for text, want := range map[string]string{
		"":               "there is no key: write the output of: openssl rand -base64 32",
		keyOne + "\nabc": "key 2 must be 32 bytes in base64, such as the output of: openssl rand -base64 32",
	} {
		if _, err := ParseKeys(text); err == nil || err.Error() != want {
			t.Errorf("ParseKeys = %v, want %s", err, want)
		}
	}
}

// TestKeyReplaced checks that a token that no key decrypts asks for consent again.
func TestKeyReplaced(t *testing.T) {
	idp, st := fakeidp.New(t, redirectURL), &connection.MemoryGrants{}
	newTestHost(t, idp, st, nil).authorize(t, idp, ana)
	h := newTestHost(t, idp, st, nil)
	h.grants.opts.Keys = testKeys(t, keyTwo)
	h.authorize(t, idp, ana)
	if got := h.token(t, ana); !idp.Accepts(got) {
		t.Errorf("token %q is not valid", got)
	}
}

// TestUserTokensUnavailable checks hosts that cannot store tokens.
func TestUserTokensUnavailable(t *testing.T) {
	c := Config{OAuth2: &oauthConfig{Grant: grantAuthorizationCode}}
	_, err := c.openSource(connection.Env{}, NewGrants(GrantOptions{Store: &connection.MemoryGrants{}}))
	if want := "the grant authorization_code stores users' tokens encrypted and requires --credentials-key"; err == nil || err.Error() != want {
		t.Errorf("without a key: %v, want %s", err, want)
	}
	source, err := c.openSource(connection.Env{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, err = source.Credential(t.Context(), ana)
	if want := "users can authorize the connection only with agenthost serve and agenthost run"; err == nil || err.Error() != want {
		t.Errorf("without grants: %v, want %s", err, want)
	}
}

// A silentTransport never answers.
type silentTransport struct{}

func (silentTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, context.Cause(r.Context())
}

// TestTokenServerSilent checks that a refresh does not wait longer than 30 s, and then ends
// its lease.
func TestTokenServerSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := NewGrants(GrantOptions{Store: &connection.MemoryGrants{}, Keys: testKeys(t, keyOne)})
		c := &oauthConfig{Grant: grantAuthorizationCode, TokenURL: spec.Text{Value: "https://idp.example.com/token"}}
		opened, err := newUserTokens(c, connection.Env{HTTP: &http.Client{Transport: silentTransport{}}, App: "shop", Name: "crm"}, g)
		if err != nil {
			t.Fatal(err)
		}
		source, began := opened.(*userTokens), time.Now()
		if err := source.replaceToken(t.Context(), ana, &userToken{Access: "old", Refresh: "r3fresh", Expires: 1}); err != nil {
			t.Fatal(err)
		}
		_, err = source.Credential(t.Context(), ana)
		if want := "requesting a token: context deadline exceeded"; err == nil || err.Error() != want || time.Since(began) != limit.TokenAnswer.Time {
			t.Errorf("Credential = %v after %s, want %s after %s", err, time.Since(began), want, limit.TokenAnswer.Time)
		}
		if _, row, err := source.readToken(t.Context(), ana); err != nil || !row.BusyUntil.IsZero() {
			t.Errorf("lease until %s, %v, want none", row.BusyUntil, err)
		}
	})
}
