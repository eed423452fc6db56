package server_test

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/auth"
	"agenthost/internal/servertest"
	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
)

// Each file in testdata/guarded is an exchange with a server that authenticates callers or
// limits their runs. The part auth is the auth file; the part limits has the rate for a user
// and, optionally, for an app. Parts apps/… are apps on the host.
func TestAuthAndRateLimits(t *testing.T) {
	files, err := filepath.Glob("testdata/guarded/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no exchanges: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { runGuarded(t, file) })
	}
}

func runGuarded(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	e := newGuardedEnv(t, ar)
	got := &txtar.Archive{Comment: ar.Comment}
	for _, f := range ar.Files {
		if f.Name == "response" {
			continue
		}
		got.Files = append(got.Files, f)
		if f.Name == "request" {
			w := httptest.NewRecorder()
			e.server.ServeHTTP(w, servertest.ParseRequest(t, f.Data))
			got.Files = append(got.Files, txtar.File{Name: "response", Data: servertest.FormatResponse(w)})
		}
	}
	text := txtar.Format(got)
	if testenv.IsUpdating() {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(ar)), string(text)); diff != "" || len(bytes.TrimSpace(ar.Comment)) == 0 {
		t.Errorf("exchange (-want +got), which must start with a comment:\n%s", diff)
	}
}

func newGuardedEnv(t *testing.T, ar *txtar.Archive) *env {
	opts := &server.Options{Version: "1.2.3", AutoCreateSession: true, Metrics: server.NewMetrics("")}
	for _, f := range ar.Files {
		switch f.Name {
		case "auth":
			opts.Auth = newAuth(t, string(f.Data))
		case "limits":
			user, app, _ := strings.Cut(strings.TrimSpace(string(f.Data)), " ")
			opts.RunsPerUser, opts.RunsPerApp = parseRate(t, user), parseRate(t, app)
		}
	}
	e := newEnv(t, opts)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
	e.addLLMApp(t, "other", &runtime.LLMOptions{Model: scriptedModel(t)})
	(&servertest.Folders{}).LoadApps(t, e.Env, ar, t.TempDir())
	return e
}

func newAuth(t *testing.T, text string) *auth.Auth {
	t.Helper()
	n, ds := spec.Parse("auth.yaml", []byte(text))
	a, more := auth.Decode(n, nil)
	if ds = append(ds, more...); ds.HasErrors() {
		t.Fatal(ds)
	}
	t.Cleanup(a.Close)
	return a
}

// Runs of missing sessions count against their user's rate limit, but not the app's.
func TestRateLimitMissingSession(t *testing.T) {
	for _, path := range []string{"/run", "/run_sse"} {
		e := newEnv(t, &server.Options{RunsPerUser: parseRate(t, "4/1h"), RunsPerApp: parseRate(t, "3/1h")})
		e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: scriptedModel(t)})
		run := func(user, id string) int {
			return e.serve("POST", path, `{"appName":"hello","userId":"`+user+`","sessionId":"`+id+`","newMessage":{"parts":[{"text":"hi"}]}}`).Code
		}
		e.serve("POST", "/apps/hello/users/ana/sessions/s", "")
		e.serve("POST", "/apps/hello/users/bob/sessions/s", "")
		var codes []int
		for range 5 {
			codes = append(codes, run("eve", "missing"))
		}
		for range 3 {
			codes = append(codes, run("ana", "s"))
		}
		codes = append(codes, run("bob", "s"))
		if want := []int{404, 404, 404, 404, 429, 200, 200, 200, 429}; !slices.Equal(codes, want) {
			t.Errorf("%s: the statuses are %v, want %v", path, codes, want)
		}
	}
}

// An unauthenticated request gets 401 for every path, also for one that is not canonical: a
// redirect to the canonical path would show which routes exist. The control has a token: it is
// redirected.
func TestUnauthenticatedPaths(t *testing.T) {
	const token = "ops-ops-ops-ops-ops"
	e := newEnv(t, &server.Options{Auth: newAuth(t, "tokens: [{token: "+token+", claims: {sub: ops}}]\nadmin: \"true\"\n")})
	get := func(target, header string) int {
		w := httptest.NewRecorder()
		r := httptest.NewRequest("GET", "http://127.0.0.1"+target, nil)
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		e.server.ServeHTTP(w, r)
		return w.Code
	}
	paths := []string{
		"/apps/echo/users/./bob/sessions", "/apps/echo/users//bob/sessions", "/apps/x/../echo/users/bob/sessions", "/apps/echo/users/bob/sessions/../sessions/s",
		"//list-apps", "/./list-apps", "/a/../list-apps/", "/nope/./x", "/nope", "/list-apps", "/list-apps/", "/-/./changes",
	}
	for _, target := range paths {
		if got := get(target, ""); got != 401 {
			t.Errorf("GET %s without a token = %d, want 401", target, got)
		}
	}
	for target, want := range map[string]int{"/apps/echo/users/./bob/sessions": 307, "//list-apps": 307, "/list-apps": 200, "/livez": 200} {
		if got := get(target, "Bearer "+token); got != want {
			t.Errorf("GET %s with a token = %d, want %d", target, got, want)
		}
	}
	shown := 0
	for _, target := range paths {
		if got := get(target, "Bearer "+token); got != 401 {
			shown++
		}
	}
	t.Logf("shown: %d paths without a token: all 401; control, with a token: %d others", len(paths), shown)
}
