package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.uber.org/goleak"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// env is a server on a memory store with sequential IDs and a fixed clock.
type env struct {
	host   *runtime.Host
	store  *store.Store
	server *server.Server
}

// sessionWait is how long test requests wait for a busy session.
const sessionWait = time.Millisecond

func newEnv(t *testing.T, opts *server.Options) *env {
	t.Helper()
	return newEnvOn(t, "memory:", opts)
}

// newEnvOn is newEnv with the session store at a URL.
func newEnvOn(t *testing.T, url string, opts *server.Options) *env {
	t.Helper()
	return newEnvWith(t, url, &store.Options{Clock: fixedTime}, opts)
}

func fixedTime() time.Time { return time.Date(2026, 11, 21, 10, 0, 0, 250_000_000, time.UTC) }

// newEnvWith is newEnvOn with store options, whose clock the server shares.
func newEnvWith(t *testing.T, url string, with *store.Options, opts *server.Options) *env {
	t.Helper()
	clock := with.Clock
	if clock == nil {
		clock = time.Now
	}
	if opts == nil {
		opts = &server.Options{}
	}
	var ids atomic.Int64
	newID := func() string { return fmt.Sprintf("new-%04d", ids.Add(1)) }
	with.NewID = newID
	st, err := storeurl.Open(context.Background(), url, &storeurl.Options{Schemes: testenv.Schemes(), Options: *with})
	if err != nil {
		t.Fatal(err)
	}
	hostOpts := &runtime.Options{Clock: clock, NewID: newID, Wait: sessionWait}
	if opts.Metrics != nil {
		hostOpts.Observe = opts.Metrics.Observe
	}
	if opts.Traces != nil {
		hostOpts.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(opts.Traces))
		hostOpts.TraceContents = true
	}
	host := runtime.NewHost(st, hostOpts)
	t.Cleanup(func() {
		host.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	opts.NewID = newID
	if opts.Metrics != nil {
		opts.Clock = clock
	}
	if opts.Wait == 0 {
		opts.Wait = sessionWait
	}
	return &env{host, st, server.New(host, opts)}
}

// addLLMApp adds an app whose root is an LLM agent with the name of the app.
func (e *env) addLLMApp(t *testing.T, name string, opts *runtime.LLMOptions) {
	t.Helper()
	app, err := runtime.NewApp(name, runtime.NewLLM(name, opts), nil)
	if err != nil {
		t.Fatal(err)
	}
	e.host.Swap(app)
}

// createSession creates a session of user u.
func (e *env) createSession(t *testing.T, app, id string) session.Key {
	t.Helper()
	key := session.Key{App: app, User: "u", ID: id}
	if _, err := e.store.Sessions.Create(t.Context(), key, nil); err != nil {
		t.Fatal(err)
	}
	return key
}

// storeSession stores a session as if runs of the host had created it.
func (e *env) storeSession(t *testing.T, text []byte) {
	t.Helper()
	var given struct {
		App    string           `json:"appName"`
		ID     string           `json:"id"`
		State  map[string]any   `json:"state"`
		Events []*session.Event `json:"events"`
	}
	if err := json.Unmarshal(text, &given); err != nil {
		t.Fatal(err)
	}
	sess, err := e.store.Sessions.Create(t.Context(), session.Key{App: given.App, User: "u", ID: given.ID}, given.State)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range given.Events {
		if err := e.store.Sessions.Append(t.Context(), sess, ev); err != nil {
			t.Fatal(err)
		}
	}
}

// eventAuthors lists the authors of the stored events.
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

// serve handles a request without a network connection.
func (e *env) serve(method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.server.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// runBody returns the body of a run in a session of user u.
func runBody(app, sess, text string) string {
	return fmt.Sprintf(`{"appName":%q,"userId":"u","sessionId":%q,"newMessage":{"parts":[{"text":%q}]}}`, app, sess, text)
}

// scriptedModel is the model of most test apps.
func scriptedModel(t *testing.T) model.LLM {
	t.Helper()
	n, ds := spec.Parse("test.script.yaml", []byte(`
- when: user == "fail"
  error: {code: 429, message: "come back later"}
- when: user == "break"
  error: {code: 500, message: "the model broke"}
- when: user == "save" and responses.save_note != nil
  text: Saved.
- when: user == "save"
  calls: [{name: save_note, args: {text: hello}}]
- when: user == "count"
  text: one two three
  chunks: 3
  usage: {prompt: 7, candidates: 3}
- text: "Hello <{user}> & friends"
`))
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	script, ds := provider.DecodeScript(n)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	return provider.NewScripted(script, nil)
}

func saveNoteTool(t *testing.T) tool.Tool {
	t.Helper()
	type note struct {
		Text string `json:"text"`
	}
	save := func(ctx context.Context, call *tool.Call, n note) (map[string]any, error) {
		call.State.Set("saved", true)
		version, err := call.Artifacts.Save(ctx, "note.txt", &genai.Part{Text: n.Text})
		return map[string]any{"version": version}, err
	}
	st, err := tool.FromFunc("save_note", "Saves a note.", save)
	if err != nil {
		t.Fatal(err)
	}
	return st
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

// expectResponse fails unless the response has a status and a body.
func expectResponse(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || w.Body.String() != body {
		t.Errorf("response = %d %s\nwant %d %s", w.Code, w.Body, status, body)
	}
}

// addResumableApp adds the app line, a resumable sequence of two agents.
func (e *env) addResumableApp(t *testing.T, m model.LLM) {
	t.Helper()
	opts := &runtime.LLMOptions{Model: m}
	line := runtime.NewSequential("line", "", runtime.NewLLM("first", opts), runtime.NewLLM("second", opts))
	app, err := runtime.NewApp("line", line, &runtime.AppOptions{Resumable: true, Revision: "rev-line"})
	if err != nil {
		t.Fatal(err)
	}
	e.host.Swap(app)
}

func preloadMemoryTool(t *testing.T) tool.Tool { return builtinTool(t, "preload_memory") }

func builtinTool(t *testing.T, name string) tool.Tool {
	t.Helper()
	kind, ok := tool.Builtins().Lookup(name)
	if !ok {
		t.Fatalf("unknown built-in tool %s", name)
	}
	plan, ds := kind.Decode(nil)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	set, err := plan.Build(t.Context(), tool.Env{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	tools, err := set.Tools(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return tools[0]
}
