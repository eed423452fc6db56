package runtime

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/connection"
	"agenthost/pkg/model"
	"agenthost/wing/live"
)

// maxPartialBytes limits the partial contents of a turn.
const maxPartialBytes = 1 << 20

// receiveRequest handles the next request of the client. An invalid one is reported to the
// client and changes nothing.
func (a *liveAgent) receiveRequest(ctx context.Context) {
	request, closed := a.req.Requests.Next()
	a.limiter.recordActivity()
	if request == nil {
		a.closed = closed
		return
	}
	err := a.handleRequest(ctx, request)
	var invalid *RunError
	switch {
	case err == nil:
	case errors.As(err, &invalid) && (invalid.Code == CodeInvalidRequest || invalid.Code == CodeForbidden):
		a.reportInvalid(invalid)
	default:
		a.emitEvent(nil, err)
	}
}

// reportInvalid yields an error that does not end the run. It is not stored.
func (a *liveAgent) reportInvalid(err *RunError) {
	ev := a.inv.NewEvent()
	ev.Partial, ev.ErrorCode, ev.ErrorMessage = true, err.Code, err.Message
	a.emitEvent(ev, nil)
}

// handleRequest stores and sends a request: its state, then a close, an activity or a blob,
// then its content (adk-python flows/llm_flows/base_llm_flow.py _send_to_model).
func (a *liveAgent) handleRequest(ctx context.Context, r *live.Request) error {
	if err := a.app.CheckWriter(a.req.Writer, r.StateDelta); err != nil {
		return err
	}
	answers := model.ResponsesOf(r.Content)
	if slices.ContainsFunc(answers, isDecision) {
		return a.receiveDecision(ctx, r)
	}
	if len(answers) > 0 {
		if err := checkAnswers(newCallIndex(a.sess.Events()), answers); err != nil {
			return err
		}
	}
	out, err := live.Translate(r, a.traits)
	if err != nil {
		return invalidRequest("%s", err)
	}
	if a.partial += out.PartialBytes; a.partial > maxPartialBytes {
		a.partial -= out.PartialBytes
		return invalidRequest("the partial contents of the turn exceed the limit of 1 MiB: send a content that is not partial")
	}
	if r.Blob != nil && a.tools.streams.offerMedia(r.Blob) {
		out.Dropped = ""
	}
	if len(out.Responses) > 0 {
		// Unlike adk-python, so that no call stays open in the history.
		out.Content = &genai.Content{Role: genai.RoleUser, Parts: r.Content.Parts}
	}
	if out.Content != nil || len(out.StateDelta) > 0 {
		if err := a.storeLiveUserEvent(ctx, out.Content, maps.Clone(out.StateDelta)); err != nil {
			return err
		}
	}
	if out.Content != nil && len(out.Responses) == 0 {
		a.partial = 0
		a.storeInput(model.TextOf(out.Content))
	}
	for _, frame := range out.Frames {
		if a.recorder != nil && frame.ActivityStart {
			a.recorder.SkipInput()
		} else if a.recorder != nil {
			a.recorder.AddInput(frame.Blob, a.host.now())
		}
		a.turnOpen = a.turnOpen || frame.TurnComplete || frame.Text != "" || len(frame.Responses) > 0
		a.out.Push(frame, out.Content != nil && frame.Blob == nil, time.Now())
	}
	a.closed = a.closed || out.Close
	if out.Dropped != "" && !a.reportedMedia {
		a.reportedMedia = true // once: media comes in many chunks
		return invalidRequest("model %s accepts no %s: these blobs are dropped", a.modelName(), out.Dropped)
	}
	return nil
}

// receiveDecision handles the answer to a request for a confirmation, a credential or input:
// it is stored, and the call that waited for it runs.
func (a *liveAgent) receiveDecision(ctx context.Context, r *live.Request) error {
	events := a.sess.Events()
	index := newCallIndex(events)
	responses := model.ResponsesOf(r.Content)
	if len(responses) < len(r.Content.Parts) || slices.ContainsFunc(responses, func(f *genai.FunctionResponse) bool { return !isDecision(f) }) {
		return invalidRequest("a message that answers %s or %s must not contain anything else", RequestConfirmation, RequestCredential)
	}
	d := &decisions{credentials: map[string]any{}}
	for _, resp := range responses {
		if err := d.readResponse(index, resp); err != nil {
			return err
		}
	}
	if d.author != a.inv.node.agent.Name() {
		return invalidRequest("agent %s made the request, and agent %s holds the conversation now", d.author, a.inv.node.agent.Name())
	}
	for i := range d.consents {
		d.consents[i].Immediate = true // the conversation continues meanwhile
	}
	if err := a.host.finishConsents(ctx, d, connection.User{App: a.sess.App, UserID: a.sess.User}, a.sess.ID); err != nil {
		return err
	}
	content := d.withoutCodes(&genai.Content{Role: genai.RoleUser, Parts: r.Content.Parts})
	if err := a.storeLiveUserEvent(ctx, content, d.withCredentials(r.StateDelta)); err != nil {
		return err
	}
	b := &liveCalls{step: a.newCallStep()}
	b.step.decided = map[string]*decision{}
	for _, one := range d.open {
		b.calls = append(b.calls, one.call)
		b.step.decided[one.call.ID] = one
	}
	if len(b.calls) > 0 {
		a.startCalls(ctx, b)
	}
	return nil
}
