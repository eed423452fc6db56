package runtime_test

import (
	"context"
	"encoding/json"
	"fmt"
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

// renderContents returns contents as lines with a role and texts.
func renderContents(t *testing.T, contents []*genai.Content) string {
	t.Helper()
	var lines []string
	for _, c := range contents {
		line := c.Role + ":"
		for _, p := range c.Parts {
			switch {
			case p.FunctionCall != nil:
				line += " call " + p.FunctionCall.Name
			case p.FunctionResponse != nil:
				b, err := json.Marshal(p.FunctionResponse.Response)
				if err != nil {
					t.Fatal(err)
				}
				line += " response " + string(b)
			case p.InlineData != nil:
				line += " file " + p.InlineData.MIMEType
			default:
				line += " " + p.Text
			}
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// singleTurnFlow returns a graph with LLM agents that append their contents to seen. The agent
// first calls a tool, and runs twice.
func singleTurnFlow(t *testing.T, seen *[]string) *runtime.Workflow {
	t.Helper()
	llm := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
		who := req.Origin.Agent
		*seen = append(*seen, who+"\n"+renderContents(t, req.Contents))
		if last := req.Contents[len(req.Contents)-1]; who == "first" && model.ResponsesOf(last) == nil {
			return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{Name: "dice"}}}}, nil
		}
		return model.ModelText(who + " done"), nil
	})
	dice := &testTool{name: "dice", run: func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Response: map[string]any{"n": 6}}, nil
	}}
	runs := 0
	pair := runtime.NewFunctionNode("pair", func(_ context.Context, _ *runtime.CallbackContext, input any) (any, error) {
		runs++
		return map[string]any{"a": input, "n": runs}, nil
	}, nil)
	node := func(name string, include runtime.IncludeContents) runtime.Agent {
		return runtime.NewLLM(name, &runtime.LLMOptions{Model: llm, Tools: []tool.Tool{dice}, IncludeContents: include})
	}
	w, err := runtime.NewWorkflow("flow", &runtime.WorkflowOptions{
		Nodes: []runtime.Agent{node("first", ""), pair, node("second", runtime.IncludeNone), node("talker", runtime.IncludeDefault)},
		Edges: []runtime.Edge{
			{From: runtime.Start, To: 0},
			{From: 0, To: 1},
			{From: 1, To: 0, Kind: runtime.EdgeRoute, Route: `{"a":"first done","n":1}`},
			{From: 1, To: 2, Kind: runtime.EdgeDefault},
			{From: 2, To: 3},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSingleTurn has the contents that a workflow's LLM agents see: their input as a user message
// and their own run's events, but no earlier runs, nodes or turns. With IncludeDefault they see the
// conversation. The input is not stored.
func TestSingleTurn(t *testing.T) {
	for _, resumable := range []bool{false, true} {
		t.Run(fmt.Sprint("resumable ", resumable), func(t *testing.T) {
			var seen []string
			e := testenv.New(t, nil)
			deployApp(t, e, singleTurnFlow(t, &seen), &runtime.AppOptions{Resumable: resumable})
			key := e.Session(t, "app", "s", nil)
			message := &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{Text: "go"}, {InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte("x")}}}}
			for _, req := range []*runtime.RunRequest{{App: key.App, UserID: key.User, SessionID: key.ID, Message: message}, userMessage(key, "again")} {
				for ev, err := range e.Host.Run(t.Context(), req) {
					if err != nil {
						t.Fatal(err)
					}
					if ev.Author == session.UserAuthor {
						t.Errorf("the run yields an event of the user: %s", ev.Text())
					}
				}
			}
			const loop = "first\nuser: {\"a\":\"first done\",\"n\":1}"
			const call = "\nmodel: call dice\nuser: response {\"n\":6}"
			want := []string{
				"first\nuser: go file image/png", "first\nuser: go file image/png" + call,
				loop, loop + call,
				"second\nuser: {\"a\":\"first done\",\"n\":2}",
			}
			if diff := cmp.Diff(want, seen[:5]); diff != "" {
				t.Errorf("contents of the first turn (-want +got):\n%s", diff)
			}
			if talk := seen[5]; !strings.HasPrefix(talk, "talker\nuser: go file image/png\n") || !strings.Contains(talk, "[second] said: second done") {
				t.Errorf("with IncludeDefault the agent sees\n%s", talk)
			}
			if seen[6] != "first\nuser: again" {
				t.Errorf("contents of the second turn: %s", seen[6])
			}
		})
	}
}

