package rollout_test

import (
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
	"go.uber.org/goleak"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/wing/rollout"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newOptions() *servertest.Options {
	return &servertest.Options{Server: &server.Options{Extensions: []func(*server.Services) *server.Extension{rollout.Extend(nil)}}}
}

// Each file in testdata/http is an exchange; see [servertest.RunExchanges].
func TestExchanges(t *testing.T) {
	servertest.RunExchanges(t, "testdata/http/*.txtar", func(t *testing.T, ar *txtar.Archive) (*servertest.Env, string) {
		return servertest.NewExchangeEnv(t, ar, &servertest.Folders{}, newOptions())
	})
}

// Accepted requests and all responses in testdata/http match the OpenAPI document.
func TestOpenAPIDescribesExchanges(t *testing.T) {
	servertest.CheckExchanges(t, server.New(nil, newOptions().Server), "testdata/http/*.txtar", 5)
}
