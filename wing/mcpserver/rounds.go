package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/internal/terminal"
	"agenthost/pkg/protocol"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/session"
	"agenthost/wing/mcpserver/mcptask"
)

// runStateless runs a call for a client without sessions. A call with a request state answers
// questions, and any other one starts a turn.
func (c *call) runStateless(ctx context.Context) (*mcp.CallToolResult, error) {
	message := c.message
	if c.req.Params.RequestState != "" {
		pending, err := c.openState(ctx, c.req.Params.RequestState)
		if err != nil {
			return nil, err
		}
		questions := c.listQuestions(pending)
		answers, complete := c.readResponses(ctx, questions)
		if !complete {
			return c.askStateless(pending, questions), nil
		}
		if message = buildMessage(answers, questions); message == nil {
			return c.describeWaiting(pending), nil
		}
	} else if len(c.req.Params.InputResponses) > 0 {
		return nil, errNoState
	}
	t, err := c.runOrDetach(ctx, message)
	switch {
	case err != nil:
		return failedResult(err.Error()), nil
	case t == nil:
		return &mcp.CallToolResult{}, nil // the call continues as a task
	}
	if !t.asks && c.req.Params.RequestState == "" {
		return c.buildResult(ctx, t), nil
	}
	pending, err := c.listPending(ctx)
	if err != nil {
		return failedResult(c.describeError(ctx, err).Error()), nil
	}
	questions := c.listQuestions(pending)
	switch {
	case len(pending) == 0:
		return c.buildResult(ctx, t), nil
	case len(questions) == 0:
		return c.describeWaiting(pending), nil
	}
	return c.askStateless(pending, questions), nil
}

// askStateless returns the questions as the call's result.
func (c *call) askStateless(pending []pendingCall, questions []*question) *mcp.CallToolResult {
	result := &mcp.CallToolResult{InputRequests: mcp.InputRequestMap{}, RequestState: c.encodeState(pending)}
	for _, q := range questions {
		result.InputRequests[q.form.Call.ID] = q.params
	}
	return result
}

// readResponses returns the answers to the questions. It is incomplete if one is missing or does not
// fit: then the result repeats the questions. Answers to other questions are ignored.
func (c *call) readResponses(ctx context.Context, questions []*question) (answers map[*question]map[string]any, complete bool) {
	answers = map[*question]map[string]any{}
	for _, q := range questions {
		given, ok := c.req.Params.InputResponses[q.form.Call.ID].(*mcp.ElicitResult)
		if !ok || given == nil {
			return nil, false
		}
		response, err := q.readResult(ctx, given)
		if err != nil {
			return nil, false
		}
		if response != nil {
			answers[q] = response
		}
	}
	return answers, true
}

// runConversation runs a call for a client with a connection, and asks its questions meanwhile.
func (c *call) runConversation(ctx context.Context) (*mcp.CallToolResult, error) {
	t, err := c.runTurn(ctx, c.message)
	switch {
	case err != nil:
		return failedResult(err.Error()), nil
	case !t.asks:
		return c.buildResult(ctx, t), nil
	}
	return c.askInConversation(ctx, t)
}

// askInConversation asks the questions that a turn has ended with, and runs the turns with the answers.
func (c *call) askInConversation(ctx context.Context, t *turn) (*mcp.CallToolResult, error) {
	closed := map[string]bool{} // questions that the person has not answered
	for range maxRounds {
		pending, err := c.listPending(ctx)
		if err != nil {
			return failedResult(c.describeError(ctx, err).Error()), nil
		}
		if len(pending) == 0 {
			return c.buildResult(ctx, t), nil
		}
		message := c.askPerson(ctx, c.listQuestions(pending), closed)
		if message == nil {
			return c.describeWaiting(pending), nil
		}
		if t, err = c.runTurn(ctx, message); err != nil {
			return failedResult(err.Error()), nil
		}
	}
	return failedResult("the call exceeds the limit of 32 rounds of questions"), nil
}

