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

func respond(text string) *model.Response {
	return &model.Response{Content: model.ModelText(text), FinishReason: genai.FinishReasonStop}
}

func result(key string, v any) *tool.Result {
	return &tool.Result{Response: map[string]any{key: v}}
}

// The callbacks of the tests, each with one thing to do.
func agentSays(text string) runtime.AgentFunc {
	return func(_ context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		if text == "" {
			return nil, nil
		}
		return model.ModelText(text), nil
	}
}

func agentWrites(key string, v any) runtime.AgentFunc {
	return func(_ context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		m.State.Set(key, v)
		return nil, nil
	}
}

func modelSays(text string) runtime.BeforeModelFunc {
	return func(context.Context, *runtime.CallbackContext, *model.Request) (*model.Response, error) {
		return respond(text), nil
	}
}

func modelShouts(_ context.Context, _ *runtime.CallbackContext, resp *model.Response) (*model.Response, error) {
	loud := resp.Clone()
	loud.Content = model.ModelText(strings.ToUpper(model.TextOf(resp.Content)))
	return loud, nil
}

func toolSays(v any) runtime.BeforeToolFunc {
	return func(context.Context, tool.Tool, *tool.Call) (*tool.Result, error) { return result("before", v), nil }
}

func toolWraps(_ context.Context, _ tool.Tool, _ *tool.Call, r *tool.Result) (*tool.Result, error) {
	return result("after", r.Response), nil
}

func toolRescued(_ context.Context, t tool.Tool, call *tool.Call, err error) (*tool.Result, error) {
	call.State.Set("rescued", call.Name)
	return result("rescued", t.Declaration().Description+": "+err.Error()), nil
}

// failing is a model that cannot answer.
func failing(context.Context, *model.Request) (*genai.Content, error) {
	return nil, &model.Error{Code: 503, Status: "UNAVAILABLE", Message: "overloaded"}
}

