package why

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/template"
)

// unknownPrefix starts the description if a value cannot be determined.
const unknownPrefix = "unknown"

// An EventError reports an unknown or ambiguous event ID.
type EventError struct{ text string }

// Error returns the reason.
func (e *EventError) Error() string { return e.text }

// history is a session before one of its events.
type history struct {
	events  []*session.Event
	initial map[string]any
	now     *session.State
	at      int // the event
}

func readHistory(ctx context.Context, st *store.Store, key session.Key) (*history, error) {
	sess, err := st.Sessions.Get(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	initial, err := st.Sessions.Initial(ctx, key)
	return &history{events: sess.Events(), initial: initial, now: sess.State}, err
}

// findEvent returns the index of the event with an ID or its unique prefix; without an ID, the last
// event's.
func (h *history) findEvent(id string) (int, error) {
	if len(h.events) == 0 {
		return 0, &EventError{"the session has no events"}
	}
	if id == "" {
		return len(h.events) - 1, nil
	}
	var found []int
	for i, ev := range h.events {
		if ev.ID == id {
			return i, nil
		}
		if strings.HasPrefix(ev.ID, id) {
			found = append(found, i)
		}
	}
	switch len(found) {
	case 0:
		return 0, &EventError{fmt.Sprintf("event %s not found in the session: agenthost session show lists its events", id)}
	case 1:
		return found[0], nil
	}
	return 0, &EventError{fmt.Sprintf("%d events have the prefix %s: use a longer prefix", len(found), id)}
}

// findStart returns the time of the session's first event on a revision, or zero.
func (h *history) findStart(revision string) time.Time {
	for _, ev := range h.events {
		if ev.Provenance.Revision == revision && !ev.Provenance.Imported {
			return ev.Timestamp
		}
	}
	return time.Time{}
}

// lastBefore returns the index of the last earlier event for which has is true, or -1.
func (h *history) lastBefore(has func(ev *session.Event) bool) int {
	for i := h.at - 1; i >= 0; i-- {
		if has(h.events[i]) {
			return i
		}
	}
	return -1
}

// findCall returns the ID of a call's event, or an empty string.
func (h *history) findCall(id string) string {
	i := h.lastBefore(func(ev *session.Event) bool {
		for _, c := range ev.Calls() {
			if c.ID == id {
				return true
			}
		}
		return false
	})
	if i < 0 {
		return ""
	}
	return h.events[i].ID
}

// describeEdit describes how a person changed the arguments of the call with a result in an event, or
// returns an empty string.
func (h *history) describeEdit(ev *session.Event, call string) string {
	edited := runtime.ReadEditedCall(ev, call)
	if edited == nil || ev.Provenance.Imported {
		return ""
	}
	text := fmt.Sprintf("user %s changed %s: it ran with %s", edited.User, strings.Join(edited.Changed, ", "), template.String(edited.Args))
	i := h.lastBefore(func(ev *session.Event) bool {
		return slices.ContainsFunc(ev.Responses(), func(f *genai.FunctionResponse) bool { return f.ID == edited.Confirmation })
	})
	if i >= 0 {
		text += ", see event " + h.events[i].ID
	}
	return text
}

// valueBefore returns a state key's value before the event, and who wrote it. The value is nil if
// the key was not set or the value cannot be determined.
func (h *history) valueBefore(key string) (v any, by string) {
	scope, _ := session.ScopeOf(key)
	i := h.lastBefore(func(ev *session.Event) bool { _, wrote := ev.Actions.StateDelta[key]; return wrote })
	switch {
	case scope == session.ScopeTemp:
		return nil, unknownPrefix + ": temp: keys are not stored"
	case i >= 0:
		by := describeWriter(h.events[i])
		if areParallel(h.events[i], h.events[h.at]) {
			by += ", possibly concurrently with this event"
		}
		if scope != session.ScopeSession {
			by += "; other sessions may have written it since"
		}
		return h.events[i].Actions.StateDelta[key], by
	case scope == session.ScopeSession && h.initial[key] != nil:
		return h.initial[key], "initial state of the session"
	case scope == session.ScopeSession:
		return nil, "not set"
	case h.writtenSince(key):
		return nil, unknownPrefix + ": it was set outside the session, and overwritten since"
	}
	if v, ok := h.now.Get(key); ok {
		return v, "current value: no event in the session wrote it"
	}
	return nil, unknownPrefix + ": it is not set now, and no event in the session wrote it"
}

func (h *history) writtenSince(key string) bool {
	return slices.ContainsFunc(h.events[h.at:], func(ev *session.Event) bool { _, wrote := ev.Actions.StateDelta[key]; return wrote })
}

// areParallel reports whether two events are on parallel branches in one invocation.
func areParallel(a, b *session.Event) bool {
	under := func(a, b string) bool { return b == "" || strings.HasPrefix(a+".", b+".") }
	return a.InvocationID == b.InvocationID && !under(a.Branch, b.Branch) && !under(b.Branch, a.Branch)
}

// describeWriter returns the event and its author as text.
func describeWriter(ev *session.Event) string {
	by := "event " + ev.ID + " of " + describeAuthor(ev)
	var tools []string
	for _, r := range model.ResponsesOf(ev.Content) {
		tools = append(tools, r.Name)
	}
	if len(tools) > 0 && ev.Author != session.UserAuthor {
		by += " (tool " + strings.Join(tools, " or ") + ")"
	}
	return by
}

func describeAuthor(ev *session.Event) string {
	if ev.Author == session.UserAuthor {
		return "the user"
	}
	return "agent " + ev.Author
}

// renderInstructions renders the agent's instructions with the state before the event.
func (w *Explanation) renderInstructions(ctx context.Context, h *history) {
	for _, t := range w.Agent.Texts {
		text, err := template.Parse(t.Source).Render(ctx, &knownValues{h, w})
		if err != nil {
			w.addUnknown("the rendered %s: %s", t.Field, err)
			continue
		}
		w.Instructions = append(w.Instructions, Instruction{t.Field, t.At, text})
	}
	if at := w.Agent.Provider; at != "" {
		w.addUnknown("the instruction that is computed at %s", at)
	}
	if names := w.Agent.Variables; len(names) > 0 {
		w.addUnknown("variable values, which revisions do not store: %s", strings.Join(names, ", "))
	}
}

// knownValues resolves placeholders to the values before the event; placeholders with
// unknown values are not changed.
type knownValues struct {
	h *history
	w *Explanation
}

// Lookup returns a key's value.
func (k *knownValues) Lookup(key string) (any, bool) {
	v, by := k.h.valueBefore(key)
	if v == nil && strings.HasPrefix(by, unknownPrefix) {
		return "{" + key + "}", true
	}
	return v, v != nil
}

// Artifact returns the placeholder.
func (k *knownValues) Artifact(_ context.Context, name string) (string, bool, error) {
	k.w.addUnknown("which version of artifact %s was read", name)
	return "{artifact." + name + "}", true, nil
}
