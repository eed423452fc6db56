package runtime

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
	"agenthost/wing/live"
)

// A LiveRequest describes one live run.
type LiveRequest struct {
	App, UserID, SessionID string
	// Requests are the requests of the client. The run ends when the queue is closed and
	// empty.
	Requests *live.Queue
	// Writer is the author of state deltas; the zero value is a client.
	Writer session.Writer
	// CustomMetadata is added to every event.
	CustomMetadata map[string]any
	// Config replaces the config of the app; nil uses the app's.
	Config *RunConfig
	// CreateSession creates the session when it does not exist.
	CreateSession bool
	// Drain, when it is closed, ends the run after the current turn. Nil never does.
	Drain <-chan struct{}
}

// liveSessionWait is how long a live run waits for another run of its session: long enough
// for a client that reconnects, whose former run is about to end.
const liveSessionWait = 2 * time.Second

// Live runs a live conversation: the client and the model send whenever they like. It has one
// invocation, and holds the session until it ends, so that another run of the session fails
// with [CodeSessionBusy]. Events are yielded as by [Host.Run]: stored first, except for
// partial events and for audio, video and images of the model, which are not stored. The
// client's texts are stored and not yielded.
//
// The run ends when the client closes the queue or sends a close, when the agent has ended,
// when Drain is closed and the current turn is over, or with an error. A request of the
// client that is invalid is answered by a partial event with an error code, and the run
// continues.
//
// The model is connected again when a connection ends and run_config has session_resumption;
// see [live.IsRecoverable] and [live.Reconnects]. Rules: adk-python runners.py run_live;
// docs/live.md lists the differences.
func (h *Host) Live(ctx context.Context, req *LiveRequest) Events {
	return func(yield func(*session.Event, error) bool) {
		ctx, span := h.beginRunSpan(ctx, req.App, req.SessionID)
		guarded := panicGuard[*session.Event]{yield: span.recordErrors(yield)}
		guarded.onPanic = func(_ *Invocation, p *safe.Panic) error { return h.runPanicked(req.asRunRequest(), p) }
		defer guarded.recoverPanic()
		defer span.endSpan()
		yield = guarded.forwardValue
		app, err := h.acquireApp(req.App)
		if err != nil {
			yield(nil, err)
			return
		}
		defer app.refs.release()
		if err := req.validateRequest(h); err != nil {
			yield(nil, err)
			return
		}
		wait := min(h.wait, liveSessionWait)
		ctx, sess, free, err := h.acquireSession(ctx, app, req.asRunRequest(), wait)
		if err != nil {
			yield(nil, err)
			return
		}
		defer free()
		span.recordSessionWait()
		h.runLive(ctx, app, sess, req, reportingStoreCause(ctx, sess.Key, yield))
	}
}

func (req *LiveRequest) validateRequest(h *Host) error {
	if req.Requests == nil {
		return invalidRequest("a live run requires a queue of requests")
	}
	return req.asRunRequest().validateConfig(h)
}

// asRunRequest returns the settings that live runs share with other runs.
func (req *LiveRequest) asRunRequest() *RunRequest {
	return &RunRequest{
		App: req.App, UserID: req.UserID, SessionID: req.SessionID, Writer: req.Writer,
		CustomMetadata: req.CustomMetadata, Config: req.Config, CreateSession: req.CreateSession,
	}
}

// A liveRun is what the agents of a live run share.
type liveRun struct {
	*run
	req *LiveRequest
	// out survives connections and transfers.
	out        *live.Outbox
	reconnects live.Reconnects
	limiter    *liveLimiter
	// recorder is nil if run_config does not save audio.
	recorder *live.Recorder
	// draining reports that the run ends after the current turn; closed that the client
	// has ended it.
	draining, closed bool
	// input is read by tools while the loop replaces it.
	input atomic.Pointer[liveInput]
	// reportedMedia reports that the client was notified of dropped blobs.
	reportedMedia bool
	// transferred reports that the next agent continues the conversation of another one.
	transferred bool
	// partial is the size of the partial contents of the turn.
	partial int
	// connections counts the connections of the run, and dropped the media that was reported
	// as dropped.
	connections, dropped int
}

