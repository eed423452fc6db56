package live_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// modelFunc is a function as a model.
type modelFunc func(ctx context.Context, req *model.Request) (*genai.Content, error)

func (modelFunc) Name() string { return "answering" }

func (f modelFunc) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		c, err := f(ctx, req)
		if err != nil {
			yield(nil, err)
			return
		}
		yield(&model.Response{Content: c, FinishReason: genai.FinishReasonStop}, nil)
	}
}

// toolCallModel calls functions once in a run, then answers "done".
func toolCallModel(names ...string) modelFunc {
	return func(_ context.Context, req *model.Request) (*genai.Content, error) {
		if len(model.ResponsesOf(req.Contents[len(req.Contents)-1])) > 0 {
			return model.ModelText("done"), nil
		}
		c := &genai.Content{Role: genai.RoleModel}
		for i, name := range names {
			c.Parts = append(c.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: fmt.Sprint("c", i), Name: name}})
		}
		return c, nil
	}
}

// testTool is a function as a tool.
type testTool struct {
	name         string
	capabilities tool.Capabilities
	run          func(ctx context.Context, call *tool.Call) (*tool.Result, error)
}

func (a *testTool) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: a.name}
}

func (a *testTool) Capabilities() tool.Capabilities { return a.capabilities }

func (a *testTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	return a.run(ctx, call)
}

// deployApp publishes an app named app in the environment's host.
func deployApp(t *testing.T, e *testenv.Env, root runtime.Agent, opts *runtime.AppOptions) *runtime.App {
	t.Helper()
	app, err := runtime.NewApp("app", root, opts)
	if err != nil {
		t.Fatal(err)
	}
	e.Host.Swap(app)
	return app
}

func userMessage(key session.Key, text string) *runtime.RunRequest {
	return &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: model.UserText(text)}
}

// formatRun formats a run's texts, calls, responses and final error.
func formatRun(events runtime.Events) string {
	var b strings.Builder
	for ev, err := range events {
		if err != nil {
			re := runtime.AsRunError(err)
			fmt.Fprintf(&b, "error %s: %s\n", re.Code, re.Message)
			break
		}
		b.WriteString(formatEvent(ev) + "\n")
	}
	return b.String()
}

func formatEvent(ev *session.Event) string {
	if ev.Content == nil {
		return ev.NodeName() + ": " + ev.ErrorCode + template.String(ev.Output)
	}
	s := ev.Author + ":"
	for _, p := range ev.Content.Parts {
		switch {
		case p.FunctionCall != nil:
			s += " call " + p.FunctionCall.Name
		case p.FunctionResponse != nil:
			s += fmt.Sprint(" ", p.FunctionResponse.Name, " ", p.FunctionResponse.Response)
		case p.ExecutableCode != nil:
			s += " code " + p.ExecutableCode.Code
		case p.CodeExecutionResult != nil:
			s += " result " + p.CodeExecutionResult.Output
		default:
			s += " " + p.Text
		}
	}
	return s
}

func alwaysConfirm() tool.Confirmer {
	return tool.ConfirmFunc(func(context.Context, *tool.Call) (bool, error) { return true, nil })
}

// wantSessionFree checks that no run holds the session.
func wantSessionFree(t *testing.T, e *testenv.Env, key session.Key) {
	t.Helper()
	_, free, err := e.Store.Sessions.Acquire(t.Context(), key, 1)
	if err != nil {
		t.Errorf("the session is not free after the run: %v", err)
		return
	}
	free()
}
