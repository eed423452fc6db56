package runtime

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

type contextFilterConfig struct {
	Keep   int          `yaml:"num_invocations_to_keep" doc:"Number of latest turns that models see, including the current one. Default: all."`
	Custom filterConfig `yaml:"custom_filter" doc:"Filter of those contents: an expression that is true for the contents to keep and can use content (role, text, calls, responses), index, count, state, user, session, invocation and agent; or {name: NAME}, a function of the program."`
}

// DecodeSpec requires at least one setting, and keeps at least the current turn.
func (c *contextFilterConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := spec.Decode(n, c)
	switch at := n.Get("num_invocations_to_keep"); {
	case ds.HasErrors():
	case at.IsNull() && n.Get("custom_filter").IsNull():
		ds = append(ds, n.Errorf("required", "context_filter requires num_invocations_to_keep or custom_filter"))
	case !at.IsNull() && c.Keep < 1:
		ds = append(ds, at.Errorf("value", "num_invocations_to_keep must be 1 or more; 1 is the current turn"))
	}
	return ds
}

// Bind resolves the function that custom_filter names.
func (c *contextFilterConfig) Bind(f *Functions) spec.Diagnostics { return c.Custom.bindFilter(f) }

// newContextFilter returns ADK's ContextFilterPlugin.
func newContextFilter(_ context.Context, _ PluginEnv, c *contextFilterConfig) (*Plugin, error) {
	filter := func(ctx context.Context, m *CallbackContext, req *model.Request) (_ *model.Response, err error) {
		if c.Keep > 0 {
			req.Contents = lastTurns(req.Contents, c.Keep)
		}
		req.Contents, err = c.Custom.applyFilter(ctx, m, req.Contents)
		return nil, err
	}
	return &Plugin{Name: "context_filter", Callbacks: Callbacks{BeforeModel: []BeforeModelFunc{filter}}}, nil
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

// filterConfig is a filter in YAML: an expression that is true for the contents
// to keep, or {name: NAME} of a function.
type filterConfig struct {
	name   spec.Text
	filter ContentFilter
}

// DecodeSpec accepts both forms and compiles the expression.
func (c *filterConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	if n.Kind == spec.Mapping {
		var named struct {
			Name spec.Text `yaml:"name" required:"true"`
		}
		ds := spec.Decode(n, &named)
		c.name = named.Name
		return ds
	}
	var src spec.Expr
	if ds := src.DecodeSpec(n); ds.HasErrors() {
		return ds
	}
	x, ds := compileConditionIn(src, contentEnv())
	if x != nil {
		c.filter = newExprFilter(x)
	}
	return ds
}

// SchemaSpec describes both forms.
func (*filterConfig) SchemaSpec() map[string]any {
	schema := nameOrMappingSchema()
	schema["title"] = "expression, or name of a function"
	return schema
}

// bindFilter resolves the function that a document names.
func (c *filterConfig) bindFilter(f *Functions) spec.Diagnostics {
	if c.name.Value == "" {
		return nil
	}
	if c.filter = f.ContentFilters[c.name.Value]; c.filter != nil {
		return nil
	}
	return spec.Diagnostics{c.name.Errorf(0, "code", "unknown filter %s: functions registered for custom_filter: %s",
		c.name.Value, joinNames(slices.Sorted(maps.Keys(f.ContentFilters)))).
		WithHint("write an expression that is true for the contents to keep, or register the function in Functions.ContentFilters")}
}

// contentEnv declares the names available to the expression of a filter.
func contentEnv() template.Env {
	env := conditionEnv()
	env["content"] = template.Env{"role": "", "text": "", "calls": []any{}, "responses": []any{}}
	env["index"], env["count"] = 0, 0
	return env
}

// newExprFilter returns a filter that keeps the contents for which an expression
// is true. It always keeps the last content, which the model answers, and keeps
// calls together with the responses that directly follow them.
func newExprFilter(x *template.Expr) ContentFilter {
	return func(ctx context.Context, m *CallbackContext, contents []*genai.Content) ([]*genai.Content, error) {
		vars := m.Invocation.conditionVars()
		vars["count"] = len(contents)
		keep := make([]bool, len(contents))
		for i, c := range contents {
			vars["index"], vars["content"] = i, contentVars(c)
			ok, err := x.Bool(ctx, vars)
			if err != nil {
				return nil, err
			}
			keep[i] = ok || i == len(contents)-1
			if i > 0 && len(model.ResponsesOf(c)) > 0 {
				keep[i] = keep[i] || keep[i-1]
				keep[i-1] = keep[i]
			}
		}
		var rest []*genai.Content
		for i, c := range contents {
			if keep[i] {
				rest = append(rest, c)
			}
		}
		return rest, nil
	}
}

func contentVars(c *genai.Content) map[string]any {
	calls, responses := []any{}, []any{}
	for _, f := range model.CallsOf(c) {
		calls = append(calls, map[string]any{"name": f.Name, "args": f.Args})
	}
	for _, f := range model.ResponsesOf(c) {
		responses = append(responses, map[string]any{"name": f.Name, "response": f.Response})
	}
	return map[string]any{"role": c.Role, "text": model.TextOf(c), "calls": calls, "responses": responses}
}

var errNothingLeft = errors.New("custom_filter removed all contents of the request")

// applyFilter applies the filter to the contents of a request.
func (c *filterConfig) applyFilter(ctx context.Context, m *CallbackContext, contents []*genai.Content) ([]*genai.Content, error) {
	if c.filter == nil || len(contents) == 0 {
		return contents, nil
	}
	rest, err := c.filter(ctx, m, contents)
	switch {
	case err != nil:
		return nil, wrapWithKey("custom_filter", err)
	case len(rest) == 0:
		return nil, errNothingLeft
	}
	return rest, nil
}

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

type retryAndReflectConfig struct {
	MaxRetries int           `yaml:"max_retries" default:"3" doc:"Number of consecutive failures of a tool that are retried."`
	Throw      bool          `yaml:"throw_exception_if_retry_exceeded" default:"true" doc:"Whether one more failure ends the run; otherwise the model is instructed not to call the tool again."`
	Scope      trackingScope `yaml:"tracking_scope" enum:"invocation|global" default:"invocation" doc:"Whether failures of a tool are counted per run or across all runs of the app."`
}

// trackingScope selects which failures of a tool are counted together.
type trackingScope string

const trackGlobal trackingScope = "global"

// stateKey returns the state key that counts the failures of a tool.
func (s trackingScope) stateKey(call *tool.Call) string {
	prefix := session.TempPrefix
	if s == trackGlobal {
		prefix = session.AppPrefix
	}
	return prefix + "retry_and_reflect:" + call.Name
}

// DecodeSpec rejects a negative count.
func (c *retryAndReflectConfig) DecodeSpec(n *spec.Node) spec.Diagnostics {
	ds := spec.Decode(n, c)
	if at := n.Get("max_retries"); !ds.HasErrors() && c.MaxRetries < 0 {
		ds = append(ds, at.Errorf("value", "max_retries must be 0 or more, got %d", c.MaxRetries))
	}
	return ds
}

// retryAndReflect is ADK's ReflectAndRetryToolPlugin. It counts the failures of
// each tool in the state: under a temp: key, which is dropped after the run, or
// under an app: key, which all sessions on all replicas share.
type retryAndReflect struct{ retryAndReflectConfig }

func newRetryAndReflect(_ context.Context, _ PluginEnv, c *retryAndReflectConfig) (*Plugin, error) {
	p := retryAndReflect{*c}
	return &Plugin{Name: "retry_and_reflect", Callbacks: Callbacks{
		OnToolError: []ToolErrorFunc{p.reflectOnError},
		AfterTool:   []AfterToolFunc{p.resetCount},
	}}, nil
}

// reflectMark is the response_type that identifies these responses for ADK's
// clients.
const reflectMark = "ERROR_HANDLED_BY_REFLECT_AND_RETRY_PLUGIN"

func (p *retryAndReflect) reflectOnError(_ context.Context, _ tool.Tool, call *tool.Call, failure error) (*tool.Result, error) {
	key := p.Scope.stateKey(call)
	v, _ := call.State.Get(key)
	before, _ := toCount(v)
	n := before + 1
	if n > p.MaxRetries {
		if p.Throw {
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
		"If the tool cannot help, find another way.", call.Name, n, p.MaxRetries+1)), nil
}

func reflectionResult(failure error, n int, guidance string) *tool.Result {
	return &tool.Result{Response: map[string]any{
		"response_type": reflectMark, "error_details": failure.Error(), "retry_count": n, "reflection_guidance": guidance,
	}}
}

// resetCount resets the failure count of a tool that succeeded.
func (p *retryAndReflect) resetCount(_ context.Context, _ tool.Tool, call *tool.Call, result *tool.Result) (*tool.Result, error) {
	if result != nil && result.Response["response_type"] == reflectMark {
		return nil, nil
	}
	if v, _ := call.State.Get(p.Scope.stateKey(call)); v != nil {
		call.State.Set(p.Scope.stateKey(call), nil)
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

type addToMemoryConfig struct{}

// newAddToMemory returns a plugin that adds every run to the memory, which ADK
// leaves to a callback of each app.
func newAddToMemory(_ context.Context, env PluginEnv, _ *addToMemoryConfig) (*Plugin, error) {
	return &Plugin{Name: "add_to_memory", AfterRun: func(ctx context.Context, inv *Invocation) error {
		inv.addRunToMemory(ctx, env.Logger)
		return nil
	}}, nil
}

// addRunToMemory adds only the events of this run, so that the cost does not grow
// with the session. Errors are logged only, because the answer has already been
// sent.
func (inv *Invocation) addRunToMemory(ctx context.Context, logger *slog.Logger) {
	err := (&callMemories{inv.run}).AddEvents(ctx, lastRunEvents(inv.run.sess.Events(), inv.run.id))
	if err != nil {
		inv.run.withRunAttrs(logger).WarnContext(ctx, "adding run to memory failed", "error", err)
	}
}

// lastRunEvents returns the trailing events that belong to an invocation.
func lastRunEvents(events []*session.Event, id string) []*session.Event {
	for i, ev := range slices.Backward(events) {
		if ev.InvocationID != id {
			return events[i+1:]
		}
	}
	return events
}

type saveFilesConfig struct{}

// newSaveFiles returns ADK's SaveFilesAsArtifactsPlugin. The user's event records
// the versions.
func newSaveFiles(context.Context, PluginEnv, *saveFilesConfig) (*Plugin, error) {
	return &Plugin{Name: "save_files_as_artifacts", OnUserMessage: saveMessageFiles}, nil
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

type globalInstructionConfig struct {
	Instruction spec.Text `yaml:"instruction" required:"true" doc:"Instruction that every model gets first; {key} is replaced by the value in the session state."`
}

// newGlobalInstruction returns ADK's GlobalInstructionPlugin.
func newGlobalInstruction(_ context.Context, _ PluginEnv, c *globalInstructionConfig) (*Plugin, error) {
	text := newInstructionAt(c.Instruction)
	prepend := func(ctx context.Context, m *CallbackContext, req *model.Request) (*model.Response, error) {
		instruction, err := text.renderText(ctx, m.Invocation)
		if err != nil || instruction == "" {
			return nil, err
		}
		own := req.Instruction()
		req.Config.SystemInstruction = nil
		req.AppendInstruction(instruction)
		req.AppendInstruction(own)
		return nil, nil
	}
	return &Plugin{Name: "global_instruction", Callbacks: Callbacks{BeforeModel: []BeforeModelFunc{prepend}}}, nil
}
