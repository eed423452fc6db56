package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

func textResponse(text string) *model.Response {
	return &model.Response{Content: model.ModelText(text), FinishReason: genai.FinishReasonStop}
}

func toolResult(key string, v any) *tool.Result {
	return &tool.Result{Response: map[string]any{key: v}}
}

// Callbacks for tests.
func replyAsAgent(text string) runtime.AgentFunc {
	return func(_ context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		if text == "" {
			return nil, nil
		}
		return model.ModelText(text), nil
	}
}

func setState(key string, v any) runtime.AgentFunc {
	return func(_ context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		m.State.Set(key, v)
		return nil, nil
	}
}

func replyAsModel(text string) runtime.BeforeModelFunc {
	return func(context.Context, *runtime.CallbackContext, *model.Request) (*model.Response, error) {
		return textResponse(text), nil
	}
}

func uppercaseResponse(_ context.Context, _ *runtime.CallbackContext, resp *model.Response) (*model.Response, error) {
	loud := resp.Clone()
	loud.Content = model.ModelText(strings.ToUpper(model.TextOf(resp.Content)))
	return loud, nil
}

func replyAsTool(v any) runtime.BeforeToolFunc {
	return func(context.Context, tool.Tool, *tool.Call) (*tool.Result, error) {
		return toolResult("before", v), nil
	}
}

func wrapToolResult(_ context.Context, _ tool.Tool, _ *tool.Call, r *tool.Result) (*tool.Result, error) {
	return toolResult("after", r.Response), nil
}

func recoverToolError(_ context.Context, t tool.Tool, call *tool.Call, err error) (*tool.Result, error) {
	call.State.Set("rescued", call.Name)
	return toolResult("rescued", t.Declaration().Description+": "+err.Error()), nil
}

// failingModel fails every call.
func failingModel(context.Context, *model.Request) (*genai.Content, error) {
	return nil, &model.Error{Code: 503, Status: "UNAVAILABLE", Message: "overloaded"}
}

