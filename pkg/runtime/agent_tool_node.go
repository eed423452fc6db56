package runtime

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// ToolNodeOptions are a tool node's optional settings.
type ToolNodeOptions struct {
	Description string
	// Args computes the arguments; nil uses the input.
	Args NodeFunc
	// OutputKey is the state key that receives the tool's result.
	OutputKey string
}

// A ToolNode is a [Workflow] node that calls a tool. It yields one event with the result, whose
// author is the workflow (adk-python workflow/_tool_node.py since 2.11). The output of a result
// {"result": …} is the value; null is an event without output. A call that needs approval or a
// credential pauses the workflow, see [nodeConfirmationPrefix].
//
// Clients answer a long-running call by its ID, and other agents than workflows have no
// outputs. In both cases the node stores the call and its response, as for a model.
type ToolNode struct {
	Base
	tool tool.Tool
	opts ToolNodeOptions
	// owner is the agent with the tool; nil for a node in the tree. See [NewToolEntry].
	owner Agent
}

// NewToolNode returns a tool node; opts may be nil.
func NewToolNode(name string, t tool.Tool, opts *ToolNodeOptions) *ToolNode {
	if opts == nil {
		opts = &ToolNodeOptions{}
	}
	return &ToolNode{Base: Base{AgentName: name, AgentDescription: opts.Description}, tool: t, opts: *opts}
}

// Run calls the tool. A resumed node continues where it was interrupted.
func (a *ToolNode) Run(ctx context.Context, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) {
		a, err := a.bindTool(ctx, inv)
		if err != nil {
			yield(nil, err)
			return
		}
		if a.storesCall(inv) {
			a.runStoredCall(ctx, inv, yield)
			return
		}
		c := &nodeCall{ToolNode: a, step: &step{callRunner: callRunner{inv: inv}, sink: yield}}
		if o := c.runOrResume(ctx); o.kind == outcomeFailed {
			yield(nil, o.err)
		}
	}
}

// storesCall reports whether the node stores its call like a model's. An invocation that agenthost
// 0.1 started continues in that way.
func (a *ToolNode) storesCall(inv *Invocation) bool {
	if !inv.node.inWorkflow || tool.CapabilitiesOf(a.tool).LongRunning {
		return true
	}
	if inv.frame != nil {
		return len(inv.lastModelCalls()) > 0
	}
	d := inv.run.decisions
	return d != nil && d.author == a.AgentName && len(d.open) > 0
}

// storeResult makes a response the node's output.
func (a *ToolNode) storeResult(ev *session.Event, response map[string]any) {
	var output any = response
	if result, sole := response["result"]; sole && len(response) == 1 {
		output = result
	}
	if output != nil {
		ev.Output = output
	}
	if a.opts.OutputKey != "" {
		ev.Actions.SetState(a.opts.OutputKey, ev.Output)
	}
}

// A nodeCall is a ToolNode's call. Only its result and its requests for human input are stored.
type nodeCall struct {
	*ToolNode
	*step
	// input is the input of a call whose parameters are unknown; nil for all others.
	input *nodeValue
}

func (c *nodeCall) runOrResume(ctx context.Context) outcome {
	switch f := c.inv.frame; {
	case f != nil && hasNodeResult(f.prior):
		return outcome{kind: outcomeAnswered}
	case f != nil && lastNodeRequest(f.prior) != nil:
		return c.resumeCall(ctx, lastNodeRequest(f.prior))
	case f == nil && (c.inv.path == rootPathOf(c.inv.node) || len(c.findAnswered()) > 0):
		for _, one := range c.findAnswered() {
			if o := c.executeDecision(ctx, one.request, one.answer); o.endsAgent() {
				return o
			}
		}
		return outcome{kind: outcomeAnswered}
	}
	// The node makes the call for the first time.
	actions := &session.Actions{}
	m := c.inv.newCallbackContext(actions)
	input, err := c.resolveInput(ctx, m, c.inv.Input())
	if err == nil {
		return c.executeWith(ctx, actions, m, input)
	}
	return failWith(c.inv.wrapNodeError(ctx, err))
}

// lastNodeRequest returns a ToolNode's last event that requests human input, or nil.
func lastNodeRequest(p *frameRecord) *session.Event {
	for _, ev := range slices.Backward(p.allEvents()) {
		if calls := ev.Calls(); len(calls) > 0 && isNodeRequest(calls[0]) {
			return ev
		}
	}
	return nil
}

