package runtime_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

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
