package a2aserver

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"strings"

	"agenthost/internal/a2apart"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/google/uuid"
	"google.golang.org/genai"

	"agenthost/internal/buffers"
	"agenthost/internal/safe"
	"agenthost/pkg/protocol"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/wing/a2aserver/a2adirect"
	"agenthost/wing/a2aserver/a2apush"
	"agenthost/wing/a2aserver/a2arpc"
)

var _ a2asrv.RequestHandler = (*handlers)(nil)

// Usual calls are answered without the SDK's transport, which reports the errors:
//
//	message           ──▶ the result as JSON
//	streamed message  ──▶ events; those that are there together leave together
//	error             ──▶ the transport, to which the door is rejected with the error

// answerCall answers a call.
func (d *door) answerCall(w http.ResponseWriter, r *http.Request, c *a2adirect.Call, body []byte) error {
	if c.Streams {
		return d.streamCall(w, r, c, body)
	}
	var result a2a.SendMessageResult
	d.rejected = d.callSafely(func() (err error) { result, err = d.sendMessage(r.Context(), c.Request); return err })
	if d.rejected != nil {
		return d.serveTransport(protocol.NewFrameWriter(w), r, body)
	}
	buffer := buffers.Take()
	defer buffers.Return(buffer)
	text, err := c.AppendResponse(*buffer, result)
	if err != nil {
		return err
	}
	*buffer = append(text, '\n')
	server.WriteRawJSON(protocol.NewFrameWriter(w), http.StatusOK, *buffer)
	return nil
}

// callSafely returns a call's error, which is an internal one after a panic.
func (d *door) callSafely(run func() error) (err error) {
	if caught := safe.Call(func() { err = run() }); caught != nil {
		caught.Log(d.h.Logger(), "handling an A2A request panicked")
		return a2a.ErrInternalError
	}
	return err
}

// streamCall streams a call's events. An error is the last one.
func (d *door) streamCall(w http.ResponseWriter, r *http.Request, c *a2adirect.Call, body []byte) error {
	s, out := c.NewStream(d.h.Services, w)
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer out.StartKeepAlive(stop)()
	d.rejected = d.callSafely(func() error { return d.streamMessage(ctx, c.Request, eventWriter{s.WriteEvent, s.Flush}) })
	if d.rejected == nil {
		d.rejected = s.Err
	}
	if d.rejected != nil && ctx.Err() == nil {
		if err := d.serveTransport(s.NewErrorWriter(), r, body); err != nil {
			return err
		}
	}
	s.Flush(true)
	return nil
}

// A sent message begins a task, or answers one.
type sent struct {
	// id has no invocation for a new task.
	id      task.ID
	content *genai.Content
	// creates is set for a new session.
	creates  bool
	metadata map[string]any
	// repeats is the state of the task that the message does not answer: it is the result.
	repeats *task.State
	// answered is the task before the answer.
	answered *task.State
	// push is where the client receives notifications of the task; nil for no notifications.
	push *a2apush.Config
}

// readMessage reads a message, and finds its task.
func (d *door) readMessage(ctx context.Context, req *a2a.SendMessageRequest) (*sent, error) {
	m := req.Message
	switch {
	case d.rejected != nil:
		return nil, d.rejected
	case m == nil:
		return nil, newInvalid("message is required")
	case m.ID == "" || len(m.ID) > maxID:
		return nil, newInvalid("message.messageId must have 1 to %d bytes", maxID)
	case m.Role != a2a.MessageRoleUser:
		return nil, newInvalid("message.role must be ROLE_USER (user in 0.3)")
	case req.Config != nil && req.Config.HistoryLength != nil && *req.Config.HistoryLength < 0:
		return nil, newInvalid("configuration.historyLength must be at least 0")
	}
	parts, err := readParts(m)
	if err != nil {
		return nil, err
	}
	s := &sent{content: &genai.Content{Role: genai.RoleUser, Parts: parts}}
	if req.Config != nil && req.Config.PushConfig != nil {
		if s.push, err = d.readPushConfig(req.Config.PushConfig); err != nil {
			return nil, err
		}
	}
	if len(req.Metadata) > 0 {
		text, err := server.EncodeJSON(req.Metadata)
		if err != nil || len(text) > maxMetadata {
			return nil, newInvalid("metadata exceeds the limit of %d bytes", maxMetadata)
		}
		s.metadata = map[string]any{"a2a_metadata": req.Metadata}
	}
	if m.TaskID != "" {
		return s, d.readAnswer(ctx, m, s)
	}
	s.id.Key, s.creates = session.Key{App: d.app.Name(), User: d.user, ID: m.ContextID}, true
	if m.ContextID == "" {
		s.id.Key.ID = "a2a-" + uuid.NewString()
	}
	if slices.ContainsFunc(parts, func(p *genai.Part) bool { return p.FunctionResponse != nil }) {
		return nil, newInvalid("message.taskId is required for the response to a call")
	}
	return s, nil
}

