package runtime

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A live model calls tools while it speaks and listens, so its calls run in batches next to the
// conversation. The driver's goroutine owns a batch and all of its fields; only tools run elsewhere:
//
//	NewBatch ─▶ StartCalls ─▶ done() ─▶ Collect ─▶ CommitResults
//	              │                        ▲
//	              └── Cancel(i, cause) ────┘     the cause becomes the text of the result
//
// A batch that does not end is replaced by Abandon, which has the same calls without results: what tools
// return later is dropped, and no event waits for them. A batch executes its calls as a step does
// (callRunner), in the same order and with the same callbacks. It differs in two ways: the panic of a tool
// is the result of its call, not an error, since the conversation continues; and its outcomes do not
// decide anything but Failure, because the driver decides.

// A CallBatch runs the calls in one model message on the host's workers, while the turn continues.
// Its methods are for the driver's goroutine.
type CallBatch struct {
	// Calls are in the message's order.
	Calls []*genai.FunctionCall

	runner  *callRunner
	answers []*callResult
	order   *callOrder
	ctxs    []context.Context
	cancels []context.CancelCauseFunc
}

// NewBatch returns a batch that does not run yet. attempts has the invocations, by ID, of calls
// that were made before: they run with the idempotency keys of those invocations.
func (t *TwoWayTurn) NewBatch(calls []*genai.FunctionCall, attempts map[string]string) *CallBatch {
	return &CallBatch{Calls: calls, runner: &callRunner{inv: t.Invocation, agent: t.step.agent, intercept: t.Intercept, attempts: attempts}}
}

// CallLimit returns how many calls may run at the same time.
func (t *TwoWayTurn) CallLimit() int { return t.run.config.maxFunctionCalls() }

// StartCalls runs the calls. done is called on another goroutine when all have ended.
func (b *CallBatch) StartCalls(ctx context.Context, done func()) {
	b.answers, b.order = make([]*callResult, len(b.Calls)), newCallOrder(len(b.Calls))
	for range b.Calls {
		ctx, cancel := context.WithCancelCause(ctx)
		b.ctxs, b.cancels = append(b.ctxs, ctx), append(b.cancels, cancel)
	}
	run := b.runner.inv.run
	go func() {
		defer done()
		defer safe.Recover(func(p *safe.Panic) { p.Log(run.logger(), "tool calls panicked") })
		run.host.workers.runBatch(len(b.Calls), run.config.maxToolWorkers(), b.runOne)
	}()
}

// runOne runs one call. A panic in the tool is the error of its call.
func (b *CallBatch) runOne(i int) {
	run := b.runner.inv.run
	defer func() { b.order.turns[i].endCall(b.answers[i]) }()
	defer safe.Recover(func(p *safe.Panic) {
		p.Log(run.logger(), "tool call panicked", "tool", b.Calls[i].Name)
		b.answers[i] = &callResult{}
		b.answers[i].setResponse(b.Calls[i], map[string]any{"error": errPanicked.Error()})
	})
	if b.ctxs[i].Err() != nil {
		b.answers[i] = &callResult{outcome: failWith(AsRunError(b.ctxs[i].Err()))}
		return
	}
	b.answers[i] = b.runner.runCall(b.ctxs[i], b.Calls[i], b.order.turns[i])
}

// Cancel cancels a call in a running batch. The cause explains its result: see [CallBatch.Collect].
func (b *CallBatch) Cancel(i int, cause error) { b.cancels[i](cause) }

// RejectAll answers the calls in a batch that does not run: there are too many at the same time,
// running ones included.
func (b *CallBatch) RejectAll(ctx context.Context, running int) {
	inv := b.runner.inv
	failure := failf(CodeToolCallsLimit, errTooManyCalls, "%d function calls of agent %s at the same time exceed the limit of %d (run_config: max_function_calls)",
		running+len(b.Calls), inv.node.agent.Name(), inv.run.config.maxFunctionCalls())
	for _, c := range b.Calls {
		answer := &callResult{}
		answer.setResponse(c, tool.ErrorResponse(failure))
		b.answers, b.ctxs = append(b.answers, answer), append(b.ctxs, ctx)
	}
}

// Abandon returns a batch with the calls from one that does not end, all without a result. The
// tools' results are dropped when they come.
func (b *CallBatch) Abandon() *CallBatch {
	return &CallBatch{Calls: b.Calls, runner: b.runner, answers: make([]*callResult, len(b.Calls)), ctxs: b.ctxs}
}

// CallResults are a batch's results.
type CallResults struct {
	// Event has the calls' responses and writes; nil when all come later.
	Event *session.Event
	// Responses are those in Event that can be sent to the model: without calls that wait for a
	// person, and those that were canceled silently.
	Responses []*genai.FunctionResponse
	// Failure ends the run; Failed is the event that reports it, nil if it was canceled.
	Failure error
	Failed  *session.Event
}

