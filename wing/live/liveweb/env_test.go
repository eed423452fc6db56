package liveweb_test

import (
	"testing"

	"go.uber.org/goleak"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/pkg/store"
	"agenthost/wing/live/liveweb"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newEnv returns a server with the routes for live conversations. The store, the server and the
// route options may be nil.
func newEnv(t *testing.T, with *store.Options, opts *server.Options, talks *liveweb.Options) *servertest.Env {
	t.Helper()
	if opts == nil {
		opts = &server.Options{}
	}
	opts.Extensions = []func(*server.Services) *server.Extension{liveweb.Extend(talks)}
	return servertest.New(t, &servertest.Options{Store: with, Server: opts})
}
