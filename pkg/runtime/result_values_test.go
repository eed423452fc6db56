package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"agenthost/internal/limit"
	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A model response's results together have at most limit.ToolResult's values, whatever tools made
// them. The model reads an error instead of a result that is too large, the others are stored, and
// the session continues.
func TestResultValues(t *testing.T) {
	most := limit.ToolResult.Values
	const tooMany = "the response of tool f cannot be stored: tool result exceeds the limit of 250000 values"
	const together = "the response of tool f cannot be stored: together with those of the other calls, tool result exceeds the limit of 250000 values"
	for _, tt := range []struct {
		name   string
		values []int // in each call's result
		want   []string
	}{
		{"control: at the limit", []int{most}, []string{""}},
		{"one more", []int{most + 1}, []string{tooMany}},
		{"small ones", []int{10, 10, 10}, []string{"", "", ""}},
		{"together", []int{most / 2, most / 2, most / 2, 10}, []string{"", "", together, together}},
		{"large and small", []int{most + 1, 10}, []string{tooMany, ""}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			next := make(chan int, len(tt.values))
			for _, n := range tt.values {
				next <- n
			}
			f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) {
				return &tool.Result{Response: responseOf(<-next)}, nil
			}}
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: manyCallsModel(len(tt.values)), Tools: []tool.Tool{f}}),
				&runtime.AppOptions{Config: &runtime.RunConfig{ToolThreadPoolConfig: &runtime.ToolPool{MaxWorkers: 1}}})
			for range 2 { // also the next turn runs
				if got := formatRun(e.Host.Run(t.Context(), userMessage(key, "go"))); !strings.HasSuffix(got, "a: done\n") {
					t.Fatalf("the run ended with %s", got[max(0, len(got)-300):])
				}
				if got := resultErrors(t, e, key); fmt.Sprint(got) != fmt.Sprint(tt.want) {
					t.Errorf("errors of the results = %q, want %q", got, tt.want)
				}
				for _, n := range tt.values {
					next <- n
				}
			}
		})
	}
}

// responseOf returns a response with n values: its own two, one for the list, and one for each
// number but the last.
func responseOf(n int) map[string]any {
	list := make([]any, n-2)
	for i := range list {
		list[i] = int64(0)
	}
	return map[string]any{"k": list}
}

// resultErrors returns the response errors in the last event that has any.
func resultErrors(t *testing.T, e *testenv.Env, key session.Key) []string {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, ev := range sess.Events() {
		if responses := ev.Responses(); len(responses) > 0 {
			texts = nil
			for _, f := range responses {
				text, _ := f.Response["error"].(string)
				texts = append(texts, text)
			}
		}
	}
	return texts
}
