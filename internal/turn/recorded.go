package turn

import (
	"errors"
	"fmt"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// A Recorded is a turn in a stored session: the user's event and those that follow it.
type Recorded struct {
	User   *session.Event
	Events []*session.Event
}

// SplitSession returns a session's turns without those that were rewound. It omits the last turn
// if that was interrupted before its answer; cutOff is then true. A session without turns is an
// error.
func SplitSession(sess *session.Session) (turns []*Recorded, cutOff bool, err error) {
	for _, ev := range session.WithoutRewound(sess.Events()) {
		if ev.Actions.Compaction != nil {
			continue
		}
		if ev.IsFromUser() {
			turns = append(turns, &Recorded{User: ev})
		} else if len(turns) > 0 {
			last := turns[len(turns)-1]
			last.Events = append(last.Events, ev)
		}
	}
	if n := len(turns); n > 0 && turns[n-1].isInterrupted() {
		turns, cutOff = turns[:n-1], true
	}
	switch {
	case len(turns) == 0 && cutOff:
		return nil, true, errors.New("the only turn was interrupted before an answer")
	case len(turns) == 0:
		return nil, false, errors.New("the session has no user message")
	}
	return turns, cutOff, nil
}

// isInterrupted reports whether a turn's run was interrupted before its answer: no agent
// event was stored, or the last one is a call without a response that is not long-running.
func (t *Recorded) isInterrupted() bool {
	if len(t.Events) == 0 {
		return t.User.Content != nil && len(t.User.Responses()) == 0
	}
	last := t.Events[len(t.Events)-1]
	return len(last.Calls()) > 0 && len(last.LongRunningToolIDs) == 0 && last.ErrorCode == ""
}

// SharedState returns the user and app state that the session did not write, so
// that it may have existed before.
func SharedState(sess *session.Session) map[string]any {
	written := map[string]bool{}
	for _, ev := range sess.Events() {
		for k := range ev.Actions.StateDelta {
			written[k] = true
		}
	}
	found := map[string]any{}
	for k, v := range sess.State.All() {
		if scope, _ := session.ScopeOf(k); scope != session.ScopeSession && !written[k] {
			found[k] = v
		}
	}
	return found
}

// RenderInput returns the YAML for the user's message or decision, a key on each line.
func RenderInput(ev *session.Event) ([]string, error) {
	if responses := ev.Responses(); len(responses) > 0 {
		return renderDecisions(responses)
	}
	var lines, parts []string
	if ev.Content != nil {
		for i, p := range ev.Content.Parts {
			if i == 0 && p.Text != "" {
				lines = append(lines, "user: "+provider.YAMLText(p.Text))
				continue
			}
			text, err := provider.YAMLPart(p)
			if err != nil {
				return nil, err
			}
			parts = append(parts, text)
		}
	}
	if len(parts) > 0 {
		lines = append(lines, "parts: ["+strings.Join(parts, ", ")+"]")
	}
	if len(lines) == 0 {
		return nil, errors.New("the user message is empty")
	}
	return lines, nil
}

// renderDecisions returns the lines for the user's responses to calls.
func renderDecisions(responses []*genai.FunctionResponse) ([]string, error) {
	answers := map[string]any{}
	var lines []string
	for _, r := range responses {
		decision, ok := runtime.IsApproval(r)
		if !ok {
			answers[r.Name] = r.Response
			continue
		}
		confirmed, _ := decision["confirmed"].(bool)
		line := fmt.Sprintf("confirm: %t", confirmed)
		if len(lines) > 0 && lines[0] != line {
			return nil, errors.New("cannot express a turn in which the user approves one call and rejects another")
		}
		lines = []string{line}
		if payload, ok := decision["payload"]; ok && confirmed {
			text, err := provider.YAMLMapping(map[string]any{"payload": payload})
			if err != nil {
				return nil, err
			}
			lines = append(lines, strings.Trim(text, "{}"))
		}
	}
	switch {
	case len(answers) == 0:
		return lines, nil
	case len(lines) > 0:
		return nil, errors.New("cannot express a turn in which the user confirms one call and responds to another")
	}
	text, err := provider.YAMLMapping(answers)
	return []string{"respond: " + text}, err
}

// IsModelAnswer reports whether an agent's event comes from a model, not from a callback
// or an agent without a model.
func IsModelAnswer(ev *session.Event) bool {
	return ev.ModelVersion != "" || ev.UsageMetadata != nil || ev.FinishReason != "" ||
		len(ev.Calls()) > 0 || ev.ErrorCode != "" && ev.Content == nil
}
