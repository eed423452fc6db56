package apptest

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/genai"

	"agenthost/internal/turn"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// A Record is the source of a test: a stored session, and the tools of the app
// that run in a test without a stub.
type Record struct {
	// Name is the name of the test. Default: derived from the session ID.
	Name    string
	Session *session.Session
	// Initial is the initial state of the session.
	Initial map[string]any
	// Own are the tools that need no stub: they run in a test.
	Own []string
}

// Make writes a session as a test, an item of a test file: the user's messages and
// decisions, the answers of the models by agent, the tool responses, and
// expectations for the calls and texts of each turn. It omits rewound turns. It also
// omits the last turn if that was interrupted before its answer; cutOff is then
// true. Make returns an error if a test cannot express the session.
func Make(r *Record) (text string, cutOff bool, err error) {
	m := &recorder{record: r, answers: map[string][]string{}, tools: map[string][]string{}, rejected: map[string]bool{}}
	for _, ev := range session.WithoutRewound(r.Session.Events()) {
		if ev.Actions.Compaction != nil {
			continue
		}
		if ev.Author == session.UserAuthor {
			m.turns = append(m.turns, &recordedTurn{user: ev})
		} else if len(m.turns) > 0 {
			last := m.turns[len(m.turns)-1]
			last.events = append(last.events, ev)
		}
	}
	if n := len(m.turns); n > 0 && m.turns[n-1].isInterrupted() {
		m.turns, cutOff = m.turns[:n-1], true
	}
	switch {
	case len(m.turns) == 0 && cutOff:
		return "", true, errors.New("the only turn was interrupted before an answer")
	case len(m.turns) == 0:
		return "", false, errors.New("the session has no user message")
	}
	text, err = m.renderTest()
	return text, cutOff, err
}

// isInterrupted reports whether the run of a turn was interrupted before its answer: no
// event of an agent was stored, or the last one is a call without a response that is
// not long-running.
func (t *recordedTurn) isInterrupted() bool {
	if len(t.events) == 0 {
		return t.user.Content != nil && len(t.user.Responses()) == 0
	}
	last := t.events[len(t.events)-1]
	return len(last.Calls()) > 0 && len(last.LongRunningToolIDs) == 0 && last.ErrorCode == ""
}

// recorder collects the parts of a test.
type recorder struct {
	record *Record
	turns  []*recordedTurn
	// answers are script entries by agent, tools are stubs by tool.
	answers, tools map[string][]string
	// rejected are the IDs of calls that the user rejected.
	rejected map[string]bool
	history  []*session.Event
}

// recordedTurn is one turn of the session.
type recordedTurn struct {
	user   *session.Event
	events []*session.Event
}

func (m *recorder) renderTest() (string, error) {
	var turns strings.Builder
	for i, t := range m.turns {
		indent, first := "  ", "  "
		if i == 1 {
			turns.WriteString("  then:\n")
		}
		if i > 0 {
			indent, first = "      ", "    - "
		}
		lines, err := m.renderTurn(i, t)
		if err != nil {
			return "", fmt.Errorf("turn %d: %w", i+1, err)
		}
		for n, line := range lines {
			if n == 0 {
				turns.WriteString(first + line + "\n")
			} else {
				turns.WriteString(indent + line + "\n")
			}
		}
	}
	name := cmp.Or(m.record.Name, "as in session "+m.record.Session.ID)
	return "- name: " + provider.YAMLText(name) + "\n" + renderSection("model", m.answers) + renderSection("tools", m.tools) + turns.String(), nil
}

// renderSection returns the YAML lists of a section by name, such as the answers of
// the models by agent.
func renderSection(section string, lists map[string][]string) string {
	if len(lists) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("  " + section + ":\n")
	for _, name := range slices.Sorted(maps.Keys(lists)) {
		b.WriteString("    " + renderKey(name) + ":\n")
		for _, item := range lists[name] {
			for line := range strings.Lines(item) {
				b.WriteString("      " + line)
			}
		}
	}
	return b.String()
}

// renderKey returns a name as a YAML key, quoted where necessary.
func renderKey(name string) string {
	for _, r := range name {
		if r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			return provider.YAMLText(name)
		}
	}
	return name
}

// renderTurn returns the lines of a turn. It also collects the answers and the stubs.
func (m *recorder) renderTurn(i int, t *recordedTurn) ([]string, error) {
	lines, err := m.renderUserInput(t.user)
	if err != nil {
		return nil, err
	}
	state := maps.Clone(turn.EmptyIfNil(t.user.Actions.StateDelta))
	if i == 0 {
		maps.Copy(state, m.record.Initial)
		maps.Copy(state, m.sharedState())
		maps.Copy(state, t.user.Actions.StateDelta)
	}
	if len(state) > 0 {
		text, err := provider.YAMLMapping(state)
		if err != nil {
			return nil, err
		}
		lines = append(lines, "state: "+text)
	}
	for _, ev := range t.events {
		if err := m.recordEvent(ev); err != nil {
			return nil, err
		}
	}
	m.history = append(append(m.history, t.user), t.events...)
	if expect := m.buildExpectations(t); len(expect) > 0 {
		lines = append(lines, "expect:")
		for _, e := range expect {
			lines = append(lines, "  - '"+strings.ReplaceAll(e, "'", "''")+"'")
		}
	}
	return lines, nil
}

// sharedState returns the user and app state that the session did not write, so
// that it may have existed before.
func (m *recorder) sharedState() map[string]any {
	written := map[string]bool{}
	for _, ev := range m.record.Session.Events() {
		for k := range ev.Actions.StateDelta {
			written[k] = true
		}
	}
	found := map[string]any{}
	for k, v := range m.record.Session.State.All() {
		if scope, _ := session.ScopeOf(k); scope != session.ScopeSession && !written[k] {
			found[k] = v
		}
	}
	return found
}

// renderUserInput returns the lines of the user's message or decision.
func (m *recorder) renderUserInput(ev *session.Event) ([]string, error) {
	if responses := ev.Responses(); len(responses) > 0 {
		return m.renderDecisions(responses)
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

// renderDecisions returns the lines of the user's responses to calls.
func (m *recorder) renderDecisions(responses []*genai.FunctionResponse) ([]string, error) {
	answers := map[string]any{}
	var lines []string
	for _, r := range responses {
		if r.Name != runtime.RequestConfirmation {
			answers[r.Name] = r.Response
			continue
		}
		confirmed, _ := r.Response["confirmed"].(bool)
		line := fmt.Sprintf("confirm: %t", confirmed)
		if len(lines) > 0 && lines[0] != line {
			return nil, errors.New("cannot express a turn in which the user approves one call and rejects another")
		}
		lines = []string{line}
		if !confirmed {
			m.markRejected(r.ID)
		} else if payload, ok := r.Response["payload"]; ok {
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

// markRejected marks the call that a confirmation request refers to.
func (m *recorder) markRejected(id string) {
	for _, ev := range m.history {
		for _, c := range ev.Calls() {
			if c.ID == id {
				original, _ := c.Args["originalFunctionCall"].(map[string]any)
				call, _ := original["id"].(string)
				m.rejected[call] = true
			}
		}
	}
}
