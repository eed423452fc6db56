package runtime

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// RetryModelOptions are optional settings for the plugin that lets models repeat responses that
// failed.
type RetryModelOptions struct {
	// Codes are the responses' finish reasons and error codes. The default is
	// MALFORMED_FUNCTION_CALL.
	Codes []string
	// ContinueAfterRetries yields the failed response when there were too many; otherwise it
	// ends the run.
	ContinueAfterRetries bool
	// CountAcrossRuns counts an agent's failures across all the app's runs, not per run.
	CountAcrossRuns bool
}

// handleModelError is the tool that a failed response appears to call. Only the plugin
// calls it: models do not see its declaration (adk-python
// plugins/_reflect_retry_model_plugin.py).
const handleModelError = "adk_handle_model_error"

// codeReservedCall is the error code of a response that calls handleModelError itself.
const codeReservedCall = "RESERVED_TOOL_CALL"

// retryModel counts each agent's consecutive failures in the state, like [retryAndReflect].
type retryModel struct {
	maxRetries int
	opts       RetryModelOptions
}

// NewRetryModel returns ADK's ReflectAndRetryModelPlugin. A model response with one of the codes
// becomes a call whose response has guidance, after which the model is called again, for at most
// maxRetries consecutive failures per agent; opts may be nil. Failed requests to the model's
// service are not repeated.
func NewRetryModel(maxRetries int, opts *RetryModelOptions) *Plugin {
	if opts == nil {
		opts = &RetryModelOptions{}
	}
	p := retryModel{maxRetries, *opts}
	if len(p.opts.Codes) == 0 {
		p.opts.Codes = []string{string(genai.FinishReasonMalformedFunctionCall)}
	}
	return &Plugin{Name: "retry_and_reflect_model", Callbacks: Callbacks{
		AfterModel:  []AfterModelFunc{p.replaceFailure},
		OnToolError: []ToolErrorFunc{p.answerFailure},
	}}
}

func (p *retryModel) countKey(agent string) string {
	prefix := session.TempPrefix
	if p.opts.CountAcrossRuns {
		prefix = session.AppPrefix
	}
	return prefix + "retry_and_reflect_model:" + agent
}

// replaceFailure replaces a failed response with a call to handleModelError. Another whole response
// resets the count.
func (p *retryModel) replaceFailure(_ context.Context, m *CallbackContext, resp *model.Response) (*model.Response, error) {
	if resp.Partial {
		return nil, nil
	}
	failed := p.asFailure(resp)
	agent := m.Agent().Name()
	key := p.countKey(agent)
	v, _ := m.State.Get(key)
	n, _ := toCount(v)
	switch n++; {
	case failed == nil:
		if v != nil {
			m.State.Set(key, nil)
		}
		return nil, nil
	case n > p.maxRetries && p.opts.ContinueAfterRetries:
		return failed, nil
	case n > p.maxRetries:
		return nil, failf(CodeModelFailed, &model.Error{Status: failed.ErrorCode, Message: failed.ErrorMessage},
			"model of agent %s exceeded max_retries with %d consecutive failures: %s", agent, n, cmp.Or(failed.ErrorMessage, failed.ErrorCode))
	}
	m.State.Set(key, n)
	call := &genai.FunctionCall{Name: handleModelError, Args: map[string]any{
		"response_type": reflectMark, "error_type": failed.ErrorCode, "error_details": failed.ErrorMessage,
		"finish_reason": string(failed.FinishReason), "retry_count": n,
	}}
	again := failed.Clone()
	again.ErrorCode, again.ErrorMessage, again.FinishReason = "", "", genai.FinishReasonStop
	again.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: call}}}
	return again, nil
}

// asFailure returns a failed response, or nil.
func (p *retryModel) asFailure(resp *model.Response) *model.Response {
	isReserved := func(c *genai.FunctionCall) bool { return c.Name == handleModelError }
	if slices.ContainsFunc(model.CallsOf(resp.Content), isReserved) {
		failed := resp.Clone()
		failed.Content, failed.ErrorCode, failed.FinishReason = nil, codeReservedCall, genai.FinishReasonOther
		failed.ErrorMessage = fmt.Sprintf("the model called %s, which is reserved for the host", handleModelError)
		return failed
	}
	if resp.ErrorCode != "" && (slices.Contains(p.opts.Codes, resp.ErrorCode) || slices.Contains(p.opts.Codes, string(resp.FinishReason))) {
		return resp
	}
	return nil
}

// answerFailure answers a call to handleModelError with guidance.
func (p *retryModel) answerFailure(_ context.Context, _ tool.Tool, call *tool.Call, _ error) (*tool.Result, error) {
	if call.Name != handleModelError {
		return nil, nil
	}
	n, _ := toCount(call.Args["retry_count"])
	return &tool.Result{Response: map[string]any{"reflection_guidance": fmt.Sprintf("Your last response failed and was not used; this was failure %d of at most %d that are repeated. "+
		"Find the cause in the error, above all in the name and the arguments of a call. Do not send the same response again: correct it, or take another way.", n, p.maxRetries)}}, nil
}
