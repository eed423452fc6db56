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
	Level    string `yaml:"level" enum:"debug|info" default:"info" doc:"Log level; failures are logged as warnings."`
	Contents bool   `yaml:"contents" default:"false" doc:"Whether to log message texts, arguments and results as well, truncated to 200 characters."`
}

// runLog logs the steps of runs, without message contents by default.
type runLog struct {
	logger   *slog.Logger
	level    slog.Level
	contents bool
}

func newLogging(_ context.Context, env PluginEnv, c *loggingConfig) (*Plugin, error) {
	l := &runLog{logger: env.Logger, level: slog.LevelInfo, contents: c.Contents}
	if c.Level == "debug" {
		l.level = slog.LevelDebug
	}
	return &Plugin{
		Name: "logging",
		Callbacks: Callbacks{
			BeforeAgent: []AgentFunc{l.logAgent("agent started")}, AfterAgent: []AgentFunc{l.logAgent("agent ended")},
			BeforeModel: []BeforeModelFunc{l.logModelRequest}, AfterModel: []AfterModelFunc{l.logModelResponse}, OnModelError: []ModelErrorFunc{l.logModelError},
			BeforeTool: []BeforeToolFunc{l.logToolCall}, AfterTool: []AfterToolFunc{l.logToolResult}, OnToolError: []ToolErrorFunc{l.logToolError},
		},
		OnUserMessage: l.logUserMessage, OnEvent: l.logEvent, AfterRun: l.logRunEnd,
	}, nil
}

// write logs a record, with the content as the last attribute if contents are
// enabled.
func (l *runLog) write(ctx context.Context, msg string, content string, args ...any) {
	if l.contents && content != "" {
		args = append(args, "content", truncateText(content))
	}
	l.logger.Log(ctx, l.level, msg, args...)
}

// maxLogged is the maximum length of logged content, in characters.
const maxLogged = 200

func truncateText(s string) string {
	if r := []rune(s); len(r) > maxLogged {
		return string(r[:maxLogged]) + "…"
	}
	return s
}

func invocationAttrs(inv *Invocation) []any {
	return []any{"app", inv.App().Name, "revision", inv.App().Revision, "session", inv.Session().ID, "invocation", inv.ID(), "agent", inv.Agent().Name()}
}

func callAttrs(call *tool.Call) []any {
	o := call.Origin
	return []any{"app", o.App, "session", o.SessionID, "invocation", o.InvocationID, "agent", o.Agent, "tool", call.Name, "call", call.ID}
}

func (l *runLog) logUserMessage(ctx context.Context, m *CallbackContext, message *genai.Content) (*genai.Content, error) {
	l.write(ctx, "user message", model.TextOf(message), invocationAttrs(m.Invocation)...)
	return nil, nil
}

func (l *runLog) logAgent(msg string) AgentFunc {
	return func(ctx context.Context, m *CallbackContext) (*genai.Content, error) {
		l.write(ctx, msg, "", invocationAttrs(m.Invocation)...)
		return nil, nil
	}
}

func (l *runLog) logModelRequest(ctx context.Context, m *CallbackContext, req *model.Request) (*model.Response, error) {
	l.write(ctx, "model call started", "", append(invocationAttrs(m.Invocation), "model", req.Model, "contents", len(req.Contents))...)
	return nil, nil
}

func (l *runLog) logModelResponse(ctx context.Context, m *CallbackContext, resp *model.Response) (*model.Response, error) {
	args := append(invocationAttrs(m.Invocation), "partial", resp.Partial, "calls", len(model.CallsOf(resp.Content)))
	if u := resp.UsageMetadata; u != nil {
		args = append(args, "prompt_tokens", u.PromptTokenCount, "answer_tokens", u.CandidatesTokenCount)
	}
	if resp.ErrorCode != "" {
		args = append(args, "error", resp.ErrorCode)
	}
	l.write(ctx, "model responded", model.TextOf(resp.Content), args...)
	return nil, nil
}

func (l *runLog) logModelError(ctx context.Context, m *CallbackContext, req *model.Request, err error) (*model.Response, error) {
	l.logger.WarnContext(ctx, "model call failed", append(invocationAttrs(m.Invocation), "model", req.Model, "error", err)...)
	return nil, nil
}

func (l *runLog) logToolCall(ctx context.Context, _ tool.Tool, call *tool.Call) (*tool.Result, error) {
	l.write(ctx, "tool call started", template.String(call.Args), callAttrs(call)...)
	return nil, nil
}

func (l *runLog) logToolResult(ctx context.Context, _ tool.Tool, call *tool.Call, result *tool.Result) (*tool.Result, error) {
	content := ""
	if result != nil {
		content = template.String(result.Response)
	}
	l.write(ctx, "tool returned", content, callAttrs(call)...)
	return nil, nil
}

func (l *runLog) logToolError(ctx context.Context, _ tool.Tool, call *tool.Call, err error) (*tool.Result, error) {
	l.logger.WarnContext(ctx, "tool call failed", append(callAttrs(call), "error", err)...)
	return nil, nil
}

func (l *runLog) logEvent(ctx context.Context, inv *Invocation, ev *session.Event) (*session.Event, error) {
	l.write(ctx, "event", "", append(invocationAttrs(inv), "id", ev.ID, "author", ev.Author, "partial", ev.Partial, "final", ev.IsFinal())...)
	return nil, nil
}

func (l *runLog) logRunEnd(ctx context.Context, inv *Invocation) error {
	l.write(ctx, "run ended", "", invocationAttrs(inv)...)
	return nil
}
