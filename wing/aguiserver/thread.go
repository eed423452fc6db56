package aguiserver

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// A client sends its whole thread with each run. The host compares the messages' IDs with those in the
// session:
//
//	u1                      a new session, or a client that sends only new messages
//	u1 a1 u2                u2 is new: it runs
//	u1 a1 u2                again, with another run: the answer to u2 is undone, and u2 runs
//	u1 a1 u3                an edit: what follows a1 is undone, and u3 runs
//	u1 a1 t1                t1 is a client tool's result: the run continues
//
// An ID that the session does not have, before the new messages, changes nothing: frameworks add
// their own messages. Invariant: a message runs once for each run that the client starts.

// A thread is a run's session.
type thread struct {
	key  session.Key
	sess *session.Session
	// events are the session's without those that a rewind has undone.
	events []*session.Event
	// forms are the open interrupts, and calls are those that long-running tools have open.
	forms []*protocol.Form
	calls []*genai.FunctionCall
	// fresh is where the new messages begin in the client's.
	fresh int
}

// openThread returns a run's session. It creates a session that does not exist, and undoes what the
// client has removed.
func (h *handlers) openThread(ctx context.Context, e *endpoint, in *runInput) (*thread, error) {
	t := &thread{key: session.Key{App: e.app.Name(), User: e.user, ID: in.ThreadID}}
	err := h.loadThread(ctx, t)
	if errors.Is(err, session.ErrNotFound) {
		switch err := h.createThread(ctx, e, t, in); {
		case err == nil:
			return t, h.loadThread(ctx, t)
		case !errors.Is(err, session.ErrExists): // otherwise another request has created it
			return nil, err
		}
		err = h.loadThread(ctx, t)
	}
	if err != nil {
		return nil, err
	}
	req := t.findEdit(in)
	if req == nil {
		return t, nil
	}
	if run, _ := readMetadata(t.events[len(t.events)-1], textKey); run == in.RunID && req.BeforeInvocationID != "" {
		return nil, &requestError{http.StatusConflict, runtime.CodeInvalidRequest, "the run " + protocol.TruncateText(in.RunID, maxShown) + " has already run"}
	}
	req.App, req.UserID, req.SessionID, req.Writer = t.key.App, t.key.User, t.key.ID, session.WriterClient
	for _, err := range h.Host().Rewind(ctx, req) {
		if err != nil {
			return nil, err
		}
	}
	return t, h.loadThread(ctx, t)
}

// loadThread reads the session and the calls that wait.
func (h *handlers) loadThread(ctx context.Context, t *thread) error {
	sess, err := h.Host().Store().Sessions.Get(ctx, t.key, nil)
	if err != nil {
		return err
	}
	t.sess = sess
	t.events = session.WithoutRewound(sess.Events())
	t.forms, t.calls = protocol.ListOpen(sess.Events())
	return nil
}

// dropSession drops the session: a run that waits for the model does not need it.
func (t *thread) dropSession() { t.sess, t.events = nil, nil }

// createThread creates a session whose history is the client's messages before the last ones.
func (h *handlers) createThread(ctx context.Context, e *endpoint, t *thread, in *runInput) error {
	for i := range in.Messages {
		if in.Messages[i].Role == roleAssistant {
			t.fresh = i + 1
		}
	}
	for _, m := range in.Messages[t.fresh:] {
		if m.Role == roleTool {
			return newClosedCall(m.ToolCallID)
		}
	}
	history, err := readHistory(in.Messages[:t.fresh])
	if closed := (*protocol.ClosedCallError)(nil); errors.As(err, &closed) {
		return newClosedCall(closed.ID)
	}
	if err != nil {
		return err
	}
	return protocol.CreateSession(ctx, h.Host().Store().Sessions, t.key, e.app.Root().Name(), history)
}

func newClosedCall(id string) error {
	return newRefusal("toolCallId %q is not that of an open call", protocol.TruncateText(id, maxShown))
}

// findEdit sets where the new messages begin, and returns what undoes the messages that the client has
// removed; nil for nothing.
func (t *thread) findEdit(in *runInput) *runtime.RewindRequest {
	at, n := t.findLast(in.Messages), len(in.Messages)
	switch {
	case len(in.Resume) > 0 || at < 0:
		return nil
	case t.fresh == n && in.Messages[n-1].Role == roleUser:
		t.fresh--
		return &runtime.RewindRequest{BeforeInvocationID: t.events[at].InvocationID}
	case !slices.ContainsFunc(in.Messages[t.fresh:], func(m clientMessage) bool { return m.Role == roleUser }):
		return nil
	}
	for i := at + 1; i < len(t.events); i++ {
		if ev := t.events[i]; ev.IsFromUser() && ev.Content != nil && len(ev.Responses()) == 0 {
			return &runtime.RewindRequest{AfterEventID: t.events[i-1].ID}
		}
	}
	return nil
}

// findLast returns the index of the event with the last message that the session has; -1 for none. It sets
// where the new messages begin.
func (t *thread) findLast(messages []clientMessage) int {
	// The last messages are searched first: usually the session has all but one.
	for size, to := 4, len(messages); to > 0; size *= 8 {
		from := max(0, to-size)
		places := make(map[string]int, 4)
		for i := from; i < to; i++ {
			places[trimID(messages[i].ID)] = -1
		}
		findMessages(t.events, places)
		for i := to - 1; i >= from; i-- {
			place := places[trimID(messages[i].ID)]
			if place >= 0 || messages[i].Role == roleAssistant { // an answer that was not stored
				t.fresh = max(t.fresh, i+1)
			}
			if place >= 0 {
				return place
			}
		}
		to = from
	}
	return -1
}

