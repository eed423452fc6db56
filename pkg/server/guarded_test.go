package server_test

import (
	"bytes"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/pkg/auth"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
)

// TestGuarded plays exchanges with a server that asks callers who they are, or
// bounds their runs: the part auth is its document, and limits says RUNS/TIME for
// a user, and behind it for an app. A file apps/… is an app of the host.
func TestGuarded(t *testing.T) {
	files, err := filepath.Glob("testdata/guarded/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no exchanges: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { guarded(t, file) })
	}
}

func guarded(t *testing.T, file string) {
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	e := guardedEnv(t, ar)
	got := &txtar.Archive{Comment: ar.Comment}
	for _, f := range ar.Files {
		if f.Name == "response" {
			continue
		}
		got.Files = append(got.Files, f)
		if f.Name == "request" {
			w := httptest.NewRecorder()
			e.server.ServeHTTP(w, parseRequest(t, f.Data))
			got.Files = append(got.Files, txtar.File{Name: "response", Data: formatResponse(w)})
		}
	}
	text := txtar.Format(got)
	if *update {
		if err := os.WriteFile(file, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(txtar.Format(ar)), string(text)); diff != "" || len(bytes.TrimSpace(ar.Comment)) == 0 {
		t.Errorf("exchange (-want +got), which begins with prose:\n%s", diff)
	}
}

func guardedEnv(t *testing.T, ar *txtar.Archive) *env {
	opts := &server.Options{Version: "1.2.3", AutoCreateSession: true, Metrics: server.NewMetrics("")}
	for _, f := range ar.Files {
		switch f.Name {
		case "auth":
			opts.Auth = authOf(t, string(f.Data))
		case "limits":
			user, app, _ := strings.Cut(strings.TrimSpace(string(f.Data)), " ")
			opts.RunsPerUser, opts.RunsPerApp = rate(t, user), rate(t, app)
		}
	}
	e := newEnv(t, opts)
	e.add(t, "hello", &runtime.LLMOptions{Model: scripted(t)})
	e.add(t, "other", &runtime.LLMOptions{Model: scripted(t)})
	(&watched{}).serve(t, e, ar, t.TempDir())
	return e
}

func authOf(t *testing.T, text string) *auth.Auth {
	t.Helper()
	n, ds := spec.Parse("auth.yaml", []byte(text))
	a, more := auth.Decode(n, nil)
	if ds = append(ds, more...); ds.HasErrors() {
		t.Fatal(ds)
	}
	t.Cleanup(a.Close)
	return a
}

func rate(t *testing.T, text string) server.Rate {
	t.Helper()
	r, err := server.ParseRate(text)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestParseRate(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "60/1m": "60/1m0s", "5/s": "5/1s", "1/24h": "1/24h0m0s",
		"60": `"60": write RUNS/TIME, such as 60/1m`, "0/1m": `"0/1m": write RUNS/TIME, such as 60/1m`,
		"x/1m": `"x/1m": write RUNS/TIME, such as 60/1m`, "1/-1s": `"1/-1s": write RUNS/TIME, such as 60/1m`,
	} {
		r, err := server.ParseRate(text)
		got := r.String()
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("ParseRate(%q) = %s, want %s", text, got, want)
		}
	}
}

// The API's description needs no token: clients poll /docs to find out whether a server
// is up. It is the same document, whatever the server is started with.
func TestDocsNeedNoToken(t *testing.T) {
	open := newEnv(t, &server.Options{Metrics: server.NewMetrics("")})
	e := newEnv(t, &server.Options{Auth: authOf(t, "tokens: [{token: ana-ana-ana-ana-ana, claims: {sub: ana}}]")})
	want(t, e.do("GET", "/list-apps", ""), 401, `{"detail":"Not authenticated"}`)
	for _, path := range []string{"/docs", "/openapi.json"} {
		want(t, e.do("GET", path, ""), 200, open.do("GET", path, "").Body.String())
	}
}
