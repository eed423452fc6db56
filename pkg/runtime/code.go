package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"unicode/utf8"
	"unique"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// runCode runs code and yields the result.
func (s *step) runCode(ctx context.Context, source string) outcome {
	ev := s.inv.NewEvent()
	part, err := s.executeCode(ctx, s.inv.newCallbackContext(&ev.Actions), source)
	if err != nil {
		return failWith(err)
	}
	ev.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{part}}
	return stopUnless(s.emitEvent(ev, nil))
}

// executeCode runs code, saves its files, and returns the result.
func (s *step) executeCode(ctx context.Context, m *CallbackContext, source string) (*genai.Part, error) {
	c := s.agent.opts.Code
	code := &Code{Source: source}
	if c.Stateful {
		code.ExecutionID = m.Session().Key.String()
	}
	var result *CodeResult
	var err error
	if p, ok := c.Executor.(CodePreparer); ok {
		err = p.PrepareCode(ctx)
	}
	if err == nil {
		result, err = s.executeWithTimeout(ctx, m, code)
	}
	if ctx.Err() != nil {
		return nil, AsRunError(ctx.Err())
	}
	for i := 0; err == nil && i < len(result.Files); i++ {
		f := result.Files[i]
		if _, err = m.Artifacts.Save(ctx, f.DisplayName, &genai.Part{InlineData: f}); err != nil {
			err = fmt.Errorf("saving the file %s: %w", f.DisplayName, err)
		}
	}
	if err == nil {
		err = s.checkWrites(m.Actions)
	}
	switch {
	case errors.Is(err, errCodeTimeout):
		return failedCodePart(genai.OutcomeDeadlineExceeded, err.Error()), nil
	case err != nil:
		return failedCodePart(genai.OutcomeFailed, c.truncateOutput(spec.ClientText(err))), nil
	case result.Stderr != "":
		return failedCodePart(genai.OutcomeFailed, c.truncateOutput(result.Stderr)), nil
	}
	return codeResultPart(c.truncateOutput(result.Stdout), result.Files), nil
}

var errCodeTimeout = errors.New("the code exceeded its timeout of")

// executeWithTimeout runs code within its timeout. A panic is an error in this execution and does
// not stop the host.
func (s *step) executeWithTimeout(ctx context.Context, m *CallbackContext, code *Code) (result *CodeResult, err error) {
	c := s.agent.opts.Code
	outer := ctx
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	defer func() {
		switch p := recover(); {
		case p != nil:
			s.inv.run.logger().Error("code executor panicked", "agent", s.inv.node.agent.Name(),
				"panic", p, "stack", string(debug.Stack()))
			err = errors.New("the code executor panicked")
		case outer.Err() == nil && ctx.Err() != nil && err != nil:
			err = fmt.Errorf("%w %s", errCodeTimeout, c.Timeout)
		case err == nil && result == nil:
			result = &CodeResult{}
		}
	}()
	return c.Executor.ExecuteCode(ctx, m, code)
}

// truncateOutput limits an output.
func (c *CodeExecution) truncateOutput(out string) string {
	if len(out) <= c.MaxOutput {
		return out
	}
	n := c.MaxOutput
	for n > 0 && !utf8.RuneStart(out[n]) {
		n--
	}
	return fmt.Sprintf("%s\n[cut off here: %d bytes more]", out[:n], len(out)-n)
}

func failedCodePart(result genai.Outcome, output string) *genai.Part {
	return &genai.Part{CodeExecutionResult: &genai.CodeExecutionResult{Outcome: result, Output: output}}
}

// codeResultPart returns a result in the form of adk-python
// (code_execution_utils.py build_code_execution_result_part).
func codeResultPart(stdout string, files []*genai.Blob) *genai.Part {
	var sections []string
	if stdout != "" || len(files) == 0 {
		sections = append(sections, "Code execution result:\n"+stdout+"\n")
	}
	if len(files) > 0 {
		names := make([]string, len(files))
		for i, f := range files {
			names[i] = "`" + f.DisplayName + "`"
		}
		sections = append(sections, "Saved artifacts:\n"+strings.Join(names, ","))
	}
	return &genai.Part{CodeExecutionResult: &genai.CodeExecutionResult{Outcome: genai.OutcomeOK, Output: strings.Join(sections, "\n\n")}}
}

// An ExprExecutor runs code that is one expression in the configuration language. It can use the
// names that conditions have, and has no other access. The result is a string as it is, and any
// other value as JSON.
type ExprExecutor struct{}

// ExecuteCode evaluates the expression.
func (ExprExecutor) ExecuteCode(ctx context.Context, m *CallbackContext, code *Code) (*CodeResult, error) {
	x, err := template.Compile(code.Source, ExprEnv())
	if err != nil {
		return nil, err
	}
	v, err := x.Eval(ctx, m.Invocation.ExprVars())
	if err != nil {
		return nil, err
	}
	if text, ok := v.(string); ok {
		return &CodeResult{Stdout: text}, nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("cannot encode the result: %w", err)
	}
	return &CodeResult{Stdout: string(b)}, nil
}