// TestCallbacks is the table of runtime-semantics 6.11.
func TestCallbacks(t *testing.T) {
	tests := []struct {
		name  string
		model modelFunc
		cb    runtime.Callbacks
		want  string
		state string
	}{
		{"none", textModel("hi"), runtime.Callbacks{}, "a: hi\n", "{}"},
		{
			"before_agent answers instead of the agent", textModel("hi"),
			runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{replyAsAgent("no"), replyAsAgent("never")}, AfterAgent: []runtime.AgentFunc{replyAsAgent("after")}},
			"a: no\n", "{}",
		},
		{
			"before_agent writes state", textModel("hi"),
			runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{setState("n", 1), replyAsAgent("")}},
			"a: \na: hi\n", `{"n":1}`,
		},
		{
			"after_agent adds an event", textModel("hi"),
			runtime.Callbacks{AfterAgent: []runtime.AgentFunc{setState("n", 1), replyAsAgent("bye")}},
			"a: hi\na: bye\n", `{"n":1}`,
		},
		{
			"before_model answers, unseen by after_model", failingModel,
			runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{replyAsModel("hi")}, AfterModel: []runtime.AfterModelFunc{uppercaseResponse}},
			"a: hi\n", "{}",
		},
		{
			"before_model changes the request", echoRequest,
			runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{func(_ context.Context, m *runtime.CallbackContext, req *model.Request) (*model.Response, error) {
				req.Contents = []*genai.Content{model.UserText("other words")}
				m.State.Set("seen", m.Agent().Name())
				return nil, nil
			}}},
			"a: <user: other words>\n", `{"seen":"a"}`,
		},
		{"after_model replaces", textModel("hi"), runtime.Callbacks{AfterModel: []runtime.AfterModelFunc{uppercaseResponse}}, "a: HI\n", "{}"},
		{
			"on_model_error answers, then after_model", failingModel,
			runtime.Callbacks{
				OnModelError: []runtime.ModelErrorFunc{func(_ context.Context, m *runtime.CallbackContext, req *model.Request, err error) (*model.Response, error) {
					m.State.Set("failed", req.Model)
					return textResponse("sorry: " + err.Error()), nil
				}},
				AfterModel: []runtime.AfterModelFunc{uppercaseResponse},
			},
			"a: SORRY: MODEL: 503 UNAVAILABLE: OVERLOADED\n", `{"failed":"answering"}`,
		},
		{
			"on_model_error has no answer", failingModel,
			runtime.Callbacks{OnModelError: []runtime.ModelErrorFunc{func(_ context.Context, m *runtime.CallbackContext, _ *model.Request, _ error) (*model.Response, error) {
				m.State.Set("failed", true)
				return nil, nil
			}}},
			"a: UNAVAILABLE\nerror UNAVAILABLE: model answering failed: overloaded\n", `{"failed":true}`,
		},
		{
			"before_tool answers, after_tool sees it", toolCallModel("good"),
			runtime.Callbacks{BeforeTool: []runtime.BeforeToolFunc{replyAsTool(1), replyAsTool(2)}, AfterTool: []runtime.AfterToolFunc{wrapToolResult}},
			"a: call good\na: good map[after:map[before:1]]\na: done\n", "{}",
		},
		{
			"before_tool changes the arguments", toolCallModel("good"),
			runtime.Callbacks{BeforeTool: []runtime.BeforeToolFunc{func(_ context.Context, _ tool.Tool, call *tool.Call) (*tool.Result, error) {
				call.Args["n"] = 7
				return nil, nil
			}}},
			"a: call good\na: good map[got:map[n:7]]\na: done\n", "{}",
		},
		{"after_tool replaces", toolCallModel("good"), runtime.Callbacks{AfterTool: []runtime.AfterToolFunc{wrapToolResult}}, "a: call good\na: good map[after:map[got:map[]]]\na: done\n", "{}"},
		{
			"on_tool_error answers, then after_tool", toolCallModel("bad"),
			runtime.Callbacks{OnToolError: []runtime.ToolErrorFunc{recoverToolError}, AfterTool: []runtime.AfterToolFunc{wrapToolResult}},
			"a: call bad\na: bad map[after:map[rescued:: broken]]\na: done\n", `{"rescued":"bad"}`,
		},
		{
			"on_tool_error has no answer, after_tool is not called", toolCallModel("bad"),
			runtime.Callbacks{
				OnToolError: []runtime.ToolErrorFunc{func(context.Context, tool.Tool, *tool.Call, error) (*tool.Result, error) { return nil, nil }},
				AfterTool:   []runtime.AfterToolFunc{wrapToolResult},
			},
			"a: call bad\na: bad map[error:broken]\na: done\n", "{}",
		},
		{
			"an unknown tool, after_tool is not called", toolCallModel("none"),
			runtime.Callbacks{OnToolError: []runtime.ToolErrorFunc{recoverToolError}, AfterTool: []runtime.AfterToolFunc{wrapToolResult}},
			"a: call none\na: none map[rescued:Tool not found: tool \"none\" not found: the available tools are good, bad]\na: done\n", `{"rescued":"none"}`,
		},
		{
			"an unknown tool without an answer", toolCallModel("none"),
			runtime.Callbacks{AfterTool: []runtime.AfterToolFunc{wrapToolResult}},
			"a: call none\na: none map[error:tool \"none\" not found: the available tools are good, bad]\na: done\n", "{}",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: tt.model, Tools: goodAndBadTools(), Callbacks: tt.cb}), nil)
			if diff := cmp.Diff(tt.want, formatRun(e.Host.Run(t.Context(), userMessage(key, "x")))); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
			if got := sessionState(t, e, key); got != tt.state {
				t.Errorf("state = %s, want %s", got, tt.state)
			}
		})
	}
}

