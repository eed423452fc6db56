package agentconfig

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/toolconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// A rule is a callback in YAML: a condition and one verb.
type rule struct {
	verb    string
	when    *template.Expr
	replace *template.Expr
	writes  []toolconfig.Assignment
	saves   []toolconfig.ArtifactSave
	// respond is a mapping with strings, for tool hooks.
	respond any
	text    *template.Paths
}

// toCallbacks returns the rule as a callback for each hook.
func (r *rule) toCallbacks() runtime.Callbacks {
	return runtime.Callbacks{
		BeforeAgent: []runtime.AgentFunc{r.answerAroundAgent}, AfterAgent: []runtime.AgentFunc{r.answerAroundAgent},
		BeforeModel: []runtime.BeforeModelFunc{r.answerBeforeModel}, AfterModel: []runtime.AfterModelFunc{r.editAfterModel}, OnModelError: []runtime.ModelErrorFunc{r.answerModelError},
		BeforeTool: []runtime.BeforeToolFunc{r.answerBeforeTool}, AfterTool: []runtime.AfterToolFunc{r.editAfterTool}, OnToolError: []runtime.ToolErrorFunc{r.answerToolError},
	}
}

// A ruleTarget is what a rule can write.
type ruleTarget struct {
	state     tool.State
	artifacts tool.Artifacts
}

func newRuleTarget(m *runtime.CallbackContext) ruleTarget { return ruleTarget{m.State, m.Artifacts} }

// evaluateRule returns the verb's value, or nil when the rule has no answer. Verbs that write state
// or artifacts do so here.
func (r *rule) evaluateRule(ctx context.Context, vars map[string]any, to ruleTarget) (any, error) {
	state := to.state
	if r.when != nil {
		if holds, err := r.when.Bool(ctx, vars); err != nil || !holds {
			return nil, wrapWithKey("when", err)
		}
	}
	if len(r.writes) > 0 {
		return nil, toolconfig.Assign(ctx, r.writes, vars, state)
	}
	switch r.verb {
	case toolconfig.SaveVerb:
		return nil, toolconfig.SaveArtifacts(ctx, r.saves, vars, placeholderLookup(vars, state), to.artifacts)
	case "replace":
		v, err := r.replace.Eval(ctx, vars)
		return v, wrapWithKey("replace", err)
	case "respond":
		if r.respond != nil {
			return fillTexts(r.respond, vars, state)
		}
	}
	text, err := renderPaths(r.text, vars, state)
	if err == nil && r.verb == "fail" {
		return nil, &runtime.RunError{Code: runtime.CodeCallbackFailed, Message: text}
	}
	return text, wrapWithKey(r.verb, err)
}

// renderPaths renders a string within the turn's budget.
func renderPaths(text *template.Paths, vars map[string]any, state tool.State) (string, error) {
	rendered, err := text.Render(placeholderLookup(vars, state), nil)
	if budget, ok := vars[template.BudgetName].(*template.Budget); ok && err == nil {
		err = budget.Text(rendered)
	}
	return rendered, err
}

// fillTexts returns a value with its strings rendered.
func fillTexts(v any, vars map[string]any, state tool.State) (any, error) {
	switch v := v.(type) {
	case *template.Paths:
		text, err := renderPaths(v, vars, state)
		return text, wrapWithKey("respond", err)
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, inner := range v {
			f, err := fillTexts(inner, vars, state)
			if err != nil {
				return nil, err
			}
			out[k] = f
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			f, err := fillTexts(inner, vars, state)
			if err != nil {
				return nil, err
			}
			out[i] = f
		}
		return out, nil
	}
	return v, nil
}

// placeholderLookup resolves placeholders: the hook's names, or state keys.
func placeholderLookup(vars map[string]any, state tool.State) func(path string) (any, bool) {
	return func(path string) (any, bool) {
		root, rest, _ := strings.Cut(path, ".")
		v, named := vars[root]
		switch {
		case root == "state":
			root, rest, _ = strings.Cut(rest, ".")
		case named:
			return template.Dig(v, rest)
		}
		v, ok := state.Get(root)
		if !ok {
			return nil, false
		}
		return template.Dig(v, rest)
	}
}

func (r *rule) answerAroundAgent(ctx context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
	vars := m.ExprVars()
	if ev := m.Event; ev != nil {
		text := ev.Text()
		if ev.Content == nil {
			text = template.String(ev.Output)
		}
		vars["event"] = map[string]any{"id": ev.ID, "author": ev.Author, "branch": ev.Branch, "text": text, "error_code": ev.ErrorCode}
	}
	v, err := r.evaluateRule(ctx, vars, newRuleTarget(m))
	if v == nil || err != nil {
		return nil, err
	}
	return model.ModelText(template.String(v)), nil
}

