package server_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"agenthost/internal/testdb"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/wing/live/liveweb"
)

// qa/proof runs the test with more rounds and another seed.
var (
	seed = flag.Uint64("seed", 1, "seed of the random requests")
	full = flag.Bool("full", false, "call each route 1000 times")
)

// similarUsers returns user names that are easily confused: by databases that ignore
// case or accents, by clients that trim, and by readers.
func similarUsers() []string {
	return []string{
		"ana", "Ana", "ANA", "ána", "a\u0301na", "anа" /* a Cyrillic letter */, "ａｎａ", "ana ", " ana", "ana\u200b", "an%61",
		"ana\u00a0", "ana.", "ana'--", "ana\\", "ªna", "ßs", "ss", "İ", "i", "ı", "bob",
	}
}

// No caller can read or change another user's data, however similar the names are. Random
// callers send requests about random users to every route. The control is a server without
// authentication, on which the same requests return the secret.
func TestIsolation(t *testing.T) {
	t.Run("memory", func(t *testing.T) { checkIsolation(t, "memory:") })
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
			checkIsolation(t, at)
		})
	}
}

func checkIsolation(t *testing.T, url string) {
	var doc strings.Builder
	doc.WriteString("tokens:\n")
	for i, u := range similarUsers() {
		fmt.Fprintf(&doc, "  - {token: token-of-the-user-%04d, claims: {sub: %q}}\n", i, u)
	}
	extensions := []func(*server.Services) *server.Extension{liveweb.Extend(nil)}
	opts := &server.Options{Auth: newAuth(t, doc.String()), Metrics: server.NewMetrics(""), Extensions: extensions}
	e := newEnvOn(t, url, opts)
	open := server.New(e.host, &server.Options{Extensions: extensions})
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	for i, u := range similarUsers() {
		_, err := e.store.Sessions.Create(t.Context(), session.Key{App: "hello", User: u, ID: "s"}, map[string]any{"secret": fmt.Sprintf("secret-of-%04d", i)})
		if err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(*seed, 1))
	secrets, own, foreign, failed := 0, 0, 0, 0
	rounds := 1000 / len(e.server.Patterns())
	if *full {
		rounds = 1000
	}
	for _, pattern := range e.server.Patterns() {
		for range rounds {
			caller, user := random.IntN(len(similarUsers())), random.IntN(len(similarUsers()))
			w := httptest.NewRecorder()
			e.server.ServeHTTP(w, newUserRequest(pattern, similarUsers()[user], caller))
			leaked := w.Code < 300 && strings.Contains(w.Body.String(), fmt.Sprintf("secret-of-%04d", user))
			if caller == user {
				own++
				if w.Code == http.StatusUnauthorized {
					t.Errorf("%s of %q by the same user = %d", pattern, similarUsers()[user], w.Code)
				}
				continue
			}
			foreign++
			ownSecret := strings.Contains(w.Body.String(), fmt.Sprintf("secret-of-%04d", caller))
			if leaked || ownSecret || strings.Contains(pattern, "{user}") && w.Code < 300 {
				failed++
				t.Errorf("%s of %q by %q = %d %s", pattern, similarUsers()[user], similarUsers()[caller], w.Code, w.Body)
			}
			w = httptest.NewRecorder()
			if !strings.HasPrefix(pattern, "DELETE") {
				open.ServeHTTP(w, newUserRequest(pattern, similarUsers()[user], caller))
			}
			if strings.Contains(w.Body.String(), fmt.Sprintf("secret-of-%04d", user)) {
				secrets++
			}
		}
	}
	if secrets == 0 || own == 0 {
		t.Errorf("without protection %d requests got a secret, and %d were a user's own: the test has no control", secrets, own)
	}
	t.Logf("shown: %s: %d requests about other users, on %d routes, %d let through; control, no authentication: %d secrets returned",
		strings.TrimPrefix(t.Name(), "TestIsolation/"), foreign, len(e.server.Patterns()), failed, secrets)
	for i, u := range similarUsers() {
		sess, err := e.store.Sessions.Get(t.Context(), session.Key{App: "hello", User: u, ID: "s"}, nil)
		if err != nil {
			continue // deleted by its own user
		}
		if got, _ := sess.State.Get("secret"); got != fmt.Sprintf("secret-of-%04d", i) {
			t.Errorf("the secret of %q is now %v", u, got)
		}
	}
}

// newUserRequest returns a caller's request with a user in the path or the body.
func newUserRequest(pattern, user string, caller int) *http.Request {
	method, path, _ := strings.Cut(pattern, " ")
	for name, value := range map[string]string{
		"{app}": "hello", "{user}": url.PathEscape(user), "{session}": "s", "{name...}": "a.txt", "{id}": "1",
	} {
		path = strings.ReplaceAll(path, name, value)
	}
	if i := slices.Index([]byte(path), '{'); i >= 0 {
		path = path[:i] + "x"
	}
	body := fmt.Sprintf(`{"appName":"hello","userId":%q,"sessionId":"s","stateDelta":{"k":1},"newMessage":{"parts":[{"text":"hi"}]},"eventId":"x"}`, user)
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", fmt.Sprintf("Bearer token-of-the-user-%04d", caller))
	if path == "/-/changes" { // the stream ends with its request
		ctx, leave := context.WithCancel(r.Context())
		leave()
		r = r.WithContext(ctx)
	}
	return r
}
