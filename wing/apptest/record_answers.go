package apptest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/turn"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// recordEvent records an agent's event: an answer from its model, or the responses from its
// tools.
func (m *recorder) recordEvent(ev *session.Event) error {
	calls := ev.Calls()
	switch {
	case len(ev.Responses()) > 0:
		return m.recordResponses(ev)
	case len(calls) > 0 && runtime.IsRequest(ev, calls[0]):
		return nil
	case !turn.IsModelAnswer(ev):
		return nil
	}
	entry, err := provider.AnswerEntry(&ev.Response)
	if err != nil {
		return err
	}
	m.answers[ev.Author] = append(m.answers[ev.Author], entry)
	for _, c := range calls {
		if slices.Contains(ev.LongRunningToolIDs, c.ID) && !m.runsUnstubbed(c.Name) {
			m.addStub(c, "return: null", nil)
		}
	}
	return nil
}

// runsUnstubbed reports whether a tool runs in a test without a stub.
func (m *recorder) runsUnstubbed(name string) bool { return slices.Contains(m.record.Own, name) }

// recordResponses records tool responses as stubs. An event has one state delta for all its
// tools; the first stub sets it.
func (m *recorder) recordResponses(ev *session.Event) error {
	state := ev.Actions.StateDelta
	for _, r := range ev.Responses() {
		requestsInput := ev.Actions.RequestedToolConfirmations[r.ID] != nil || ev.Actions.RequestedAuthConfigs[r.ID] != nil
		if requestsInput || m.rejected[r.ID] || m.runsUnstubbed(r.Name) {
			continue
		}
		call := m.findCall(r.ID)
		if call == nil {
			continue
		}
		outcome, err := renderResponse(r.Response)
		if err != nil {
			return err
		}
		m.addStub(call, outcome, state)
		state = nil
	}
	return nil
}

// renderResponse returns a tool's response, or its error.
func renderResponse(response map[string]any) (string, error) {
	if text, ok := response["error"].(string); ok && len(response) == 1 && text != "" {
		return "fail: " + provider.YAMLText(text), nil
	}
	text, err := provider.YAMLMapping(response)
	return "return: " + text, err
}

// findCall finds a call by its ID.
func (m *recorder) findCall(id string) *genai.FunctionCall {
	for _, ev := range m.record.Session.Events() {
		for _, c := range ev.Calls() {
			if c.ID == id && !runtime.IsRequest(ev, c) {
				return c
			}
		}
	}
	return nil
}

func (m *recorder) addStub(c *genai.FunctionCall, outcome string, state map[string]any) {
	args, err := provider.YAMLMapping(turn.EmptyIfNil(c.Args))
	if err != nil {
		args = "{}" // cannot happen: stored calls can be encoded
	}
	set := ""
	if len(state) > 0 {
		if text, err := provider.YAMLMapping(state); err == nil {
			set = ", state: " + text
		}
	}
	m.tools[c.Name] = append(m.tools[c.Name], fmt.Sprintf("- {args: %s, %s%s, times: 1}\n", args, outcome, set))
}

// buildExpectations returns a turn's expectations.
func (m *recorder) buildExpectations(t *turn.Recorded) []string {
	var names []string
	texts := map[string]string{}
	branched, last, failed := false, "", ""
	for _, ev := range t.Events {
		branched = branched || ev.Branch != ""
		failed = ev.ErrorCode
		for _, c := range ev.Calls() {
			if !runtime.IsRequest(ev, c) {
				names = append(names, c.Name)
			}
		}
		if text := ev.ResultText(); text != "" {
			last, texts[ev.Author] = text, text
		}
	}
	expect := append(callExpectations(names, branched), textExpectations(last, texts, branched)...)
	if failed != "" {
		expect = append(expect, "(error?.code ?? last(events).error) == "+strconv.Quote(failed))
	}
	if open := turn.PendingApprovals(m.history); len(open) > 0 {
		expect = append(expect, fmt.Sprintf("pending.confirmation.tool == %q", runtime.ReadApproval(open[0][0]).Tool))
	}
	return expect
}

// textExpectations expects the last text; with parallel agents, each agent's last text.
func textExpectations(last string, texts map[string]string, branched bool) []string {
	switch {
	case last == "":
		return nil
	case !branched:
		return []string{"text == " + strconv.Quote(last)}
	}
	var expect []string
	for _, agent := range slices.Sorted(maps.Keys(texts)) {
		expect = append(expect, fmt.Sprintf("any(texts, .agent == %q and .text == %s)", agent, strconv.Quote(texts[agent])))
	}
	return expect
}

// callExpectations expects a turn's calls; with parallel agents, in any order.
func callExpectations(names []string, branched bool) []string {
	if len(names) == 0 {
		return nil
	}
	list := "map(calls, .name)"
	if branched {
		list = "sort(" + list + ")"
		slices.Sort(names)
	}
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = strconv.Quote(name)
	}
	return []string{list + " == [" + strings.Join(quoted, ", ") + "]"}
}
