package eval

import (
	"testing"

	"google.golang.org/genai"
)

func callsOf(t *testing.T, text string) []*genai.FunctionCall {
	t.Helper()
	inv := &Invocation{}
	if err := Decode("calls", []byte(`{"user_content":{},"intermediate_data":{"tool_uses":`+text+`}}`), inv); err != nil {
		t.Fatal(err)
	}
	return inv.Calls()
}

// TestLooseTrajectories: beyond ADK, a criterion may compare only some arguments, match them
// by patterns and within a tolerance, and score the share of matching calls.
func TestLooseTrajectories(t *testing.T) {
	const expected = `[{"name": "pay", "args": {"to": "ann", "sum": 10, "note": "rent"}}, {"name": "log", "args": {}}]`
	for _, test := range []struct {
		name, criterion, actual string
		want                    float64
	}{
		{"only", `{"tools": {"pay": {"only": ["to"]}}}`, `[{"name": "pay", "args": {"to": "ann", "sum": 5}}, {"name": "log", "args": {}}]`, 1},
		{"only, different", `{"tools": {"pay": {"only": ["to"]}}}`, `[{"name": "pay", "args": {"to": "bob"}}, {"name": "log", "args": {}}]`, 0},
		{"ignore", `{"tools": {"pay": {"ignore": ["note", "id"]}}}`, `[{"name": "pay", "args": {"to": "ann", "sum": 10, "id": 7}}, {"name": "log", "args": {}}]`, 1},
		{"all other tools", `{"tools": {"*": {"ignore": ["note"]}}}`, `[{"name": "pay", "args": {"to": "ann", "sum": 10}}, {"name": "log"}]`, 1},
		{"pattern", `{"tools": {"pay": {"patterns": {"note": "(?i)rent.*"}}}}`, `[{"name": "pay", "args": {"to": "ann", "sum": 10, "note": "Rent for May"}}, {"name": "log", "args": {}}]`, 1},
		{"pattern of a whole value", `{"tools": {"pay": {"patterns": {"note": "rent"}}}}`, `[{"name": "pay", "args": {"to": "ann", "sum": 10, "note": "no rent"}}, {"name": "log", "args": {}}]`, 0},
		{"pattern without argument", `{"tools": {"pay": {"patterns": {"note": ".*"}}}}`, `[{"name": "pay", "args": {"to": "ann", "sum": 10}}, {"name": "log", "args": {}}]`, 0},
		{"pattern of a number", `{"tools": {"pay": {"patterns": {"sum": "1[0-9]"}}}}`, `[{"name": "pay", "args": {"to": "ann", "sum": 12, "note": "rent"}}, {"name": "log", "args": {}}]`, 1},
		{"tolerance", `{"tools": {"pay": {"tolerance": 0.5}}}`, `[{"name": "pay", "args": {"to": "ann", "sum": 10.5, "note": "rent"}}, {"name": "log", "args": {}}]`, 1},
		{"over the tolerance", `{"tools": {"pay": {"tolerance": 0.5}}}`, `[{"name": "pay", "args": {"to": "ann", "sum": 10.6, "note": "rent"}}, {"name": "log", "args": {}}]`, 0},
		{"partial, exact", `{"partialScore": true}`, `[{"name": "pay", "args": {"to": "ann", "sum": 10, "note": "rent"}}, {"name": "log", "args": {"x": 1}}]`, 0.5},
		{"partial, extra call", `{"partialScore": true}`, `[{"name": "pay", "args": {"to": "ann", "sum": 10, "note": "rent"}}, {"name": "log", "args": {}}, {"name": "log", "args": {}}]`, 0.8},
		{"partial, in order", `{"partialScore": true, "matchType": "IN_ORDER"}`, `[{"name": "log", "args": {}}, {"name": "x"}, {"name": "pay", "args": {"to": "ann", "sum": 10, "note": "rent"}}]`, 0.5},
		{"partial, any order", `{"partialScore": true, "matchType": "ANY_ORDER"}`, `[{"name": "log", "args": {}}, {"name": "x"}, {"name": "pay", "args": {"to": "ann", "sum": 10, "note": "rent"}}]`, 1},
		{"partial, no calls", `{"partialScore": true}`, `[]`, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := &Criterion{}
			if err := Decode("criterion", []byte(test.criterion), c); err != nil {
				t.Fatal(err)
			}
			m, err := newCallMatcher(c)
			if err != nil {
				t.Fatal(err)
			}
			if got := m.scoreCalls(callsOf(t, test.actual), callsOf(t, expected)); got != test.want {
				t.Errorf("scoreCalls = %v, want %v", got, test.want)
			}
		})
	}
}

// TestAnyOrderAssignsCalls: a call that matches several expected ones is left to the one
// that nothing else matches.
func TestAnyOrderAssignsCalls(t *testing.T) {
	m, err := newCallMatcher(&Criterion{MatchType: MatchAnyOrder, Tools: map[string]*ArgsRule{"f": {Tolerance: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	actual := callsOf(t, `[{"name": "f", "args": {"n": 1}}, {"name": "f", "args": {"n": 0}}]`)
	expected := callsOf(t, `[{"name": "f", "args": {"n": 1}}, {"name": "f", "args": {"n": 2}}]`)
	if got := m.scoreCalls(actual, expected); got != 1 {
		t.Errorf("scoreCalls = %v, want 1", got)
	}
}

// TestInvalidPattern: the error names the tool and the argument.
func TestInvalidPattern(t *testing.T) {
	_, err := newCallMatcher(&Criterion{Tools: map[string]*ArgsRule{"f": {Patterns: map[string]string{"a": "("}}}})
	const want = "tools.f.patterns.a: error parsing regexp: missing closing ): `^(?s:()$`"
	if err == nil || err.Error() != want {
		t.Errorf("newCallMatcher = %v, want %s", err, want)
	}
}

// TestOnlyExpected: with only_expected, turns without expectations do not count, and the
// metric does not score a case without expected turns. Otherwise they count, as in ADK.
func TestOnlyExpected(t *testing.T) {
	newText := func(text string) *genai.Content { return genai.NewContentFromText(text, genai.RoleModel) }
	c := &Case{ID: "c", Conversation: []*Invocation{{UserContent: newText("a")}, {UserContent: newText("b"), FinalResponse: newText("Fine.")}}}
	actual := []*Invocation{{FinalResponse: newText("Anything.")}, {FinalResponse: newText("Fine.")}}
	one := 1.0
	measure := func(only bool) []*Measure {
		criterion := &Criterion{Threshold: &one, OnlyExpected: only}
		return []*Measure{{Metric: ResponseMatch, Criterion: criterion}, {Metric: ToolTrajectory, Criterion: criterion}}
	}
	o := &Options{}
	got := o.Evaluate(t.Context(), c, actual, measure(true))
	if got.Status != Passed || len(got.Overall) != 1 || *got.Overall[0].Score != 1 {
		t.Errorf("with only_expected, status = %v of %d metrics, want PASSED of response_match_score alone", got.Status, len(got.Overall))
	}
	if turns := got.Turns; turns[0].Metrics[0].Status != NotEvaluated || turns[1].Metrics[0].Status != Passed {
		t.Errorf("statuses of turns = %v, %v, want the first one not evaluated", turns[0].Metrics[0].Status, turns[1].Metrics[0].Status)
	}
	if got := o.Evaluate(t.Context(), c, actual, measure(false)); got.Status != Failed || *got.Overall[0].Score != 0.5 || len(got.Overall) != 2 {
		t.Errorf("without only_expected, status = %v, want FAILED with 0.5", got.Status)
	}
}