// TestDelegateContents has the contents for sub-agents that their parent calls: the input, with
// IncludeDefault after the conversation before the call, and their own run's events. The parent
// sees the result only.
func TestDelegateContents(t *testing.T) {
	var seen []string
	llm := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
		who, last := req.Origin.Agent, req.Contents[len(req.Contents)-1]
		seen = append(seen, who+"\n"+renderContents(t, req.Contents))
		call := &genai.FunctionCall{Name: "dice"}
		if who == "boss" {
			call = &genai.FunctionCall{Name: []string{"quiet", "talker"}[req.Origin.Turn-1], Args: map[string]any{"request": "roll"}}
		}
		if model.ResponsesOf(last) == nil {
			return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: call}}}, nil
		}
		return model.ModelText(who + " done"), nil
	})
	dice := &testTool{name: "dice", run: func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Response: map[string]any{"n": 6}}, nil
	}}
	worker := func(name string, include runtime.IncludeContents) runtime.Agent {
		return runtime.NewLLM(name, &runtime.LLMOptions{Mode: runtime.ModeSingleTurn, Tools: []tool.Tool{dice}, IncludeContents: include})
	}
	e := testenv.New(t, nil)
	boss := runtime.NewLLM("boss", &runtime.LLMOptions{Model: llm, SubAgents: []runtime.Agent{worker("quiet", ""), worker("talker", runtime.IncludeDefault)}})
	deployApp(t, e, boss, nil)
	key := e.Session(t, "app", "s", nil)
	for _, text := range []string{"one", "two"} {
		for _, err := range e.Host.Run(t.Context(), userMessage(key, text)) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	const first = "user: one\nmodel: call quiet\nuser: response {\"result\":\"quiet done\"}"
	const own = "\nmodel: call dice\nuser: response {\"n\":6}"
	const foreign = "user: one\n" +
		"user: For context: [boss] called tool `quiet` with parameters: {\"request\":\"roll\"}\n" +
		"user: For context: [boss] `quiet` tool returned result: {\"result\":\"quiet done\"}\n" +
		"user: For context: [boss] said: boss done\nuser: two\nuser: roll"
	second := first + "\nmodel: boss done\nuser: two"
	want := []string{
		"boss\nuser: one", "quiet\nuser: roll", "quiet\nuser: roll" + own, "boss\n" + first,
		"boss\n" + second, "talker\n" + foreign, "talker\n" + foreign + own,
		"boss\n" + second + "\nmodel: call talker\nuser: response {\"result\":\"talker done\"}",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}

// TestTaskContents has the contents for a task's agent, which sees its call's arguments and the
// messages since then, and for its parent, which sees the result only.
func TestTaskContents(t *testing.T) {
	var seen []string
	llm := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
		who, last := req.Origin.Agent, req.Contents[len(req.Contents)-1]
		seen = append(seen, who+"\n"+renderContents(t, req.Contents))
		call := &genai.FunctionCall{Name: "order", Args: map[string]any{"request": "food"}}
		switch {
		case who == "order" && req.Origin.UserText != "pizza":
			return model.ModelText("What?"), nil
		case who == "order":
			call = &genai.FunctionCall{Name: "finish_task", Args: map[string]any{"result": "a pizza"}}
		case model.ResponsesOf(last) != nil:
			return model.ModelText("done"), nil
		}
		return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: call}}}, nil
	})
	e := testenv.New(t, nil)
	order := runtime.NewLLM("order", &runtime.LLMOptions{Mode: runtime.ModeTask})
	deployApp(t, e, runtime.NewLLM("boss", &runtime.LLMOptions{Model: llm, SubAgents: []runtime.Agent{order}}), nil)
	key := e.Session(t, "app", "s", nil)
	for _, text := range []string{"hungry", "pizza"} {
		for _, err := range e.Host.Run(t.Context(), userMessage(key, text)) {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []string{
		"boss\nuser: hungry",
		"order\nuser: {\"request\":\"food\"}",
		"order\nuser: {\"request\":\"food\"}\nmodel: What?\nuser: pizza",
		"boss\nuser: hungry\nmodel: call order\nuser: response {\"output\":\"a pizza\"}",
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("contents (-want +got):\n%s", diff)
	}
}