// TestCallbacks is the table of runtime-semantics 6.11.
func TestCallbacks(t *testing.T) {
	tests := []struct {
		name  string
		model answering
		cb    runtime.Callbacks
		want  string
		state string
	}{
		{"none", saying("hi"), runtime.Callbacks{}, "a: hi\n", "{}"},
		{
			"before_agent answers in place of the agent", saying("hi"),
			runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{agentSays("no"), agentSays("never")}, AfterAgent: []runtime.AgentFunc{agentSays("after")}},
			"a: no\n", "{}",
		},
		{
			"before_agent writes state", saying("hi"),
			runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{agentWrites("n", 1), agentSays("")}},
			"a: \na: hi\n", `{"n":1}`,
		},
		{
			"after_agent says one thing more", saying("hi"),
			runtime.Callbacks{AfterAgent: []runtime.AgentFunc{agentWrites("n", 1), agentSays("bye")}},
			"a: hi\na: bye\n", `{"n":1}`,
		},
		{
			"before_model answers, unseen by after_model", failing,
			runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{modelSays("hi")}, AfterModel: []runtime.AfterModelFunc{modelShouts}},
			"a: hi\n", "{}",
		},
		{
			"before_model changes the request", telling,
			runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{func(_ context.Context, m *runtime.CallbackContext, req *model.Request) (*model.Response, error) {
				req.Contents = []*genai.Content{model.UserText("other words")}
				m.State.Set("seen", m.Agent().Name())
				return nil, nil
			}}},
			"a: <user: other words>\n", `{"seen":"a"}`,
		},
		{"after_model replaces", saying("hi"), runtime.Callbacks{AfterModel: []runtime.AfterModelFunc{modelShouts}}, "a: HI\n", "{}"},
		{
			"on_model_error answers, then after_model", failing,
			runtime.Callbacks{
				OnModelError: []runtime.ModelErrorFunc{func(_ context.Context, m *runtime.CallbackContext, req *model.Request, err error) (*model.Response, error) {
					m.State.Set("failed", req.Model)
					return respond("sorry: " + err.Error()), nil
				}},
				AfterModel: []runtime.AfterModelFunc{modelShouts},
			},
			"a: SORRY: MODEL: 503 UNAVAILABLE: OVERLOADED\n", `{"failed":"answering"}`,
		},
		{
			"on_model_error has no answer", failing,
			runtime.Callbacks{OnModelError: []runtime.ModelErrorFunc{func(_ context.Context, m *runtime.CallbackContext, _ *model.Request, _ error) (*model.Response, error) {
				m.State.Set("failed", true)
				return nil, nil
			}}},
			"a: UNAVAILABLE\nerror UNAVAILABLE: model answering failed: overloaded\n", `{"failed":true}`,
		},
		{
			"before_tool answers, after_tool sees it", calling("good"),
			runtime.Callbacks{BeforeTool: []runtime.BeforeToolFunc{toolSays(1), toolSays(2)}, AfterTool: []runtime.AfterToolFunc{toolWraps}},
			"a: call good\na: good map[after:map[before:1]]\na: done\n", "{}",
		},
		{
			"before_tool changes the arguments", calling("good"),
			runtime.Callbacks{BeforeTool: []runtime.BeforeToolFunc{func(_ context.Context, _ tool.Tool, call *tool.Call) (*tool.Result, error) {
				call.Args["n"] = 7
				return nil, nil
			}}},
			"a: call good\na: good map[got:map[n:7]]\na: done\n", "{}",
		},
		{"after_tool replaces", calling("good"), runtime.Callbacks{AfterTool: []runtime.AfterToolFunc{toolWraps}}, "a: call good\na: good map[after:map[got:map[]]]\na: done\n", "{}"},
		{
			"on_tool_error answers, then after_tool", calling("bad"),
			runtime.Callbacks{OnToolError: []runtime.ToolErrorFunc{toolRescued}, AfterTool: []runtime.AfterToolFunc{toolWraps}},
			"a: call bad\na: bad map[after:map[rescued:: broken]]\na: done\n", `{"rescued":"bad"}`,
		},
		{
			"on_tool_error has no answer, after_tool is not asked", calling("bad"),
			runtime.Callbacks{
				OnToolError: []runtime.ToolErrorFunc{func(context.Context, tool.Tool, *tool.Call, error) (*tool.Result, error) { return nil, nil }},
				AfterTool:   []runtime.AfterToolFunc{toolWraps},
			},
			"a: call bad\na: bad map[error:broken]\na: done\n", "{}",
		},
		{
			"an unknown tool, after_tool is not asked", calling("none"),
			runtime.Callbacks{OnToolError: []runtime.ToolErrorFunc{toolRescued}, AfterTool: []runtime.AfterToolFunc{toolWraps}},
			"a: call none\na: none map[rescued:Tool not found: tool \"none\" not found: the available tools are good, bad]\na: done\n", `{"rescued":"none"}`,
		},
		{
			"an unknown tool without an answer", calling("none"),
			runtime.Callbacks{AfterTool: []runtime.AfterToolFunc{toolWraps}},
			"a: call none\na: none map[error:tool \"none\" not found: the available tools are good, bad]\na: done\n", "{}",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			deploy(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: tt.model, Tools: goodAndBad(), Callbacks: tt.cb}), nil)
			if diff := cmp.Diff(tt.want, outline(e.Host.Run(t.Context(), say(key, "x")))); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
			if got := stateOf(t, e, key); got != tt.state {
				t.Errorf("state = %s, want %s", got, tt.state)
			}
		})
	}
}

// TestCallbackError: a callback's error ends the run in words of its own, and
// is no error of the model or the tool. A panic takes nothing else down.
func TestCallbackError(t *testing.T) {
	broken := errors.New("no database")
	told := &runtime.RunError{Code: "QUOTA", Message: "come back tomorrow"}
	fails := func(err error) runtime.BeforeToolFunc {
		return func(context.Context, tool.Tool, *tool.Call) (*tool.Result, error) { return nil, err }
	}
	tests := []struct {
		name  string
		model answering
		cb    runtime.Callbacks
		want  string
	}{
		{
			"before_agent", saying("hi"),
			runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{func(context.Context, *runtime.CallbackContext) (*genai.Content, error) { return nil, broken }}},
			"error CALLBACK_FAILED: before_agent of agent a failed: no database\n",
		},
		{
			"before_model", saying("hi"),
			runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{func(context.Context, *runtime.CallbackContext, *model.Request) (*model.Response, error) {
				return nil, broken
			}}},
			"error CALLBACK_FAILED: before_model of agent a failed: no database\n",
		},
		{
			"after_model", saying("hi"),
			runtime.Callbacks{AfterModel: []runtime.AfterModelFunc{func(context.Context, *runtime.CallbackContext, *model.Response) (*model.Response, error) {
				return nil, told
			}}},
			"error QUOTA: come back tomorrow\n",
		},
		{"before_tool", calling("good"), runtime.Callbacks{BeforeTool: []runtime.BeforeToolFunc{fails(broken)}}, "a: call good\na: good map[error:before_tool of agent a failed: no database]\nerror CALLBACK_FAILED: before_tool of agent a failed: no database\n"},
		{"before_tool in its own words", calling("good"), runtime.Callbacks{BeforeTool: []runtime.BeforeToolFunc{fails(told)}}, "a: call good\na: good map[error:come back tomorrow]\nerror QUOTA: come back tomorrow\n"},
		{
			"of an unknown tool", calling("none"),
			runtime.Callbacks{OnToolError: []runtime.ToolErrorFunc{func(context.Context, tool.Tool, *tool.Call, error) (*tool.Result, error) { return nil, broken }}},
			"a: call none\na: none map[error:on_tool_error of agent a failed: no database]\nerror CALLBACK_FAILED: on_tool_error of agent a failed: no database\n",
		},
		{
			"a panic", saying("hi"),
			runtime.Callbacks{AfterAgent: []runtime.AgentFunc{func(context.Context, *runtime.CallbackContext) (*genai.Content, error) { panic("boom") }}},
			"a: hi\nerror CALLBACK_FAILED: after_agent of agent a failed: it panicked\n",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			deploy(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: tt.model, Tools: goodAndBad(), Callbacks: tt.cb}), nil)
			if diff := cmp.Diff(tt.want, outline(e.Host.Run(t.Context(), say(key, "x")))); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
		})
	}
}

