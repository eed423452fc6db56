package evalfile

import (
	"fmt"
	"maps"
	"strings"

	"agenthost/internal/turn"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/wing/evaluation/eval"
)

// A Record is a case's source: a stored session.
type Record struct {
	// Name is the case's ID; empty for the session's.
	Name    string
	Session *session.Session
	// Initial is the session's initial state.
	Initial map[string]any
}

func (r *Record) caseName() string {
	if r.Name != "" {
		return r.Name
	}
	return r.Session.ID
}

// splitTurns returns the turns, and the state before the first turn: the initial state, the state
// sent with the first message, and the user and app values that the session did not write. A
// case's messages do not change the state.
func (r *Record) splitTurns() (turns []*turn.Recorded, state map[string]any, cutOff bool, err error) {
	turns, cutOff, err = turn.SplitSession(r.Session)
	if err != nil {
		return nil, nil, cutOff, err
	}
	state = turn.SharedState(r.Session)
	maps.Copy(state, r.Initial)
	maps.Copy(state, turns[0].User.Actions.StateDelta)
	delete(state, session.MetadataKey)
	for i, t := range turns {
		switch {
		case t.User.Content == nil || len(t.User.Content.Parts) == 0:
			return nil, nil, cutOff, fmt.Errorf("turn %d: the user message is empty", i+1)
		case i > 0 && len(t.User.Actions.StateDelta) > 0:
			return nil, nil, cutOff, fmt.Errorf("turn %d: a case cannot express a message that changes the state", i+1)
		}
	}
	return turns, state, cutOff, nil
}

// MakeCase converts a session to a case in ADK's form. It omits rewound turns, and the last
// one if that was interrupted before its answer; cutOff is then true.
func MakeCase(r *Record) (c *eval.Case, cutOff bool, err error) {
	turns, state, cutOff, err := r.splitTurns()
	if err != nil {
		return nil, cutOff, err
	}
	c = &eval.Case{
		ID: r.caseName(), Conversation: []*eval.Invocation{},
		Session: &eval.SessionInput{App: r.Session.App, User: r.Session.User, State: state},
	}
	for _, t := range turns {
		c.Conversation = append(c.Conversation, eval.TurnOf(append([]*session.Event{t.User}, t.Events...)))
	}
	return c, cutOff, nil
}

// RenderCase writes a session as a case in an eval file, an item of cases, as [MakeCase]. It
// returns an error if a case in YAML cannot express the session.
func RenderCase(r *Record) (text string, cutOff bool, err error) {
	turns, state, cutOff, err := r.splitTurns()
	if err != nil {
		return "", cutOff, err
	}
	lines := []string{"name: " + provider.YAMLText(r.caseName())}
	if r.Session.User != "" {
		lines = append(lines, "user_id: "+provider.YAMLText(r.Session.User))
	}
	if len(state) > 0 {
		text, err := provider.YAMLMapping(state)
		if err != nil {
			return "", false, err
		}
		lines = append(lines, "state: "+text)
	}
	waits := false
	var later []string
	for i, t := range turns {
		own, err := renderTurn(t)
		if err != nil {
			return "", false, fmt.Errorf("turn %d: %w", i+1, err)
		}
		waits = waits || isWaiting(t)
		if i == 0 {
			lines = append(lines, own...)
			continue
		}
		later = append(later, indentItem(own, "  ")...)
	}
	if waits {
		// A waiting turn has an empty response, and its requests are calls.
		lines = append(lines, "metrics: {response_match: {threshold: 0.8, only_expected: true}, tool_trajectory: {threshold: 1, match_type: IN_ORDER}}")
	}
	if len(later) > 0 {
		lines = append(append(lines, "then:"), later...)
	}
	return strings.Join(indentItem(lines, ""), "\n") + "\n", cutOff, nil
}

// indentItem writes a mapping's lines as a list item.
func indentItem(lines []string, indent string) []string {
	item := make([]string, len(lines))
	for i, line := range lines {
		item[i] = indent + "  " + line
	}
	item[0] = indent + "- " + lines[0]
	return item
}

// isWaiting reports whether a turn ends without a response, because it waits for the user.
func isWaiting(t *turn.Recorded) bool {
	for _, ev := range t.Events {
		if len(ev.LongRunningToolIDs) > 0 {
			return true
		}
	}
	return false
}

// renderTurn returns a turn's lines: the user's input, and what the agent did.
func renderTurn(t *turn.Recorded) ([]string, error) {
	lines, err := turn.RenderInput(t.User)
	if err != nil {
		return nil, err
	}
	text := ""
	calls := []string{}
	for _, ev := range t.Events {
		if result := ev.ResultText(); ev.IsFinal() && result != "" {
			text = result
		}
		for _, c := range ev.Calls() {
			if runtime.IsRequest(ev, c) {
				continue
			}
			args, err := provider.YAMLMapping(turn.EmptyIfNil(c.Args))
			if err != nil {
				return nil, err
			}
			calls = append(calls, fmt.Sprintf("{name: %s, args: %s}", provider.YAMLText(c.Name), args))
		}
	}
	lines = append(lines, "expect:")
	if text != "" {
		lines = append(lines, "  text: "+provider.YAMLText(text))
	}
	return append(lines, "  calls: ["+strings.Join(calls, ", ")+"]"), nil
}