// A step is a user message that runs.
type step struct {
	parts []*genai.Part
	// messages are the client's message IDs, as in [newMetadata].
	messages map[string]any
	// isDecision is set if the step answers calls of the runtime, which ignores a second answer.
	isDecision bool
}

// listSteps returns what runs: the answers and the results for each event with open calls, which need a
// message each, and the user's new text with the last one. Without anything new there is none.
func (t *thread) listSteps(ctx context.Context, in *runInput) ([]*step, error) {
	var steps []*step
	if len(in.Resume) > 0 || len(t.forms) > 0 {
		one, err := t.readResume(ctx, in)
		if err != nil {
			return nil, err
		}
		if one != nil {
			steps = append(steps, one)
		}
	}
	results, err := t.readResults(in)
	if err != nil {
		return nil, err
	}
	steps = append(steps, results...)
	text := &step{messages: map[string]any{}}
	for i := t.fresh; i < len(in.Messages); i++ {
		if m := &in.Messages[i]; m.Role == roleUser {
			parts, err := m.readParts(i)
			if err != nil {
				return nil, err
			}
			if len(parts) > 0 {
				text.parts, text.messages[textKey] = append(text.parts, parts...), strings.Clone(m.ID)
			}
		}
	}
	switch n := len(steps); {
	case len(text.parts) == 0:
	case len(results) == 0: // no text follows an approval in a message
		steps = append(steps, text)
	default:
		steps[n-1].parts = append(steps[n-1].parts, text.parts...)
		steps[n-1].messages[textKey] = text.messages[textKey]
	}
	return steps, nil
}

// readResume returns the answers to the thread's interrupts. A client that sends neither answers nor
// anything else reads them.
func (t *thread) readResume(ctx context.Context, in *runInput) (*step, error) {
	if len(in.Resume) == 0 {
		if t.fresh == len(in.Messages) {
			return nil, nil
		}
		return nil, newInterruptError("the thread has open interrupts, which resume must answer: %s", listInterruptIDs(t.forms))
	}
	answers, err := readAnswers(ctx, in.Resume, t.forms)
	if err != nil {
		return nil, err
	}
	one := &step{messages: map[string]any{}, isDecision: slices.ContainsFunc(t.forms, isHostRequest)}
	for _, f := range answers {
		one.parts = append(one.parts, &genai.Part{FunctionResponse: f})
	}
	return one, nil
}

// readResults returns the client's results for open calls, a step for each event with calls. A new result
// for another call is an error.
func (t *thread) readResults(in *runInput) ([]*step, error) {
	var open map[string]*genai.FunctionCall
	var byEvent map[string]*step // by the event with the calls
	if len(t.calls) > 0 {
		open, byEvent = map[string]*genai.FunctionCall{}, map[string]*step{}
	}
	for _, c := range t.calls {
		open[c.ID] = c
	}
	var steps []*step
	for i := range in.Messages {
		m := &in.Messages[i]
		if m.Role != roleTool {
			continue
		}
		c := open[m.ToolCallID]
		switch {
		case c == nil && i < t.fresh:
			continue
		case c == nil:
			return nil, newClosedCall(m.ToolCallID)
		}
		part, err := m.readToolResult(i)
		if err != nil {
			return nil, err
		}
		part.FunctionResponse.Name = c.Name
		delete(open, m.ToolCallID)
		event := t.findEvent(c.ID)
		if byEvent[event] == nil {
			byEvent[event] = &step{messages: map[string]any{}}
			steps = append(steps, byEvent[event])
		}
		byEvent[event].parts = append(byEvent[event].parts, part)
		byEvent[event].messages[c.ID] = strings.Clone(m.ID)
	}
	return steps, nil
}

// findEvent returns the last event with a call.
func (t *thread) findEvent(call string) string {
	for _, ev := range slices.Backward(t.events) {
		if slices.ContainsFunc(ev.Calls(), func(c *genai.FunctionCall) bool { return c.ID == call }) {
			return ev.ID
		}
	}
	return ""
}

// listOwners returns the subagents that have made a call.
func (t *thread) listOwners(l *lineage, call string) []agentRun {
	for _, ev := range slices.Backward(t.events) {
		if slices.ContainsFunc(ev.Calls(), func(c *genai.FunctionCall) bool { return c.ID == call }) {
			return l.listRuns(ev)
		}
	}
	return nil
}

// findOwner returns the subagent with an interrupt; empty for one of the endpoint's own agent.
func (t *thread) findOwner(l *lineage, f *protocol.Form) string {
	if runs := t.listOwners(l, f.Call.ID); len(runs) > 0 {
		return runs[len(runs)-1].id
	}
	return ""
}

// readState returns the state that the run writes.
func (h *handlers) readState(r *http.Request, e *endpoint, t *thread, in *runInput) (map[string]any, error) {
	delta, err := readClientState(in.State, e.settings.State, t.sess.State)
	if err != nil {
		return nil, err
	}
	if err := h.AuthorizeWrites(r, e.app.Name(), delta); err != nil {
		return nil, server.WithSessionKey(t.key, err)
	}
	return delta, nil
}
