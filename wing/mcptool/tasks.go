package mcptool

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/safe"
	connections "agenthost/pkg/connection"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A server may answer a call with a task (SEP-2663): it continues to work, and the client asks for the
// result later.
//
//	tools/call ──▶ task ──▶ store it ──▶ wait ──▶ tasks/get ──┬─▶ completed, failed, cancelled: the result
//	                            ▲          ▲                  ├─▶ working
//	                            │          └──────────────────┘
//	   another attempt ─────────┘          ▲
//	   the person answers ──▶ tasks/update ┘ ◀── input_required: a question, as in rounds.go
//
// The task is stored as the call's interim response, and with a question in its confirmation, so that
// any process can continue. It is bound to the server's address, the tool and the session: an attempt
// with other ones refuses it. A call that no attempt follows cancels its task.

// The bounds for following a task.
const (
	// maxTaskFailures limits the requests in a row that fail because the server cannot be reached.
	maxTaskFailures = 5
	// maxCancelTask bounds the time to cancel a task.
	maxCancelTask = 10 * time.Second
)

// taskKey is the task's key in the interim response.
const taskKey = "mcp_task"

// withHeaders returns a context in which the requests for the task have its ID as a header.
func (s *storedTask) withHeaders(ctx context.Context) context.Context {
	return context.WithValue(ctx, paramHeadersKey{}, map[string]string{"Mcp-Name": encodeParam(s.ID)})
}

// encodeTask returns the task as a value for an event.
func (s *storedTask) encodeTask() (any, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	return session.DecodeValue(raw)
}