// readAnswer finds the task that a message continues. One that does not answer its questions is not run:
// the task's state repeats them.
func (d *door) readAnswer(ctx context.Context, m *a2a.Message, s *sent) error {
	id, err := d.readID(m.TaskID)
	if err != nil {
		return err
	}
	if m.ContextID != "" && m.ContextID != id.Key.ID {
		return newInvalid("message.contextId is not that of the task")
	}
	t, err := d.h.tasks.Find(ctx, id) // not Read: the lease of the run that asks may be idle on another replica
	if err != nil {
		return d.describeError(err)
	}
	if len(t.Pending) == 0 || t.IsCanceled() {
		return a2a.NewError(a2a.ErrUnsupportedOperation, "the task does not wait for a message: send it without taskId to begin another one")
	}
	found := &task.State{Turn: t, Status: task.Waiting}
	s.id, s.answered = id, found
	responses := 0
	for _, p := range s.content.Parts {
		if p.FunctionResponse == nil {
			continue
		}
		responses++
		at := slices.IndexFunc(found.Pending, func(open task.PendingCall) bool { return open.Call.ID == p.FunctionResponse.ID })
		if at < 0 {
			return newInvalid("the call %q is not open in the task", protocol.TruncateText(p.FunctionResponse.ID, maxName))
		}
		p.FunctionResponse.Name = found.Pending[at].Call.Name
	}
	switch {
	case responses == len(s.content.Parts):
		return nil
	case responses > 0:
		return newInvalid("a message has responses to calls, or other parts, and not both")
	}
	return d.readWords(ctx, m, s)
}

// readWords makes text, or data, the response to the first question.
func (d *door) readWords(ctx context.Context, m *a2a.Message, s *sent) error {
	var q *protocol.Question
	for _, open := range s.answered.Pending {
		if q = protocol.NewQuestion(open.Call); q != nil {
			break
		}
	}
	var words []string
	for i, p := range s.content.Parts {
		if value := m.Parts[i].Data(); value != nil {
			text, err := server.EncodeJSON(value)
			if err != nil {
				return newInvalid("message.parts[%d].data: %s", i, err)
			}
			words = append(words, string(text))
		} else if p.Text != "" {
			words = append(words, p.Text)
		}
	}
	if q == nil {
		s.repeats = s.answered
		return nil
	}
	response, err := q.ReadAnswer(ctx, strings.Join(words, "\n"))
	if errors.Is(err, protocol.ErrNotAnAnswer) {
		s.repeats = s.answered
		return nil
	}
	s.content.Parts = []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: q.Call.ID, Name: q.Call.Name, Response: response}}}
	return err
}

// A turn is a run that a message has started.
type turn struct {
	id  task.ID
	run *task.Run
}