// TestCallbackError: a callback's error ends the run in its own words, and is not the model's or
// the tool's error. A panic does not stop the host.
func TestCallbackError(t *testing.T) {
	broken := errors.New("no database")
	runErr := &runtime.RunError{Code: "QUOTA", Message: "come back tomorrow"}
	fails := func(err error) runtime.BeforeToolFunc {
		return func(context.Context, tool.Tool, *tool.Call) (*tool.Result, error) { return nil, err }
	}
	tests := []struct {
		name  string
		model modelFunc
		cb    runtime.Callbacks
		want  string
	}{
		{
			"before_agent", textModel("hi"),
			runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{func(context.Context, *runtime.CallbackContext) (*genai.Content, error) { return nil, broken }}},
			"error CALLBACK_FAILED: before_agent of agent a failed: no database\n",
		},
		{
			"before_model", textModel("hi"),
			runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{func(context.Context, *runtime.CallbackContext, *model.Request) (*model.Response, error) {
				return nil, broken
			}}},
			"error CALLBACK_FAILED: before_model of agent a failed: no database\n",
		},
		{
			"after_model", textModel("hi"),
			runtime.Callbacks{AfterModel: []runtime.AfterModelFunc{func(context.Context, *runtime.CallbackContext, *model.Response) (*model.Response, error) {
				return nil, runErr
			}}},
			"error QUOTA: come back tomorrow\n",
		},
		{"before_tool", toolCallModel("good"), runtime.Callbacks{BeforeTool: []runtime.BeforeToolFunc{fails(broken)}}, "a: call good\na: good map[error:before_tool of agent a failed: no database]\nerror CALLBACK_FAILED: before_tool of agent a failed: no database\n"},
		{"before_tool in its own words", toolCallModel("good"), runtime.Callbacks{BeforeTool: []runtime.BeforeToolFunc{fails(runErr)}}, "a: call good\na: good map[error:come back tomorrow]\nerror QUOTA: come back tomorrow\n"},
		{
			"of an unknown tool", toolCallModel("none"),
			runtime.Callbacks{OnToolError: []runtime.ToolErrorFunc{func(context.Context, tool.Tool, *tool.Call, error) (*tool.Result, error) { return nil, broken }}},
			"a: call none\na: none map[error:on_tool_error of agent a failed: no database]\nerror CALLBACK_FAILED: on_tool_error of agent a failed: no database\n",
		},
		{
			"a panic", textModel("hi"),
			runtime.Callbacks{AfterAgent: []runtime.AgentFunc{func(context.Context, *runtime.CallbackContext) (*genai.Content, error) { panic("boom") }}},
			"a: hi\nerror CALLBACK_FAILED: after_agent of agent a failed: it panicked\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: tt.model, Tools: goodAndBadTools(), Callbacks: tt.cb}), nil)
			if diff := cmp.Diff(tt.want, formatRun(e.Host.Run(t.Context(), userMessage(key, "x")))); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
		})
	}
}

// streamingModel returns two partial responses and then the whole response.
type streamingModel struct{}

func (streamingModel) Name() string { return "streaming" }

func (streamingModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		for _, r := range []*model.Response{
			{Content: model.ModelText("one "), Partial: true},
			{Content: model.ModelText("two"), Partial: true},
			{Content: model.ModelText("one two")},
		} {
			if !yield(r, nil) {
				return
			}
		}
	}
}

// TestAfterModelStreams: after_model is called for each partial response, and what it
// writes is stored once, with the whole.
func TestAfterModelStreams(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	count := func(_ context.Context, m *runtime.CallbackContext, _ *model.Response) (*model.Response, error) {
		n, _ := m.State.Get("n")
		i, _ := n.(int64)
		m.State.Set("n", i+1)
		return nil, nil
	}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{
		Model: streamingModel{}, Callbacks: runtime.Callbacks{AfterModel: []runtime.AfterModelFunc{count, uppercaseResponse}},
	}), nil)
	var deltas []map[string]any
	req := userMessage(key, "x")
	req.Streaming = new(bool)
	*req.Streaming = true
	for ev, err := range e.Host.Run(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		deltas = append(deltas, map[string]any{"partial": ev.Partial, "text": ev.Text(), "delta": maps.Clone(ev.Actions.StateDelta)})
	}
	want := []map[string]any{
		{"partial": true, "text": "ONE ", "delta": map[string]any{"n": int64(1)}},
		{"partial": true, "text": "TWO", "delta": map[string]any{"n": int64(2)}},
		{"partial": false, "text": "ONE TWO", "delta": map[string]any{"n": int64(3)}},
	}
	if diff := cmp.Diff(want, deltas); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
	if got := sessionState(t, e, key); got != `{"n":3}` {
		t.Errorf("state = %s", got)
	}
}

