package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// blockingModel signals each call and blocks until the test supplies the reply.
type blockingModel struct {
	called  chan struct{}
	replies chan string
}

func newBlockingModel() *blockingModel {
	return &blockingModel{make(chan struct{}, 8), make(chan string)}
}

func (g *blockingModel) respond(ctx context.Context, _ *model.Request) (*genai.Content, error) {
	g.called <- struct{}{}
	select {
	case text := <-g.replies:
		return model.ModelText(text), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// startRun runs in the background, and sends the formatted run when it has ended.
func startRun(ctx context.Context, e *testenv.Env, req *runtime.RunRequest) <-chan string {
	out := make(chan string, 1)
	go func() { out <- formatRun(e.Host.Run(ctx, req)) }()
	return out
}

func TestSwapDuringRun(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	g := newBlockingModel()
	var closed atomic.Int32
	deployApp(t, e, runtime.NewLLM("old", nil), &runtime.AppOptions{
		Model: modelFunc(g.respond), Close: func() { closed.Add(1) },
	})
	running := startRun(t.Context(), e, userMessage(key, "one"))
	<-g.called
	deployApp(t, e, runtime.NewLLM("new", nil), &runtime.AppOptions{Model: textModel("from the new")})
	if n := closed.Load(); n != 0 {
		t.Errorf("closed %d times while a run holds the snapshot, want 0", n)
	}
	g.replies <- "from the old"
	if diff := cmp.Diff("old: from the old\n", <-running); diff != "" {
		t.Errorf("run that began before the swap (-want +got):\n%s", diff)
	}
	if n := closed.Load(); n != 1 {
		t.Errorf("closed %d times after the last run, want 1", n)
	}
	if diff := cmp.Diff("new: from the new\n", formatRun(e.Host.Run(t.Context(), userMessage(key, "two")))); diff != "" {
		t.Errorf("run after the swap (-want +got):\n%s", diff)
	}
	if n := closed.Load(); n != 1 {
		t.Errorf("closed %d times in the end, want 1", n)
	}
}

func TestSwapSameApp(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	var closed atomic.Int32
	app := deployApp(t, e, runtime.NewLLM("a", nil), &runtime.AppOptions{Model: textModel("hi"), Close: func() { closed.Add(1) }})
	e.Host.Swap(app)
	if got := formatRun(e.Host.Run(t.Context(), userMessage(key, "x"))); got != "a: hi\n" || closed.Load() != 0 {
		t.Errorf("after swapping an app for itself: %q, closed %d times", got, closed.Load())
	}
	e.Host.Remove("app")
	if got := formatRun(e.Host.Run(t.Context(), userMessage(key, "x"))); got != "error APP_NOT_FOUND: App not found: app\n" || closed.Load() != 1 {
		t.Errorf("after removing it: %q, closed %d times", got, closed.Load())
	}
}

func TestSecondRunWaits(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	g := newBlockingModel()
	deployApp(t, e, runtime.NewLLM("a", nil), &runtime.AppOptions{Model: modelFunc(g.respond)})
	first := startRun(t.Context(), e, userMessage(key, "one"))
	<-g.called
	second := startRun(t.Context(), e, userMessage(key, "two"))
	g.replies <- "1"
	if got := <-first; got != "a: 1\n" {
		t.Errorf("first run = %q", got)
	}
	<-g.called
	g.replies <- "2"
	if got := <-second; got != "a: 2\n" {
		t.Errorf("second run = %q", got)
	}
	if diff := cmp.Diff("user a user a", storedAuthors(t, e, key)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestSessionBusy(t *testing.T) {
	e := testenv.New(t, nil)
	e.Host = runtime.NewHost(e.Store, &runtime.Options{Wait: time.Nanosecond})
	key := e.Session(t, "app", "s", nil)
	g := newBlockingModel()
	deployApp(t, e, runtime.NewLLM("a", nil), &runtime.AppOptions{Model: modelFunc(g.respond)})
	first := startRun(t.Context(), e, userMessage(key, "one"))
	<-g.called
	want := "error SESSION_BUSY: session s is busy with another run, retry later\n"
	if diff := cmp.Diff(want, formatRun(e.Host.Run(t.Context(), userMessage(key, "two")))); diff != "" {
		t.Errorf("second run (-want +got):\n%s", diff)
	}
	g.replies <- "1"
	<-first
	if diff := cmp.Diff("user a", storedAuthors(t, e, key)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestCancelMidModel(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	g := newBlockingModel()
	deployApp(t, e, runtime.NewLLM("a", nil), &runtime.AppOptions{Model: modelFunc(g.respond)})
	ctx, cancel := context.WithCancel(t.Context())
	running := startRun(ctx, e, userMessage(key, "one"))
	<-g.called
	cancel()
	if diff := cmp.Diff("error CANCELED: the run was stopped\n", <-running); diff != "" {
		t.Errorf("canceled run (-want +got):\n%s", diff)
	}
	running = startRun(t.Context(), e, userMessage(key, "two"))
	<-g.called
	g.replies <- "fine"
	if diff := cmp.Diff("a: fine\n", <-running); diff != "" {
		t.Errorf("next run (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("user user a", storedAuthors(t, e, key)); diff != "" {
		t.Errorf("stored (-want +got):\n%s", diff)
	}
}

func TestCancelIdleLoop(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	ctx, cancel := context.WithCancel(t.Context())
	idle := &testAgent{Base: runtime.Base{AgentName: "idle"}, run: func(context.Context, *runtime.Invocation) runtime.Events {
		cancel()
		return func(func(*session.Event, error) bool) {}
	}}
	deployApp(t, e, runtime.NewLoop("loop", &runtime.LoopOptions{SubAgents: []runtime.Agent{idle}}), nil)
	if diff := cmp.Diff("error CANCELED: the run was stopped\n", formatRun(e.Host.Run(ctx, userMessage(key, "go")))); diff != "" {
		t.Errorf("canceled loop without events (-want +got):\n%s", diff)
	}
}

// TestEventStoredBeforeYield: an event is first stored, then consumed, and then the
// agent continues.
func TestEventStoredBeforeYield(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	var order []string
	note := func(who string) {
		sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
		if err != nil {
			t.Fatal(err)
		}
		n, _ := sess.State.Get("n")
		order = append(order, fmt.Sprintf("%s: %d stored, n=%v", who, len(sess.Events()), n))
	}
	agent := &testAgent{Base: runtime.Base{AgentName: "a"}, run: func(_ context.Context, inv *runtime.Invocation) runtime.Events {
		return func(yield func(*session.Event, error) bool) {
			for i := range 2 {
				ev := inv.NewEvent()
				ev.Content = model.ModelText("x")
				ev.Actions.SetState("n", i)
				ev.Actions.SetState("temp:t", i)
				note("before")
				if !yield(ev, nil) {
					return
				}
				note("after")
				if v, _ := inv.Session().State.Get("temp:t"); v != int64(i) {
					t.Errorf("temp:t = %v after the yield, want %d", v, i)
				}
			}
		}
	}}
	deployApp(t, e, agent, nil)
	for _, err := range e.Host.Run(t.Context(), userMessage(key, "go")) {
		if err != nil {
			t.Fatal(err)
		}
		note("seen")
	}
	want := []string{
		"before: 1 stored, n=<nil>", "seen: 2 stored, n=0", "after: 2 stored, n=0",
		"before: 2 stored, n=0", "seen: 3 stored, n=1", "after: 3 stored, n=1",
	}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

func TestToolErrors(t *testing.T) {
	late := func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	broken := func(context.Context, *tool.Call) (*tool.Result, error) { panic("nil map") }
	answered := func(context.Context, *tool.Call) (*tool.Result, error) {
		return nil, &tool.AnswerError{Err: errors.New("no"), Response: map[string]any{"content": "no", "isError": true}}
	}
	tests := []struct {
		name string
		tool *testTool
		want string
	}{
		{
			"panic", &testTool{name: "f", run: broken},
			"a: call f\na: f map[error:tool f panicked]\na: done\n",
		},
		{
			"panic that ends the run", &testTool{name: "f", capabilities: tool.Capabilities{FailOnError: true}, run: broken},
			"a: call f\na: f map[error:tool f of agent a failed: tool f panicked]\nerror TOOL_FAILED: tool f of agent a failed: tool f panicked\n",
		},
		{
			"failure with an answer", &testTool{name: "f", run: answered},
			"a: call f\na: f map[content:no isError:true]\na: done\n",
		},
		{
			"failure with an answer that ends the run", &testTool{name: "f", capabilities: tool.Capabilities{FailOnError: true}, run: answered},
			"a: call f\na: f map[content:no isError:true]\nerror TOOL_FAILED: tool f of agent a failed: no\n",
		},
		{
			"timeout", &testTool{name: "f", capabilities: tool.Capabilities{Timeout: time.Millisecond}, run: late},
			"a: call f\na: f map[error:f: timed out after 1ms]\na: done\n",
		},
		{
			"no result", &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }},
			"a: call f\na: f map[result:<nil>]\na: done\n",
		},
		{
			"response that is nested too deeply", &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) {
				deep := any("x")
				for range 1200 {
					deep = []any{deep}
				}
				return &tool.Result{Response: map[string]any{"k": deep}}, nil
			}},
			"a: call f\na: f map[error:the response of tool f cannot be stored: DEEP]\na: done\n",
		},
		{
			"state that cannot be stored", &testTool{name: "f", run: func(_ context.Context, c *tool.Call) (*tool.Result, error) {
				c.State.Set("f", func() {})
				return nil, nil
			}},
			"a: call f\na: f map[error:an event of agent a cannot be stored",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{tt.tool}}), nil)
			got := formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
			got = deepPath.ReplaceAllString(got, "DEEP")
			if tt.name == "state that cannot be stored" && len(got) > len(tt.want) {
				got = got[:len(tt.want)]
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
		})
	}
}

// deepPath matches where a value is nested too deeply.
var deepPath = regexp.MustCompile(`k\[0\][^: ]*[^\]]*`)

// TestParallelFailureStopsSiblings: the first failure among parallel agents or calls cancels the
// others, and is the only one reported.
func TestParallelFailureStopsSiblings(t *testing.T) {
	waiting := make(chan struct{})
	stopped := make(chan error, 1)
	wait := func(ctx context.Context) error {
		close(waiting)
		<-ctx.Done()
		stopped <- ctx.Err()
		return ctx.Err()
	}
	fail := func() error {
		<-waiting
		return &model.Error{Code: 503, Status: "UNAVAILABLE", Message: "no"}
	}
	agents := runtime.NewParallel("both", "",
		runtime.NewLLM("slow", &runtime.LLMOptions{Model: modelFunc(func(ctx context.Context, _ *model.Request) (*genai.Content, error) {
			return nil, wait(ctx)
		})}),
		runtime.NewLLM("bad", &runtime.LLMOptions{Model: modelFunc(func(context.Context, *model.Request) (*genai.Content, error) {
			return nil, fail()
		})}))
	calls := runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("slow", "bad"), Tools: []tool.Tool{
		&testTool{name: "slow", run: func(ctx context.Context, _ *tool.Call) (*tool.Result, error) { return nil, wait(ctx) }},
		&testTool{name: "bad", capabilities: tool.Capabilities{FailOnError: true}, run: func(context.Context, *tool.Call) (*tool.Result, error) {
			<-waiting
			return nil, errors.New("no")
		}},
	}})
	tests := []struct {
		name string
		root runtime.Agent
		want string
	}{
		{"agents", agents, "bad: UNAVAILABLE\nerror UNAVAILABLE: model answering failed: no\n"},
		{"calls", calls, "a: call slow call bad\n" +
			"a: slow map[error:This call was canceled because another call ended the run.] bad map[error:tool bad of agent a failed: no]\n" +
			"error TOOL_FAILED: tool bad of agent a failed: no\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			waiting = make(chan struct{})
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			deployApp(t, e, tt.root, nil)
			if diff := cmp.Diff(tt.want, formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
			if err := <-stopped; !errors.Is(err, context.Canceled) {
				t.Errorf("the other one ended with %v, want it canceled", err)
			}
		})
	}
}

