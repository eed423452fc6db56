package runtime_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/tool"
)

// TestRunTool: a host's interceptor runs all tool calls, including those inside agent tools; it may
// run the tool itself. A call that waits for approval does not reach it. The control is a host
// without one.
func TestRunTool(t *testing.T) {
	for _, intercepted := range []bool{true, false} {
		var mu sync.Mutex
		calls := map[string]int{}
		opts := &runtime.Options{RunTool: func(ctx context.Context, x *tool.Execution) (*tool.Result, error) {
			mu.Lock()
			calls[x.Call.Name]++
			mu.Unlock()
			if len(x.Tools) == 0 || x.Tool.Declaration().Name != x.Call.Name {
				t.Errorf("call of %s has the tool %s of %d", x.Call.Name, x.Tool.Declaration().Name, len(x.Tools))
			}
			if x.Call.Name == "inner" {
				return x.Run(ctx)
			}
			return toolResult("from", "the interceptor"), nil
		}}
		if !intercepted {
			opts = nil
		}
		f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { return toolResult("from", "the tool"), nil }}
		approve := tool.ConfirmFunc(func(context.Context, *tool.Call) (bool, error) { return true, nil })
		pay := &testTool{name: "pay", run: f.run, capabilities: tool.Capabilities{Confirm: approve}}
		var asked []string
		innerModel := modelFunc(func(ctx context.Context, req *model.Request) (*genai.Content, error) {
			for _, r := range model.ResponsesOf(req.Contents[len(req.Contents)-1]) {
				asked = append(asked, r.Response["from"].(string))
			}
			return toolCallModel("f")(ctx, req)
		})
		inner := runtime.NewLLM("inner", &runtime.LLMOptions{Model: innerModel, Tools: []tool.Tool{f}})
		outerModel := modelFunc(func(ctx context.Context, req *model.Request) (*genai.Content, error) {
			c, err := toolCallModel("f", "inner", "pay")(ctx, req)
			for _, call := range model.CallsOf(c) {
				if call.Name == "inner" {
					call.Args = map[string]any{"request": "go"}
				}
			}
			return c, err
		})
		root := runtime.NewLLM("a", &runtime.LLMOptions{Model: outerModel, Tools: []tool.Tool{f, runtime.NewAgentTool(inner, nil), pay}})
		app, err := runtime.NewApp("app", root, nil)
		if err != nil {
			t.Fatal(err)
		}
		st := memstore.New(nil)
		host := runtime.NewHost(st, opts)
		host.Swap(app)
		key := session.Key{App: "app", User: "u", ID: "s"}
		if _, err := st.Sessions.Create(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
		got, want := formatRun(host.Run(t.Context(), userMessage(key, "go"))), "the tool"
		if intercepted {
			want = "the interceptor"
			if calls["f"] != 2 || calls["inner"] != 1 || calls["pay"] != 0 {
				t.Errorf("intercepted calls = %v, want f twice, inner once and pay never", calls)
			}
		}
		if !strings.Contains(got, want) || len(asked) != 1 || asked[0] != want {
			t.Errorf("intercepted %v: responses from %v in\n%s\nwant %s", intercepted, asked, got, want)
		}
		host.Close()
		st.Close()
	}
}