// startTurn starts a message's run, and returns once the message is stored.
func (d *door) startTurn(ctx context.Context, s *sent, f *feed) (*turn, error) {
	t := &turn{id: s.id}
	if s.answered != nil && s.push != nil { // before the answer counts, because the task may have too many
		if err := d.storePushConfig(ctx, s.id, s.push); err != nil {
			return nil, err
		}
		s.push = nil
	}
	end := d.newTurnEnd()
	run, err := d.h.tasks.Start(ctx, task.ID{Key: s.id.Key}, func(ctx context.Context, started func(string)) error {
		defer f.closeQueues()
		id := s.id
		defer func() { d.h.removeFeed(id, f) }()
		return d.runTurn(ctx, s, end, f, func(invocation string) {
			id.Invocation = cmp.Or(id.Invocation, invocation)
			end.setTask(id)
			d.h.addFeed(id, f)
			started(id.Invocation)
		})
	})
	if err != nil {
		return nil, d.describeError(err)
	}
	end.setRun(run)
	t.run = run
	if t.id.Invocation = run.WaitForStart(ctx); t.id.Invocation != "" {
		return t, d.addPushConfig(ctx, t.id, s.push, run)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return nil, d.describeError(cmp.Or(run.Err(), task.ErrPanicked))
}

// runTurn runs a turn to its end.
func (d *door) runTurn(ctx context.Context, s *sent, end *turnEnd, f *feed, onStart func(string)) error {
	inner, leave, err := d.h.StartRun(ctx, s.id.Key.App, s.id.Key.User, true)
	if err != nil {
		return err
	}
	defer leave()
	defer end.notifyClients()
	streaming := true
	return protocol.Run(inner, d.h.Services, &runtime.RunRequest{
		App: s.id.Key.App, UserID: s.id.Key.User, SessionID: s.id.Key.ID, Message: s.content, Agent: d.agent, CreateSession: s.creates,
		Streaming: &streaming, Writer: session.WriterClient, Protocol: protocolName, CustomMetadata: s.metadata, OnStart: onStart,
	}, func(ev *session.Event) error {
		f.publishEvent(ev)
		return nil
	})
}

// readTask returns a task's state. An interrupted run is resumed.
func (d *door) readTask(ctx context.Context, id task.ID) (*task.State, error) {
	return d.h.tasks.Read(ctx, id, func() (*task.Run, error) {
		end := d.newTurnEnd()
		end.setTask(id)
		run, err := d.h.tasks.Start(ctx, id, func(ctx context.Context, started func(string)) error {
			inner, leave, err := d.h.StartRun(ctx, id.Key.App, id.Key.User, true)
			if err != nil {
				return err
			}
			defer leave()
			defer end.notifyClients()
			return protocol.Run(inner, d.h.Services, &runtime.RunRequest{
				App: id.Key.App, UserID: id.Key.User, SessionID: id.Key.ID, InvocationID: id.Invocation, Writer: session.WriterClient, Protocol: protocolName, OnStart: started,
			}, func(*session.Event) error { return nil })
		})
		end.setRun(run)
		return run, err
	})
}

// describeError returns an error for the client; an internal one's cause is in the log.
func (d *door) describeError(err error) error {
	own := (*a2a.Error)(nil)
	switch {
	case err == nil || errors.As(err, &own):
		return err
	case errors.Is(err, task.ErrUnknown):
		return a2a.ErrTaskNotFound
	case errors.Is(err, task.ErrNotLast):
		return a2a.NewError(a2a.ErrTaskNotCancelable, err.Error())
	case errors.Is(err, task.ErrTooMany):
		return a2arpc.NewBusyError(http.StatusTooManyRequests, err.Error())
	case d.r.Context().Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return err
	}
	failed := d.h.LogError(d.r, err)
	switch {
	case failed.Status == http.StatusNotFound:
		return a2a.ErrTaskNotFound
	case failed.Status == http.StatusTooManyRequests || failed.Status == http.StatusServiceUnavailable || failed.Status == http.StatusConflict:
		return a2arpc.NewBusyError(failed.Status, failed.Detail)
	case failed.Status < http.StatusInternalServerError && failed.Detail != "":
		return a2a.NewError(a2a.ErrInvalidParams, failed.Detail)
	case failed.Status < http.StatusInternalServerError:
		return a2a.NewError(a2a.ErrInvalidParams, err.Error())
	}
	return a2a.ErrInternalError
}

func (d *door) newView(id task.ID) *taskView {
	v := newTaskView(id)
	v.isADK, v.saved = d.isADK, &d.saved
	return v
}

// SendMessage implements [a2asrv.RequestHandler]. It waits for the turn's end, unless the client takes the
// task at once; a client that leaves does not end the turn.
func (h *handlers) SendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	return doorOf(ctx).sendMessage(ctx, req)
}

