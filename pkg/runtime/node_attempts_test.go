package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// TestNodeAttempts: a workflow node runs again after a delay when it fails or exceeds its time, and
// each attempt that is repeated has an event with its error.
func TestNodeAttempts(t *testing.T) {
	retry := runtime.Attempts{Max: 3, Initial: time.Second, Backoff: 2, Longest: 3 * time.Second}
	slow := retry
	slow.Timeout = 5 * time.Second
	only := retry
	only.Codes = []string{runtime.CodeToolFailed}
	fail := errors.New("no answer")
	for _, tt := range []struct {
		name     string
		attempts runtime.Attempts
		errs     []error
		want     string
		took     time.Duration
	}{
		{"no failure", retry, nil, "get: sunny\n", 0},
		{"one failure", retry, []error{fail}, "get: AGENT_FAILED\nget: sunny\n", time.Second},
		{"two failures", retry, []error{fail, fail}, "get: AGENT_FAILED\nget: AGENT_FAILED\nget: sunny\n", 3 * time.Second},
		{"all attempts fail", retry, []error{fail, fail, fail}, "get: AGENT_FAILED\nget: AGENT_FAILED\nerror AGENT_FAILED: node get failed: no answer\n", 3 * time.Second},
		{"no retries", runtime.Attempts{Max: 1}, []error{fail}, "error AGENT_FAILED: node get failed: no answer\n", 0},
		{"another code", only, []error{fail}, "error AGENT_FAILED: node get failed: no answer\n", 0},
		{"too slow", slow, []error{context.DeadlineExceeded}, "get: NODE_TIMEOUT\nget: sunny\n", 6 * time.Second},
		{"always too slow", runtime.Attempts{Timeout: time.Second}, []error{context.DeadlineExceeded}, "error NODE_TIMEOUT: node get did not end within 1s\n", time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				node := runtime.NewFunctionNode("get", func(ctx context.Context, _ *runtime.CallbackContext, _ any) (any, error) {
					if calls++; calls > len(tt.errs) {
						return "sunny", nil
					}
					if err := tt.errs[calls-1]; !errors.Is(err, context.DeadlineExceeded) {
						return nil, err
					}
					<-ctx.Done()
					return nil, ctx.Err()
				}, nil)
				node.SetAttempts(tt.attempts)
				w, err := runtime.NewWorkflow("flow", &runtime.WorkflowOptions{Nodes: []runtime.Agent{node}, Edges: []runtime.Edge{{From: runtime.Start, To: 0}}})
				if err != nil {
					t.Fatal(err)
				}
				e := testenv.New(t, nil)
				deployApp(t, e, w, nil)
				began := time.Now()
				got := formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "hi")))
				if got != tt.want || time.Since(began) != tt.took {
					t.Errorf("after %s:\n%swant after %s:\n%s", time.Since(began), got, tt.took, tt.want)
				}
			})
		})
	}
}

// An agent whose model fails has reported it already: the failed attempt has one event. A panic
// fails the attempt, and exceeded run limits are not retried.
func TestNodeAttemptsOfAgents(t *testing.T) {
	attempts := runtime.Attempts{Max: 3}
	calls := 0
	flaky := modelFunc(func(context.Context, *model.Request) (*genai.Content, error) {
		if calls++; calls == 1 {
			return nil, &model.Error{Status: "UNAVAILABLE", Message: "busy"}
		}
		return model.ModelText("done"), nil
	})
	panics := 0
	for _, tt := range []struct {
		name string
		node interface {
			runtime.Agent
			SetAttempts(runtime.Attempts)
		}
		want string
	}{
		{"model", runtime.NewLLM("ask", &runtime.LLMOptions{Model: flaky}), "ask: UNAVAILABLE\nask: done\n"},
		{"panic", runtime.NewFunctionNode("f", func(context.Context, *runtime.CallbackContext, any) (any, error) {
			if panics++; panics == 1 {
				panic("lost")
			}
			return "ok", nil
		}, nil), "f: AGENT_FAILED\nf: ok\n"},
		{"limit", runtime.NewLLM("greedy", &runtime.LLMOptions{Model: toolCallModel("absent")}), "LLM_CALLS_LIMIT"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.node.SetAttempts(attempts)
			w, err := runtime.NewWorkflow("flow", &runtime.WorkflowOptions{Nodes: []runtime.Agent{tt.node}, Edges: []runtime.Edge{{From: runtime.Start, To: 0}}})
			if err != nil {
				t.Fatal(err)
			}
			e := testenv.New(t, nil)
			deployApp(t, e, w, nil)
			req := userMessage(e.Session(t, "app", "s", nil), "hi")
			config := runtime.DefaultRunConfig()
			if tt.name == "limit" {
				config.MaxLLMCalls = 1
			}
			req.Config = &config
			if got := fmt.Sprint(formatRun(e.Host.Run(t.Context(), req))); got != tt.want && strings.Count(got, tt.want) != 1 {
				t.Errorf("got\n%swant\n%s", got, tt.want)
			}
		})
	}
}
