package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A callLog is a line list for concurrent writers.
type callLog struct {
	mu    sync.Mutex
	lines []string
}

func (r *callLog) add(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, fmt.Sprintf(format, args...))
}

// loggingPlugin returns a plugin that records its calls and never answers.
func loggingPlugin(r *callLog) *runtime.Plugin {
	around := func(hook string) []runtime.AgentFunc {
		return []runtime.AgentFunc{func(_ context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
			r.add("%s %s", hook, m.Agent().Name())
			return nil, nil
		}}
	}
	return &runtime.Plugin{
		Name: "noting",
		Callbacks: runtime.Callbacks{
			BeforeAgent: around("before_agent"), AfterAgent: around("after_agent"),
			BeforeModel: []runtime.BeforeModelFunc{func(_ context.Context, m *runtime.CallbackContext, _ *model.Request) (*model.Response, error) {
				r.add("before_model %s", m.Agent().Name())
				return nil, nil
			}},
			AfterModel: []runtime.AfterModelFunc{func(_ context.Context, m *runtime.CallbackContext, _ *model.Response) (*model.Response, error) {
				r.add("after_model %s", m.Agent().Name())
				return nil, nil
			}},
			BeforeTool: []runtime.BeforeToolFunc{func(_ context.Context, _ tool.Tool, call *tool.Call) (*tool.Result, error) {
				r.add("before_tool %s", call.Name)
				return nil, nil
			}},
			AfterTool: []runtime.AfterToolFunc{func(_ context.Context, _ tool.Tool, call *tool.Call, _ *tool.Result) (*tool.Result, error) {
				r.add("after_tool %s", call.Name)
				return nil, nil
			}},
		},
		OnUserMessage: func(_ context.Context, m *runtime.CallbackContext, c *genai.Content) (*genai.Content, error) {
			r.add("on_user_message %s", model.TextOf(c))
			return nil, nil
		},
		BeforeRun: func(_ context.Context, inv *runtime.Invocation) (*genai.Content, error) {
			r.add("before_run %s", inv.Agent().Name())
			return nil, nil
		},
		OnEvent: func(_ context.Context, _ *runtime.Invocation, ev *session.Event) (*session.Event, error) {
			r.add("on_event %s", formatEvent(ev))
			return nil, nil
		},
		AfterRun: func(_ context.Context, inv *runtime.Invocation) error {
			r.add("after_run %s", inv.Agent().Name())
			return nil
		},
		Close: func(context.Context) error { r.add("close"); return nil },
	}
}

// TestPluginOrder: a plugin is called at each of its hooks, around the run, and closed once; an
// agent that is called as a tool has its caller's plugins, and does not close them.
func TestPluginOrder(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	r := &callLog{}
	expert := runtime.NewAgentTool(runtime.NewLLM("expert", &runtime.LLMOptions{Model: textModel("wise")}), nil)
	ask := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
		if len(model.ResponsesOf(req.Contents[len(req.Contents)-1])) > 0 {
			return model.ModelText("done"), nil
		}
		call := &genai.FunctionCall{ID: "c", Name: "expert", Args: map[string]any{"request": "why"}}
		return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: call}}}, nil
	})
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: ask, Tools: []tool.Tool{expert}}), &runtime.AppOptions{Plugins: []*runtime.Plugin{loggingPlugin(r)}})
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	e.Host.Remove("app")
	want := `on_user_message go
before_run a
before_agent a
before_model a
after_model a
on_event a: call expert
before_tool expert
on_user_message why
before_run expert
before_agent expert
before_model expert
after_model expert
on_event expert: wise
after_agent expert
after_run expert
after_tool expert
on_event a: expert map[result:wise]
before_model a
after_model a
on_event a: done
after_agent a
after_run a
close`
	if diff := cmp.Diff(want, strings.Join(r.lines, "\n")); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// TestPluginAnswers is the rest of runtime-semantics 6.12 and 1.2: the first