// askPerson sends the questions one by one, and returns the answers as the next message; nil without
// answers. An answer that does not fit leaves its question open.
func (c *call) askPerson(ctx context.Context, questions []*question, closed map[string]bool) *genai.Content {
	ctx, cancel := context.WithTimeout(ctx, c.p.h.opts.AnswerTimeout)
	defer cancel()
	answers := map[*question]map[string]any{}
	for _, q := range questions {
		if closed[q.form.Call.ID] {
			continue
		}
		closed[q.form.Call.ID] = true
		given, err := c.req.Session.Elicit(ctx, q.params)
		if err != nil {
			continue
		}
		if response, err := q.readResult(ctx, given); err == nil && response != nil {
			answers[q] = response
		}
	}
	return buildMessage(answers, questions)
}

// describeWaiting returns what the session waits for, for a client that cannot ask a person.
func (c *call) describeWaiting(pending []pendingCall) *mcp.CallToolResult {
	lines := []string{"The agent waits for a person, and this client cannot ask or has no answer."}
	if !c.hidden {
		lines = append(lines, "Session: "+c.key.ID)
	}
	for i, open := range pending {
		if i == maxQuestions {
			break
		}
		if q := newQuestion(open.call); q != nil {
			lines = append(lines, "- "+strings.ReplaceAll(q.params.Message, "\n", " "))
		} else {
			lines = append(lines, "- the answer to "+protocol.TruncateText(terminal.Clean(open.call.Name), maxErrorLine))
		}
	}
	return failedResult(strings.Join(lines, "\n"))
}

// A call by a client that offers tasks continues as a task when it takes longer than Options.TaskDelay:
//
//	tools/call ──▶ run ──┬─▶ it ends soon: the result, or questions as in rounds.go
//	                     └─▶ the task's ID; the run continues without its request
//	tasks/get    ──▶ the state in the session's events (package task), the same on every replica
//	tasks/update ──▶ answers to the agent's questions: the next run
//	tasks/cancel ──▶ stops the run, here or on another replica

// codeHeaderMismatch is the protocol's.
const codeHeaderMismatch = -32020

var (
	errUnknownTask  = &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "unknown task"}
	errTooManyTasks = &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: task.ErrTooMany.Error()}
)

// withTasks returns capabilities with the extension.
func withTasks(given *mcp.ServerCapabilities) *mcp.ServerCapabilities {
	own := *given
	own.Extensions = map[string]any{}
	for name, settings := range given.Extensions {
		own.Extensions[name] = settings
	}
	own.AddExtension(mcptask.Extension, map[string]any{})
	return &own
}

// addTaskMethods makes the server decode the extension's requests, which handleTasks handles.
func (p *publishedApp) addTaskMethods() {
	for _, method := range mcptask.Methods() {
		unreached := func(context.Context, *mcp.ServerSession, *mcptask.Params) (*mcptask.Result, error) {
			return nil, errInternal
		}
		if err := mcp.AddReceivingCustomMethod(p.server, method, unreached); err != nil {
			p.h.Logger().Error("MCP method rejected", "app", p.name, "method", method, "error", err)
		}
	}
}

func offersTasks(capabilities *mcp.ClientCapabilities) bool {
	return capabilities != nil && capabilities.Extensions[mcptask.Extension] != nil
}

// taskSlot receives the task that a call continues as.
type taskSlot struct{ task *mcptask.Result }

type taskSlotKey struct{}

// handleTasks handles the extension's requests, and replaces the result of a call that continues as a
// task.
func (p *publishedApp) handleTasks(next mcp.MethodHandler) mcp.MethodHandler {
	return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
		if slices.Contains(mcptask.Methods(), method) {
			if asked, ok := req.(*mcp.ServerRequest[*mcptask.Params]); ok {
				return p.handleTask(ctx, method, asked)
			}
		}
		if method != "tools/call" {
			return next(ctx, method, req)
		}
		slot := &taskSlot{}
		result, err := next(context.WithValue(ctx, taskSlotKey{}, slot), method, req)
		if slot.task != nil && err == nil {
			return slot.task, nil
		}
		return result, err
	}
}

