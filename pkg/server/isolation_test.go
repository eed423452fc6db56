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
)

// The proof of the promise asks for more, and with a seed of its own.
var (
	seed = flag.Uint64("seed", 1, "the seed of what is left to chance")
	full = flag.Bool("full", false, "ask each route 1000 times")
)

// similarUsers are names that somebody may take for one another: databases that compare
// without case or accents, clients that trim, and people who read.
func similarUsers() []string {
	return []string{
		"ana", "Ana", "ANA", "ána", "a\u0301na", "anа" /* a Cyrillic letter */, "ａｎａ", "ana ", " ana", "ana\u200b", "an%61",
		"ana\u00a0", "ana.", "ana'--", "ana\\", "ªna", "ßs", "ss", "İ", "i", "ı", "bob",
	}
}

// TestIsolation: whatever the route, and however alike the names are, nobody
// reads or changes what another user has. Each route of the table is asked by
// random callers about random users. Where nobody is asked who they are, the same
// requests get the secret, so that the test would notice.
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
	opts := &server.Options{Auth: newAuth(t, doc.String()), Metrics: server.NewMetrics("")}
	e := newEnvOn(t, url, opts)
	open := server.New(e.host, nil)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	for i, u := range similarUsers() {
		_, err := e.store.Sessions.Create(t.Context(), session.Key{App: "hello", User: u, ID: "s"}, map[string]any{"secret": fmt.Sprintf("secret-of-%04d", i)})
		if err != nil {
			t.Fatal(err)
		}
	}
	random := rand.New(rand.NewPCG(*seed, 1))
	let, known, foreign, failed := 0, 0, 0, 0
	rounds := 1000 / len(e.server.Patterns())
	if *full {
		rounds = 1000
	}
	for _, pattern := range e.server.Patterns() {
		for range rounds {
			caller, user := random.IntN(len(similarUsers())), random.IntN(len(similarUsers()))
			w := httptest.NewRecorder()
			e.server.ServeHTTP(w, newUserRequest(pattern, similarUsers()[user], caller))
			told := w.Code < 300 && strings.Contains(w.Body.String(), fmt.Sprintf("secret-of-%04d", user))
			if caller == user {
				known++
				if w.Code == http.StatusUnauthorized {
					t.Errorf("%s of %q by themselves = %d", pattern, similarUsers()[user], w.Code)
				}
				continue
			}
			foreign++
			mine := strings.Contains(w.Body.String(), fmt.Sprintf("secret-of-%04d", caller))
			if told || mine || strings.Contains(pattern, "{user}") && w.Code < 300 {
				failed++
				t.Errorf("%s of %q by %q = %d %s", pattern, similarUsers()[user], similarUsers()[caller], w.Code, w.Body)
			}
			w = httptest.NewRecorder()
			if !strings.HasPrefix(pattern, "DELETE") {
				open.ServeHTTP(w, newUserRequest(pattern, similarUsers()[user], caller))
			}
			if strings.Contains(w.Body.String(), fmt.Sprintf("secret-of-%04d", user)) {
				let++
			}
		}
	}
	if let == 0 || known == 0 {
		t.Errorf("without protection %d requests got a secret, and %d were a user's own: the test shows nothing", let, known)
	}
	t.Logf("shown: %s: %d requests about others, on %d routes, %d let through; control, nobody is asked who they are: %d secrets told",
		strings.TrimPrefix(t.Name(), "TestIsolation/"), foreign, len(e.server.Patterns()), failed, let)
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

// newUserRequest is a request of a caller about a user, in the path or the body.
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
	if path == "/-/changes" { // a feed lasts as long as who asks
		ctx, leave := context.WithCancel(r.Context())
		leave()
		r = r.WithContext(ctx)
	}
	return r
}
