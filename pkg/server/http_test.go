package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/wing/evaluation/evalweb"
)

// Each file in testdata/http is an exchange; see [servertest.RunExchanges].
func TestExchanges(t *testing.T) {
	servertest.RunExchanges(t, "testdata/http/*.txtar", func(t *testing.T, ar *txtar.Archive) (*servertest.Env, string) {
		e, dir := newExchangeEnv(t, ar)
		return e.Env, dir
	})
}

func newExchangeEnv(t *testing.T, ar *txtar.Archive) (*env, string) {
	e, dir := servertest.NewExchangeEnv(t, ar, &servertest.Folders{}, &servertest.Options{
		Server: &server.Options{Extensions: []func(*server.Services) *server.Extension{evalweb.Extend(nil)}}, // its sessions
	})
	return wrapEnv(e), dir
}

// fakeReloader has the apps' statuses.
type fakeReloader = servertest.Reloader

// loadingReloader is a reloader whose app is still loading when Reload returns.
type loadingReloader struct{ fakeReloader }

// Reload does nothing.
func (loadingReloader) Reload(context.Context) error { return nil }

// A reload responds with 202 and lists the apps that are still loading; /readyz names
// them too.
func TestReloadStillLoading(t *testing.T) {
	e := newEnv(t, &server.Options{Reloader: loadingReloader{fakeReloader{"slow": {App: "slow", Revision: "r1", OK: true, Loading: true}}}})
	for _, tt := range []struct{ method, path, want string }{
		{"POST", "/-/reload", `{"changed":[],"failed":[],"removed":[],"loading":[{"app":"slow","revision":"r1","ok":true,"loading":true,"diagnostics":[]}]}`},
		{"GET", "/readyz", `"app slow: files are still loading"`},
	} {
		w := httptest.NewRecorder()
		e.server.ServeHTTP(w, httptest.NewRequest(tt.method, "http://127.0.0.1"+tt.path, nil))
		if !strings.Contains(w.Body.String(), tt.want) || tt.method == "POST" && w.Code != http.StatusAccepted {
			t.Errorf("%s = %d %s, want %s", tt.path, w.Code, w.Body, tt.want)
		}
	}
}
