package runtime_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
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

// textModel always returns the same text.
func textModel(text string) modelFunc {
	return func(context.Context, *model.Request) (*genai.Content, error) { return model.ModelText(text), nil }
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

// echoRequest answers with the request's contents.
func echoRequest(_ context.Context, req *model.Request) (*genai.Content, error) {
	var b strings.Builder
	for _, c := range req.Contents {
		fmt.Fprintf(&b, "<%s:", c.Role)
		for _, p := range c.Parts {
			switch {
			case p.InlineData != nil:
				fmt.Fprintf(&b, " (file %v)", p.InlineData.Data)
			case p.ExecutableCode != nil, p.CodeExecutionResult != nil:
				b.WriteString(" (part of code)")
			default:
				// Shorten earlier echoes, which would otherwise nest.
				before, _, nested := strings.Cut(p.Text, "<")
				b.WriteString(" " + before)
				if nested {
					b.WriteString("…")
				}
			}
		}
		b.WriteString(">")
	}
	return model.ModelText(b.String()), nil
}

func TestSeen(t *testing.T) {
	testenv.Transcripts(t, "testdata/seen", func() *loader.Options { return &loader.Options{Model: modelFunc(echoRequest)} })
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

// testAgent is a function as an agent.
type testAgent struct {
	runtime.Base
	run func(ctx context.Context, inv *runtime.Invocation) runtime.Events
}

func (c *testAgent) Run(ctx context.Context, inv *runtime.Invocation) runtime.Events {
	return c.run(ctx, inv)
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

// formatRun formats a run's texts, calls and responses, and its final error.
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

func storedAuthors(t *testing.T, e *testenv.Env, key session.Key) string {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, ev := range sess.Events() {
		names = append(names, ev.Author)
	}
	return strings.Join(names, " ")
}
