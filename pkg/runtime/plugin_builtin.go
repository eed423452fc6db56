package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// NewContextFilter returns ADK's ContextFilterPlugin. Models see only a conversation's last turns,
// including the current one, and only the contents that filter returns. Zero turns means all;
// filter may be nil.
func NewContextFilter(turns int, filter ContentFilter) *Plugin {
	edit := func(ctx context.Context, m *CallbackContext, req *model.Request) (_ *model.Response, err error) {
		if turns > 0 {
			req.Contents = lastTurns(req.Contents, turns)
		}
		if filter != nil {
			req.Contents, err = applyFilter(ctx, m, filter, req.Contents)
		}
		return nil, err
	}
	return &Plugin{Name: "context_filter", Callbacks: Callbacks{BeforeModel: []BeforeModelFunc{edit}}}
}

// lastTurns returns the contents of the last n turns. Consecutive user contents
// are one turn; responses to calls do not start a turn.
func lastTurns(contents []*genai.Content, n int) []*genai.Content {
	for i := len(contents) - 1; i > 0; i-- {
		if !isUserTurn(contents[i]) || isUserTurn(contents[i-1]) {
			continue
		}
		if n--; n == 0 {
			return contents[includeCalls(contents, i):]
		}
	}
	return contents
}

func isUserTurn(c *genai.Content) bool {
	return c.Role == genai.RoleUser && len(model.ResponsesOf(c)) == 0
}

// includeCalls moves the start of the kept contents back to the calls whose
// responses are kept: a request never contains a response without its call.
func includeCalls(contents []*genai.Content, from int) int {
	open := map[string]bool{}
	for i := len(contents) - 1; i >= 0; i-- {
		if i < from && len(open) == 0 {
			return i + 1
		}
		for _, r := range model.ResponsesOf(contents[i]) {
			open[r.ID] = true
		}
		for _, c := range model.CallsOf(contents[i]) {
			delete(open, c.ID)
		}
	}
	return 0
}

var errNothingLeft = errors.New("custom_filter removed all contents of the request")

// applyFilter applies a filter to a request's contents.
func applyFilter(ctx context.Context, m *CallbackContext, filter ContentFilter, contents []*genai.Content) ([]*genai.Content, error) {
	if len(contents) == 0 {
		return contents, nil
	}
	rest, err := filter(ctx, m, contents)
	switch {
	case err != nil:
		return nil, fmt.Errorf("custom_filter: %w", err)
	case len(rest) == 0:
		return nil, errNothingLeft
	}
	return rest, nil
}

// LoggingOptions are optional settings for the plugin that logs runs.
type LoggingOptions struct {
	// Level is the records' level; the zero value is info. Failures are logged as warnings.
	Level slog.Level
	// Contents logs message texts, arguments and results as well, truncated to
	// 200 characters.
	Contents bool
}

// runLog logs the steps in runs, without message contents by default.
type runLog struct {
	logger *slog.Logger
	opts   LoggingOptions
}

// NewLogging returns ADK's LoggingPlugin, which logs each run's steps; opts may be nil.
func NewLogging(logger *slog.Logger, opts *LoggingOptions) *Plugin {
	if opts == nil {
		opts = &LoggingOptions{}
	}
	l := &runLog{logger, *opts}
	return &Plugin{
		Name: "logging",
		Callbacks: Callbacks{
			BeforeAgent: []AgentFunc{l.logAgent("agent started")}, AfterAgent: []AgentFunc{l.logAgent("agent ended")},
			BeforeModel: []BeforeModelFunc{l.logModelRequest}, AfterModel: []AfterModelFunc{l.logModelResponse}, OnModelError: []ModelErrorFunc{l.logModelError},
			BeforeTool: []BeforeToolFunc{l.logToolCall}, AfterTool: []AfterToolFunc{l.logToolResult}, OnToolError: []ToolErrorFunc{l.logToolError},
		},
		OnUserMessage: l.logUserMessage, OnEvent: l.logEvent, AfterRun: l.logRunEnd,
	}
}

// write logs a record, with the content as the last attribute if contents are
// enabled.
func (l *runLog) write(ctx context.Context, msg string, content string, args ...any) {
	if l.opts.Contents && content != "" {
		if r := []rune(content); len(r) > maxLogged {
			content = string(r[:maxLogged]) + "…"
		}
		args = append(args, "content", content)
	}
	l.logger.Log(ctx, l.opts.Level, msg, args...)
}

// maxLogged is the maximum length of logged content, in characters.
const maxLogged = 200

