package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/template"
)

// unknownPrefix begins what is said of a value that nobody can tell any more.
const unknownPrefix = "not known"

// history is what a session says of the time before one of its events.
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

// findEvent is the place of the event whose id is or begins with this; of the last
// one without an id.
func (h *history) findEvent(id string) (int, error) {
	if len(h.events) == 0 {
		return 0, fmt.Errorf("the session has no events")
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
		return 0, fmt.Errorf("the session has no event %s: agenthost session show lists them", id)
	case 1:
		return found[0], nil
	}
	return 0, fmt.Errorf("%d events begin with %s: write more of it", len(found), id)
}

// lastBefore is the place of the last event before this one that has something, or
// -1.
func (h *history) lastBefore(has func(ev *session.Event) bool) int {
	for i := h.at - 1; i >= 0; i-- {
		if has(h.events[i]) {
			return i
		}
	}
	return -1
}

// findCall is the event with the call of an id.
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

// valueBefore is what a key of the state was just before the event, and who wrote it;
// nil is nothing, or what cannot be known.
func (h *history) valueBefore(key string) (v any, by string) {
	scope, _ := session.ScopeOf(key)
	i := h.lastBefore(func(ev *session.Event) bool { _, wrote := ev.Actions.StateDelta[key]; return wrote })
	switch {
	case scope == session.ScopeTemp:
		return nil, unknownPrefix + ": temp: keys are not kept"
	case i >= 0:
		by := describeWriter(h.events[i])
		if areParallel(h.events[i], h.events[h.at]) {
			by += ", perhaps while this one was made"
		}
		if scope != session.ScopeSession {
			by += "; other sessions may have written it since"
		}
		return h.events[i].Actions.StateDelta[key], by
	case scope == session.ScopeSession && h.initial[key] != nil:
		return h.initial[key], "the session began with it"
	case scope == session.ScopeSession:
		return nil, "it was not there"
	case h.writtenSince(key):
		return nil, unknownPrefix + ": it came from outside the session, and was written since"
	}
	if v, ok := h.now.Get(key); ok {
		return v, "as it is now: no event of the session wrote it"
	}
	return nil, unknownPrefix + ": it is not there now, and no event of the session wrote it"
}

func (h *history) writtenSince(key string) bool {
	return slices.ContainsFunc(h.events[h.at:], func(ev *session.Event) bool { _, wrote := ev.Actions.StateDelta[key]; return wrote })
}

// areParallel says whether two events were made side by side, on branches of one
// invocation.
func areParallel(a, b *session.Event) bool {
	under := func(a, b string) bool { return b == "" || strings.HasPrefix(a+".", b+".") }
	return a.InvocationID == b.InvocationID && !under(a.Branch, b.Branch) && !under(b.Branch, a.Branch)
}

// describeWriter says who wrote with an event.
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

// renderInstructions fills the texts of the agent as they were before the event.
func (w *explanation) renderInstructions(ctx context.Context, h *history) {
	for _, t := range w.Agent.Texts {
		text, err := template.Parse(t.Source).Render(ctx, &knownValues{h, w})
		if err != nil {
			w.addUnknown("what the %s came to: %s", t.Field, err)
			continue
		}
		w.Instructions = append(w.Instructions, whyText{t.Field, t.At, text})
	}
	if at := w.Agent.Provider; at != "" {
		w.addUnknown("what the instruction came to that is computed at %s", at)
	}
	if names := w.Agent.Variables; len(names) > 0 {
		w.addUnknown("the values of variables, which no revision keeps: %s", strings.Join(names, ", "))
	}
}

// knownValues gives placeholders the values that are known; others stay as they are
// written.
type knownValues struct {
	h *history
	w *explanation
}

// Lookup finds the value of a key.
func (k *knownValues) Lookup(key string) (any, bool) {
	v, by := k.h.valueBefore(key)
	if v == nil && strings.HasPrefix(by, unknownPrefix) {
		return "{" + key + "}", true
	}
	return v, v != nil
}

// Artifact leaves the placeholder.
func (k *knownValues) Artifact(_ context.Context, name string) (string, bool, error) {
	k.w.addUnknown("which version of artifact %s was read", name)
	return "{artifact." + name + "}", true, nil
}