// answer is the last.
func TestPluginAnswers(t *testing.T) {
	speaks := func(name string) *runtime.Plugin {
		return &runtime.Plugin{Name: name, Callbacks: runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{replyAsAgent(name)}}}
	}
	quiet := &runtime.Plugin{Name: "quiet", Callbacks: runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{replyAsAgent("")}}}
	replacing := func(with *session.Event) *runtime.Plugin {
		return &runtime.Plugin{Name: "replacing", OnEvent: func(context.Context, *runtime.Invocation, *session.Event) (*session.Event, error) {
			return with, nil
		}}
	}
	other := &session.Event{ID: "other", InvocationID: "other", Author: "b"}
	other.Actions.StateDelta = map[string]any{"n": 1}
	hushed := &session.Event{}
	hushed.Content = model.ModelText("hush")
	broken := errors.New("no disk")
	tests := []struct {
		name    string
		plugins []*runtime.Plugin
		want    string
		stored  string
	}{
		{"the first answer is the last", []*runtime.Plugin{quiet, speaks("one"), speaks("two")}, "a: one\n", "user a"},
		{"no answer leaves it to the agent", []*runtime.Plugin{quiet}, "a: own\n", "user a"},
		{
			"before_run",
			[]*runtime.Plugin{{Name: "p", BeforeRun: func(context.Context, *runtime.Invocation) (*genai.Content, error) {
				return model.ModelText("closed today"), nil
			}}},
			"model: closed today\n", "user model",
		},
		{"on_event replaces the content", []*runtime.Plugin{replacing(hushed)}, "a: hush\n", "user a"},
		{"on_event replaces what it names", []*runtime.Plugin{replacing(other)}, "b: own\n", "user b"},
		{
			"on_user_message",
			[]*runtime.Plugin{{Name: "p", OnUserMessage: func(_ context.Context, m *runtime.CallbackContext, c *genai.Content) (*genai.Content, error) {
				m.State.Set("received", model.TextOf(c))
				return model.UserText("nothing"), nil
			}}},
			"a: own\n", "user a",
		},
		{
			"after_run fails",
			[]*runtime.Plugin{{Name: "p", AfterRun: func(context.Context, *runtime.Invocation) error { return broken }}},
			"a: own\nerror CALLBACK_FAILED: after_run of plugin p failed: no disk\n", "user a",
		},
		{
			"on_event fails",
			[]*runtime.Plugin{{Name: "p", OnEvent: func(context.Context, *runtime.Invocation, *session.Event) (*session.Event, error) {
				return nil, broken
			}}},
			"error CALLBACK_FAILED: on_event of plugin p failed: no disk\n", "user",
		},
		{
			"a message without parts",
			[]*runtime.Plugin{{Name: "p", OnUserMessage: func(context.Context, *runtime.CallbackContext, *genai.Content) (*genai.Content, error) {
				return &genai.Content{}, nil
			}}},
			"error CALLBACK_FAILED: on_user_message of a plugin returned a message without parts, or with a function call\n", "",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			own := runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{replyAsAgent("own")}}
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi"), Callbacks: own}), &runtime.AppOptions{Plugins: tt.plugins})
			if diff := cmp.Diff(tt.want, formatRun(e.Host.Run(t.Context(), userMessage(key, "secret")))); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
			if got := storedAuthors(t, e, key); got != tt.stored {
				t.Errorf("stored = %q, want %q", got, tt.stored)
			}
			sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range sess.Events() {
				if ev.ID == "other" || ev.InvocationID == "other" {
					t.Error("a plugin replaced an event's id")
				}
				if tt.name == "on_user_message" && strings.Contains(ev.Text(), "secret") {
					t.Error("the message that was replaced is stored")
				}
			}
		})
	}
}

// TestAfterRunOnEveryEnd: after_run is called also after an error, an answer by before_run, and a
// stop; errors are observed from the inside to the outside.
func TestAfterRunOnEveryEnd(t *testing.T) {
	answering := &runtime.Plugin{Name: "answering", BeforeRun: func(context.Context, *runtime.Invocation) (*genai.Content, error) {
		return model.ModelText("closed"), nil
	}}
	for _, tt := range []struct {
		name    string
		model   model.LLM
		plugins []*runtime.Plugin
		stop    bool
		want    []string
	}{
		{"error", modelFunc(failingModel), nil, false, []string{"on_event a: UNAVAILABLE", "on_agent_error a", "on_agent_error both", "on_run_error both", "after_run both"}},
		{"answer of before_run", textModel("hi"), []*runtime.Plugin{answering}, false, []string{"on_event model: closed", "after_run both"}},
		{"stop", textModel("hi"), nil, true, []string{"on_event a: hi", "after_run both"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			r := &callLog{}
			observe := func(hook string) func(context.Context, *runtime.Invocation, *runtime.RunError) {
				return func(_ context.Context, inv *runtime.Invocation, failure *runtime.RunError) {
					if failure.Code == "" {
						t.Errorf("%s has no code", hook)
					}
					r.add("%s %s", hook, inv.Agent().Name())
				}
			}
			noting := loggingPlugin(r)
			noting.Callbacks, noting.BeforeRun, noting.OnUserMessage = runtime.Callbacks{}, nil, nil
			noting.OnAgentError, noting.OnRunError = observe("on_agent_error"), observe("on_run_error")
			agent := runtime.NewSequential("both", "", runtime.NewLLM("a", &runtime.LLMOptions{Model: tt.model}))
			deployApp(t, e, agent, &runtime.AppOptions{Plugins: append([]*runtime.Plugin{noting}, tt.plugins...)})
			for range e.Host.Run(t.Context(), userMessage(key, "go")) {
				if tt.stop {
					break
				}
			}
			if diff := cmp.Diff(tt.want, r.lines); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
		})
	}
}

func TestPluginNames(t *testing.T) {
	for _, tt := range []struct {
		name    string
		plugins []*runtime.Plugin
		want    string
	}{
		{"twice", []*runtime.Plugin{{Name: "p"}, {Name: "p"}}, "app x: duplicate plugin name p"},
		{"none", []*runtime.Plugin{{}}, "app x: plugin name is required"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := runtime.NewApp("x", runtime.NewLLM("a", nil), &runtime.AppOptions{Model: textModel("hi"), Plugins: tt.plugins})
			if err == nil || err.Error() != tt.want {
				t.Errorf("NewApp() = %v, want %s", err, tt.want)
			}
		})
	}
}
