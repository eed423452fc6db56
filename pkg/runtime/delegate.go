package runtime

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// checkMode reports a mode that does not fit an agent's place in the tree.
func (n *node) checkMode() error {
	mode := n.declaredMode()
	if mode == ModeTask {
		return n.checkTask()
	}
	if p := n.parent; p != nil && mode != ModeSingleTurn && p.declaredMode() == ModeSingleTurn {
		return fmt.Errorf("agent %s cannot be a sub-agent of %s, which has the mode single_turn: such an agent only delegates to sub-agents with the same mode", n.agent.Name(), p.agent.Name())
	}
	if mode != ModeSingleTurn {
		return nil
	}
	if n.parent != nil {
		switch n.parent.agent.(type) {
		case *LLMAgent, *Workflow:
			return nil
		}
	}
	return fmt.Errorf("agent %s cannot have the mode single_turn: only an LLM agent's sub-agents and Workflow nodes can", n.agent.Name())
}

// A parent calls a sub-agent with the mode single_turn like a tool, in the same session:
//
//	parent  call helper#1 ──▶ branch helper@1   input, its own events      only the sub-agent sees them
//	        response helper#1 ◀── its last final event
//
// Its events must be yielded by the goroutine of the run, and the calls of a response run concurrently.
// So runCallsOrDelegate moves the calls to another goroutine and forwards the events of sub-agents
// meanwhile; each sub-agent waits until its event is stored. A consumer that stops cancels all calls
// first, and only then the sub-agent continues, so that none begins another step.
//
// A sub-agent with pending calls gives its call no result (errSuspended): the call stays open in the
// history. The answer of the user finds the way back by branch (continueDelegate), or in resumable apps
// by path (resume.go): the parent makes the same call again, and the sub-agent continues.

// A delegateTool lets an agent's model call a sub-agent in the same session. The sub-agent has its
// own branch, and its parent sees only the result.
type delegateTool struct {
	node   *node
	input  *tool.Schema
	params *tool.Params
	decl   *genai.FunctionDeclaration
}

// newDelegateTools returns the tools for the sub-agents that the agent calls.
func newDelegateTools(n *node, others []tool.Tool) ([]tool.Tool, error) {
	var tools []tool.Tool
	for _, c := range n.children {
		if !c.isDelegate() {
			continue
		}
		name := c.agent.Name()
		if slices.ContainsFunc(others, func(t tool.Tool) bool { return t.Declaration().Name == name }) {
			return nil, fmt.Errorf("agent %s has a tool and a sub-agent with the mode %s of the same name %s", n.agent.Name(), c.declaredMode(), name)
		}
		like := NewAgentTool(c.agent, nil)
		params, err := like.readParams()
		if err != nil {
			return nil, err
		}
		if c.declaredMode() == ModeTask {
			decl := *like.decl
			decl.Description = strings.TrimSpace(decl.Description + "\n\n" + taskNote)
			like.decl = &decl
		}
		tools = append(tools, &delegateTool{node: c, input: like.input, params: params, decl: like.decl})
	}
	return tools, nil
}