func (r *rule) answerBeforeModel(ctx context.Context, m *runtime.CallbackContext, _ *model.Request) (*model.Response, error) {
	v, err := r.evaluateRule(ctx, m.ExprVars(), newRuleTarget(m))
	if v == nil || err != nil {
		return nil, err
	}
	answer := &model.Response{Content: model.ModelText(template.String(v)), FinishReason: genai.FinishReasonStop}
	if r.verb == "deny" {
		answer.ErrorCode, answer.ErrorMessage = "DENIED", template.String(v)
	}
	return answer, nil
}

func (r *rule) editAfterModel(ctx context.Context, m *runtime.CallbackContext, resp *model.Response) (*model.Response, error) {
	text := model.TextOf(resp.Content)
	if r.verb == "replace" && !hasText(resp.Content) {
		return nil, nil
	}
	if r.verb == toolconfig.SaveVerb && resp.Partial {
		return nil, nil // each chunk would be a separate version
	}
	vars := m.ExprVars()
	calls := []any{}
	for _, c := range model.CallsOf(resp.Content) {
		calls = append(calls, c.Name)
	}
	vars["response"] = map[string]any{"text": text, "calls": calls, "partial": resp.Partial, "error_code": resp.ErrorCode}
	v, err := r.evaluateRule(ctx, vars, newRuleTarget(m))
	if v == nil || err != nil {
		return nil, err
	}
	answer := resp.Clone()
	answer.Content = model.ModelText(template.String(v))
	if r.verb == "replace" {
		answer.Content = withText(resp.Content, template.String(v))
	}
	return answer, nil
}

// hasText reports whether a content has text, including thoughts.
func hasText(c *genai.Content) bool {
	return c != nil && slices.ContainsFunc(c.Parts, func(p *genai.Part) bool { return p.Text != "" })
}

// withText replaces the texts in a content with one text. Calls and files stay; thoughts are
// dropped, because they may contain the text that the rule removes. It returns nil when nothing is
// left.
func withText(c *genai.Content, text string) *genai.Content {
	out := &genai.Content{Role: c.Role}
	put := false
	for _, p := range c.Parts {
		switch {
		case p.Text == "":
			out.Parts = append(out.Parts, p)
		case !put && !p.Thought:
			out.Parts, put = append(out.Parts, &genai.Part{Text: text}), true
		}
	}
	if len(out.Parts) == 0 {
		return nil
	}
	return out
}

func (r *rule) answerModelError(ctx context.Context, m *runtime.CallbackContext, _ *model.Request, failure error) (*model.Response, error) {
	vars := m.ExprVars()
	runErr := m.ModelError(failure)
	vars["error"] = map[string]any{"code": runErr.Code, "message": runErr.Message}
	v, err := r.evaluateRule(ctx, vars, newRuleTarget(m))
	if v == nil || err != nil {
		return nil, err
	}
	return &model.Response{Content: model.ModelText(template.String(v)), FinishReason: genai.FinishReasonStop}, nil
}

func (r *rule) answerBeforeTool(ctx context.Context, _ tool.Tool, call *tool.Call) (*tool.Result, error) {
	return r.evaluateForTool(ctx, call, "", nil)
}

func (r *rule) editAfterTool(ctx context.Context, _ tool.Tool, call *tool.Call, result *tool.Result) (*tool.Result, error) {
	var response map[string]any
	if result != nil {
		response = result.Response
	}
	return r.evaluateForTool(ctx, call, "response", response)
}

func (r *rule) answerToolError(ctx context.Context, _ tool.Tool, call *tool.Call, failure error) (*tool.Result, error) {
	return r.evaluateForTool(ctx, call, "error", map[string]any{"message": failure.Error()})
}

// evaluateForTool evaluates the rule for a tool call; name and value are the hook's additional
// variable.
func (r *rule) evaluateForTool(ctx context.Context, call *tool.Call, name string, value map[string]any) (*tool.Result, error) {
	o := call.Origin
	vars := map[string]any{
		"state": call.State, "user": o.UserText, "agent": o.Agent,
		"session":    map[string]any{"id": o.SessionID, "user_id": o.UserID, "app": o.App},
		"run_config": o.ReadRunConfig(),
		"invocation": map[string]any{"id": o.InvocationID},
		"tool":       map[string]any{"name": call.Name, "args": call.Args}, "args": call.Args,

		template.BudgetName: call.Expressions,
	}
	if o.Now != nil {
		vars["now"] = o.Now()
	}
	if name != "" {
		vars[name] = value
	}
	v, err := r.evaluateRule(ctx, vars, ruleTarget{call.State, call.Artifacts})
	if v == nil || err != nil {
		return nil, err
	}
	if r.verb == "confirm" {
		return runtime.RequireApproval(call, template.String(v)), nil
	}
	if r.verb == "deny" {
		return &tool.Result{Response: map[string]any{"error": v}}, nil
	}
	if m, ok := v.(map[string]any); ok {
		return &tool.Result{Response: m}, nil
	}
	return &tool.Result{Response: map[string]any{"result": v}}, nil
}

func wrapWithKey(key string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", key, err)
}
