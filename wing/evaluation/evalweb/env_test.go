package evalweb_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"agenthost/internal/auth"
	"agenthost/internal/servertest"
	"agenthost/pkg/loader"
	"agenthost/pkg/server"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/evalrun"
	"agenthost/wing/evaluation/evalweb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newFolders returns folders whose models judge evaluations.
func newFolders() *servertest.Folders {
	return &servertest.Folders{Load: loader.Options{WrapModel: evalrun.WrapModel}}
}

// newEnv returns a server with the evaluation routes.
func newEnv(t *testing.T, opts *evalweb.Options) *servertest.Env {
	t.Helper()
	return newEnvWith(t, opts, &servertest.Options{})
}

func newEnvWith(t *testing.T, opts *evalweb.Options, with *servertest.Options) *servertest.Env {
	t.Helper()
	return servertest.New(t, addExtension(opts, with))
}

func addExtension(opts *evalweb.Options, with *servertest.Options) *servertest.Options {
	if with.Server == nil {
		with.Server = &server.Options{}
	}
	with.Server.Extensions = []func(*server.Services) *server.Extension{evalweb.Extend(opts)}
	return with
}

// Each file in testdata/http is an exchange; see [servertest.RunExchanges].
func TestExchanges(t *testing.T) {
	servertest.RunExchanges(t, "testdata/http/*.txtar", newExchangeEnv)
}

func newExchangeEnv(t *testing.T, ar *txtar.Archive) (*servertest.Env, string) {
	folders := newFolders()
	// Cases run one after the other, and have the host's times and IDs.
	ids := 5000
	evaluator := &evalrun.HostRunner{Apps: folders, Parallel: 1, Clock: servertest.FixedTime, NewID: func() string {
		ids++
		return fmt.Sprintf("new-%04d", ids)
	}}
	opts := &evalweb.Options{Folders: folders, Evaluator: evaluator, Dev: servertest.IsDev(ar)}
	with := addExtension(opts, &servertest.Options{})
	e, dir := servertest.NewExchangeEnv(t, ar, folders, with)
	evaluator.Host = e.Host
	return e, dir
}

// Accepted requests and all responses in testdata/http match the OpenAPI document.
func TestOpenAPIDescribesExchanges(t *testing.T) {
	servertest.CheckExchanges(t, server.New(nil, addExtension(nil, &servertest.Options{}).Server), "testdata/http/*.txtar", 20)
}

// docs/dev-ui.md lists every developer route that is supported.
func TestPageListsEveryDeveloperPath(t *testing.T) {
	page, err := os.ReadFile("../../../docs/dev-ui.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, pattern := range newEnv(t, nil).Server.Patterns() {
		tail, isDeveloper := strings.CutPrefix(pattern, "GET /dev/apps/{app}")
		older := strings.NewReplacer("/eval-sets", "/eval_sets", "/eval-cases", "/evals", "/eval-results", "/eval_results").Replace(tail)
		if isDeveloper && !strings.Contains(string(page), "…"+older+"`") {
			t.Errorf("docs/dev-ui.md has no %s", pattern)
		}
	}
}

func newAuth(t *testing.T, text string) *server.Auth {
	t.Helper()
	n, ds := spec.Parse("auth.yaml", []byte(text))
	a, more := auth.Decode(n, nil)
	if ds = append(ds, more...); ds.HasErrors() {
		t.Fatal(ds)
	}
	t.Cleanup(a.Close)
	return a
}
