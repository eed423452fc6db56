package toolstub_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/number/numbertest"
	"agenthost/internal/toolstub"
	"agenthost/pkg/tool"
)

// scriptedAnswers answers prompts in order, and records them.
type scriptedAnswers struct {
	answers []string
	prompts []string
}

func (s *scriptedAnswers) Ask(_ context.Context, prompt string) (string, error) {
	s.prompts = append(s.prompts, prompt)
	if len(s.answers) == 0 {
		return "", errors.New("the model is not available")
	}
	answer := s.answers[0]
	s.answers = s.answers[1:]
	return answer, nil
}

// orderTool is a tool with another name.
type orderTool struct {
	realTool
	name string
}

func (t orderTool) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: t.name, Description: "Works on orders."}
}

const simulated = `
tools: {create: {simulate: true}, find: {simulate: true}}
simulation: {data: {shop: Ana's}, traces: "find(1) was lost"}
`

// A simulated response keeps all digits in its numbers.
func TestSimulateNumbers(t *testing.T) {
	m := &scriptedAnswers{answers: []string{"{}", numbertest.Object}}
	r := buildSet(t, simulated).Begin(&toolstub.RunOptions{Ask: m.Ask})
	numbertest.Check(t, "response", runCall(t.Context(), r, orderTool{name: "create"}, "create", nil), 1)
}

// TestSimulateWithEarlierResources: the model gets the tools once, and then each call with the data, the traces
// and the resources that earlier calls created.
func TestSimulateWithEarlierResources(t *testing.T) {
	m := &scriptedAnswers{answers: []string{
		"```json\n{\"stateful_parameters\": [{\"parameter_name\": \"order_id\", \"creating_tools\": [\"create\"], \"consuming_tools\": [\"find\"]}]}\n```",
		`{"order": {"order_id": "R7", "amount": 3}}`,
		`{"status": "open"}`,
	}}
	r := buildSet(t, simulated).Begin(&toolstub.RunOptions{Ask: m.Ask})
	if got := runCall(t.Context(), r, orderTool{name: "create"}, "create", map[string]any{"amount": 3}); got != `{"order":{"amount":3,"order_id":"R7"}}` {
		t.Errorf("create = %s", got)
	}
	if got := runCall(t.Context(), r, orderTool{name: "find"}, "find", map[string]any{"order_id": "R7"}); got != `{"status":"open"}` {
		t.Errorf("find = %s", got)
	}
	for i, parts := range [][]string{
		{`"name":"create"`, `"stateful_parameters"`},
		{`{"shop":"Ana's"}`, "find(1) was lost", `"name":"create"`, `{"amount":3}`, `"parameter_name":"order_id"`},
		{`{"order_id":{"R7":{"order":{"amount":3,"order_id":"R7"}}}}`, `"name":"find"`},
	} {
		if i >= len(m.prompts) {
			t.Fatalf("%d prompts, want 3", len(m.prompts))
		}
		for _, want := range parts {
			if !strings.Contains(m.prompts[i], want) {
				t.Errorf("prompt %d has no %s:\n%s", i, want, m.prompts[i])
			}
		}
	}
}

// TestSimulateBadAnswers: an unreadable response is ADK's error object; without a readable
// parameter map there are none; a failed model ends the run.
func TestSimulateBadAnswers(t *testing.T) {
	for _, c := range []struct{ name, answer, want string }{
		{"text", "I cannot do this.", `"status":"error"`},
		{"the answer is kept", "I cannot do this.", `"llm_output":"I cannot do this."`},
		{"string", `"ok"`, `got ok`},
		{"list", `[1]`, `{"result":[1]}`},
		{"too large", `{"a": "` + strings.Repeat("x", 70_000) + `"}`, "it exceeds the limit of 64 KiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := &scriptedAnswers{answers: []string{"no map", c.answer}}
			r := buildSet(t, simulated).Begin(&toolstub.RunOptions{Ask: m.Ask})
			if got := runCall(t.Context(), r, realTool{}, "find", nil); !strings.Contains(got, c.want) || len(got) > 3000 {
				t.Errorf("find = %.3000s, want %s", got, c.want)
			}
		})
	}
	r := buildSet(t, simulated).Begin(&toolstub.RunOptions{Ask: (&scriptedAnswers{}).Ask})
	x := &tool.Execution{Tool: realTool{}, Call: &tool.Call{Name: "find"}}
	_, err := r.RunTool(t.Context(), x)
	var end *tool.EndError
	if !errors.As(err, &end) || err.Error() != "simulating tool find: the model is not available" {
		t.Errorf("err = %v, want one that ends the run", err)
	}
}

// TestSimulateLimits: model calls, stored responses and prompts are bounded.
func TestSimulateLimits(t *testing.T) {
	m := &scriptedAnswers{answers: []string{`{}`, `{}`, `{}`}}
	const limited = "tools: {find: {simulate: true}}\nsimulation: {max_model_calls: 2, stateful_parameters: []}\n"
	r := buildSet(t, limited).Begin(&toolstub.RunOptions{Ask: m.Ask})
	var got string
	for range 3 {
		got = runCall(t.Context(), r, realTool{}, "find", nil)
	}
	if want := "simulating tool find: the simulation exceeds the limit of 2 model calls (max_model_calls)"; got != want {
		t.Errorf("third call = %s, want %s", got, want)
	}

	m = &scriptedAnswers{}
	for range 10 {
		m.answers = append(m.answers, `{"id": "`+strings.Repeat("x", 1000)+`", "text": "`+strings.Repeat("y", 50_000)+`"}`)
	}
	const storing = "tools: {find: {simulate: true}}\nsimulation: {stateful_parameters: [{parameter_name: n, creating_tools: [find]}]}\n"
	r = buildSet(t, storing).Begin(&toolstub.RunOptions{Ask: m.Ask})
	for i := range 10 {
		got = runCall(t.Context(), r, realTool{}, "find", map[string]any{"n": i})
	}
	if want := "simulating tool find: the stored responses exceed the limit of 256 KiB"; got != want {
		t.Errorf("tenth call = %.100s, want %s", got, want)
	}

	m = &scriptedAnswers{answers: []string{`{}`}}
	r = buildSet(t, "tools: {find: {simulate: true}}\nsimulation: {stateful_parameters: []}\n").Begin(&toolstub.RunOptions{Ask: m.Ask})
	got = runCall(t.Context(), r, realTool{}, "find", map[string]any{"text": strings.Repeat("x", 2<<20)})
	if want := "simulating tool find: the prompt exceeds the limit of 1 MiB"; got != want {
		t.Errorf("large call = %.100s, want %s", got, want)
	}
}
