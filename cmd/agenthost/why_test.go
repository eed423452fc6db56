package main

import (
	"testing"

	"agenthost/pkg/session"
)

// TestHistoryValueBefore says what a key was before an event, and who wrote it, or
// that nobody can tell any more.
func TestHistoryValueBefore(t *testing.T) {
	wrote := func(id, author, branch string, delta map[string]any) *session.Event {
		return &session.Event{ID: id, InvocationID: "i", Author: author, Branch: branch, Actions: session.Actions{StateDelta: delta}}
	}
	h := &history{
		initial: map[string]any{"first": "a", "both": "a"},
		now:     session.NewState(map[string]any{"user:outside": "u", "user:later": "x"}),
		events: []*session.Event{
			wrote("e1", session.UserAuthor, "", map[string]any{"both": "b", "gone": nil}),
			wrote("e2", "left", "all.left", map[string]any{"side": int64(1)}),
			wrote("e3", "desk", "", map[string]any{"user:name": "Ana"}),
			wrote("e4", "right", "all.right", map[string]any{"later": 1, "user:later": "x"}),
		},
		at: 3,
	}
	for _, c := range []struct {
		key  string
		want any
		by   string
	}{
		{"first", "a", "the session began with it"},
		{"both", "b", "event e1 of the user"},
		{"gone", nil, "event e1 of the user"},
		{"side", int64(1), "event e2 of agent left, perhaps while this one was made"},
		{"user:name", "Ana", "event e3 of agent desk; other sessions may have written it since"},
		{"later", nil, "it was not there"},
		{"temp:x", nil, "not known: temp: keys are not kept"},
		{"user:outside", "u", "as it is now: no event of the session wrote it"},
		{"user:later", nil, "not known: it came from outside the session, and was written since"},
		{"app:never", nil, "not known: it is not there now, and no event of the session wrote it"},
	} {
		if got, by := h.valueBefore(c.key); got != c.want || by != c.by {
			t.Errorf("value(%s) = %v, %q, want %v, %q", c.key, got, by, c.want, c.by)
		}
	}
}