func (d *door) sendMessage(ctx context.Context, req *a2a.SendMessageRequest) (a2a.SendMessageResult, error) {
	s, err := d.readMessage(ctx, req)
	if err != nil {
		return nil, err
	}
	config := cmp.Or(req.Config, &a2a.SendMessageConfig{})
	if s.repeats != nil {
		if err := d.addPushConfig(ctx, s.id, s.push, nil); err != nil {
			return nil, err
		}
		return d.newView(s.id).describeTask(ctx, s.repeats, config.HistoryLength, true), nil
	}
	t, err := d.startTurn(ctx, s, &feed{})
	if err != nil {
		return nil, err
	}
	if !config.ReturnImmediately {
		select {
		case <-t.run.Ended():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	found, err := d.readTask(ctx, t.id)
	if err != nil {
		return nil, d.describeError(err)
	}
	if err := t.findError(found); err != nil {
		return nil, d.describeError(err)
	}
	if m := d.newDirectMessage(t.id, found); m != nil {
		return m, nil
	}
	return d.newView(t.id).describeTask(ctx, found, config.HistoryLength, true), nil
}

// findError returns the error of a run that has ended and whose reason the task's state does not have: the
// store was not available, or another run took the session.
func (t *turn) findError(s *task.State) error {
	select {
	case <-t.run.Ended():
	default:
		return nil
	}
	if s.Status == task.Failed || s.Status == task.Canceled || s.Events[len(s.Events)-1].ErrorCode != "" {
		return nil
	}
	return t.run.Err()
}

// newDirectMessage returns a turn's answer as a message, if the app has direct_messages and the turn has completed;
// else nil.
func (d *door) newDirectMessage(id task.ID, s *task.State) *a2a.Message {
	if !d.settings.answersByDirectMessages || s.Status != task.Completed || s.Events[len(s.Events)-1].ErrorCode != "" {
		return nil
	}
	for _, ev := range slices.Backward(s.Answer()) { // a checkpoint may follow the answer
		parts := a2apart.BuildParts(ev.Content, d.isADK, nil)
		if ev.IsPlainResult() {
			parts = a2a.ContentParts{a2a.NewTextPart(ev.ResultText())}
		}
		if len(parts) > 0 {
			m := a2a.NewMessage(a2a.MessageRoleAgent, parts...)
			m.ID, m.ContextID = ev.ID, id.Key.ID
			return m
		}
	}
	return nil
}

// SendStreamingMessage implements [a2asrv.RequestHandler].
func (h *handlers) SendStreamingMessage(ctx context.Context, req *a2a.SendMessageRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		d := doorOf(ctx)
		if err := d.streamMessage(ctx, req, eventWriter{yield: yield}); err != nil {
			yield(nil, err)
		}
	}
}

func (d *door) streamMessage(ctx context.Context, req *a2a.SendMessageRequest, w eventWriter) error {
	s, err := d.readMessage(ctx, req)
	if err != nil {
		return err
	}
	config := cmp.Or(req.Config, &a2a.SendMessageConfig{})
	if s.repeats != nil {
		if err := d.addPushConfig(ctx, s.id, s.push, nil); err != nil {
			return err
		}
		w.yield(d.newView(s.id).describeTask(ctx, s.repeats, config.HistoryLength, true), nil)
		return nil
	}
	release, err := d.h.openStream(d.user)
	if err != nil {
		return err
	}
	defer release()
	f := &feed{}
	q := f.addFollower()
	defer f.removeFollower(q)
	t, err := d.startTurn(ctx, s, f)
	if err != nil {
		return err
	}
	if d.settings.answersByDirectMessages {
		return d.streamDirectMessage(ctx, t, w.yield)
	}
	out := d.newFollower(t.id, w)
	begun := &task.State{Turn: &task.Turn{}}
	if s.answered != nil {
		begun.Turn = s.answered.Turn // it works again
	} else if m, err := d.h.tasks.FindMessage(ctx, t.id); err != nil {
		return d.describeError(err)
	} else {
		begun.Turn.Events = []*session.Event{m}
	}
	out.skipEvents(begun.Events)
	first := out.view.describeTask(ctx, begun, config.HistoryLength, s.answered != nil)
	if s.answered == nil {
		first.Status.State = a2a.TaskStateSubmitted
	}
	if w.yield(first, nil) && (s.answered != nil || out.sendStatus(out.view.describeStatus(begun))) {
		out.followQueue(ctx, q)
	}
	return nil
}

// streamDirectMessage sends a turn's answer once it has ended: a message has no chunks.
func (d *door) streamDirectMessage(ctx context.Context, t *turn, yield func(a2a.Event, error) bool) error {
	select {
	case <-t.run.Ended():
	case <-ctx.Done():
		return ctx.Err()
	}
	found, err := d.readTask(ctx, t.id)
	if err != nil {
		return d.describeError(err)
	}
	if m := d.newDirectMessage(t.id, found); m != nil {
		yield(m, nil)
		return nil
	}
	yield(d.newView(t.id).describeTask(ctx, found, nil, true), nil)
	return nil
}

// SubscribeToTask implements [a2asrv.RequestHandler].
func (h *handlers) SubscribeToTask(ctx context.Context, req *a2a.SubscribeToTaskRequest) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if err := doorOf(ctx).followTask(ctx, req.ID, yield); err != nil {
			yield(nil, err)
		}
	}
}