// Declaration has the sub-agent's name and description, and the parameters in its input schema.
// Without one it has the parameter request.
func (t *delegateTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Run fails: a sub-agent requires an invocation, which only the runtime provides.
func (t *delegateTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, fmt.Errorf("agent %s can only be called by its parent agent", t.decl.Name)
}

// runDelegate runs a sub-agent as a tool call. Errors that do not end the run are text
// for the model (adk-python tools/agent_tool.py _SingleTurnAgentTool).
func (s *callRunner) runDelegate(ctx context.Context, t *delegateTool, call *tool.Call) (*tool.Result, error) {
	args, err := t.params.Check(ctx, call.Args)
	switch {
	case err != nil:
		return textResult("Error validating input: " + err.Error()), nil
	case s.delegated == nil:
		return textResult("Error running sub-agent: a live conversation cannot run agent " + t.decl.Name), nil
	}
	// The sub-agent runs on the branch name@call. In resumable apps its path has the call's number.
	nth, start := s.findDelegation(t.decl.Name, call.ID)
	child := s.inv.newChildInvocation(t.node, joinBranch(s.inv.branch, t.decl.Name, call.ID), nth)
	child.turnStart, child.input = start, &nodeValue{args}
	if t.input == nil {
		child.input = &nodeValue{args["request"]}
	}
	d := &delegateRun{handoff: eventHandoff{out: s.delegated}}
	if child.frame != nil {
		for _, ev := range s.inv.run.record.eventsUnder(child.frame.path) {
			d.recordEvent(ev)
		}
	}
	var failure error // ends only the sub-agent, unless the run cannot continue
	child.runAgent(ctx, func(ev *session.Event, err error) bool {
		if err != nil {
			failure = err
			return false
		}
		d.recordEvent(ev)
		child.markOutput(ev)
		d.stopped = !d.handoff.sendEvent(ev, nil)
		return !d.stopped
	})
	_, fromHook := asHookError(failure)
	switch {
	case failure != nil && (fromHook || ctx.Err() != nil || errors.Is(failure, errBudget)):
		return nil, failure
	case failure != nil:
		return textResult("Error running sub-agent: " + failure.Error()), nil
	case d.stopped:
		return nil, AsRunError(context.Canceled)
	case d.isPending():
		return nil, errSuspended
	}
	return child.delegateResult(ctx, d.last)
}

func textResult(text string) *tool.Result {
	return &tool.Result{Response: map[string]any{"result": text}}
}

// findDelegation returns the number of a call among the agent's calls with this name in the
// invocation, from 1, and the index of its event in the session.
func (s *callRunner) findDelegation(name, call string) (nth, at int) {
	for i, ev := range s.inv.run.sess.Events() {
		if ev.Author != s.inv.node.agent.Name() || ev.Branch != s.inv.branch {
			continue
		}
		for _, c := range ev.Calls() {
			if c.Name != name {
				continue
			}
			if ev.InvocationID == s.inv.run.id && (s.inv.frame == nil || framePathOf(ev) == s.inv.frame.path) {
				nth++
			}
			if c.ID == call {
				at = i
				if nth > 0 {
					return nth, at
				}
			}
		}
	}
	return max(nth, 1), at
}

// delegateResult returns a sub-agent's result from its last event: with an output schema the
// decoded value, else the text.
func (inv *Invocation) delegateResult(ctx context.Context, last *session.Event) (*tool.Result, error) {
	if last == nil {
		return &tool.Result{Response: map[string]any{"result": nil}}, nil
	}
	text := collectEventText(last)
	schema := outputSchemaOf(inv.node.agent)
	if schema == nil || strings.TrimSpace(text) == "" {
		return textResult(text), nil
	}
	v, err := schema.Parse(ctx, text)
	if err != nil {
		return textResult(fmt.Sprintf("Error running sub-agent: the answer of agent %s does not match its output_schema: %s", inv.node.agent.Name(), err)), nil
	}
	return &tool.Result{Response: asResponse(v)}, nil
}

// A delegateRun collects what a sub-agent yields.
type delegateRun struct {
	handoff eventHandoff
	// last is the last final event with content.
	last *session.Event
	// pending tracks the calls that wait for the user.
	pending frame
	// stopped reports that the consumer stopped the run.
	stopped bool
}

func (d *delegateRun) recordEvent(ev *session.Event) {
	d.pending.trackPending(ev)
	if !ev.Partial && ev.Content != nil && ev.IsFinal() && ev.ErrorCode == "" {
		d.last = ev
	}
}

func (d *delegateRun) isPending() bool {
	return slices.Contains(slices.Collect(maps.Values(d.pending.pending)), true)
}

// runCallsOrDelegate executes the calls in one event. If one of them calls a sub-agent, or stores
// interim responses, they run on another goroutine, and the events of sub-agents and interim
// responses are yielded meanwhile.
func (s *step) runCallsOrDelegate(ctx context.Context, calls []*genai.FunctionCall) (results mergedCalls) {
	yields := func(c *genai.FunctionCall) bool { return s.inv.callsDelegate(c) || s.inv.storesInterim(c) }
	if s.agent == nil || s.inv.run.twoWay != nil {
		return s.runCalls(ctx, calls)
	}
	if err := s.inv.loadToolsets(ctx); err != nil { // an agent that is resumed has listed none
		return mergedCalls{outcome: failWith(err)}
	}
	if !slices.ContainsFunc(calls, yields) {
		return s.runCalls(ctx, calls)
	}
	outer := ctx
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	events, done := make(chan *eventHandoff), make(chan struct{})
	s.delegated, s.isAbandoned = events, func() bool { return s.inv.run.isAbandoned(outer) }
	defer func() { s.delegated, s.isAbandoned = nil, nil }()
	go func() {
		defer close(done)
		defer safe.Recover(func(p *safe.Panic) { results = mergedCalls{outcome: failWith(s.inv.panicFailure(p))} })
		results = s.runCalls(ctx, calls)
	}()
	defer func() { // after the consumer panicked
		cancel()
		for {
			select {
			case e := <-events:
				e.acknowledgeEvent(false)
			case <-done:
				return
			}
		}
	}()
	left := false // the consumer
	for {
		select {
		case e := <-events:
			if left {
				e.acknowledgeEvent(false)
				continue
			}
			// The calls are canceled before the sub-agent continues, so that none begins another
			// step or has a result.
			e.deliverEvent(func(ev *session.Event, err error) bool {
				if left = !s.emitEvent(ev, err) || err != nil; left {
					cancel()
				}
				return !left
			})
		case <-done:
			if left {
				return mergedCalls{outcome: outcome{kind: outcomeStopped}}
			}
			return results
		}
	}
}

// callsDelegate reports whether a call calls a sub-agent.
func (inv *Invocation) callsDelegate(c *genai.FunctionCall) bool {
	_, ok := inv.activeToolbox().byName[c.Name].(*delegateTool)
	return ok
}

// buildDelegateTurn returns the contents for a sub-agent that its parent called. With
// IncludeDefault they begin with the conversation before the call.
func (inv turnContents) buildDelegateTurn(key viewKey, include IncludeContents) ([]*genai.Content, error) {
	text, isText := inv.input.v.(string)
	if !isText {
		text = jsonText(inv.input.v)
	}
	input := inv.newInputEvent(model.UserText(text))
	all := inv.run.sess.Events()
	start := min(inv.turnStart, len(all))
	var before, own []*session.Event
	if include == IncludeDefault {
		before = all[:start]
	}
	for _, ev := range session.WithoutRewound(all[start:]) {
		if ev.Branch == inv.branch || strings.HasPrefix(ev.Branch, inv.branch+".") {
			own = append(own, ev)
		}
	}
	v := contentsView{viewKey: key}
	v.appendEvents(slices.Concat(before, []*session.Event{input}, own))
	return v.currentContents()
}

// continueDelegate runs the sub-agent again that made the call which the user answers. In resumable
// apps the open call of the resumed agent does this.
func (s *step) continueDelegate(ctx context.Context) outcome {
	if !slices.ContainsFunc(s.inv.node.children, (*node).isDelegate) {
		return outcome{}
	}
	answered := s.inv.run.findAnsweredCall()
	if answered == nil || !isDelegated(answered.Branch) {
		return outcome{}
	}
	for _, ev := range slices.Backward(session.Recorded(s.inv.run.sess.Events())) {
		if ev.Author != s.inv.node.agent.Name() || ev.Branch != s.inv.branch {
			continue
		}
		for _, c := range ev.Calls() {
			branch := joinBranch(s.inv.branch, c.Name, c.ID)
			if s.inv.callsDelegate(c) && (answered.Branch == branch || strings.HasPrefix(answered.Branch, branch+".")) {
				return s.executeCalls(ctx, []*genai.FunctionCall{c})
			}
		}
	}
	return outcome{}
}
