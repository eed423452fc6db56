package apptest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	"agenthost/internal/turn"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// A Record is a test's source: a stored session, and the app's tools that run in a test
// without a stub.
type Record struct {
	// Name is the test's name. Default: derived from the session ID.
	Name    string
	Session *session.Session
	// Initial is the session's initial state.
	Initial map[string]any
	// Own are the tools that need no stub: they run in a test.
	Own []string
}

// Make writes a session as a test, an item in a test file: the user's messages and decisions,
// the models' answers by agent, the tool responses, and expectations for each turn's calls
// and texts. It omits rewound turns. It also omits the last turn if that was interrupted
// before its answer; cutOff is then true. Make returns an error if a test cannot express the
// session.
func Make(r *Record) (text string, cutOff bool, err error) {
	m := &recorder{record: r, answers: map[string][]string{}, tools: map[string][]string{}, rejected: map[string]bool{}}
	m.turns, cutOff, err = turn.SplitSession(r.Session)
	if err != nil {
		return "", cutOff, err
	}
	text, err = m.renderTest()
	return text, cutOff, err
}

// recorder collects the parts of a test.
type recorder struct {
	record *Record
	turns  []*turn.Recorded
	// answers are script entries by agent, tools are stubs by tool.
	answers, tools map[string][]string
	// rejected are the IDs of calls that the user rejected.
	rejected map[string]bool
	history  []*session.Event
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

// renderSection returns a section's YAML lists by name, such as the models' answers by agent.
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
				if line != "\n" {
					b.WriteString("      ")
				}
				b.WriteString(line)
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

// renderTurn returns a turn's lines. It also collects the answers and the stubs.
func (m *recorder) renderTurn(i int, t *turn.Recorded) ([]string, error) {
	lines, err := turn.RenderInput(t.User)
	if err != nil {
		return nil, err
	}
	m.markRejected(t.User)
	state := maps.Clone(turn.EmptyIfNil(t.User.Actions.StateDelta))
	if i == 0 {
		maps.Copy(state, m.record.Initial)
		maps.Copy(state, turn.SharedState(m.record.Session))
		maps.Copy(state, t.User.Actions.StateDelta)
	}
	delete(state, session.MetadataKey)
	if len(state) > 0 {
		text, err := provider.YAMLMapping(state)
		if err != nil {
			return nil, err
		}
		lines = append(lines, "state: "+text)
	}
	for _, ev := range t.Events {
		if err := m.recordEvent(ev); err != nil {
			return nil, err
		}
	}
	m.history = append(append(m.history, t.User), t.Events...)
	if expect := m.buildExpectations(t); len(expect) > 0 {
		lines = append(lines, "expect:")
		for _, e := range expect {
			lines = append(lines, "  - '"+strings.ReplaceAll(e, "'", "''")+"'")
		}
	}
	return lines, nil
}

// markRejected marks the calls whose confirmation the user refused.
func (m *recorder) markRejected(user *session.Event) {
	for _, r := range user.Responses() {
		if decision, ok := runtime.IsApproval(r); !ok || decision["confirmed"] == true {
			continue
		}
		for _, ev := range m.history {
			for _, c := range ev.Calls() {
				if a := runtime.ReadApproval(c); a != nil && c.ID == r.ID && a.CallID != "" {
					m.rejected[a.CallID] = true
				}
			}
		}
	}
}