// findCode returns the code to run in a model response, and the response up to the code: text after
// the code is dropped, because the model has not seen the result yet. Tool calls take precedence: a
// response with calls has no code.
func (s *step) findCode(resp *model.Response) (upTo *genai.Content, code string) {
	c := s.agent.opts.Code
	if !c.hasExecutor() || resp.Partial || resp.Content == nil || len(model.CallsOf(resp.Content)) > 0 {
		return nil, ""
	}
	if upTo, code = c.extractCode(resp.Content); code == "" || s.countCodeFailures() >= c.Attempts {
		return nil, ""
	}
	return upTo, code
}

// extractCode returns the first code in a content: a code part without result, or text between
// delimiters (adk-python code_execution_utils.py extract_code_and_truncate_content). Thoughts are
// ignored.
func (c *CodeExecution) extractCode(content *genai.Content) (*genai.Content, string) {
	parts := content.Parts
	for i, p := range parts {
		if p.ExecutableCode != nil && (i == len(parts)-1 || parts[i+1].CodeExecutionResult == nil) {
			return &genai.Content{Role: content.Role, Parts: parts[:i+1]}, p.ExecutableCode.Code
		}
	}
	upTo := &genai.Content{Role: content.Role}
	for _, p := range parts {
		before, code, found := "", "", false
		if p.Text != "" && !p.Thought {
			before, code, found = c.findDelimited(p.Text)
		}
		if !found {
			upTo.Parts = append(upTo.Parts, p)
			continue
		}
		if before != "" {
			upTo.Parts = append(upTo.Parts, &genai.Part{Text: before})
		}
		upTo.Parts = append(upTo.Parts, &genai.Part{ExecutableCode: &genai.ExecutableCode{Language: genai.LanguagePython, Code: code}})
		return upTo, code
	}
	return nil, ""
}

// findDelimited returns the first text between delimiters.
func (c *CodeExecution) findDelimited(text string) (before, code string, found bool) {
	first := len(text)
	for _, m := range c.Blocks {
		at := strings.Index(text, m.Before)
		if at < 0 || at >= first {
			continue
		}
		inner, _, closed := strings.Cut(text[at+len(m.Before):], m.After)
		if closed && strings.TrimSpace(inner) != "" {
			first, before, code, found = at, text[:at], inner, true
		}
	}
	return before, code, found
}

// countCodeFailures counts the agent's consecutive code failures in this invocation. It reads them
// from the history, which survives a restart.
func (s *step) countCodeFailures() int {
	n := 0
	for _, ev := range slices.Backward(s.inv.run.sess.Events()) {
		if ev.InvocationID != s.inv.run.id {
			break
		}
		if ev.Author != s.inv.node.agent.Name() || !isCodeResult(ev.Content) {
			continue
		}
		if ev.Content.Parts[0].CodeExecutionResult.Outcome == genai.OutcomeOK {
			break
		}
		n++
	}
	return n
}

// isCodeResult reports whether a content is an executor's result.
func isCodeResult(c *genai.Content) bool {
	return c != nil && len(c.Parts) == 1 && c.Parts[0].CodeExecutionResult != nil
}

// pendingCode returns the code at an event's end that did not run because the invocation was
// interrupted.
func (s *step) pendingCode(ev *session.Event) string {
	if ev == nil || s.agent == nil || !s.agent.opts.Code.hasExecutor() || ev.Content == nil || len(ev.Content.Parts) == 0 {
		return ""
	}
	if last := ev.Content.Parts[len(ev.Content.Parts)-1]; last.ExecutableCode != nil && s.countCodeFailures() < s.agent.opts.Code.Attempts {
		return last.ExecutableCode.Code
	}
	return ""
}

// internDelimiters returns the same handle for all agents with equal delimiters,
// because each session stores it per agent. It is zero when requests keep code
// parts unchanged.
func (c *CodeExecution) internDelimiters() (none unique.Handle[shownDelimiters]) {
	if !c.hasExecutor() {
		return none
	}
	return unique.Make(shownDelimiters{c.Blocks[0], c.Result})
}

// renderContent returns a content for a model without code parts: code and
// results become text between delimiters, and a result alone gets the role
// user. Other contents are returned unchanged.
func (w shownDelimiters) renderContent(content *genai.Content) *genai.Content {
	isCode := func(p *genai.Part) bool { return p.ExecutableCode != nil || p.CodeExecutionResult != nil }
	if !slices.ContainsFunc(content.Parts, isCode) {
		return content
	}
	as := &genai.Content{Role: content.Role, Parts: slices.Clone(content.Parts)}
	for i, p := range as.Parts {
		switch {
		case p.ExecutableCode != nil:
			as.Parts[i] = &genai.Part{Text: w.code.Before + p.ExecutableCode.Code + w.code.After}
		case p.CodeExecutionResult != nil:
			as.Parts[i] = &genai.Part{Text: w.result.Before + p.CodeExecutionResult.Output + w.result.After}
		}
	}
	if isCodeResult(content) {
		as.Role = genai.RoleUser
	}
	return as
}