// TestBeforeModelNotCounted: an answer in the model's place costs no call.
func TestBeforeModelNotCounted(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	once := func(_ context.Context, m *runtime.CallbackContext, req *model.Request) (*model.Response, error) {
		if len(model.ResponsesOf(req.Contents[len(req.Contents)-1])) > 0 {
			return nil, nil
		}
		call := &genai.FunctionCall{ID: "c", Name: "good"}
		return &model.Response{Content: &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: call}}}}, nil
	}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{
		Model: textModel("done"), Tools: goodAndBadTools(), Callbacks: runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{once}},
	}), &runtime.AppOptions{Config: &runtime.RunConfig{MaxLLMCalls: 1}})
	want := "a: call good\na: good map[got:map[]]\na: done\n"
	if diff := cmp.Diff(want, formatRun(e.Host.Run(t.Context(), userMessage(key, "x")))); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
}

// TestBeforeAgentEndsOnlyItsAgent: the next agent in a sequence runs all the same, and workflow
// agents have callbacks too.
func TestBeforeAgentEndsOnlyItsAgent(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	skipped := runtime.NewLLM("a", &runtime.LLMOptions{Callbacks: runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{replyAsAgent("not me")}}})
	row := runtime.NewSequential("row", "", skipped, runtime.NewLLM("b", nil))
	row.Callbacks.AfterAgent = []runtime.AgentFunc{replyAsAgent("all done")}
	deployApp(t, e, row, &runtime.AppOptions{Model: textModel("hi")})
	want := "a: not me\nb: hi\nrow: all done\n"
	if diff := cmp.Diff(want, formatRun(e.Host.Run(t.Context(), userMessage(key, "x")))); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
}

// TestCallbackArtifacts: a callback's event records the artifacts that it saves.
func TestCallbackArtifacts(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	saves := func(ctx context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		_, err := m.Artifacts.Save(ctx, "note.txt", &genai.Part{Text: "kept"})
		return model.ModelText("saved"), err
	}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi"), Callbacks: runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{saves}}}), nil)
	for ev, err := range e.Host.Run(t.Context(), userMessage(key, "x")) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]int{"note.txt": 0}, ev.Actions.ArtifactDelta); diff != "" {
			t.Errorf("artifacts of the event (-want +got):\n%s", diff)
		}
	}
}

// TestPreviewBeforeModelCallback: a preview shows the request after the callbacks,
// and fails if a callback answers instead of the model.
func TestPreviewBeforeModelCallback(t *testing.T) {
	e := testenv.New(t, nil)
	adds := func(_ context.Context, _ *runtime.CallbackContext, req *model.Request) (*model.Response, error) {
		req.AppendInstruction("Be brief.")
		return nil, nil
	}
	for _, tt := range []struct {
		name string
		cb   []runtime.BeforeModelFunc
		want string
	}{
		{"changed", []runtime.BeforeModelFunc{adds}, "You are an agent. Your internal name is \"a\".\n\nBe brief."},
		{"answered", []runtime.BeforeModelFunc{replyAsModel("no")}, `the model of agent a would not be called: a callback answers "no"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi"), Callbacks: runtime.Callbacks{BeforeModel: tt.cb}}), nil)
			got := ""
			p, err := e.Host.Preview(t.Context(), &runtime.PreviewRequest{App: "app", Text: "x"})
			if err != nil {
				got = err.Error()
			} else {
				got = p.SystemInstruction
			}
			if got != tt.want {
				t.Errorf("Preview() = %q, want %q", got, tt.want)
			}
		})
	}
}

// goodAndBadTools returns a tool that returns its arguments and one that fails.
func goodAndBadTools() []tool.Tool {
	return []tool.Tool{
		&testTool{name: "good", run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
			return toolResult("got", call.Args), nil
		}},
		&testTool{name: "bad", run: func(context.Context, *tool.Call) (*tool.Result, error) {
			return nil, errors.New("broken")
		}},
	}
}

func sessionState(t *testing.T, e *testenv.Env, key session.Key) string {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(sess.State.All())
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
