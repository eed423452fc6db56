package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// listFlow returns a graph whose first node returns items, and whose second node is a list worker.
func listFlow(t *testing.T, items []any, worker runtime.Agent) *runtime.Workflow {
	t.Helper()
	list := runtime.NewFunctionNode("list", func(context.Context, *runtime.CallbackContext, any) (any, error) { return items, nil }, nil)
	w, err := runtime.NewWorkflow("flow", &runtime.WorkflowOptions{
		Nodes: []runtime.Agent{list, worker}, Edges: []runtime.Edge{{From: runtime.Start, To: 0}, {From: 0, To: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// A list worker's concurrent runs do not see each other's calls and answers.
func TestListWorkerIsolated(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	var all sync.WaitGroup // all runs have called the tool before one answers
	all.Add(2)
	llm := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
		last := req.Contents[len(req.Contents)-1]
		if model.ResponsesOf(last) == nil {
			return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{Name: "look", Args: map[string]any{"at": model.TextOf(last)}}}}}, nil
		}
		all.Done()
		all.Wait()
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, renderContents(t, req.Contents))
		return model.ModelText("done"), nil
	})
	look := &testTool{name: "look", run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
		return &tool.Result{Response: map[string]any{"saw": call.Args["at"]}}, nil
	}}
	worker := runtime.NewLLM("worker", &runtime.LLMOptions{Model: llm, Tools: []tool.Tool{look}})
	worker.SetListWorker(0)
	e := testenv.New(t, nil)
	deployApp(t, e, listFlow(t, []any{"a", "b"}, worker), nil)
	formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "go")))
	slices.Sort(seen)
	want := "user: a\nmodel: call look\nuser: response {\"saw\":\"a\"}|user: b\nmodel: call look\nuser: response {\"saw\":\"b\"}"
	if got := strings.Join(seen, "|"); got != want {
		t.Errorf("contents:\n%s\nwant:\n%s", got, want)
	}
}

// A failure ends the other runs and the workflow; if several fail, the first element's failure is
// reported. A list has at most as many elements as a workflow has node executions.
func TestListWorkerFailures(t *testing.T) {
	fail := func(_ context.Context, _ *runtime.CallbackContext, input any) (any, error) {
		return nil, fmt.Errorf("no %v", input)
	}
	wait := func(ctx context.Context, _ *runtime.CallbackContext, input any) (any, error) {
		if input == "b" {
			return nil, fmt.Errorf("no %v", input)
		}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	panics := func(context.Context, *runtime.CallbackContext, any) (any, error) { panic("no") }
	for _, tt := range []struct {
		name  string
		items []any
		fn    runtime.NodeFunc
		limit int
		want  string
	}{
		{"all", []any{"a", "b"}, fail, 1, "error AGENT_FAILED: node worker failed: no a"},
		{"second", []any{"a", "b", "c"}, wait, 0, "error AGENT_FAILED: node worker failed: no b"},
		{"panic", []any{"a"}, panics, 0, "error AGENT_FAILED: agent worker panicked"},
		{"many", make([]any, 1001), fail, 0, "error NODE_RUNS_LIMIT: workflow flow exceeded 1000 node executions: worker has a list of 1001 elements"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			worker := runtime.NewFunctionNode("worker", tt.fn, nil)
			worker.SetListWorker(tt.limit)
			e := testenv.New(t, nil)
			deployApp(t, e, listFlow(t, tt.items, worker), nil)
			got := formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "go")))
			if !strings.Contains(got, tt.want) {
				t.Errorf("got:\n%s\nwant %s", got, tt.want)
			}
		})
	}
}

// Lists in workflows that are list workers themselves share a limit.
func TestListWorkerNested(t *testing.T) {
	runs := 0
	count := func(context.Context, *runtime.CallbackContext, any) (any, error) { runs++; return nil, nil }
	leaf := runtime.NewFunctionNode("leaf", count, nil)
	leaf.SetListWorker(1)
	inner := listFlow(t, make([]any, 500), leaf)
	inner.AgentName = "inner"
	inner.SetListWorker(1)
	e := testenv.New(t, nil)
	outer, err := runtime.NewWorkflow("outer", &runtime.WorkflowOptions{
		Nodes: []runtime.Agent{runtime.NewFunctionNode("lists", func(context.Context, *runtime.CallbackContext, any) (any, error) { return make([]any, 100), nil }, nil), inner},
		Edges: []runtime.Edge{{From: runtime.Start, To: 0}, {From: 0, To: 1}},
	})
	if err != nil {
		t.Fatal(err)
	}
	deployApp(t, e, outer, nil)
	got := formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "go")))
	const want = "error NODE_RUNS_LIMIT: the lists of the invocation exceeded 10000 elements: leaf has a list of 500 elements"
	if !strings.Contains(got, want) || runs > 10_000 {
		t.Errorf("%d runs, the end is %s, want %s", runs, got[max(0, len(got)-300):], want)
	}
}

// A list worker is a node of a workflow.
func TestListWorkerPlace(t *testing.T) {
	worker := runtime.NewFunctionNode("worker", nil, nil)
	worker.SetListWorker(0)
	_, err := runtime.NewApp("app", worker, nil)
	if err == nil || err.Error() != "app app: parallel_worker of worker requires a Workflow node" {
		t.Errorf("NewApp = %v", err)
	}
}
