package why

import (
	"testing"

	"agenthost/pkg/session"
)

// TestHistoryValueBefore checks a key's value before an event and its writer, and the reason if
// they are unknown.
func TestHistoryValueBefore(t *testing.T) {
	newEvent := func(id, author, branch string, delta map[string]any) *session.Event {
		return &session.Event{ID: id, InvocationID: "i", Author: author, Branch: branch, Actions: session.Actions{StateDelta: delta}}
	}
	h := &history{
		initial: map[string]any{"first": "a", "both": "a"},
		now:     session.NewState(map[string]any{"user:outside": "u", "user:later": "x"}),
		events: []*session.Event{
			newEvent("e1", session.UserAuthor, "", map[string]any{"both": "b", "gone": nil}),
			newEvent("e2", "left", "all.left", map[string]any{"side": int64(1)}),
			newEvent("e3", "desk", "", map[string]any{"user:name": "Ana"}),
			newEvent("e4", "right", "all.right", map[string]any{"later": 1, "user:later": "x"}),
		},
		at: 3,
	}
	for _, c := range []struct {
		key  string
		want any
		by   string
	}{
		{"first", "a", "initial state of the session"},
		{"both", "b", "event e1 of the user"},
		{"gone", nil, "event e1 of the user"},
		{"side", int64(1), "event e2 of agent left, possibly concurrently with this event"},
		{"user:name", "Ana", "event e3 of agent desk; other sessions may have written it since"},
		{"later", nil, "not set"},
		{"temp:x", nil, "unknown: temp: keys are not stored"},
		{"user:outside", "u", "current value: no event in the session wrote it"},
		{"user:later", nil, "unknown: it was set outside the session, and overwritten since"},
		{"app:never", nil, "unknown: it is not set now, and no event in the session wrote it"},
	} {
		if got, by := h.valueBefore(c.key); got != c.want || by != c.by {
			t.Errorf("value(%s) = %v, %q, want %v, %q", c.key, got, by, c.want, c.by)
		}
	}
}
