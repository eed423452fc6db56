package runtime

import (
	"slices"
	"strings"
	"unique"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// findCode returns the code to run in a response of the agent's model, and the
// response up to the code: text after the code is dropped, because the model
// has not seen the result yet. Tool calls take precedence: a response with
// calls has no code.
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

// extractCode returns the first code of a content: a code part without result,
// or text between delimiters (adk-python code_execution_utils.py
// extract_code_and_truncate_content). Thoughts are ignored.
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
		upTo.Parts = append(upTo.Parts, newCodePart(code))
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

func newCodePart(code string) *genai.Part {
	return &genai.Part{ExecutableCode: &genai.ExecutableCode{Language: genai.LanguagePython, Code: code}}
}

// countCodeFailures returns the number of consecutive code failures of the
// agent in this invocation. It reads them from the history, which survives a
// restart.
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

// isCodeResult reports whether a content is the result of an executor.
func isCodeResult(c *genai.Content) bool {
	return c != nil && len(c.Parts) == 1 && c.Parts[0].CodeExecutionResult != nil
}

// pendingCode returns the code at the end of an event that was not run because
// the invocation was interrupted.
func (s *step) pendingCode(ev *session.Event) string {
	if ev == nil || s.agent == nil || !s.agent.opts.Code.hasExecutor() || ev.Content == nil || len(ev.Content.Parts) == 0 {
		return ""
	}
	if last := ev.Content.Parts[len(ev.Content.Parts)-1]; last.ExecutableCode != nil && s.countCodeFailures() < s.agent.opts.Code.Attempts {
		return last.ExecutableCode.Code
	}
	return ""
}

// shownDelimiters are the delimiters of code and results in requests to a model.
type shownDelimiters struct{ code, result CodeDelimiters }

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
