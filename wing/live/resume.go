package live

import (
	"context"
	"slices"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// LatestHandle is the session_resumption.handle value that resumes the session's newest
// conversation with the agent, if one is young enough.
const LatestHandle = "latest"

// maxHandleAge is how long after it was issued a handle is resumed: as long as the Gemini API keeps
// it after a conversation ends.
const maxHandleAge = 2 * time.Hour

// openFirst begins the agent's first conversation, or resumes an earlier run's. An agent that was
// transferred to begins a new one, and speaks first.
func (a *liveAgent) openFirst(ctx context.Context) {
	handle, at := "", -1
	if !a.Continues {
		handle, at = a.findHandle()
	}
	if at < 0 && handle != "" && a.isForeignHandle(handle) {
		a.Fail(invalidRequest("the session_resumption handle does not belong to agent %s in this session", a.Agent().Name()))
		return
	}
	if handle == "" {
		a.connectFresh(ctx, a.Continues)
		return
	}
	if _, err := a.buildSetup(ctx); err != nil {
		a.Fail(err)
		return
	}
	if a.answer != nil {
		a.CommitAnswer(ctx, a.NewAnswer(a.answer))
		return
	}
	a.handle = handle
	a.out.Restart(a.traits.CanReplay, time.Now())
	a.resendStored(at)
	a.attempt = liveAttempt{handle: handle}
	a.openConn(ctx)
}

// isForeignHandle reports whether a client sent a handle that is not in the session. The model's
// service resumes a conversation for everyone with the host's key and the handle: a client with
// another user's handle would continue that user's conversation.
func (a *liveAgent) isForeignHandle(handle string) bool {
	if a.req.Config == nil || a.req.Writer != session.WriterClient {
		return false
	}
	own := a.App().Config().SessionResumption
	return own == nil || own.Handle != handle
}

// findHandle returns run_config's handle and the index of the event that has it, or -1.
func (a *liveAgent) findHandle() (handle string, at int) {
	c := a.config.SessionResumption
	if c == nil || c.Handle == "" {
		return "", -1
	}
	events := a.Session().Events()
	for i, ev := range slices.Backward(events) {
		r := ev.Resumption
		if r == nil || r.NewHandle == "" || ev.Provenance.Imported || ev.Author != a.Agent().Name() {
			continue
		}
		switch {
		case r.NewHandle == c.Handle:
			return c.Handle, i
		case c.Handle != LatestHandle:
		case a.ReadClock().Sub(ev.Timestamp) > maxHandleAge:
			return "", -1
		default:
			return r.NewHandle, i
		}
	}
	if c.Handle == LatestHandle {
		return "", -1
	}
	return c.Handle, -1
}

// resendStored sends what the session has stored, the model has not answered, and the handle's
// state lacks: the user's texts, and responses to calls that the model made before. A state has
// what the model has answered: text that was stored before its handle may be missing as well.
func (a *liveAgent) resendStored(at int) {
	if at < 0 {
		return
	}
	events := a.Session().Events()
	runs := map[string]bool{} // live ones
	for _, ev := range events {
		if ev.LiveSessionID != "" || ev.Resumption != nil || ev.OutputTranscription != nil {
			runs[ev.InvocationID] = true
		}
	}
	u := &unansweredInput{made: callsOfState(events[:at+1]), open: map[string]bool{}}
	for i, ev := range events {
		if i > at || runs[ev.InvocationID] {
			u.addEvent(ev, a.traits)
		}
	}
	for _, c := range u.calls {
		a.made[c.call.ID] = madeCall{call: c.call}
		a.earlier[c.call.ID] = c
	}
	for _, frame := range u.frames {
		a.turnOpen = true
		a.out.Push(frame, true, time.Now())
	}
}

// callsOfState returns the calls in the state of a handle, which is the last event: calls on
// connections that had a handle after them. A connection that ended earlier is not part of any
// state.
func callsOfState(events []*session.Event) map[string]bool {
	made, connections := map[string]bool{}, map[string]bool{}
	for _, ev := range slices.Backward(events) {
		if ev.Resumption != nil && ev.Resumption.NewHandle != "" {
			connections[ev.LiveSessionID] = true
		}
		for _, c := range ev.Calls() {
			made[c.ID] = connections[ev.LiveSessionID]
		}
	}
	return made
}

// unansweredInput collects what the model has not answered.
type unansweredInput struct {
	frames []*model.LiveFrame
	// settled are the last answer's frames, which are open again if it was a call.
	settled []*model.LiveFrame
	// made are the calls that the model's state has; calls are the others, which the model may
	// repeat.
	made  map[string]bool
	calls []*earlierCall
	// open are the calls without a response; called reports that the turn's end does not end the
	// answer, because there were calls.
	open   map[string]bool
	called bool
}

func (u *unansweredInput) addEvent(ev *session.Event, traits model.LiveTraits) {
	for _, c := range ev.Calls() {
		u.open[c.ID], u.called = true, true
		if !u.made[c.ID] && ev.Author != session.UserAuthor && !ev.Provenance.Imported {
			u.calls = append(u.calls, &earlierCall{call: c, invocation: ev.InvocationID})
		}
		if len(u.frames) == 0 {
			u.frames, u.settled = u.settled, nil
		}
	}
	switch {
	case len(ev.Responses()) > 0:
		u.addResponses(ev.Responses())
	case ev.Author == session.UserAuthor && ev.Content != nil:
		u.settled = nil
		if out, err := Translate(&Request{Content: ev.Content}, traits); err == nil {
			u.frames = append(u.frames, out.Frames...)
		}
	case !completesAnswer(ev) || len(u.open) > 0:
	case ev.TurnComplete && u.called:
		u.called = false
	case len(u.frames) > 0:
		u.frames, u.settled, u.called, u.calls = nil, u.frames, false, nil
	}
}

// addResponses adds responses. The model accepts only those to calls that it has made.
func (u *unansweredInput) addResponses(responses []*genai.FunctionResponse) {
	var accepted []*genai.FunctionResponse
	for _, r := range responses {
		delete(u.open, r.ID)
		if u.made[r.ID] {
			accepted = append(accepted, r)
		}
		for _, c := range u.calls {
			if c.call.ID == r.ID {
				c.response = r
			}
		}
	}
	if len(accepted) > 0 {
		u.frames = append(u.frames, &model.LiveFrame{Responses: accepted})
	}
}

// completesAnswer reports whether an event completes the model's answer: a turn's end, or its whole
// text, after which the connection may have ended.
func completesAnswer(ev *session.Event) bool {
	if ev.TurnComplete {
		return true
	}
	if ev.Author == session.UserAuthor || ev.Partial || ev.Interrupted {
		return false
	}
	return ev.OutputTranscription != nil || len(ev.Calls()) == 0 && model.TextOf(ev.Content) != ""
}

// An earlierCall is a call from another of the session's runs. The model may repeat it because the
// resumed state does not have it.
type earlierCall struct {
	call       *genai.FunctionCall
	invocation string
	// response is nil if no run has stored one.
	response *genai.FunctionResponse
}

// repeatCall handles a call that was made before. It returns true if the tool must run, with the
// first attempt's idempotency key, because no run has stored a response.
func (a *liveAgent) repeatCall(c *genai.FunctionCall) bool {
	e := a.earlier[c.ID]
	if e == nil {
		return false // its response is on the way
	}
	a.made[c.ID] = madeCall{c, a.connections, a.conversation}
	if e.response == nil {
		return true
	}
	delete(a.earlier, c.ID)
	a.turnOpen = true
	a.out.Push(&model.LiveFrame{Responses: []*genai.FunctionResponse{e.response}}, true, time.Now())
	return false
}
