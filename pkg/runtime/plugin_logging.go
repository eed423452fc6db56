package runtime

import (
	"context"
	"log/slog"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

type loggingConfig struct {
	Level    string `yaml:"level" enum:"debug|info" default:"info" doc:"The level of the lines; failures are warnings."`
	Contents bool   `yaml:"contents" default:"false" doc:"Whether the lines also have what is said, the arguments of calls and their answers, cut at 200 letters."`
}

// runLog writes the life of runs to a log. What people said is left out
// unless it is asked for.
type runLog struct {
	to       *slog.Logger
	level    slog.Level
	contents bool
}

func newLogging(_ context.Context, env PluginEnv, c *loggingConfig) (*Plugin, error) {
	l := &runLog{to: env.Logger, level: slog.LevelInfo, contents: c.Contents}
	if c.Level == "debug" {
		l.level = slog.LevelDebug
	}
	return &Plugin{
		Name: "logging",
		Callbacks: Callbacks{
			BeforeAgent: []AgentFunc{l.agent("agent begins")}, AfterAgent: []AgentFunc{l.agent("agent ends")},
			BeforeModel: []BeforeModelFunc{l.asked}, AfterModel: []AfterModelFunc{l.answered}, OnModelError: []ModelErrorFunc{l.modelFailed},
			BeforeTool: []BeforeToolFunc{l.called}, AfterTool: []AfterToolFunc{l.returned}, OnToolError: []ToolErrorFunc{l.toolFailed},
		},
		OnUserMessage: l.heard, OnEvent: l.event, AfterRun: l.ended,
	}, nil
}

// write puts what is said last, where it may be told.
func (l *runLog) write(ctx context.Context, msg string, said string, args ...any) {
	if l.contents && said != "" {
		args = append(args, "content", shortened(said))
	}
	l.to.Log(ctx, l.level, msg, args...)
}

// maxLogged bounds what one line of the log holds of what was said.
const maxLogged = 200

func shortened(s string) string {
	if r := []rune(s); len(r) > maxLogged {
		return string(r[:maxLogged]) + "…"
	}
	return s
}

func of(inv *Invocation) []any {
	return []any{"app", inv.App().Name, "revision", inv.App().Revision, "session", inv.Session().ID, "invocation", inv.ID(), "agent", inv.Agent().Name()}
}

func ofCall(call *tool.Call) []any {
	o := call.Origin
	return []any{"app", o.App, "session", o.SessionID, "invocation", o.InvocationID, "agent", o.Agent, "tool", call.Name, "call", call.ID}
}

func (l *runLog) heard(ctx context.Context, m *Moment, message *genai.Content) (*genai.Content, error) {
	l.write(ctx, "user message", model.TextOf(message), of(m.Invocation)...)
	return nil, nil
}

func (l *runLog) agent(msg string) AgentFunc {
	return func(ctx context.Context, m *Moment) (*genai.Content, error) {
		l.write(ctx, msg, "", of(m.Invocation)...)
		return nil, nil
	}
}

func (l *runLog) asked(ctx context.Context, m *Moment, req *model.Request) (*model.Response, error) {
	l.write(ctx, "model is asked", "", append(of(m.Invocation), "model", req.Model, "contents", len(req.Contents))...)
	return nil, nil
}

func (l *runLog) answered(ctx context.Context, m *Moment, resp *model.Response) (*model.Response, error) {
	args := append(of(m.Invocation), "partial", resp.Partial, "calls", len(model.CallsOf(resp.Content)))
	if u := resp.UsageMetadata; u != nil {
		args = append(args, "prompt_tokens", u.PromptTokenCount, "answer_tokens", u.CandidatesTokenCount)
	}
	if resp.ErrorCode != "" {
		args = append(args, "error", resp.ErrorCode)
	}
	l.write(ctx, "model answers", model.TextOf(resp.Content), args...)
	return nil, nil
}

func (l *runLog) modelFailed(ctx context.Context, m *Moment, req *model.Request, err error) (*model.Response, error) {
	l.to.WarnContext(ctx, "model fails", append(of(m.Invocation), "model", req.Model, "error", err)...)
	return nil, nil
}

func (l *runLog) called(ctx context.Context, _ tool.Tool, call *tool.Call) (*tool.Result, error) {
	l.write(ctx, "tool is called", template.String(call.Args), ofCall(call)...)
	return nil, nil
}

func (l *runLog) returned(ctx context.Context, _ tool.Tool, call *tool.Call, result *tool.Result) (*tool.Result, error) {
	said := ""
	if result != nil {
		said = template.String(result.Response)
	}
	l.write(ctx, "tool answers", said, ofCall(call)...)
	return nil, nil
}

func (l *runLog) toolFailed(ctx context.Context, _ tool.Tool, call *tool.Call, err error) (*tool.Result, error) {
	l.to.WarnContext(ctx, "tool fails", append(ofCall(call), "error", err)...)
	return nil, nil
}

func (l *runLog) event(ctx context.Context, inv *Invocation, ev *session.Event) (*session.Event, error) {
	l.write(ctx, "event", "", append(of(inv), "id", ev.ID, "author", ev.Author, "partial", ev.Partial, "final", ev.IsFinal())...)
	return nil, nil
}

func (l *runLog) ended(ctx context.Context, inv *Invocation) error {
	l.write(ctx, "run ends", "", of(inv)...)
	return nil
}
