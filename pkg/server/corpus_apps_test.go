package server_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/servertest"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
	"agenthost/wing/devui"
	"agenthost/wing/evaluation/evalweb"
)

// echoModel is the recorded servers' model: it repeats the last message and calls the tool
// named by a word in it.
type echoModel struct{}

func (echoModel) Name() string { return "fake-model" }

func (echoModel) Generate(_ context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		last := req.Contents[len(req.Contents)-1]
		for _, p := range last.Parts {
			if r := p.FunctionResponse; r != nil {
				text, _ := json.Marshal(r.Response)
				yield(modelResponse(&genai.Part{Text: fmt.Sprintf("tool %s said %s", r.Name, text)}), nil)
				return
			}
		}
		text := model.TextOf(last)
		contains := func(word string) bool { return strings.Contains(text, word) }
		switch {
		case contains("boom"):
			yield(nil, &model.Error{Status: "UNKNOWN_ERROR", Message: "fake model failure"})
		case contains("quota"):
			yield(&model.Response{ErrorCode: "RESOURCE_EXHAUSTED", ErrorMessage: "fake quota"}, nil)
		default:
			yield(modelResponse(requestedCalls(req, text)...), nil)
		}
	}
}

func modelResponse(parts ...*genai.Part) *model.Response {
	return &model.Response{Content: &genai.Content{Role: genai.RoleModel, Parts: parts}, FinishReason: genai.FinishReasonStop}
}

// requestedCalls returns the calls that a message asks for, if the agent has the tool.
func requestedCalls(req *model.Request, text string) []*genai.Part {
	calls := map[string][]*genai.Part{
		"roll twice": {genai.NewPartFromFunctionCall("roll_die", map[string]any{"sides": 6}), genai.NewPartFromFunctionCall("roll_die", map[string]any{"sides": 20})},
		"roll":       {genai.NewPartFromFunctionCall("roll_die", map[string]any{"sides": 6})},
		"save":       {genai.NewPartFromFunctionCall("save_note", map[string]any{"name": "note.txt", "text": "hello artifact"})},
		"helper":     {genai.NewPartFromFunctionCall("transfer_to_agent", map[string]any{"agent_name": "helper_agent"})},
		"approve":    {genai.NewPartFromFunctionCall("ask_approval", map[string]any{"amount": 100})},
		"delete":     {genai.NewPartFromFunctionCall("delete_file", map[string]any{"path": "/x"})},
	}
	for _, word := range []string{"roll twice", "roll", "save", "helper", "approve", "delete"} {
		if strings.Contains(text, word) && len(req.Config.Tools) > 0 && req.Origin.Agent == "hello_app" {
			return calls[word]
		}
	}
	return []*genai.Part{{Text: "Echo: " + text}}
}

// recordedApps returns the apps on the recorded servers.
func recordedApps(t *testing.T) *env {
	t.Helper()
	traces := devui.NewTraces(true)
	e := wrapEnv(servertest.New(t, &servertest.Options{Spans: traces, Server: &server.Options{Extensions: []func(*server.Services) *server.Extension{
		devui.Extend(&devui.Options{Traces: traces}), evalweb.Extend(nil),
	}}}))
	hello := runtime.NewLLM("hello_app", &runtime.LLMOptions{
		Model: echoModel{}, Description: "Says hello.", OutputKey: "last_reply",
		Instruction: runtime.NewInstruction("You are hello. Mood: {mood?}", nil), Tools: recordedTools(t),
		SubAgents: []runtime.Agent{runtime.NewLLM("helper_agent", &runtime.LLMOptions{Description: "Helps."})},
	})
	e.addRootAgent(t, hello)
	newAgent := func(name, key string) runtime.Agent {
		return runtime.NewLLM(name, &runtime.LLMOptions{Model: echoModel{}, OutputKey: key})
	}
	e.addRootAgent(t, runtime.NewSequential("seq_app", "", newAgent("writer", "draft"), newAgent("reviewer", "review")))
	e.addRootAgent(t, runtime.NewParallel("par_app", "", newAgent("left", "l"), newAgent("right", "r")))
	e.addRootAgent(t, runtime.NewLoop("loop_app", &runtime.LoopOptions{MaxIterations: new(2), SubAgents: []runtime.Agent{newAgent("worker", "w")}}))
	return e
}

func (e *env) addRootAgent(t *testing.T, root runtime.Agent) {
	t.Helper()
	app, err := runtime.NewApp(root.Name(), root, nil)
	if err != nil {
		t.Fatal(err)
	}
	e.host.Swap(app)
}

func recordedTools(t *testing.T) []tool.Tool {
	t.Helper()
	type die struct {
		Sides int `json:"sides"`
	}
	type note struct {
		Name string `json:"name"`
		Text string `json:"text"`
	}
	type approval struct {
		Amount float64 `json:"amount"`
	}
	type file struct {
		Path string `json:"path"`
	}
	roll, err1 := declare.Func("roll_die", "Rolls a die.", func(_ context.Context, call *tool.Call, _ die) (int, error) {
		call.State.Set("last_roll", 4)
		call.State.Set("user:rolls", 1)
		return 4, nil
	})
	save, err2 := declare.Func("save_note", "Saves a note as an artifact.", func(ctx context.Context, call *tool.Call, n note) (map[string]any, error) {
		version, err := call.Artifacts.Save(ctx, n.Name, &genai.Part{Text: n.Text})
		return map[string]any{"version": version}, err
	})
	ask, err3 := declare.Func("ask_approval", "Asks a human.", func(_ context.Context, _ *tool.Call, a approval) (map[string]any, error) {
		return map[string]any{"status": "pending", "amount": a.Amount}, nil
	})
	remove, err4 := declare.Func("delete_file", "Deletes a file.", func(_ context.Context, call *tool.Call, f file) (map[string]any, error) {
		if call.Confirmation == nil {
			call.RequestConfirmation("", nil)
			return nil, nil
		}
		return map[string]any{"deleted": f.Path}, nil
	})
	if err := cmp.Or(err1, err2, err3, err4); err != nil {
		t.Fatal(err)
	}
	return []tool.Tool{roll, save, longRunningTool{ask}, remove}
}

// longRunningTool is a tool whose response is sent later.
type longRunningTool struct{ tool.Tool }

func (longRunningTool) Capabilities() tool.Capabilities { return tool.Capabilities{LongRunning: true} }