func TestRunRequestInvalid(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi")}), nil)
	tests := []struct {
		name string
		edit func(*runtime.RunRequest)
		want string
	}{
		{"no app", func(r *runtime.RunRequest) { r.App = "other" }, "error APP_NOT_FOUND: App not found: other\n"},
		{"no session", func(r *runtime.RunRequest) { r.SessionID = "other" }, "error SESSION_NOT_FOUND: Session not found: other\n"},
		{"no message", func(r *runtime.RunRequest) { r.Message = nil }, "error INVALID_REQUEST: No parts in the new_message.\n"},
		{"no parts", func(r *runtime.RunRequest) { r.Message = &genai.Content{} }, "error INVALID_REQUEST: No parts in the new_message.\n"},
		{
			"function call", func(r *runtime.RunRequest) {
				r.Message = &genai.Content{Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{Name: "f"}}}}
			},
			"error INVALID_REQUEST: the new message must not contain a function call\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			req := userMessage(key, "go")
			tt.edit(req)
			if diff := cmp.Diff(tt.want, formatRun(e.Host.Run(t.Context(), req))); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
			if got := storedAuthors(t, e, key); got != "" {
				t.Errorf("stored %q, want nothing", got)
			}
		})
	}
}

func TestCustomMetadata(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	agent := &testAgent{Base: runtime.Base{AgentName: "a"}, run: func(_ context.Context, inv *runtime.Invocation) runtime.Events {
		return func(yield func(*session.Event, error) bool) {
			ev := inv.NewEvent()
			ev.Content = model.ModelText("x")
			ev.CustomMetadata = map[string]any{"by": "event"}
			yield(ev, nil)
		}
	}}
	config := runtime.DefaultRunConfig()
	config.CustomMetadata = map[string]any{"by": "app", "at": "app", "app": "app"}
	deployApp(t, e, agent, &runtime.AppOptions{Config: &config})
	req := userMessage(key, "go")
	req.CustomMetadata = map[string]any{"by": "request", "at": "request"}
	formatRun(e.Host.Run(t.Context(), req))
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	for _, ev := range sess.Events() {
		got = append(got, ev.CustomMetadata)
	}
	want := []map[string]any{
		{"by": "request", "at": "request", "app": "app"},
		{"by": "event", "at": "request", "app": "app"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("customMetadata of the user's and the agent's event (-want +got):\n%s", diff)
	}
}

// TestConcurrentRuns: concurrent sessions and parallel agents are isolated.
func TestConcurrentRuns(t *testing.T) {
	const sessions, agents = 64, 8
	e := testenv.New(t, nil)
	expert := runtime.NewLLM("expert", &runtime.LLMOptions{Model: textModel("known"), OutputKey: "expertise"})
	var subs []runtime.Agent
	for i := range agents {
		subs = append(subs, runtime.NewLLM(fmt.Sprint("a", i), &runtime.LLMOptions{
			Model: toolCallModel("expert", "expert"), OutputKey: fmt.Sprint("k", i),
			Tools: []tool.Tool{runtime.NewAgentTool(expert, nil)},
		}))
	}
	deployApp(t, e, runtime.NewParallel("all", "", subs...), nil)
	var wg sync.WaitGroup
	for i := range sessions {
		key := e.Session(t, "app", fmt.Sprint("s", i), nil)
		wg.Go(func() {
			for range 2 {
				for _, err := range e.Host.Run(t.Context(), userMessage(key, "go")) {
					if err != nil {
						t.Error(err)
					}
				}
			}
			sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
			if err != nil {
				t.Error(err)
				return
			}
			if got, want := len(sess.Events()), 2*(1+3*agents); got != want {
				t.Errorf("session %s has %d events, want %d", key.ID, got, want)
			}
			if v, _ := sess.State.Get("k7"); v != "done" {
				t.Errorf("state k7 = %v, want done", v)
			}
		})
	}
	wg.Wait()
}
