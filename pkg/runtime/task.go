package runtime

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/pkg/tool"
)

// A task's agent talks with the user until it calls finish_task (adk-python 2.11). Its parent's
// call stays open meanwhile:
//
//	turn 1   parent: call order#1 ─▶ order: text              the run ends
//	turn 2   user: text ──────────▶ order: call finish_task
//	         user: response order#1 ─▶ parent: text
//
// The task's events and the user messages to it have the call ID as their isolation scope. Before
// its model is called, the parent runs the agents for all its open calls in order. All this is read
// from stored events.
//
// A task that is a workflow node pauses the invocation instead of a call: its scope is its path,
// the user's next message continues the invocation, and the output of finish_task is that of the
// node. Only resumable apps can do this.

const (
	finishTask = "finish_task"
	// finishText is ADK's result for finish_task.
	finishText = "Task completed."
	taskNote   = "This agent talks with the user until its task is done. Call it alone: do not call other tools in the same response."
	taskText   = "You work on one task. Ask the user when something is unclear or missing. When the task is done, and not earlier, " +
		"call `finish_task` with its result. Call it alone, without other tools, and do not write the result as text."
)

// checkTask reports a task at a place where it cannot run, or where the user cannot talk with it.
func (n *node) checkTask() error {
	name := n.agent.Name()
	switch {
	case len(n.agent.SubAgents()) > 0:
		return fmt.Errorf("agent %s cannot have sub-agents: its mode is task", name)
	case n.isTaskNode() && workerOf(n.agent) != nil:
		return fmt.Errorf("agent %s cannot have the mode task: it is a parallel_worker", name)
	}
	for p := n.parent; p != nil; p = p.parent {
		_, isWorkflow := p.agent.(*Workflow)
		_, isLLM := p.agent.(*LLMAgent)
		switch {
		case n.isTaskNode() && !isWorkflow:
			return fmt.Errorf("node %s cannot have the mode task: all agents above it must be Workflows", name)
		case !n.isTaskNode() && (!isLLM || p.isDelegate()):
			return fmt.Errorf("agent %s cannot have the mode task: all agents above it must be LLM agents that talk with the user", name)
		}
	}
	return nil
}

// isTaskNode reports whether a node talks with the user.
func (w *workflowRun) isTaskNode(node int) bool { return w.inv.node.children[node].isTaskNode() }

// hasBegun reports whether an interrupted workflow run has begun a task.
func (w *workflowRun) hasBegun(t task) bool {
	return w.inv.run.record.hasBegun(w.inv.childPath(w.nodeName(t.node), strconv.Itoa(t.nth)))
}

// hasNewMessage reports whether the user has sent a message to a workflow task after an event.
func (inv *Invocation) hasNewMessage(after *session.Event) bool {
	for _, ev := range slices.Backward(inv.run.sess.Events()) {
		switch {
		case ev.ID == after.ID:
			return false
		case inv.isTaskEvent(ev) && ev.IsFromUser():
			return true
		}
	}
	return false
}

// isTaskEvent reports whether an event belongs to the task that the agent works on. A node's scope
// is the same in every invocation.
func (inv *Invocation) isTaskEvent(ev *session.Event) bool {
	return ev.IsolationScope == inv.scope && (!inv.node.isTaskNode() || ev.InvocationID == inv.run.id)
}

// joinTask returns the request with the invocation that its message continues, because a workflow
// task waits for it in the last invocation. Otherwise it returns the request itself.
func (req *RunRequest) joinTask(app *App, sess *session.Session) *RunRequest {
	if !app.hasTaskNodes || req.Message == nil || req.InvocationID != "" || len(model.ResponsesOf(req.Message)) > 0 {
		return req
	}
	id := ResumableInvocation(sess.Events())
	if id == "" {
		return req
	}
	rec := newInvocationRecord(session.Recorded(sess.Events()), id)
	for _, ev := range rec.events {
		isOpen := ev.IsolationScope != "" && ev.IsolationScope == framePathOf(ev)
		if p := rec.frameAt(ev.NodePath); isOpen && !p.hasEnded() && !slices.ContainsFunc(p.allEvents(), isTaskFinish) {
			joined := *req
			joined.joined = joinedTask{invocation: id, scope: ev.IsolationScope}
			return &joined
		}
	}
	return req
}

// A joinedTask is a workflow task that receives the user's message. The zero value is none.
type joinedTask struct{ invocation, scope string }

// A finishTool takes a task's output (adk-python tools/_finish_task_tool.py).
type finishTool struct {
	decl *genai.FunctionDeclaration
	// schema is nil for a task without an output schema, whose output is a string.
	schema *tool.Schema
	// params check the arguments for a task without an output schema.
	params *tool.Params
	// wrapped reports that the output is the argument result, not all arguments.
	wrapped bool
}

