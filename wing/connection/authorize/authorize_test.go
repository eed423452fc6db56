package authorize

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/fake/fakeidp"
	"agenthost/pkg/connection"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	connections "agenthost/wing/connection"
)

// TestCallbackListener checks that only the request's state is an answer, from a browser that
// addresses the listener itself.
func TestCallbackListener(t *testing.T) {
	l, err := openCallback(t.Context(), 0, "state")
	if err != nil {
		t.Fatal(err)
	}
	var got []url.Values
	finished := make(chan error, 1)
	go func() {
		finished <- l.waitForAnswer(t.Context(), func(query url.Values) error {
			got = append(got, query)
			return errors.New("refused")
		})
	}()
	for _, tt := range []struct {
		method, target, host, want string
		status                     int
	}{
		{"GET", "/oauth/callback?code=c&state=other", "", "did not request", 400},
		{"GET", "/oauth/callback?code=c", "", "did not request", 400},
		{"GET", "/oauth/callback?code=c&state=state", "evil.example.com", "", 404},
		{"POST", "/oauth/callback?code=c&state=state", "", "", 404},
		{"GET", "/?code=c&state=state", "", "", 404},
		{"GET", "/oauth/callback?code=c&state=state", "", "Not authorized", 400},
	} {
		req, err := http.NewRequestWithContext(t.Context(), tt.method, "http://"+l.Addr().String()+tt.target, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Host = tt.host
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != tt.status || !strings.Contains(string(body), tt.want) {
			t.Errorf("%s %s at %q: %d %s %v, want %d %s", tt.method, tt.target, tt.host, resp.StatusCode, body, err, tt.status, tt.want)
		}
	}
	if err := <-finished; err == nil || err.Error() != "refused" || len(got) != 1 {
		t.Errorf("waitForAnswer = %v with %d answers, want one that was refused", err, len(got))
	}
}

// A terminalWorld is a conversation with a connection that waits for the user.
type terminalWorld struct {
	*Authorizer
	key    session.Key
	lines  chan string
	idp    *fakeidp.Server
	errOut *bytes.Buffer
	call   *Call
}

// newTerminalWorld returns a conversation whose pending request expires after a time.
func newTerminalWorld(t *testing.T, grant string, left time.Duration) *terminalWorld {
	t.Helper()
	w := &terminalWorld{idp: fakeidp.New(t, "http://127.0.0.1/oauth/callback"), errOut: &bytes.Buffer{}}
	keys, err := connections.NewRandomKeys()
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now().Add(left - 10*time.Minute)
	grants := connections.NewGrants(connections.GrantOptions{
		Store: &connection.MemoryGrants{}, Keys: keys, Now: func() time.Time { return start },
		Wait: func(ctx context.Context, _ time.Duration) error { <-ctx.Done(); return context.Cause(ctx) },
	})
	n, ds := spec.Parse("app.yaml", []byte("oauth2: {grant: "+grant+", issuer: "+w.idp.URL+", client_id: "+fakeidp.ClientID+", client_secret: "+fakeidp.ClientSecret+"}"))
	kind := connections.NewKind(grants)
	c, more := kind.Decode(n, false)
	if ds = append(ds, more...); ds.HasErrors() {
		t.Fatal(ds)
	}
	source, err := kind.Open(c, connection.Env{App: "shop", Name: "crm"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = source.Credential(t.Context(), connection.User{App: "shop", UserID: "ana"})
	missing := (*connection.ConsentError)(nil)
	if !errors.As(err, &missing) {
		t.Fatal(err)
	}
	config, err := missing.Request(t.Context(), "s", "c")
	if err != nil {
		t.Fatal(err)
	}
	w.call = NewCall(&genai.FunctionCall{Name: runtime.RequestCredential, ID: "q", Args: map[string]any{"functionCallId": "c", "authConfig": config}})
	w.key, w.lines = session.Key{App: "shop", User: "ana", ID: "s"}, make(chan string, 9)
	w.Authorizer = &Authorizer{Grants: grants, out: w.errOut, enabled: true, person: true, askedAgain: map[askedKey]bool{}}
	return w
}

// TestAuthorizeLater checks that an empty line and the request's end finish the wait.
func TestAuthorizeLater(t *testing.T) {
	for _, grant := range []string{"authorization_code", "device_code"} {
		w := newTerminalWorld(t, grant, time.Minute)
		w.lines <- "what is this"
		w.lines <- ""
		if response, err := w.AuthorizeCall(t.Context(), w.call, w.key, w.lines); response != nil || !errors.Is(err, errAuthorizeLater) {
			t.Errorf("%s: %v, %v, want %v", grant, response, err, errAuthorizeLater)
		}
		w = newTerminalWorld(t, grant, 0)
		if response, err := w.AuthorizeCall(t.Context(), w.call, w.key, w.lines); response != nil || !errors.Is(err, errAuthorizeTimeout) {
			t.Errorf("%s: %v, %v, want %v", grant, response, err, errAuthorizeTimeout)
		}
	}
}

// TestAuthorizeByAddress checks that the address at which a browser on another machine ends is an
// answer.
func TestAuthorizeByAddress(t *testing.T) {
	w := newTerminalWorld(t, "authorization_code", time.Minute)
	type result struct {
		response map[string]any
		err      error
	}
	done := make(chan result)
	out, in := io.Pipe()
	w.out = in
	go func() {
		response, err := w.AuthorizeCall(t.Context(), w.call, w.key, w.lines)
		in.Close()
		done <- result{response, err}
	}()
	var printed strings.Builder
	buf := make([]byte, 4096)
	for {
		n, err := out.Read(buf)
		printed.Write(buf[:n])
		if err != nil {
			break
		}
		for line := range strings.Lines(string(buf[:n])) {
			if at := strings.TrimSpace(line); strings.HasPrefix(at, w.idp.URL) {
				w.lines <- w.idp.Authorize(t, at).String()
			}
		}
	}
	if r := <-done; r.err != nil || r.response == nil || !strings.Contains(printed.String(), "enter that address here") {
		t.Errorf("%v, %v: %s", r.response, r.err, &printed)
	}
}

// TestAuthorizeShown checks that a person elsewhere sees the address, may answer late or refuse, and that
// the end of the authorization ends what shows it.
func TestAuthorizeShown(t *testing.T) {
	w := newTerminalWorld(t, "authorization_code", time.Minute)
	ended := make(chan struct{})
	response, err := w.AuthorizeShown(t.Context(), w.call, w.key, func(ctx context.Context, address, code string) error {
		defer close(ended)
		resp, err := http.Get(w.idp.Authorize(t, address).String())
		if err != nil {
			return err
		}
		resp.Body.Close()
		<-ctx.Done()
		return ctx.Err()
	})
	<-ended
	if err != nil || response == nil || w.errOut.Len() > 0 {
		t.Errorf("%v, %v, want an answer, and nothing in the terminal: %s", response, err, w.errOut)
	}
	w = newTerminalWorld(t, "device_code", time.Minute)
	declined := errors.New("declined")
	_, err = w.AuthorizeShown(t.Context(), w.call, w.key, func(_ context.Context, address, code string) error {
		if address == "" || code == "" {
			t.Errorf("shown %q with the code %q", address, code)
		}
		return declined
	})
	if !errors.Is(err, declined) {
		t.Errorf("%v, want %v", err, declined)
	}
	w = newTerminalWorld(t, "authorization_code", 0)
	if _, err = w.AuthorizeShown(t.Context(), w.call, w.key, func(context.Context, string, string) error { return nil }); !errors.Is(err, errAuthorizeTimeout) {
		t.Errorf("%v, want %v", err, errAuthorizeTimeout)
	}
}

// TestAuthorizeUnknownRequest checks that a request that is unknown here is answered once, so that
// the host asks again.
func TestAuthorizeUnknownRequest(t *testing.T) {
	w := newTerminalWorld(t, "authorization_code", time.Minute)
	w.call.state = "of another process"
	if response, err := w.AuthorizeCall(t.Context(), w.call, w.key, w.lines); response == nil || err != nil {
		t.Errorf("%v, %v, want an answer", response, err)
	}
	if response, err := w.AuthorizeCall(t.Context(), w.call, w.key, w.lines); response != nil || !errors.Is(err, connection.ErrNoConsent) {
		t.Errorf("%v, %v, want %v", response, err, connection.ErrNoConsent)
	}
}

// TestNullDevice checks that the null device is not a person.
func TestNullDevice(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if isPerson(f) {
		t.Error("a person is at the null device")
	}
}
