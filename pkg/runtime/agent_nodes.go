package runtime

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// FunctionNodeOptions are the optional settings of a function node.
type FunctionNodeOptions struct {
	Description string
	// OutputKey is the state key that receives the output.
	OutputKey string
	// Message makes the output also a message, as text or JSON, which clients show and
	// later models read.
	Message bool
}

// A FunctionNode is a node of a [Workflow] that computes a value. It yields one event with
// the output, whose author is the workflow, or none if the value is nil (adk-python
// workflow/_function_node.py). A [genai.Content] is a message. A FunctionNode may be used
// anywhere in the agent tree; outside of a workflow its input is the user message, and it is
// the author.
type FunctionNode struct {
	Base
	fn   NodeFunc
	opts FunctionNodeOptions
}

// NewFunctionNode returns a function node; opts may be nil.
func NewFunctionNode(name string, fn NodeFunc, opts *FunctionNodeOptions) *FunctionNode {
	if opts == nil {
		opts = &FunctionNodeOptions{}
	}
	return &FunctionNode{Base{AgentName: name, AgentDescription: opts.Description}, fn, *opts}
}

// Run calls the function and yields its output. A resumed node that already
// has an output does not run again.
func (a *FunctionNode) Run(ctx context.Context, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) {
		if inv.frame != nil && inv.frame.prior.lastEvent() != nil {
			return
		}
		ev := inv.NewEvent()
		value, err := a.fn(ctx, inv.newCallbackContext(&ev.Actions), inv.Input())
		if err != nil {
			yield(nil, inv.wrapNodeError(ctx, err))
			return
		}
		if a.setOutput(ev, value); ev.Content != nil || ev.Output != nil || !ev.Actions.IsEmpty() {
			yield(ev, nil)
		}
	}
}

// setOutput stores the output of the node in its event.
func (a *FunctionNode) setOutput(ev *session.Event, value any) {
	stored := session.Normalize(value)
	if content, ok := value.(*genai.Content); ok {
		ev.Content, stored = content, model.TextOf(content)
	} else if stored != nil {
		if ev.Output = stored; a.opts.Message {
			ev.Content = model.ModelText(template.String(stored))
		}
	}
	if a.opts.OutputKey != "" {
		ev.Actions.SetState(a.opts.OutputKey, stored)
	}
}

func (inv *Invocation) wrapNodeError(ctx context.Context, err error) error {
	var runErr *RunError
	switch {
	case errors.As(err, &runErr):
		return runErr
	case ctx.Err() != nil:
		return AsRunError(ctx.Err())
	}
	return failf(CodeAgentFailed, err, "node %s failed: %s", inv.node.agent.Name(), strings.TrimSpace(err.Error()))
}

// ToolNodeOptions are the optional settings of a tool node.
type ToolNodeOptions struct {
	Description string
	// Args computes the arguments, a mapping; nil uses the input.
	Args NodeFunc
	// OutputKey is the state key that receives the result of the tool.
	OutputKey string
}

// A ToolNode is a node of a [Workflow] that calls a tool as a model would: the
// call and its result are events, and the call may require confirmation. Its
// output is the result; of a result {"result": …} it is the value.
type ToolNode struct {
	Base
	tool tool.Tool
	opts ToolNodeOptions
}

// NewToolNode returns a tool node; opts may be nil.
func NewToolNode(name string, t tool.Tool, opts *ToolNodeOptions) *ToolNode {
	if opts == nil {
		opts = &ToolNodeOptions{}
	}
	return &ToolNode{Base{AgentName: name, AgentDescription: opts.Description}, t, *opts}
}

// Run calls the tool. A resumed node continues where it was interrupted.
func (a *ToolNode) Run(ctx context.Context, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) {
		setOutput := func(ev *session.Event, err error) bool {
			a.setAnswerOutput(ev)
			return yield(ev, err)
		}
		s := &step{inv: inv, sink: setOutput}
		switch d := inv.run.decisions; {
		case inv.frame != nil:
			if s.resumeAgent(ctx) && !s.hasPendingCalls() {
				a.callTool(ctx, s)
			}
		case d != nil && d.author == a.AgentName && !d.consumed.Load():
			s.executeDecisions(ctx)
		case !inv.run.answersAgent(a.AgentName):
			a.callTool(ctx, s)
		}
		if !s.done {
			s.pauseIfPending()
		}
	}
}

// isGraphNode reports whether the node calls a tool or function without a
// model.
func (n *node) isGraphNode() bool {
	switch n.agent.(type) {
	case *ToolNode, *FunctionNode:
		return true
	}
	return false
}

// answersAgent reports whether the user's message answers a call of the agent.
func (r *run) answersAgent(agent string) bool {
	call := r.findAnsweredCall()
	return call != nil && call.NodeName() == agent
}

// setAnswerOutput makes the tool result the output of the node, unless the
// call first requires human input.
func (a *ToolNode) setAnswerOutput(ev *session.Event) {
	if ev == nil || requestsInput(&ev.Actions) || len(ev.Responses()) == 0 || isCallFailure(ev) {
		return
	}
	a.storeAnswer(ev, ev.Responses()[0])
}

func (a *ToolNode) storeAnswer(ev *session.Event, answer *genai.FunctionResponse) {
	ev.Output = answer.Response
	if v, sole := answer.Response["result"]; sole && len(answer.Response) == 1 {
		ev.Output = v
	}
	if a.opts.OutputKey != "" {
		ev.Actions.SetState(a.opts.OutputKey, ev.Output)
	}
}

// callTool makes the call. If the call was made before the invocation was
// resumed, it yields the user's answer instead.
func (a *ToolNode) callTool(ctx context.Context, s *step) {
	if f := s.inv.frame; f != nil {
		for _, made := range f.prior.allEvents() {
			for _, c := range made.Calls() {
				a.yieldUserAnswer(s, c)
				return
			}
		}
	}
	ev := s.inv.NewEvent()
	args, err := a.resolveArgs(ctx, s.inv.newCallbackContext(&ev.Actions), s.inv.Input())
	if err != nil {
		s.emitEvent(nil, s.inv.wrapNodeError(ctx, err))
		return
	}
	call := &genai.FunctionCall{ID: ownIDPrefix + s.inv.run.host.newID(), Name: a.tool.Declaration().Name, Args: args}
	ev.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: call}}}
	ev.LongRunningToolIDs = s.longRunningIDs(ev.Calls())
	if s.emitEvent(ev, nil) {
		s.executeCalls(ctx, ev.Calls())
	}
}

// yieldUserAnswer yields the user's answer to a long-running call.
func (a *ToolNode) yieldUserAnswer(s *step, c *genai.FunctionCall) {
	run := s.inv.run
	for _, r := range slices.Backward(run.calls.findResponses(c.ID)) {
		if r.event.Author == session.UserAuthor && r.event.InvocationID == run.id {
			ev := s.inv.NewEvent()
			a.storeAnswer(ev, r.response)
			s.emitEvent(ev, nil)
			return
		}
	}
}

func (a *ToolNode) resolveArgs(ctx context.Context, m *CallbackContext, input any) (map[string]any, error) {
	if a.opts.Args != nil {
		v, err := a.opts.Args(ctx, m, input)
		if err != nil {
			return nil, err
		}
		input = v
	}
	switch v := session.Normalize(input).(type) {
	case nil:
		return map[string]any{}, nil
	case map[string]any:
		return v, nil
	default:
		return nil, fmt.Errorf("the input must be a mapping to be used as arguments of %s; set args", a.tool.Declaration().Name)
	}
}