// addFinishTool adds finish_task to the tools of a task's agent.
func (n *node) addFinishTool(l *LLMAgent, tools []tool.Tool) ([]tool.Tool, error) {
	if l.opts.Mode != ModeTask {
		return tools, nil
	}
	if slices.ContainsFunc(tools, func(t tool.Tool) bool { return t.Declaration().Name == finishTask }) {
		return nil, fmt.Errorf("agent %s has a tool named %s, a name that is reserved for the mode task", l.AgentName, finishTask)
	}
	t := &finishTool{schema: l.opts.OutputSchema, wrapped: true}
	params := wrapSchema("result", map[string]any{"type": "string"})
	if t.schema != nil {
		params = t.schema.JSON()
		if t.wrapped = params["type"] != "object"; t.wrapped {
			params = wrapSchema("result", params)
		}
	}
	t.decl = &genai.FunctionDeclaration{
		Name:                 finishTask,
		Description:          "Ends the task with its result.",
		ParametersJsonSchema: params,
	}
	var err error
	if t.params, err = t.readParams(); err != nil {
		return nil, err
	}
	n.transferText = sync.OnceValue(func() string { return taskText })
	return append(slices.Clip(tools), t), nil
}

// readParams returns the declaration's parameters.
func (t *finishTool) readParams() (*tool.Params, error) {
	switch {
	case t.schema == nil:
		return tool.TextParams(t.decl)
	case !t.wrapped:
		return t.schema.Params(finishTask), nil
	}
	outer, err := t.schema.Compile(wrapSchema("result", t.schema.JSON()))
	if err != nil {
		return nil, fmt.Errorf("parameters of %s: %w", finishTask, err)
	}
	return outer.Params(finishTask), nil
}

// Declaration has the output schema's fields as parameters, or the parameter result.
func (t *finishTool) Declaration() *genai.FunctionDeclaration { return t.decl }

// Run fails: only a task's agent can finish it.
func (t *finishTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return nil, fmt.Errorf("%s requires a task", finishTask)
}

// checkOutput returns the task output from the arguments of finish_task. The model corrects wrong
// ones.
func (t *finishTool) checkOutput(ctx context.Context, given map[string]any) (any, error) {
	args, err := t.params.Check(ctx, given)
	if err != nil {
		return nil, err
	}
	output := any(args)
	if t.wrapped {
		output = args["result"]
	}
	if t.schema != nil {
		if output, err = t.schema.Check(ctx, output); err != nil {
			return nil, &tool.ArgsError{Tool: finishTask, Wrong: strings.Split(err.Error(), "; ")}
		}
	}
	return session.Normalize(output), nil
}

// finishTask yields the event with the task output, the last event of its agent, and stores the
// output under the agent's output key.
func (s *step) finishTask(answer *session.Event, output any) outcome {
	answer.Output = output
	var failure *RunError
	if s.agent.opts.OutputKey != "" {
		failure = s.agent.storeOutputValue(s.inv.run.app.state, answer, output)
	}
	switch {
	case !s.emitEvent(answer, nil):
		return outcome{kind: outcomeStopped}
	case failure != nil:
		return failWith(failure)
	}
	return outcome{kind: outcomeFinished}
}

// isTaskFinish reports whether an event completes a task with its output.
func isTaskFinish(ev *session.Event) bool {
	return ev.Output != nil && slices.ContainsFunc(ev.Responses(), func(r *genai.FunctionResponse) bool { return r.Name == finishTask })
}

// findTaskNode returns the sub-agent that one of the agent's calls delegates a task to, or nil.
func (n *node) findTaskNode(c *genai.FunctionCall) *node {
	for _, sub := range n.children {
		if sub.agent.Name() == c.Name && sub.isDelegate() && sub.declaredMode() == ModeTask {
			return sub
		}
	}
	return nil
}

// isTaskCall reports whether a call delegates a task.
func (r *run) isTaskCall(ev *session.Event, c *genai.FunctionCall) bool {
	caller := r.app.findNode(ev.Author)
	return caller != nil && caller.findTaskNode(c) != nil
}

// An openTask is a task call without a response.
type openTask struct {
	call *genai.FunctionCall
	// node is the task's agent.
	node   *node
	branch string
}

// findOpenTasks returns an agent's open tasks, oldest first.
func (r *run) findOpenTasks(n *node) []openTask {
	if !r.app.hasTasks || !slices.ContainsFunc(n.children, (*node).isDelegate) {
		return nil
	}
	var open []openTask
	for _, ev := range session.Recorded(r.sess.Events()) {
		for _, f := range ev.Responses() {
			open = slices.DeleteFunc(open, func(t openTask) bool { return t.call.ID == f.ID && ev.IsolationScope == "" })
		}
		if ev.Author != n.agent.Name() {
			continue
		}
		for _, c := range ev.Calls() {
			if sub := n.findTaskNode(c); sub != nil {
				open = append(open, openTask{call: c, node: sub, branch: ev.Branch})
			}
		}
	}
	return open
}

