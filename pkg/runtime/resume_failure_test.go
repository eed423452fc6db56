package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// TestResumeAfterFailure: a call that ended its invocation is answered in the
// history. A resumed invocation carries it out again, with its key, and only
// it: its siblings were answered (semantics 22, trap 28).
func TestResumeAfterFailure(t *testing.T) {
	var tried []string
	noting := func(name string, fails int) tool.Tool {
		return &testTool{name: name, capabilities: tool.Capabilities{FailOnError: true}, run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
			tried = append(tried, name+" "+call.IdempotencyKey)
			if fails--; fails >= 0 {
				return nil, errors.New("no ships")
			}
			return &tool.Result{Response: map[string]any{"ok": true}}, nil
		}}
	}
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	root := runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("look", "ship"), Tools: []tool.Tool{noting("look", 0), noting("ship", 1)}})
	config := runtime.DefaultRunConfig()
	config.ToolThreadPoolConfig = &runtime.ToolPool{MaxWorkers: 1}
	deployApp(t, e, root, &runtime.AppOptions{Resumable: true, Config: &config})
	got := formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, InvocationID: sess.Events()[0].InvocationID}
	got += "resumed\n" + formatRun(e.Host.Run(t.Context(), again))
	want := `a: call look call ship
a: look map[ok:true]
a: ship map[error:tool ship of agent a failed: no ships]
error TOOL_FAILED: tool ship of agent a failed: no ships
resumed
a: ship map[ok:true]
a: done
a: 
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Run() and resumed (-want +got):\n%s", diff)
	}
	if len(tried) != 3 || tried[1] != tried[2] || !strings.HasPrefix(tried[0], "look ") {
		t.Errorf("carried out: %q, want look once and ship twice with one key", tried)
	}
}

// TestResumeAfterConfigChange: an invocation that began when its app was not resumable has
// paths, but no checkpoints. It cannot be resumed; the answer to its call starts a new one.
func TestResumeAfterConfigChange(t *testing.T) {
	for _, resumable := range []bool{false, true} {
		later := &testTool{name: "ask", capabilities: tool.Capabilities{LongRunning: true}, run: func(context.Context, *tool.Call) (*tool.Result, error) {
			return nil, nil
		}}
		e := testenv.New(t, nil)
		key := e.Session(t, "app", "s", nil)
		newAgent := func() runtime.Agent {
			return runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("ask"), Tools: []tool.Tool{later}})
		}
		deployApp(t, e, newAgent(), &runtime.AppOptions{Resumable: resumable})
		formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
		events := storedEvents(t, e, key)
		first, made := events[0].InvocationID, events[1]
		if made.NodePath != "a@1" || made.Provenance.Unresumable == resumable {
			t.Errorf("resumable %v: path %q, unresumable %v", resumable, made.NodePath, made.Provenance.Unresumable)
		}
		if got := runtime.ResumableInvocation(events) == first; got != resumable {
			t.Errorf("resumable %v: ResumableInvocation finds it: %v", resumable, got)
		}
		deployApp(t, e, newAgent(), &runtime.AppOptions{Resumable: true})
		answer := userMessage(key, "")
		answer.Message = &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: made.Calls()[0].ID, Name: "ask", Response: map[string]any{"ok": true}}}}}
		formatRun(e.Host.Run(t.Context(), answer))
		events = storedEvents(t, e, key)
		if same := events[len(events)-1].InvocationID == first; same != resumable {
			t.Errorf("resumable %v: the answer continues the invocation: %v", resumable, same)
		}
	}
}