// runOrDetach runs a turn. It returns no turn for a call that continues as a task.
func (c *call) runOrDetach(ctx context.Context, message *genai.Content) (*turn, error) {
	slot, _ := ctx.Value(taskSlotKey{}).(*taskSlot)
	if slot == nil || !offersTasks(c.capabilities) {
		return c.runTurn(ctx, message)
	}
	delay := c.p.h.opts.TaskDelay
	if c.tool.RequiresTask {
		delay = -1
	}
	run, err := c.startRun(ctx, message)
	if err != nil {
		if c.tool.RequiresTask {
			return nil, errTooManyTasks
		}
		return c.runTurn(ctx, message)
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done(): // the client has closed the stream before it has a task
		run.Cancel()
		return run.turn, run.err
	case <-run.Ended():
		if delay >= 0 {
			return run.turn, run.err
		}
	}
	id := run.WaitForStart(ctx)
	if id == "" {
		run.Cancel()
		return run.turn, run.err
	}
	created, err := c.newTask(ctx, mcptask.ID{Invocation: id, Tool: c.tool.Name, Session: c.key.ID})
	if slot.task = created; err != nil {
		run.Cancel()
	}
	return nil, err
}

// newTask returns the result of a call that continues as a task.
func (c *call) newTask(ctx context.Context, id mcptask.ID) (*mcptask.Result, error) {
	c.detached.Store(true)
	found, err := c.p.h.tasks.Find(ctx, c.idOf(id))
	if err != nil {
		return nil, c.describeTaskError(ctx, err)
	}
	return &mcptask.Result{ResultType: mcptask.TypeTask, State: mcptask.NewState(id, found, mcptask.Working)}, nil
}

func (c *call) idOf(id mcptask.ID) task.ID { return task.ID{Key: c.key, Invocation: id.Invocation} }

func (c *call) describeTaskError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, task.ErrUnknown):
		return errUnknownTask
	case errors.Is(err, task.ErrNotLast):
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
	}
	return c.describeError(ctx, err)
}

// A taskRun is a run that does not end with its request. turn and err, which is the client's to see, may
// be read once it has ended.
type taskRun struct {
	*task.Run
	turn *turn
	err  error
}

// startRun starts a run for a message that the server's shutdown ends.
func (c *call) startRun(ctx context.Context, message *genai.Content) (*taskRun, error) {
	run := &taskRun{err: errInternal} // a panic's
	started, err := c.p.h.tasks.Start(ctx, task.ID{Key: c.key, Invocation: c.resumes}, func(ctx context.Context, started func(string)) error {
		run.turn, run.err = c.runStarted(ctx, message, started)
		switch {
		case run.err == nil:
			return nil
		case c.failure != nil:
			return c.failure
		}
		return run.err
	})
	run.Run = started
	return run, err
}

// handleTask handles a request about a task.
func (p *publishedApp) handleTask(ctx context.Context, method string, req *mcp.ServerRequest[*mcptask.Params]) (*mcptask.Result, error) {
	if !offersTasks(req.ClientCapabilities()) {
		return nil, mcptask.NewCapabilityError(method)
	}
	if extra := req.GetExtra(); extra != nil && extra.Header != nil && extra.Header.Get("Mcp-Name") != req.Params.TaskID {
		return nil, &jsonrpc.Error{Code: codeHeaderMismatch, Message: "the header Mcp-Name must be the taskId"}
	}
	id, ok := mcptask.ParseID(req.Params.TaskID)
	settings := p.currentSettings()
	t := settings.findTool(id.Tool)
	if !ok || t == nil {
		return nil, errUnknownTask
	}
	c := &call{
		p: p, settings: settings, tool: t, key: session.Key{App: p.name, User: p.callerOf(req), ID: id.Session},
		capabilities: req.ClientCapabilities(), hidden: !t.takesHandle(settings),
	}
	result := &mcptask.Result{ResultType: mcptask.TypeComplete}
	if method == mcptask.MethodUpdate {
		return result, c.answerTask(ctx, id, req.Params.InputResponses)
	}
	state, err := c.readTask(ctx, id)
	switch {
	case err != nil:
	case method == mcptask.MethodGet:
		result.State = state
	case method == mcptask.MethodCancel && (state.Status == mcptask.Working || state.Status == mcptask.InputRequired):
		if err = c.p.h.tasks.Cancel(ctx, c.idOf(id), "The client canceled the task."); err != nil {
			err = c.describeTaskError(ctx, err)
		}
	}
	return result, err
}

