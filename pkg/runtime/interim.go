package runtime

import (
	"context"
	"errors"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/tool"
)

// A call that takes long stores what it needs to continue, before it continues:
//
//	call ──▶ interim response (willContinue) ──▶ … ──▶ response, in the event with all results
//	                     │                       ✗
//	                     └──▶ the resumed invocation makes the call again, with [tool.Call.Interim]
//
// The interim response is an event like a sub-agent's: the goroutine of the run yields it, and the
// call waits until it is stored. A model sees the last response to a call.

// isInterim reports whether a tool stored a response during its call, so that the call has no result
// yet. The user's interim answers to long-running calls are others.
func isInterim(r indexedResponse) bool {
	return r.event.Author != session.UserAuthor && model.IsInterim(r.response)
}

// storesInterim reports whether a call may store interim responses.
func (inv *Invocation) storesInterim(c *genai.FunctionCall) bool {
	t := inv.activeToolbox().byName[c.Name]
	return t != nil && tool.CapabilitiesOf(t).StoresInterim
}

// setInterim sets what a call needs to store interim responses, and the one that an interrupted
// attempt has stored.
func (s *callRunner) setInterim(call *tool.Call, t tool.Tool) {
	if s.delegated == nil || s.inv.run.inner || !tool.CapabilitiesOf(t).StoresInterim {
		return
	}
	call.Interim, call.IsAbandoned = s.findInterim(call.ID), s.isAbandoned
	out, name, id := s.delegated, call.Name, call.ID
	call.StoreInterim = func(ctx context.Context, response map[string]any) error {
		var a callResult
		a.setResponse(&genai.FunctionCall{ID: id, Name: name}, response)
		willContinue := true
		a.part.FunctionResponse.WillContinue = &willContinue
		ev := s.inv.NewEvent()
		ev.Content = &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{a.part}}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if !(&eventHandoff{out: out}).sendEvent(ev, nil) {
			return context.Canceled
		}
		return nil
	}
}

// findInterim returns the interim response to a call that has no result, or nil.
func (s *callRunner) findInterim(id string) map[string]any {
	x := s.inv.run.calls
	site, found := x.findLastCall(id)
	if !found {
		return nil
	}
	for _, r := range slices.Backward(x.findResponses(id)) {
		switch {
		case r.at < site.at:
			return nil
		case isCallFailure(r.event): // the run has ended, and makes the call again
		case !isInterim(r):
			return nil
		default:
			return r.response.Response
		}
	}
	return nil
}

// isAbandoned reports whether no one will resume the invocation after the context has ended. An error
// of another call, a shutdown and a replica that has taken over leave an invocation to resume.
func (r *run) isAbandoned(ctx context.Context) bool {
	cause := context.Cause(ctx)
	limit := (*RunError)(nil)
	switch {
	case errors.Is(cause, session.ErrFenced):
		return false
	case !r.app.resumable, errors.Is(cause, store.ErrStopped), errors.As(cause, &limit) && limit.Code == CodeTimeLimit:
		return true
	case r.clientLeft != nil:
		return r.clientLeft()
	}
	return cause != nil
}