// resumeCall continues a resumed node that has requested human input: it waits, or makes the
// call with the user's answer.
func (c *nodeCall) resumeCall(ctx context.Context, request *session.Event) outcome {
	x := c.inv.run.calls
	if answer := x.findNodeAnswer(request); answer != nil {
		site, _ := x.findRequestSite(request)
		return c.executeDecision(ctx, site, answer)
	}
	c.inv.frame.trackPending(request)
	return stopUnless(c.pauseIfPending())
}

// An answeredRequest is a ToolNode's request with the user's answer.
type answeredRequest struct {
	request indexedCall
	answer  *genai.FunctionResponse
}

// findAnswered returns the node's requests that the user's message answers. In an app that is not
// resumable the workflow does not wait, and the node runs alone after the answer.
func (c *nodeCall) findAnswered() []answeredRequest {
	var all []answeredRequest
	x := c.inv.run.calls
	for _, f := range model.ResponsesOf(c.inv.run.message.content) {
		site, found := x.findLastCall(f.ID)
		if !found || !isNodeRequest(site.call) || site.event.NodeName() != c.AgentName || x.all.hasNodeResult(site) {
			continue
		}
		if c.inv.path == rootPathOf(c.inv.node) || c.inv.path == site.event.NodePath && c.inv.run.id == site.event.InvocationID {
			all = append(all, answeredRequest{site, f})
		}
	}
	return all
}

// executeDecision makes a stored request's call as the user has decided.
func (c *nodeCall) executeDecision(ctx context.Context, request indexedCall, answer *genai.FunctionResponse) outcome {
	d, err := c.readNodeDecision(request, answer)
	if err != nil {
		return failWith(err)
	}
	c.decided = map[string]*decision{c.inv.path: d}
	actions := &session.Actions{}
	if d.input != nil {
		return c.executeWith(ctx, actions, c.inv.newCallbackContext(actions), d.input.v)
	}
	return c.executeCall(ctx, actions, d.call.Args)
}

// executeWith makes the call with the arguments in an input.
func (c *nodeCall) executeWith(ctx context.Context, actions *session.Actions, m *CallbackContext, input any) outcome {
	if _, unknown := c.tool.(*consentTool); unknown {
		c.input = &nodeValue{session.Normalize(input)}
		return c.executeCall(ctx, actions, map[string]any{})
	}
	args, err := c.resolveArgs(m, input)
	if err != nil {
		return failWith(c.inv.wrapNodeError(ctx, err))
	}
	return c.executeCall(ctx, actions, args)
}

// executeCall makes the call, and yields the event with its result or with a request for human
// input, and with the node's earlier actions. The call's ID is the node's path.
func (c *nodeCall) executeCall(ctx context.Context, earlier *session.Actions, args map[string]any) outcome {
	call := &genai.FunctionCall{ID: c.inv.path, Name: c.tool.Declaration().Name, Args: args}
	results := c.runCalls(ctx, []*genai.FunctionCall{call})
	if results.outcome.kind == outcomeFailed {
		if results.failed != nil {
			results.failed.Content = nil
			if !c.emitEvent(results.failed, nil) {
				return outcome{kind: outcomeStopped}
			}
		}
		return results.outcome
	}
	ev := results.merged
	wanted, response := ev.Actions, ev.Responses()[0].Response
	earlier.Merge(&wanted)
	ev.Content, ev.Actions = nil, *earlier
	ev.Actions.RequestedToolConfirmations, ev.Actions.RequestedAuthConfigs, ev.Actions.SkipSummarization = nil, nil, false
	if requestsInput(&wanted) {
		return c.emitNodeRequest(ev, call, &wanted)
	}
	c.storeResult(ev, response)
	if c.inv.frame == nil && c.inv.path == rootPathOf(c.inv.node) {
		c.inv.markOutput(ev)
	}
	return stopUnless(c.emitEvent(ev, nil))
}

// resolveInput returns the value that has the call's arguments.
func (a *ToolNode) resolveInput(ctx context.Context, m *CallbackContext, input any) (any, error) {
	if a.opts.Args != nil {
		return a.opts.Args(ctx, m, input)
	}
	return input, nil
}

