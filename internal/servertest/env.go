// Package servertest serves test apps over HTTP, for the tests of the server and the wings that add
// routes to it.
package servertest

import (
	"cmp"
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
	"agenthost/pkg/tool/builtin"
	"agenthost/pkg/tool/declare"
)

// An Env is a server with sequential IDs and a fixed clock.
type Env struct {
	Host   *runtime.Host
	Store  *store.Store
	Server *server.Server
}

// Options configure an Env. The zero value is valid.
type Options struct {
	// URL is the session store; the default is memory.
	URL string
	// Store configures the store; its default clock is FixedTime.
	Store *store.Options
	// Server configures the server, which uses the Env's IDs and waits.
	Server *server.Options
	// Wait is how long runs wait for a busy session; the default is SessionWait.
	Wait time.Duration
	// Spans receives run spans with their contents; nil for none.
	Spans sdktrace.SpanProcessor
}

// SessionWait is how long test requests wait for a busy session.
const SessionWait = time.Millisecond

// FixedTime is the clock in most tests.
func FixedTime() time.Time { return time.Date(2026, 11, 21, 10, 0, 0, 250_000_000, time.UTC) }

// New returns an Env, which ends with the test. Nil options are the zero options.
func New(t *testing.T, o *Options) *Env {
	t.Helper()
	if o == nil {
		o = &Options{}
	}
	with, opts, url := o.Store, o.Server, o.URL
	if with == nil {
		with = &store.Options{Clock: FixedTime}
	}
	if opts == nil {
		opts = &server.Options{}
	}
	if url == "" {
		url = "memory:"
	}
	clock := with.Clock
	if clock == nil {
		clock = time.Now
	}
	var ids atomic.Int64
	newID := func() string { return fmt.Sprintf("new-%04d", ids.Add(1)) }
	with.NewID = newID
	st, err := storeurl.Open(context.Background(), url, &storeurl.Options{Schemes: testenv.Schemes(), Options: *with})
	if err != nil {
		t.Fatal(err)
	}
	hostOpts := &runtime.Options{Clock: clock, NewID: newID, Wait: cmp.Or(o.Wait, SessionWait)}
	if opts.Metrics != nil {
		hostOpts.Observe = opts.Metrics.Observe
	}
	if o.Spans != nil {
		hostOpts.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(o.Spans))
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
		opts.Wait = SessionWait
	}
	return &Env{host, st, server.New(host, opts)}
}

// AddLLMApp adds an app whose root is an LLM agent with the app's name.
func (e *Env) AddLLMApp(t *testing.T, name string, opts *runtime.LLMOptions) {
	t.Helper()
	app, err := runtime.NewApp(name, runtime.NewLLM(name, opts), nil)
	if err != nil {
		t.Fatal(err)
	}
	e.Host.Swap(app)
}

// CreateSession creates a session for user u.
func (e *Env) CreateSession(t *testing.T, app, id string) session.Key {
	t.Helper()
	key := session.Key{App: app, User: "u", ID: id}
	if _, err := e.Store.Sessions.Create(t.Context(), key, nil); err != nil {
		t.Fatal(err)
	}
	return key
}

// StoreSession stores a session as if the host's runs had created it.
func (e *Env) StoreSession(t *testing.T, text []byte) {
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
	sess, err := e.Store.Sessions.Create(t.Context(), session.Key{App: given.App, User: "u", ID: given.ID}, given.State)
	if err != nil {
		t.Fatal(err)
	}
	for _, ev := range given.Events {
		if err := e.Store.Sessions.Append(t.Context(), sess, ev); err != nil {
			t.Fatal(err)
		}
	}
}

// Serve handles a request without a network connection.
func (e *Env) Serve(method, path, body string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	e.Server.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w
}

// ScriptedModel is the model in most test apps.
func ScriptedModel(t *testing.T) model.LLM {
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

// SaveNoteTool is a tool that saves a note as an artifact, and changes the state.
func SaveNoteTool(t *testing.T) tool.Tool {
	t.Helper()
	type note struct {
		Text string `json:"text"`
	}
	save := func(ctx context.Context, call *tool.Call, n note) (map[string]any, error) {
		call.State.Set("saved", true)
		version, err := call.Artifacts.Save(ctx, "note.txt", &genai.Part{Text: n.Text})
		return map[string]any{"version": version}, err
	}
	st, err := declare.Func("save_note", "Saves a note.", save)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// ExpectResponse fails unless the response has a status and a body.
func ExpectResponse(t *testing.T, w *httptest.ResponseRecorder, status int, body string) {
	t.Helper()
	if w.Code != status || w.Body.String() != body {
		t.Errorf("response = %d %s\nwant %d %s", w.Code, w.Body, status, body)
	}
}

// AddResumableApp adds the app line, a resumable sequence with two agents.
func (e *Env) AddResumableApp(t *testing.T, m model.LLM) {
	t.Helper()
	opts := &runtime.LLMOptions{Model: m}
	line := runtime.NewSequential("line", "", runtime.NewLLM("first", opts), runtime.NewLLM("second", opts))
	app, err := runtime.NewApp("line", line, &runtime.AppOptions{Resumable: true, Revision: "rev-line"})
	if err != nil {
		t.Fatal(err)
	}
	e.Host.Swap(app)
}

// BuiltinTool returns a built-in tool that needs no arguments.
func BuiltinTool(t *testing.T, name string) tool.Tool {
	t.Helper()
	kind, ok := builtin.Builtins().Lookup(name)
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