// Collect returns the results once all calls have ended. explain returns the text for a call that
// was canceled, and whether it is silent: without a response to the model.
func (b *CallBatch) Collect(explain func(cause error) (text string, silent bool)) *CallResults {
	silent := make([]bool, len(b.answers))
	for i, answer := range b.answers {
		if answer == nil {
			answer = &callResult{outcome: failWith(AsRunError(context.Canceled))}
			b.answers[i] = answer
		}
		if b.ctxs[i].Err() == nil {
			continue
		}
		var text string
		if text, silent[i] = explain(context.Cause(b.ctxs[i])); answer.outcome.kind == outcomeFailed {
			answer.outcome = outcome{}
			answer.setResponse(b.Calls[i], map[string]any{"error": text})
		}
	}
	results := &CallResults{Event: b.runner.mergeAnswers(b.answers)}
	if o := mergeOutcomes(b.answers); o.kind == outcomeFailed {
		results.Failure = o.err
		results.Failed = b.runner.newFailureEvent(b.Calls, b.answers, AsRunError(results.Failure))
	}
	b.runner.inv.run.host.endCallSpans(b.answers, results.Event)
	for _, cancel := range b.cancels {
		cancel(nil)
	}
	for i, answer := range b.answers {
		if answer.part != nil && !requestsInput(&answer.actions) && !silent[i] {
			results.Responses = append(results.Responses, answer.part.FunctionResponse)
		}
	}
	return results
}

// NewCall returns a call with its own expression budget, for a tool that is called outside a batch.
// The actions receive its writes. It is safe for concurrent use.
func (t *TwoWayTurn) NewCall(fc *genai.FunctionCall, actions *session.Actions) *tool.Call {
	call := t.newToolCall(fc, t.newCallState(actions))
	call.Expressions = t.run.host.newExpressionBudget()
	return call
}

// CallTool runs a call from [TwoWayTurn.NewCall] within its tool's timeout, without callbacks. A
// call that requests a confirmation, a credential or input fails, and so does one whose writes do
// not match the state schema; its actions are dropped. It is safe for concurrent use.
func (t *TwoWayTurn) CallTool(ctx context.Context, called tool.Tool, call *tool.Call) (*tool.Result, error) {
	s := &callRunner{inv: t.Invocation, agent: t.step.agent}
	result, err := tool.RunWithTimeout(ctx, call.Name, tool.CapabilitiesOf(called).Timeout, func(ctx context.Context) (*tool.Result, error) {
		return s.runTool(ctx, called, call, &callResult{})
	})
	if err == nil && requestsInput(call.Actions) {
		*call.Actions = session.Actions{}
		err = errors.New("a stream cannot wait for a confirmation, a credential or input")
	}
	if err == nil {
		err = s.checkWrites(call.Actions)
	}
	return result, err
}

// RequestsInput reports whether call results request a confirmation or a credential.
func (r *CallResults) RequestsInput() bool { return r.Event != nil && requestsInput(&r.Event.Actions) }

// HoldsDecisions reports whether a content answers a request for a confirmation or a credential:
// [TwoWayTurn.InjectDecisions] takes it.
func HoldsDecisions(c *genai.Content) bool {
	return slices.ContainsFunc(model.ResponsesOf(c), isDecision)
}

// CheckAnswers returns an error if the function responses in a content do not answer the session's
// open calls.
func (t *TwoWayTurn) CheckAnswers(c *genai.Content) error {
	answers := model.ResponsesOf(c)
	if len(answers) == 0 {
		return nil
	}
	return checkAnswers(newCallIndex(t.run.sess.Events()), answers)
}

// InjectDecisions stores the user's answers to requests for confirmations and credentials, with a
// state delta, and returns the batch with the calls that waited for them; nil without any.
func (t *TwoWayTurn) InjectDecisions(ctx context.Context, content *genai.Content, delta map[string]any) (*CallBatch, error) {
	host, sess, index := t.run.host, t.run.sess, newCallIndex(t.run.sess.Events())
	responses := model.ResponsesOf(content)
	if len(responses) < len(content.Parts) || slices.ContainsFunc(responses, func(f *genai.FunctionResponse) bool { return !isDecision(f) }) {
		return nil, invalidRequest("a message that answers %s or %s must not contain anything else", RequestConfirmation, RequestCredential)
	}
	d := &decisions{credentials: map[string]any{}, tools: t.run.app.findTool}
	for _, resp := range responses {
		if err := d.readResponse(index, resp); err != nil {
			return nil, err
		}
	}
	if d.author != t.node.agent.Name() {
		return nil, invalidRequest("agent %s made the request, and agent %s holds the conversation now", d.author, t.node.agent.Name())
	}
	for i := range d.consents {
		d.consents[i].Immediate = true // the conversation continues meanwhile
	}
	if err := host.finishConsents(ctx, d, connection.User{App: sess.App, UserID: sess.User}, sess.ID); err != nil {
		return nil, err
	}
	kept := d.withoutCodes(&genai.Content{Role: genai.RoleUser, Parts: content.Parts})
	if err := t.Inject(ctx, kept, d.withCredentials(delta)); err != nil {
		return nil, err
	}
	if len(d.open) == 0 {
		return nil, nil
	}
	b := t.NewBatch(nil, nil)
	b.runner.decided = map[string]*decision{}
	for _, one := range d.open {
		b.Calls = append(b.Calls, one.call)
		b.runner.decided[one.call.ID] = one
	}
	return b, nil
}