func (d *door) followTask(ctx context.Context, taskID a2a.TaskID, yield func(a2a.Event, error) bool) error {
	if d.rejected != nil {
		return d.rejected
	}
	id, err := d.readID(taskID)
	if err != nil {
		return err
	}
	release, err := d.h.openStream(d.user)
	if err != nil {
		return err
	}
	defer release()
	var q *queue
	if f := d.h.findFeed(id); f != nil { // before the state is read: what follows it is in the queue
		q = f.addFollower()
		defer f.removeFollower(q)
	}
	found, err := d.readTask(ctx, id)
	if err != nil {
		return d.describeError(err)
	}
	out := d.newFollower(id, eventWriter{yield: yield})
	first := out.view.describeTask(ctx, found, nil, true)
	if first.Status.State.Terminal() {
		return a2a.NewError(a2a.ErrUnsupportedOperation, "the task has ended")
	}
	out.skipEvents(found.Events)
	switch {
	case !yield(first, nil) || found.Status != task.Working:
	case q != nil:
		out.followQueue(ctx, q)
	default:
		out.followStore(ctx)
	}
	return nil
}

// GetTask implements [a2asrv.RequestHandler].
func (h *handlers) GetTask(ctx context.Context, req *a2a.GetTaskRequest) (*a2a.Task, error) {
	d := doorOf(ctx)
	if d.rejected != nil {
		return nil, d.rejected
	}
	if req.HistoryLength != nil && *req.HistoryLength < 0 {
		return nil, newInvalid("historyLength must be at least 0")
	}
	id, err := d.readID(req.ID)
	if err != nil {
		return nil, err
	}
	found, err := d.readTask(ctx, id)
	if err != nil {
		return nil, d.describeError(err)
	}
	return d.newView(id).describeTask(ctx, found, req.HistoryLength, true), nil
}

// CancelTask implements [a2asrv.RequestHandler].
func (h *handlers) CancelTask(ctx context.Context, req *a2a.CancelTaskRequest) (*a2a.Task, error) {
	d := doorOf(ctx)
	if d.rejected != nil {
		return nil, d.rejected
	}
	id, err := d.readID(req.ID)
	if err != nil {
		return nil, err
	}
	found, err := d.readTask(ctx, id)
	if err != nil {
		return nil, d.describeError(err)
	}
	if found.Status != task.Working && found.Status != task.Waiting {
		return nil, a2a.ErrTaskNotCancelable
	}
	if err := h.tasks.Cancel(ctx, id, "The client canceled the task."); err != nil {
		return nil, d.describeError(err)
	}
	h.startNotifying(id, nil)
	if found, err = d.readTask(ctx, id); err != nil {
		return nil, d.describeError(err)
	}
	return d.newView(id).describeTask(ctx, found, nil, true), nil
}