// runLive runs the agent that continues the session, on the app's revision for the session,
// which it holds until the end.
func (h *Host) runLive(ctx context.Context, app *App, sess *session.Session, req *LiveRequest, yield func(*session.Event, error) bool) {
	runReq := req.asRunRequest()
	app, err := h.acquireRevision(ctx, app, sess, runReq)
	if err != nil {
		yield(nil, err)
		return
	}
	defer app.refs.release()
	r := h.newRun(app, sess, runReq)
	if problem := r.config.checkModality(); problem != "" {
		yield(nil, invalidRequest("%s", problem))
		return
	}
	r.user = &genai.Content{Role: genai.RoleUser}
	r.commit = func(ctx context.Context, ev *session.Event) error {
		return h.store.Sessions.Append(ctx, sess, ev)
	}
	r.live = &liveRun{run: r, req: req, out: live.NewOutbox(), limiter: newLiveLimiter(r.config.Live)}
	defer r.live.limiter.stopTimer()
	if r.config.SaveLiveBlob || r.config.SaveLiveAudio {
		r.live.recorder = &live.Recorder{}
	}
	r.live.reconnects.Random = rand.Float64
	r.live.input.Store(&liveInput{turn: countTurns(sess.History), expressions: r.expressions})
	r.identifySpans(ctx)
	r.runWithPlugins(ctx, r.newTurnInvocation(), yield)
}

// runLiveBody runs an agent of a live run, without its callbacks. Only LLM agents, and
// sequences of them, can hold a live conversation.
func (inv *Invocation) runLiveBody(ctx context.Context, yield func(*session.Event, error) bool) bool {
	switch a := inv.node.agent.(type) {
	case *LLMAgent:
		return inv.runLiveAgent(ctx, a, yield)
	case *SequentialAgent:
		return inv.runLiveSequence(ctx, a, yield)
	}
	yield(nil, failf(CodeLiveUnsupported, nil, "agent %s cannot hold a live conversation: only LlmAgent and SequentialAgent can", inv.node.agent.Name()))
	return false
}

// runLiveSequence runs the agents of a sequence one after the other. Each ends when its
// model calls task_completed.
func (inv *Invocation) runLiveSequence(ctx context.Context, a *SequentialAgent, yield func(*session.Event, error) bool) bool {
	for i := range a.Children {
		if inv.run.live.isOver() {
			return true
		}
		if !inv.childInvocation(i, 1).runAgent(ctx, yield) {
			return false
		}
		inv.run.live.transferred = true
	}
	return true
}

// A liveInput is the latest text or transcript of the user, its number in the session, and
// the budget of the expressions until the next one.
type liveInput struct {
	text        string
	turn        int
	expressions *template.Budget
}

func (l *liveRun) storeInput(text string) {
	l.input.Store(&liveInput{text, l.input.Load().turn + 1, l.host.newExpressionBudget()})
}

// expressionBudget returns the budget that all expressions of the turn share.
func (r *run) expressionBudget() *template.Budget {
	if r.live != nil {
		return r.live.input.Load().expressions
	}
	return r.expressions
}

// latestText returns the text of the user's message; in a live run, of the latest one.
func (r *run) latestText() string {
	if r.live != nil {
		return r.live.input.Load().text
	}
	return r.userText
}

// latestTurn returns the number of user messages of the session.
func (r *run) latestTurn() int {
	if r.live != nil {
		return r.live.input.Load().turn
	}
	return r.turn
}

// isOver reports whether no other agent may start.
func (l *liveRun) isOver() bool { return l.closed || l.draining }

// holdsLiveMedia reports whether an event has audio, video or an image of the model, which is
// yielded and not stored (adk-python runners.py _is_live_model_audio_event_with_inline_data).
func holdsLiveMedia(ev *session.Event) bool {
	if ev.Author == session.UserAuthor || ev.Content == nil {
		return false
	}
	for _, p := range ev.Content.Parts {
		if p.InlineData != nil {
			return true
		}
	}
	return false
}

// storeLiveUserEvent stores an event of the client. It is not yielded, and no plugin sees it.
func (l *liveRun) storeLiveUserEvent(ctx context.Context, content *genai.Content, delta map[string]any) error {
	ev := &session.Event{
		ID: l.host.newID(), InvocationID: l.id, Author: session.UserAuthor, Timestamp: l.host.now(),
	}
	ev.Content, ev.Actions.StateDelta = content, delta
	ev.Provenance.Revision = l.app.revision
	if err := l.commit(ctx, ev); err != nil {
		return storeFailure(l.sess.Key, err)
	}
	return nil
}

// errLiveEnded is the cause of tool calls that the end of a live run cancels.
var errLiveEnded = errors.New("the live run has ended")
