package runtime_test

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// TestTaskNodePlace: a node with the mode task requires a resumable app and only Workflows above it,
// and one with the mode chat follows START.
func TestTaskNodePlace(t *testing.T) {
	agent := func(name string, mode runtime.Mode) *runtime.LLMAgent {
		return runtime.NewLLM(name, &runtime.LLMOptions{Model: textModel("hello"), Mode: mode})
	}
	flow := func(nodes ...runtime.Agent) (runtime.Agent, error) {
		edges := []runtime.Edge{{From: runtime.Start, To: 0}}
		for i := range nodes[1:] {
			edges = append(edges, runtime.Edge{From: i, To: i + 1})
		}
		return runtime.NewWorkflow("flow", &runtime.WorkflowOptions{Nodes: nodes, Edges: edges})
	}
	worker := agent("talk", runtime.ModeTask)
	worker.SetListWorker(0)
	for _, tt := range []struct {
		name      string
		nodes     []runtime.Agent
		below     bool
		resumable bool
		want      string
	}{
		{"a node", []runtime.Agent{agent("talk", runtime.ModeTask)}, false, true, ""},
		{"not resumable", []runtime.Agent{agent("talk", runtime.ModeTask)}, false, false, "app app: node talk cannot have the mode task: the app is not resumable, and could not continue after a message of the user"},
		{"below a sequence", []runtime.Agent{agent("talk", runtime.ModeTask)}, true, true, "app app: node talk cannot have the mode task: all agents above it must be Workflows"},
		{"list worker", []runtime.Agent{worker}, false, true, "app app: agent talk cannot have the mode task: it is a parallel_worker"},
		{"chat after START", []runtime.Agent{agent("one", runtime.ModeChat), agent("two", "")}, false, true, ""},
		{"chat after a node", []runtime.Agent{agent("one", ""), agent("two", runtime.ModeChat)}, false, true, "workflow flow: node two cannot have the mode chat: only nodes that directly follow START can"},
	} {
		root, err := flow(tt.nodes...)
		if err == nil {
			if tt.below {
				root = runtime.NewSequential("line", "", root)
			}
			_, err = runtime.NewApp("app", root, &runtime.AppOptions{Resumable: tt.resumable})
		}
		got := ""
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// TestTaskNodeContents: a workflow's task sees its input with its files and the messages to it, and
// nothing from earlier invocations. Another message starts a new invocation after its end.
func TestTaskNodeContents(t *testing.T) {
	var seen []string
	talk := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
		var parts []string
		for _, c := range req.Contents {
			for _, p := range c.Parts {
				switch {
				case p.InlineData != nil:
					parts = append(parts, "file")
				case p.Text != "":
					parts = append(parts, p.Text)
				}
			}
		}
		seen = append(seen, strings.Join(parts, " "))
		if parts[len(parts)-1] == "done" {
			return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "c", Name: "finish_task", Args: map[string]any{"result": "ok"}}}}}, nil
		}
		return model.ModelText("hm"), nil
	})
	w, err := runtime.NewWorkflow("flow", &runtime.WorkflowOptions{
		Nodes: []runtime.Agent{runtime.NewLLM("talk", &runtime.LLMOptions{Model: talk, Mode: runtime.ModeTask})},
		Edges: []runtime.Edge{{From: runtime.Start, To: 0}},
	})
	if err != nil {
		t.Fatal(err)
	}
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, w, &runtime.AppOptions{Resumable: true})
	for _, text := range []string{"look", "more", "done", "again", "done"} {
		req := userMessage(key, text)
		if text == "look" {
			req.Message.Parts = append(req.Message.Parts, &genai.Part{InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte("x")}})
		}
		formatRun(e.Host.Run(t.Context(), req))
	}
	want := []string{"look file", "look file hm more", "look file hm more hm done", "again", "again hm done"}
	if strings.Join(seen, "\n") != strings.Join(want, "\n") {
		t.Errorf("requests:\n%s\nwant:\n%s", strings.Join(seen, "\n"), strings.Join(want, "\n"))
	}
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	invocations := map[string]bool{}
	for _, ev := range sess.Events() {
		invocations[ev.InvocationID] = true
	}
	if len(invocations) != 2 {
		t.Errorf("%d invocations, want 2", len(invocations))
	}
}
