package server_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agenthost/internal/servertest"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is a server on a memory store with sequential IDs and a fixed clock.
type env struct {
	*servertest.Env
	host   *runtime.Host
	store  *store.Store
	server *server.Server
}

func fixedTime() time.Time { return servertest.FixedTime() }

func newEnv(t *testing.T, opts *server.Options) *env {
	t.Helper()
	return newEnvOn(t, "memory:", opts)
}

// newEnvOn is newEnv with the session store at a URL.
func newEnvOn(t *testing.T, url string, opts *server.Options) *env {
	t.Helper()
	return newEnvWith(t, url, &store.Options{Clock: fixedTime}, opts)
}

// newEnvWith is newEnvOn with store options, whose clock the server shares.
func newEnvWith(t *testing.T, url string, with *store.Options, opts *server.Options) *env {
	t.Helper()
	return wrapEnv(servertest.New(t, &servertest.Options{URL: url, Store: with, Server: opts}))
}

func wrapEnv(e *servertest.Env) *env { return &env{e, e.Host, e.Store, e.Server} }

func (e *env) addLLMApp(t *testing.T, name string, opts *runtime.LLMOptions) {
	t.Helper()
	e.AddLLMApp(t, name, opts)
}

func (e *env) createSession(t *testing.T, app, id string) session.Key {
	t.Helper()
	return e.CreateSession(t, app, id)
}

func (e *env) storeSession(t *testing.T, text []byte) {
	t.Helper()
	e.StoreSession(t, text)
}

func (e *env) serve(method, path, body string) *httptest.ResponseRecorder {
	return e.Serve(method, path, body)
}

func expectResponse(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	servertest.ExpectResponse(t, w, status, body)
}

func scriptedModel(t *testing.T) model.LLM { return servertest.ScriptedModel(t) }

func saveNoteTool(t *testing.T) tool.Tool { return servertest.SaveNoteTool(t) }

// eventAuthors lists the stored events' authors.
func (e *env) eventAuthors(t *testing.T, key session.Key) string {
	t.Helper()
	sess, err := e.store.Sessions.Get(context.Background(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, ev := range sess.Events() {
		names = append(names, ev.Author)
	}
	return strings.Join(names, " ")
}

// runBody returns the body for a run in a session of user u.
func runBody(app, sess, text string) string {
	return fmt.Sprintf(`{"appName":%q,"userId":"u","sessionId":%q,"newMessage":{"parts":[{"text":%q}]}}`, app, sess, text)
}

// emitFunc yields a text event. It returns false if the consumer has stopped.
type emitFunc func(text string, edit ...func(*session.Event)) bool

func markPartial(ev *session.Event) { ev.Partial = true }

// agentFunc is the Run method of a funcAgent.
type agentFunc func(ctx context.Context, emit emitFunc) error

type funcAgent struct {
	runtime.Base
	act agentFunc
}

func (a *funcAgent) Run(ctx context.Context, inv *runtime.Invocation) runtime.Events {
	return func(yield func(*session.Event, error) bool) {
		stopped := false
		emit := func(text string, edit ...func(*session.Event)) bool {
			ev := inv.NewEvent()
			ev.Content = model.ModelText(text)
			for _, e := range edit {
				e(ev)
			}
			stopped = !yield(ev, nil)
			return !stopped
		}
		if err := a.act(ctx, emit); err != nil && !stopped {
			yield(nil, err)
		}
	}
}

// addFuncApp adds an app whose root agent runs a function.
func (e *env) addFuncApp(t *testing.T, name string, act agentFunc) {
	t.Helper()
	app, err := runtime.NewApp(name, &funcAgent{runtime.Base{AgentName: name}, act}, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.host.Swap(app)
}