// resolveArgs returns the arguments in an input (adk-python workflow/_tool_node.py): a mapping as it
// is, text that is a JSON object, or any other value as the only parameter or the only required one.
// Required parameters that are missing are taken from the state, but not for a client's call.
func (a *ToolNode) resolveArgs(m *CallbackContext, input any) (map[string]any, error) {
	if content, ok := input.(*genai.Content); ok {
		input = model.TextOf(content)
	}
	params, err := tool.ReadParams(a.tool.Declaration())
	if err != nil {
		return nil, err
	}
	args, err := a.convertToArgs(params, session.Normalize(input))
	if err != nil || a.isEntry() {
		return args, err
	}
	for _, name := range params.RequiredNames() {
		if _, has := args[name]; has {
			continue
		}
		if v, has := m.State.Get(name); has {
			args[name] = session.Normalize(v)
		}
	}
	return args, nil
}

// convertToArgs returns the arguments in an input. The map belongs to the caller.
func (a *ToolNode) convertToArgs(params *tool.Params, input any) (map[string]any, error) {
	if text, ok := input.(string); ok {
		text = strings.TrimSpace(text)
		if input = text; text == "" {
			input = nil
		} else if v, err := session.DecodeMap([]byte(text)); err == nil && v != nil {
			input = v
		}
	}
	switch v := input.(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return cloneArgs(v), nil
	}
	if name := params.Sole(); name != "" {
		return map[string]any{name: input}, nil
	}
	return nil, fmt.Errorf("the input must be a mapping to be used as arguments of %s: one value does not fit several parameters; set args", a.tool.Declaration().Name)
}

// runStoredCall calls the tool as a model would: the call and its response are events.
func (a *ToolNode) runStoredCall(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) {
	setOutput := func(ev *session.Event, err error) bool {
		// A call that first requires human input has no output yet.
		if ev != nil && !requestsInput(&ev.Actions) && len(ev.Responses()) > 0 && !isCallFailure(ev) {
			a.storeResult(ev, ev.Responses()[0].Response)
			ev.Actions.SkipSummarization = ev.Actions.SkipSummarization || a.isEntry() // it is the answer
		}
		return yield(ev, err)
	}
	s := &step{callRunner: callRunner{inv: inv}, sink: setOutput}
	var o outcome
	switch d := inv.run.decisions; {
	case inv.frame != nil:
		if o = s.resumeAgent(ctx); o.kind == outcomeNext && !s.hasPendingCalls() {
			o = a.callTool(ctx, s)
		}
	case d != nil && d.author == a.AgentName && !d.consumed.Load():
		o = s.executeDecisions(ctx)
	case !inv.run.answersAgent(a.AgentName):
		o = a.callTool(ctx, s)
	case a.isEntry():
		o = a.yieldUserAnswer(s, inv.run.findAnsweredCall().Calls()[0])
	}
	switch o.kind {
	case outcomeFailed:
		yield(nil, o.err)
	case outcomeStopped:
	default:
		s.pauseIfPending()
	}
}

// answersAgent reports whether the user's message answers one of the agent's calls.
func (r *run) answersAgent(agent string) bool {
	call := r.findAnsweredCall()
	return call != nil && call.NodeName() == agent
}

// callTool makes the call. If the call was made before the invocation was
// resumed, it yields the user's answer instead.
func (a *ToolNode) callTool(ctx context.Context, s *step) outcome {
	if f := s.inv.frame; f != nil {
		for _, made := range f.prior.allEvents() {
			for _, c := range made.Calls() {
				return a.yieldUserAnswer(s, c)
			}
		}
	}
	ev := s.inv.NewEvent()
	m := s.inv.newCallbackContext(&ev.Actions)
	input, err := a.resolveInput(ctx, m, s.inv.Input())
	var args map[string]any
	if err == nil {
		args, err = a.resolveArgs(m, input)
	}
	if err != nil {
		return failWith(s.inv.wrapNodeError(ctx, err))
	}
	call := &genai.FunctionCall{ID: ownIDPrefix + s.inv.run.host.newID(), Name: a.tool.Declaration().Name, Args: args}
	ev.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: call}}}
	ev.LongRunningToolIDs = s.longRunningIDs(ev.Calls())
	if !s.emitEvent(ev, nil) {
		return outcome{kind: outcomeStopped}
	}
	return s.executeCalls(ctx, ev.Calls())
}

// yieldUserAnswer yields the user's answer to a long-running call.
func (a *ToolNode) yieldUserAnswer(s *step, c *genai.FunctionCall) outcome {
	run := s.inv.run
	for _, r := range slices.Backward(run.calls.findResponses(c.ID)) {
		if r.event.Author == session.UserAuthor && r.event.InvocationID == run.id {
			ev := s.inv.NewEvent()
			a.storeResult(ev, r.response.Response)
			return stopUnless(s.emitEvent(ev, nil))
		}
	}
	return outcome{kind: outcomeAnswered}
}