// streaming is a model that answers in two pieces and then as a whole.
type streaming struct{}

func (streaming) Name() string { return "streaming" }

func (streaming) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
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

// TestAfterModelStreams: after_model is asked about each piece, and what it
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
	deploy(t, e, runtime.NewLLM("a", &runtime.LLMOptions{
		Model: streaming{}, Callbacks: runtime.Callbacks{AfterModel: []runtime.AfterModelFunc{count, modelShouts}},
	}), nil)
	var deltas []map[string]any
	req := say(key, "x")
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
	if got := stateOf(t, e, key); got != `{"n":3}` {
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
	deploy(t, e, runtime.NewLLM("a", &runtime.LLMOptions{
		Model: saying("done"), Tools: goodAndBad(), Callbacks: runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{once}},
	}), &runtime.AppOptions{Config: &runtime.RunConfig{MaxLLMCalls: 1}})
	want := "a: call good\na: good map[got:map[]]\na: done\n"
	if diff := cmp.Diff(want, outline(e.Host.Run(t.Context(), say(key, "x")))); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
}

// TestBeforeAgentEndsOnlyItsAgent: the next agent of a sequence runs all the
// same, and workflow agents have callbacks too.
func TestBeforeAgentEndsOnlyItsAgent(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	skipped := runtime.NewLLM("a", &runtime.LLMOptions{Callbacks: runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{agentSays("not me")}}})
	row := runtime.NewSequential("row", "", skipped, runtime.NewLLM("b", nil))
	row.Callbacks.AfterAgent = []runtime.AgentFunc{agentSays("all done")}
	deploy(t, e, row, &runtime.AppOptions{Model: saying("hi")})
	want := "a: not me\nb: hi\nrow: all done\n"
	if diff := cmp.Diff(want, outline(e.Host.Run(t.Context(), say(key, "x")))); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
}

// TestCallbackArtifacts: what a callback saves is noted on its event.
func TestCallbackArtifacts(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	saves := func(ctx context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
		_, err := m.Artifacts.Save(ctx, "note.txt", &genai.Part{Text: "kept"})
		return model.ModelText("saved"), err
	}
	deploy(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: saying("hi"), Callbacks: runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{saves}}}), nil)
	for ev, err := range e.Host.Run(t.Context(), say(key, "x")) {
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(map[string]int{"note.txt": 0}, ev.Actions.ArtifactDelta); diff != "" {
			t.Errorf("artifacts of the event (-want +got):\n%s", diff)
		}
	}
}

// TestPreviewBeforeModelCallback: a preview shows the request as the callbacks
// leave it, and says when none would be sent.
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
		{"answered", []runtime.BeforeModelFunc{modelSays("no")}, `the model of agent a would not be called: a callback answers "no"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			deploy(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: saying("hi"), Callbacks: runtime.Callbacks{BeforeModel: tt.cb}}), nil)
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

// goodAndBad are a tool that answers with its arguments and one that fails.
func goodAndBad() []tool.Tool {
	return []tool.Tool{
		&action{name: "good", run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
			return result("got", call.Args), nil
		}},
		&action{name: "bad", run: func(context.Context, *tool.Call) (*tool.Result, error) {
			return nil, errors.New("broken")
		}},
	}
}

func stateOf(t *testing.T, e *testenv.Env, key session.Key) string {
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
