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

// notKnown begins what is said of a value that nobody can tell any more.
const notKnown = "not known"

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

// find is the place of the event whose id is or begins with this; of the last
// one without an id.
func (h *history) find(id string) (int, error) {
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

// before is the place of the last event before this one that has something, or
// -1.
func (h *history) before(has func(ev *session.Event) bool) int {
	for i := h.at - 1; i >= 0; i-- {
		if has(h.events[i]) {
			return i
		}
	}
	return -1
}

// caller is the event with the call of an id.
func (h *history) caller(id string) string {
	i := h.before(func(ev *session.Event) bool {
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

// value is what a key of the state was just before the event, and who wrote it;
// nil is nothing, or what cannot be known.
func (h *history) value(key string) (v any, by string) {
	scope, _ := session.ScopeOf(key)
	i := h.before(func(ev *session.Event) bool { _, wrote := ev.Actions.StateDelta[key]; return wrote })
	switch {
	case scope == session.ScopeTemp:
		return nil, notKnown + ": temp: keys are not kept"
	case i >= 0:
		by := writtenBy(h.events[i])
		if beside(h.events[i], h.events[h.at]) {
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
		return nil, notKnown + ": it came from outside the session, and was written since"
	}
	if v, ok := h.now.Get(key); ok {
		return v, "as it is now: no event of the session wrote it"
	}
	return nil, notKnown + ": it is not there now, and no event of the session wrote it"
}

func (h *history) writtenSince(key string) bool {
	return slices.ContainsFunc(h.events[h.at:], func(ev *session.Event) bool { _, wrote := ev.Actions.StateDelta[key]; return wrote })
}

// beside says whether two events were made side by side, on branches of one
// invocation.
func beside(a, b *session.Event) bool {
	under := func(a, b string) bool { return b == "" || strings.HasPrefix(a+".", b+".") }
	return a.InvocationID == b.InvocationID && !under(a.Branch, b.Branch) && !under(b.Branch, a.Branch)
}

// writtenBy says who wrote with an event.
func writtenBy(ev *session.Event) string {
	by := "event " + ev.ID + " of " + who(ev)
	var tools []string
	for _, r := range model.ResponsesOf(ev.Content) {
		tools = append(tools, r.Name)
	}
	if len(tools) > 0 && ev.Author != session.UserAuthor {
		by += " (tool " + strings.Join(tools, " or ") + ")"
	}
	return by
}

func who(ev *session.Event) string {
	if ev.Author == session.UserAuthor {
		return "the user"
	}
	return "agent " + ev.Author
}

// tell fills the texts of the agent as they were before the event.
func (w *why) tell(ctx context.Context, h *history) {
	for _, t := range w.Agent.Texts {
		text, err := template.Parse(t.Source).Render(ctx, &known{h, w})
		if err != nil {
			w.miss("what the %s came to: %s", t.Field, err)
			continue
		}
		w.Told = append(w.Told, whyText{t.Field, t.At, text})
	}
	if at := w.Agent.Provider; at != "" {
		w.miss("what the instruction came to that is computed at %s", at)
	}
	if names := w.Agent.Variables; len(names) > 0 {
		w.miss("the values of variables, which no revision keeps: %s", strings.Join(names, ", "))
	}
}

// known gives placeholders the values that are known; others stay as they are
// written.
type known struct {
	h *history
	w *why
}

// Lookup finds the value of a key.
func (k *known) Lookup(key string) (any, bool) {
	v, by := k.h.value(key)
	if v == nil && strings.HasPrefix(by, notKnown) {
		return "{" + key + "}", true
	}
	return v, v != nil
}

// Artifact leaves the placeholder.
func (k *known) Artifact(_ context.Context, name string) (string, bool, error) {
	k.w.miss("which version of artifact %s was read", name)
	return "{artifact." + name + "}", true, nil
}