// findMessageScope returns the user message's scope: that of the call which it answers, or else the
// oldest open task in the agent that will run, unless that has its output and only its result is
// missing.
func (r *run) findMessageScope() string {
	if call := r.findAnsweredCall(); call != nil {
		return call.IsolationScope
	}
	if r.taskScope != "" {
		return r.taskScope
	}
	if r.inner || !r.app.hasTasks {
		return ""
	}
	for _, t := range r.findOpenTasks(r.chooseAgent()) {
		if r.findTaskFinish(t) == nil {
			return t.call.ID
		}
	}
	return ""
}

// dispatchTasks runs the agents for all this agent's open tasks, one after the other, and yields
// their responses. It pauses at a task that waits for the user.
func (s *step) dispatchTasks(ctx context.Context) outcome {
	if s.inv.run.twoWay != nil {
		return outcome{}
	}
	for _, t := range s.inv.run.findOpenTasks(s.inv.node) {
		if t.branch != s.inv.branch {
			continue
		}
		if s.inv.hasEnded() {
			return outcome{kind: outcomeAnswered}
		}
		response, o := s.runTask(ctx, t)
		if o.endsAgent() {
			return o
		}
		if !s.emitEvent(response, nil) {
			return outcome{kind: outcomeStopped}
		}
	}
	return outcome{}
}

// runTask runs or continues the agent of a task, and returns the response to the call.
func (s *step) runTask(ctx context.Context, t openTask) (response *session.Event, o outcome) {
	placed, _ := s.inv.activeToolbox().byName[t.call.Name].(*delegateTool)
	if placed == nil {
		return s.newTaskResponse(t.call, tool.ErrorResponse(fmt.Errorf("agent %s cannot be called", t.call.Name))), o
	}
	args, err := placed.params.Check(ctx, t.call.Args)
	if err != nil {
		return s.newTaskResponse(t.call, tool.ErrorResponse(err)), o
	}
	finish := s.inv.run.findTaskFinish(t)
	if finish == nil || s.inv.frame != nil && finish.InvocationID == s.inv.run.id {
		child := &Invocation{
			run: s.inv.run, node: t.node, scope: t.call.ID, input: &nodeValue{args},
			branch: joinBranch(s.inv.branch, t.call.Name, t.call.ID), path: s.inv.childPath(t.call.Name, t.call.ID),
		}
		child.frame = s.inv.frame.childFrame(s.inv.run.record, child.path)
		markAndEmit := func(ev *session.Event, err error) bool {
			if ev != nil && ev.Output != nil {
				child.markOutput(ev)
			}
			return s.emitEvent(ev, err)
		}
		if !child.runAgent(ctx, markAndEmit) {
			return nil, outcome{kind: outcomeStopped}
		}
		finish = s.inv.run.findTaskFinish(t)
	}
	if finish == nil {
		return nil, outcome{kind: outcomePaused}
	}
	if output, ok := finish.Output.(map[string]any); ok {
		return s.newTaskResponse(t.call, output), o
	}
	return s.newTaskResponse(t.call, map[string]any{"output": finish.Output}), o
}

// findTaskFinish returns the event that completes a task, or nil.
func (r *run) findTaskFinish(t openTask) *session.Event {
	for _, ev := range slices.Backward(session.Recorded(r.sess.Events())) {
		if ev.IsolationScope == t.call.ID && ev.Author == t.node.agent.Name() && isTaskFinish(ev) {
			return ev
		}
	}
	return nil
}

// newTaskResponse returns the response to a task's call, whose author is the user as in ADK.
func (s *step) newTaskResponse(c *genai.FunctionCall, response map[string]any) *session.Event {
	ev := s.inv.NewEvent()
	ev.Author, ev.Provenance.TaskResult = session.UserAuthor, true
	ev.Content = &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{
		FunctionResponse: &genai.FunctionResponse{ID: c.ID, Name: c.Name, Response: response},
	}}}
	return ev
}

// buildTaskTurn returns the contents for a task's agent: its input, and the events with its scope.
func (inv turnContents) buildTaskTurn(key viewKey) ([]*genai.Content, error) {
	v := contentsView{viewKey: key}
	events := slices.DeleteFunc(slices.Clone(session.WithoutRewound(inv.run.sess.Events())), func(ev *session.Event) bool {
		return !inv.isTaskEvent(ev)
	})
	if content := inv.taskInput(); content != nil {
		input := inv.newInputEvent(content)
		input.IsolationScope = inv.scope
		events = append([]*session.Event{input}, events...)
	}
	v.appendEvents(events)
	return v.currentContents()
}

// taskInput returns a task's input as a user message: its call's arguments as JSON. A node's input
// is text or JSON, or the message that started the invocation, with its files.
func (inv turnContents) taskInput() *genai.Content {
	switch text, isText := inv.Input().(string); {
	case !inv.node.isTaskNode():
		return model.UserText(jsonText(inv.input.v))
	case inv.Input() == nil:
		return nil
	case isText:
		for _, ev := range inv.run.sess.Events() {
			if ev.InvocationID == inv.run.id && ev.IsFromUser() && ev.IsolationScope == "" && ev.Text() == text {
				return ev.Content
			}
		}
	}
	return model.UserText(template.String(inv.Input()))
}
