package apptest

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// take takes in an event of an agent: an answer of its model, or those of its
// tools.
func (m *maker) take(ev *session.Event) error {
	calls := ev.Calls()
	switch {
	case len(ev.Responses()) > 0:
		return m.takeResponses(ev)
	case len(calls) > 0 && runtime.IsRequest(ev, calls[0]):
		return nil
	case !isAnswer(ev):
		return nil
	}
	entry, err := provider.AnswerEntry(&ev.Response)
	if err != nil {
		return err
	}
	m.answers[ev.Author] = append(m.answers[ev.Author], entry)
	for _, c := range calls {
		if slices.Contains(ev.LongRunningToolIDs, c.ID) && !m.own(c.Name) {
			m.stand(c, "return: null", nil)
		}
	}
	return nil
}

// isAnswer tells what a model said from what callbacks and agents without a
// model did.
func isAnswer(ev *session.Event) bool {
	return ev.ModelVersion != "" || ev.UsageMetadata != nil || ev.FinishReason != "" ||
		len(ev.Calls()) > 0 || ev.ErrorCode != "" && ev.Content == nil
}

// own says whether a tool does its work in a test.
func (m *maker) own(name string) bool { return slices.Contains(m.record.Own, name) }

// takeResponses makes stand-ins of what tools answered. The state that the
// event sets is that of all of its tools, and is put on the first of them.
func (m *maker) takeResponses(ev *session.Event) error {
	state := ev.Actions.StateDelta
	for _, r := range ev.Responses() {
		asks := ev.Actions.RequestedToolConfirmations[r.ID] != nil || ev.Actions.RequestedAuthConfigs[r.ID] != nil
		if asks || m.rejected[r.ID] || m.own(r.Name) {
			continue
		}
		call := m.call(r.ID)
		if call == nil {
			continue
		}
		how, err := answerOf(r.Response)
		if err != nil {
			return err
		}
		m.stand(call, how, state)
		state = nil
	}
	return nil
}

// answerOf says what a tool answered, or failed with.
func answerOf(response map[string]any) (string, error) {
	if text, ok := response["error"].(string); ok && len(response) == 1 && text != "" {
		return "fail: " + provider.YAMLText(text), nil
	}
	text, err := provider.YAMLMapping(response)
	return "return: " + text, err
}

// call finds a call by its id.
func (m *maker) call(id string) *genai.FunctionCall {
	for _, ev := range m.record.Session.Events() {
		for _, c := range ev.Calls() {
			if c.ID == id && !runtime.IsRequest(ev, c) {
				return c
			}
		}
	}
	return nil
}

func (m *maker) stand(c *genai.FunctionCall, how string, state map[string]any) {
	args, err := provider.YAMLMapping(orEmpty(c.Args))
	if err != nil {
		args = "{}" // a call that was stored can be written
	}
	set := ""
	if len(state) > 0 {
		if text, err := provider.YAMLMapping(state); err == nil {
			set = ", state: " + text
		}
	}
	m.tools[c.Name] = append(m.tools[c.Name], fmt.Sprintf("{args: %s, %s%s, times: 1}", args, how, set))
}

// expect are the expectations of a turn.
func (m *maker) expect(t *madeTurn) []string {
	var names []string
	texts := map[string]string{}
	branched, last, failed := false, "", ""
	for _, ev := range t.events {
		branched = branched || ev.Branch != ""
		failed = ev.ErrorCode
		for _, c := range ev.Calls() {
			if !runtime.IsRequest(ev, c) {
				names = append(names, c.Name)
			}
		}
		if said := ev.Text(); said != "" {
			last, texts[ev.Author] = said, said
		}
	}
	expect := append(expectNames(names, branched), expectTexts(last, texts, branched)...)
	if failed != "" {
		expect = append(expect, "(error?.code ?? last(events).error) == "+strconv.Quote(failed))
	}
	if open := approvals(m.before); len(open) > 0 {
		original, _ := open[0][0].Args["originalFunctionCall"].(map[string]any)
		expect = append(expect, fmt.Sprintf("pending.confirmation.tool == %q", original["name"]))
	}
	return expect
}

// expectTexts wants what was said last; where agents run side by side, by each
// of them.
func expectTexts(last string, texts map[string]string, branched bool) []string {
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

// expectNames wants the calls of a turn, where agents run side by side in any
// order.
func expectNames(names []string, branched bool) []string {
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