// bindTask returns the binding for a call's task.
func (t *serverTool) bindTask(call *tool.Call) string {
	s := t.set.server
	parts := append([]string{"agenthost mcp task", s.url.Value, t.name, call.Origin.App, call.Origin.UserID, call.Origin.SessionID, call.ID}, s.commandArgs()...)
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

// findTask returns the task that an earlier attempt has stored, or nil.
func (t *serverTool) findTask(call *tool.Call, questions callQuestions) (*storedTask, error) {
	var task *storedTask
	if p := questions.person; p != nil && p.round != nil {
		task = p.round.Task
	}
	if stored := call.Interim[taskKey]; stored != nil {
		raw, err := json.Marshal(stored)
		if task = new(storedTask); err != nil || json.Unmarshal(raw, task) != nil {
			return nil, t.refuseTask("the stored task cannot be read")
		}
	}
	if task == nil {
		return nil, nil
	}
	if task.ID == "" || len(task.ID) > maxTaskID || task.Binding != t.bindTask(call) {
		return nil, t.refuseTask("the stored task belongs to another server, tool or session")
	}
	now := t.set.now().UnixMilli()
	if task.Asked > 0 {
		task.Ends, task.Asked = task.Ends+max(0, now-task.Asked), 0
	}
	task.Ends = min(task.Ends, now+t.set.server.taskTimeout().Milliseconds())
	return task, nil
}

// refuseTask returns an error that names the server.
func (t *serverTool) refuseTask(reason string) error {
	return limitError{t.set.server.displayName() + ": " + reason}
}

// A taskCall follows the task of one call.
type taskCall struct {
	*serverTool
	link      *link
	call      *tool.Call
	questions callQuestions
	task      *storedTask
	// interval and ttl are the server's latest; ttl is negative without one.
	interval, ttl time.Duration
	// hasEnded is set once the server has reported the task's end.
	hasEnded bool
}

// startTask follows the task in a call's result.
func (t *serverTool) startTask(ctx context.Context, l *link, call *tool.Call, raw []byte, questions callQuestions) (*tool.Result, error) {
	if !t.set.server.offer.EnableTasks {
		return nil, t.wrapCallError(ctx, l, t.refuseTask("the server answers with a task, which it may only with enable_tasks: true"))
	}
	report, err := decodeTask(raw, "")
	c := &taskCall{serverTool: t, link: l, call: call, questions: questions, ttl: -1}
	if report != nil && report.id != "" {
		now := t.set.now()
		c.task = &storedTask{ID: report.id, Binding: t.bindTask(call), Started: now.UnixMilli(), Ends: now.Add(t.set.server.taskTimeout()).UnixMilli()}
	}
	if err == nil && l.redactor.RedactString(report.id) != report.id {
		err = limitError{"the server's taskId contains a credential"}
	}
	if err != nil {
		return c.endTask(ctx, nil, c.refuseReport(err))
	}
	c.applyReport(report)
	if err := c.storeTask(ctx); err != nil {
		c.cancelTask(ctx)
		return nil, err
	}
	return c.followTask(ctx)
}

// continueTask follows a task that an earlier attempt has stored.
func (t *serverTool) continueTask(ctx context.Context, l *link, call *tool.Call, task *storedTask, questions callQuestions) (*tool.Result, error) {
	c := &taskCall{serverTool: t, link: l, call: call, questions: questions, task: task, ttl: -1}
	c.interval = minPoll // it may have ended long ago
	if p := questions.person; p != nil && p.round != nil && p.round.Task != nil && call.Interim == nil {
		round := p.round
		round.Task = task
		if complete, err := c.answerRound(ctx, round); err != nil || !complete {
			return c.endTask(ctx, nil, err)
		}
	}
	return c.followTask(ctx)
}

// followTask asks for the task's state until it ends or a person must answer.
func (c *taskCall) followTask(ctx context.Context) (*tool.Result, error) {
	result, err := c.pollTask(ctx)
	return c.endTask(ctx, result, err)
}

// endTask returns a call's outcome, and cancels the task if nothing will ask for it again.
func (c *taskCall) endTask(ctx context.Context, result *tool.Result, err error) (*tool.Result, error) {
	if err == nil || c.hasEnded || errors.As(err, new(*connections.ConsentError)) {
		return result, err
	}
	if canceled := ctx.Err() != nil; !canceled || c.call.IsAbandoned == nil || c.call.IsAbandoned() {
		c.cancelTask(ctx)
	}
	return nil, c.wrapCallError(ctx, c.link, err)
}

// storeTask stores the task as the call's interim response.
func (c *taskCall) storeTask(ctx context.Context) error {
	if c.call.StoreInterim == nil {
		return nil
	}
	stored, err := c.task.encodeTask()
	if err != nil {
		return err
	}
	return c.call.StoreInterim(ctx, map[string]any{"status": taskWorking, taskKey: stored})
}

// pollTask asks for the task's state until it ends. The result is nil if a person must answer first.
func (c *taskCall) pollTask(ctx context.Context) (*tool.Result, error) {
	for failures := 0; ; {
		if err := c.waitForPoll(ctx); err != nil {
			return nil, err
		}
		report, err := c.getTask(ctx)
		switch {
		case err == nil:
			failures = 0
		case ctx.Err() != nil || !isUnreached(err):
			return nil, err
		default:
			if failures++; failures == maxTaskFailures {
				return nil, err
			}
			continue
		}
		c.applyReport(report)
		c.hasEnded = report.isTerminal()
		switch report.status {
		case taskCompleted:
			return c.convertResult(c.link, report.result)
		case taskFailed:
			return nil, c.newTaskFailure("the task failed: " + c.link.cleanText(report.failure))
		case taskCancelled:
			return nil, c.newTaskFailure("the task was canceled by the server")
		case taskInputRequired:
			if asked, err := c.answerReport(ctx, report); asked || err != nil {
				return nil, err
			}
		}
	}
}

// isUnreached reports whether a request failed because the server did not answer it, so that a later
// one may succeed.
func isUnreached(err error) bool {
	limit := limitError{}
	return findAnswer(err) == nil && !errors.As(err, &limit) && !errors.As(err, new(*connections.ConsentError))
}

// newTaskFailure returns a task's failure as the server's result, as in ADK.
func (c *taskCall) newTaskFailure(text string) error {
	content := []any{map[string]any{"type": "text", "text": text}}
	return &tool.AnswerError{
		Err:      fmt.Errorf("tool %s: %s: %s", c.Declaration().Name, c.set.server.displayName(), text),
		Response: map[string]any{"content": content, "isError": true},
	}
}

// applyReport takes over the interval and the ttl: the latest ones count.
func (c *taskCall) applyReport(r *taskReport) {
	if r.interval > 0 {
		c.interval = max(r.interval, minPoll)
	}
	if c.interval == 0 {
		c.interval = defaultPoll
	}
	if r.ttl >= 0 {
		c.ttl = r.ttl
	}
}

// waitForPoll waits for the interval, but not longer than the task may take.
func (c *taskCall) waitForPoll(ctx context.Context) error {
	now := c.set.now()
	left, rule := time.UnixMilli(c.task.Ends).Sub(now), fmt.Sprintf("the task exceeds the limit of %s (task_timeout)", tool.FormatDuration(c.set.server.taskTimeout()))
	if ends := time.UnixMilli(c.task.Started).Add(c.ttl); c.ttl >= 0 && ends.Sub(now) < left {
		left, rule = ends.Sub(now), fmt.Sprintf("the task has not ended within the server's ttlMs of %s", tool.FormatDuration(c.ttl))
	}
	if left <= 0 {
		return c.refuseTask(rule)
	}
	return c.set.wait(ctx, min(c.interval, left))
}

// getTask asks for the task's state.
func (c *taskCall) getTask(ctx context.Context) (*taskReport, error) {
	raw, err := c.sendTaskRequest(ctx, getTaskMethod, nil)
	if err != nil {
		return nil, err
	}
	report, err := decodeTask(raw, c.task.ID)
	return report, c.refuseReport(err)
}

// refuseReport adds the server's name to an error in its report.
func (c *taskCall) refuseReport(err error) error {
	if limit := (limitError{}); errors.As(err, &limit) {
		return c.refuseTask(limit.text)
	}
	return err
}

// sendTaskRequest sends one request within the call's timeout, and returns its result.
func (c *taskCall) sendTaskRequest(ctx context.Context, method string, answers mcp.InputResponseMap) ([]byte, error) {
	inTime, stop := c.set.server.withCallTimeout(c.task.withHeaders(ctx), c.Declaration().Name)
	defer stop()
	var res *taskAnswer
	err := c.link.withSession(inTime, true, func(session *mcp.ClientSession) (err error) {
		res, err = mcp.CallCustomMethod[*taskParams, *taskAnswer](inTime, session, method, &taskParams{TaskID: c.task.ID, InputResponses: answers})
		return err
	})
	switch {
	case err != nil && inTime.Err() != nil && ctx.Err() == nil:
		return nil, context.Cause(inTime)
	case err != nil:
		if answered := findAnswer(err); answered != nil && !isUnreadable(err) {
			return nil, c.refuseTask(fmt.Sprintf("%s failed: %s", method, c.link.cleanText(answered.Message)))
		}
		return nil, err
	}
	return unwrapResult(res.Meta), nil
}

// answerReport answers the questions of a task that requires input. asked reports that a person must
// answer first.
func (c *taskCall) answerReport(ctx context.Context, r *taskReport) (asked bool, err error) {
	round := r.removeAnswered(c.task)
	switch {
	case len(round.Requests) == 0:
		return false, nil
	case len(round.Requests) > maxQuestions:
		return false, c.refuseTask(fmt.Sprintf("the task asks %d questions at once, and the limit is %d", len(round.Requests), maxQuestions))
	case c.task.Rounds >= maxRounds:
		return false, c.refuseTask(fmt.Sprintf("the task asks again after %d rounds of answers, the limit", maxRounds))
	}
	complete, err := c.answerRound(ctx, round)
	return !complete, err
}

// answerRound answers the questions, and sends the answers. It returns false if a person must answer
// first: the task is then stored with the question.
func (c *taskCall) answerRound(ctx context.Context, round *inputRound) (complete bool, err error) {
	if complete, err = c.questions.answerRound(ctx, c.link, round); err != nil {
		return false, c.refuseReport(err)
	}
	if !complete {
		c.task.Asked = c.set.now().UnixMilli()
		return false, nil
	}
	if _, err = c.sendTaskRequest(ctx, updateTaskMethod, round.Responses); err != nil {
		return false, err
	}
	c.task.Answered = append(c.task.Answered, slices.Sorted(maps.Keys(round.Requests))...)
	c.task.Rounds++
	return true, c.storeTask(ctx)
}

// cancelTask asks the server to cancel the task, and does not wait for it.
func (c *taskCall) cancelTask(ctx context.Context) {
	if c.task == nil {
		return
	}
	l, release, err := c.set.acquireLink(context.WithoutCancel(ctx), c.call)
	if err != nil {
		return
	}
	canceler := *c
	canceler.link = l
	go func() {
		defer safe.Recover(func(p *safe.Panic) { p.Log(l.logger, "canceling an MCP task panicked") })
		defer release()
		ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), maxCancelTask)
		defer stop()
		if _, err := canceler.sendTaskRequest(ctx, cancelTaskMethod, nil); err != nil {
			l.logger.Warn("canceling an MCP task failed", "server", l.server.displayName(), "error", l.cleanText(strings.TrimSpace(stripURL(err))))
		}
	}()
}