// readTask returns a task's state.
func (c *call) readTask(ctx context.Context, id mcptask.ID) (*mcptask.State, error) {
	found, err := c.p.h.tasks.Read(ctx, c.idOf(id), func() (*task.Run, error) {
		resumed := &call{p: c.p, settings: c.settings, tool: c.tool, key: c.key, resumes: id.Invocation}
		run, err := resumed.startRun(ctx, nil)
		return run.Run, err
	})
	if err != nil {
		return nil, c.describeTaskError(ctx, err)
	}
	switch found.Status {
	case task.Waiting:
		return c.describeQuestions(id, found.Turn), nil
	case task.Canceled:
		return mcptask.NewState(id, found.Turn, mcptask.Cancelled), nil
	case task.Failed:
		state := mcptask.NewState(id, found.Turn, mcptask.Failed)
		state.Error = &mcptask.Failure{Code: jsonrpc.CodeInternalError, Message: found.Failure}
		return state, nil
	case task.Completed:
		state, t := mcptask.NewState(id, found.Turn, mcptask.Completed), &turn{}
		for _, ev := range found.Answer() {
			t.readEvent(c.key.ID, ev)
		}
		state.Result = c.buildResult(ctx, t)
		return state, nil
	}
	state := mcptask.NewState(id, found.Turn, mcptask.Working)
	if last := found.Events[len(found.Events)-1]; !last.IsFromUser() {
		state.StatusMessage = protocol.TruncateText(plainText(last.Content), maxProgressText)
	}
	return state, nil
}

// describeQuestions returns the state of a task that waits for a person. A client that cannot ask
// receives what is open as the result.
func (c *call) describeQuestions(id mcptask.ID, found *task.Turn) *mcptask.State {
	open := listCalls(found)
	questions := c.listQuestions(open)
	if len(questions) == 0 {
		state := mcptask.NewState(id, found, mcptask.Completed)
		state.Result = c.describeWaiting(open)
		return state
	}
	state := mcptask.NewState(id, found, mcptask.InputRequired)
	state.InputRequests = mcp.InputRequestMap{}
	for _, q := range questions {
		state.InputRequests[q.form.Call.ID] = q.params
	}
	return state
}

func listCalls(found *task.Turn) []pendingCall {
	var open []pendingCall
	for _, one := range found.Pending {
		open = append(open, pendingCall{one.Event, one.Call})
	}
	return open
}

// answerTask starts a run with the answers, and returns once the first message is stored. Answers that do
// not fit, and those to other questions, are ignored: the questions stay open. It reads no lease: the one of
// the run that asked may be idle on another replica, and the run with the answers waits for it.
func (c *call) answerTask(ctx context.Context, id mcptask.ID, responses map[string]json.RawMessage) error {
	found, err := c.p.h.tasks.Find(ctx, c.idOf(id))
	if err != nil {
		return c.describeTaskError(ctx, err)
	}
	if found.IsCanceled() {
		return nil
	}
	answers := map[*question]map[string]any{}
	questions := c.listQuestions(listCalls(found))
	for _, q := range questions {
		given := &mcp.ElicitResult{}
		if raw := responses[q.form.Call.ID]; len(raw) == 0 || json.Unmarshal(raw, given) != nil {
			continue
		}
		if response, err := q.readResult(ctx, given); err == nil && response != nil {
			answers[q] = response
		}
	}
	message := buildMessage(answers, questions)
	if message == nil {
		return nil
	}
	run, err := c.startRun(ctx, message)
	if err != nil {
		return errTooManyTasks
	}
	if run.WaitForStart(ctx) == "" && ctx.Err() == nil {
		return run.err
	}
	return nil
}