func invocationAttrs(inv *Invocation) []any {
	return []any{"app", inv.App().name, "revision", inv.App().revision, "session", inv.Session().ID, "invocation", inv.ID(), "agent", inv.Agent().Name()}
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

// RetryAndReflectOptions are optional settings for the plugin that makes models retry failed tool
// calls.
type RetryAndReflectOptions struct {
	// ContinueAfterRetries instructs the model not to call the tool again when
	// it has failed too often; otherwise that failure ends the run.
	ContinueAfterRetries bool
	// CountAcrossRuns counts a tool's failures across all the app's runs, not per run.
	CountAcrossRuns bool
}

// retryAndReflect counts each tool's failures in the state: under a temp: key, which is dropped
// after the run, or under an app: key, which all sessions on all replicas share.
type retryAndReflect struct {
	maxRetries int
	opts       RetryAndReflectOptions
}

// NewRetryAndReflect returns ADK's ReflectAndRetryToolPlugin. It returns guidance to the model when
// a tool fails, for at most maxRetries consecutive tool failures; opts may be nil.
func NewRetryAndReflect(maxRetries int, opts *RetryAndReflectOptions) *Plugin {
	if opts == nil {
		opts = &RetryAndReflectOptions{}
	}
	p := retryAndReflect{maxRetries, *opts}
	return &Plugin{Name: "retry_and_reflect", Callbacks: Callbacks{
		OnToolError: []ToolErrorFunc{p.reflectOnError},
		AfterTool:   []AfterToolFunc{p.resetCount},
	}}
}

// reflectMark is the response_type that identifies these responses for ADK's
// clients.
const reflectMark = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN"

// countKey returns the state key that counts a tool's failures.
func (p *retryAndReflect) countKey(call *tool.Call) string {
	prefix := session.TempPrefix
	if p.opts.CountAcrossRuns {
		prefix = session.AppPrefix
	}
	return prefix + "retry_and_reflect:" + call.Name
}

func (p *retryAndReflect) reflectOnError(_ context.Context, _ tool.Tool, call *tool.Call, failure error) (*tool.Result, error) {
	key := p.countKey(call)
	v, _ := call.State.Get(key)
	before, _ := toCount(v)
	n := before + 1
	if n > p.maxRetries {
		if !p.opts.ContinueAfterRetries {
			return nil, failf(CodeToolFailed, failure, "tool %s of agent %s exceeded max_retries with %d consecutive failures: %s", call.Name, call.Origin.Agent, n, failure)
		}
		return reflectionResult(failure, n, fmt.Sprintf("The tool %s failed too often, with %d consecutive failures. Do not call it again in this turn: "+
			"find another way, or explain to the user what cannot be done.", call.Name, n)), nil
	}
	if err := call.State.Update(session.StateUpdate{Key: key, Verb: session.UpdateAdd, Value: 1}); err != nil {
		return nil, err
	}
	return reflectionResult(failure, n, fmt.Sprintf("The call of %s failed; this was attempt %d of %d. Before the next call, think about the cause: "+
		"are the arguments complete, of the right type, and intended for this tool? Do not repeat the same call. "+
		"If the tool cannot help, find another way.", call.Name, n, p.maxRetries+1)), nil
}

func reflectionResult(failure error, n int, guidance string) *tool.Result {
	return &tool.Result{Response: map[string]any{
		"response_type": reflectMark, "error_details": failure.Error(), "retry_count": n, "reflection_guidance": guidance,
	}}
}

// resetCount resets the failure count for a tool that succeeded.
func (p *retryAndReflect) resetCount(_ context.Context, _ tool.Tool, call *tool.Call, result *tool.Result) (*tool.Result, error) {
	if result != nil && result.Response["response_type"] == reflectMark {
		return nil, nil
	}
	if v, _ := call.State.Get(p.countKey(call)); v != nil {
		call.State.Set(p.countKey(call), nil)
	}
	return nil, nil
}

func toCount(v any) (int, bool) {
	switch v := v.(type) {
	case int:
		return v, true
	case int64:
		return int(v), true
	}
	return 0, false
}

// NewAddToMemory returns a plugin that adds every run's events to the memory. ADK leaves this to a
// callback in each app. Runs that fail or are stopped are not added.
func NewAddToMemory(logger *slog.Logger) *Plugin {
	return &Plugin{Name: "add_to_memory", afterCompleted: func(ctx context.Context, inv *Invocation) { inv.addRunToMemory(ctx, logger) }}
}

// addRunToMemory adds only this run's events, so that the cost does not grow with the session.
// Errors are logged only, because the answer has already been sent.
func (inv *Invocation) addRunToMemory(ctx context.Context, logger *slog.Logger) {
	events := inv.run.sess.Events()
	for i, ev := range slices.Backward(events) {
		if ev.InvocationID != inv.run.id {
			events = events[i+1:]
			break
		}
	}
	if err := (&callMemories{inv.run}).AddEvents(ctx, events); err != nil {
		inv.run.withRunAttrs(logger).WarnContext(ctx, "adding run to memory failed", "error", err)
	}
}

// NewSaveFilesAsArtifacts returns ADK's SaveFilesAsArtifactsPlugin, which saves the
// files in user messages. The user's event records the versions.
func NewSaveFilesAsArtifacts() *Plugin {
	return &Plugin{Name: "save_files_as_artifacts", OnUserMessage: saveMessageFiles}
}

func saveMessageFiles(ctx context.Context, m *CallbackContext, message *genai.Content) (*genai.Content, error) {
	saved := false
	parts := make([]*genai.Part, len(message.Parts))
	for i, p := range message.Parts {
		parts[i] = p
		if p.InlineData == nil {
			continue
		}
		name := p.InlineData.DisplayName
		if name == "" || session.CheckArtifactName(name) != nil {
			name = fmt.Sprintf("artifact_%s_%d", m.ID(), i)
		}
		if _, err := m.Artifacts.Save(ctx, name, p); err != nil {
			return nil, fmt.Errorf("saving file %d of the message: %w", i, err)
		}
		parts[i] = &genai.Part{Text: `[Uploaded Artifact: "` + name + `"]`}
		saved = true
	}
	if !saved {
		return nil, nil
	}
	return &genai.Content{Role: message.Role, Parts: parts}, nil
}

// NewGlobalInstruction returns ADK's GlobalInstructionPlugin, which puts text before every agent's
// instructions.
func NewGlobalInstruction(text *Instruction) *Plugin {
	prepend := func(ctx context.Context, m *CallbackContext, req *model.Request) (*model.Response, error) {
		instruction, err := text.Render(ctx, m.Invocation)
		if err != nil || instruction == "" {
			return nil, err
		}
		own := req.Instruction()
		req.Config.SystemInstruction = nil
		req.AppendInstruction(instruction)
		req.AppendInstruction(own)
		return nil, nil
	}
	return &Plugin{Name: "global_instruction", Callbacks: Callbacks{BeforeModel: []BeforeModelFunc{prepend}}}
}
