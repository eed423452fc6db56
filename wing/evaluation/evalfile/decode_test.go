package evalfile_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

const wholeFile = `
description: Orders.
metrics:
  rubric_based_quality: {threshold: 0.8, rubrics: [polite], judge_model_options: {judge_model: critic, num_samples: 1}}
  tool_trajectory: {threshold: 1, match_type: ANY_ORDER, tools: {find: {only: [id], patterns: {id: "[0-9]+"}}}}
  safety: 0.5
rubrics:
  polite: The answer is polite.
user_simulator_config: {model: critic, max_allowed_invocations: 3}
cases:
  - name: status
    user: Where is order 7?
    state: {tier: gold}
    expect:
      text: It is shipped.
      calls: [{name: find, args: {id: "7"}}, {name: list}]
      rubrics: {exact: {text: "The answer names the order.", type: TOOL_USE_QUALITY}}
    then:
      - user: Thanks.
    final_state: {last: "7"}
    rubrics: [polite]
  - name: refund
    user: I want my money back.
    plan: Give the number 7 when the agent requests it.
    persona: NOVICE
`

// TestReadWholeFile expects the ADK set that a file describes.
func TestReadWholeFile(t *testing.T) {
	f, ds := evalfile.Read("desk/orders.eval.yaml", []byte(wholeFile), &evalfile.Names{})
	if ds.HasErrors() {
		t.Fatal(ds)
	}
	got, err := eval.EncodeFile(f.Set)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := eval.ReadSet("orders.evalset.json", got, nil); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`"eval_set_id": "orders"`, `"eval_id": "status"`, `"tier": "gold"`, `"text": "Where is order 7?"`, `"text": "It is shipped."`,
		`"rubric_id": "exact"`, `"type": "TOOL_USE_QUALITY"`, `"type": "FINAL_RESPONSE_QUALITY"`, `"last": "7"`,
		`"starting_prompt": "I want my money back."`, `"id": "NOVICE"`,
	} {
		if !strings.Contains(string(got), want) {
			t.Errorf("the set has no %s:\n%s", want, got)
		}
	}
	if calls := f.Cases[0].Conversation[0].Calls(); len(calls) != 2 || calls[0].Args["id"] != "7" || calls[1].Args == nil {
		t.Errorf("calls = %+v, want find and list, with arguments that are not nil", calls)
	}
	measures := f.Config.Measures()
	if len(measures) != 3 || measures[0].Metric != eval.RubricFinalResponse || measures[1].Criterion.MatchType != eval.MatchAnyOrder || *measures[2].Threshold != 0.5 {
		t.Errorf("measures = %+v, want those of the file in order", measures)
	}
	if *f.Config.Simulator.MaxMessages != 3 {
		t.Errorf("simulator = %+v", f.Config.Simulator)
	}
}

// TestDecodeErrors expects each error that an author can cause, with its place and hint.
func TestDecodeErrors(t *testing.T) {
	const hi = "cases:\n- {name: a, user: hi, expect: {text: hi}}\n"
	for _, c := range []struct{ name, file, want string }{
		{"no cases", "cases: []\n", "1:8: cases has no case [eval] | add - name: NAME, user: TEXT and expect: {text: TEXT}"},
		{"list of cases", "- name: a\n  user: hi\n", "1:1: an eval file must be a mapping, got a list [eval] | write the list under cases:"},
		{"oldest form of ADK", "[{query: hi, reference: hi}]\n", "1:1: an eval file must be a mapping, got a list [eval] | this is an ADK form: give the file a name such as orders.evalset.yaml"},
		{"form of ADK", "eval_set_id: a\neval_cases: []\n", "1:1: eval_cases is a key in ADK's eval sets [eval] | give the file a name such as orders.evalset.yaml, or write the cases under cases:"},
		{"no name", "cases: [{user: hi}]\n", "1:9: missing field \"name\" [required]"},
		{"unknown key", "cases: [{name: a, usr: hi}]\n", `did you mean "user"?`},
		{"duplicate case", "cases:\n- {name: a, user: hi, expect: {text: hi}}\n- {name: a, user: ho, expect: {text: hi}}\n", "3:10: duplicate case name, first used in line 2 [duplicate-name]"},
		{"case name", "cases: [{name: 'a:b', user: hi, expect: {text: hi}}]\n", `a case name cannot contain ":" [eval]`},
		{"no user", "cases: [{name: a, expect: {text: hi}}]\n", "1:9: a turn requires user, confirm or respond [eval]"},
		{"expects nothing", "cases: [{name: a, user: hi}]\n", "1:9: warning: the case expects nothing from the agent [eval-expects-nothing] | add expect: {text: TEXT}, or rubrics:"},
		{"plan and expect", "cases: [{name: a, user: hi, plan: p, expect: {text: hi}}]\n", "plan and expect are mutually exclusive [eval]"},
		{"plan without user", "cases: [{name: a, plan: p}]\n", "plan requires user, the simulated user's first message [eval]"},
		{"persona without plan", "cases: [{name: a, user: hi, persona: NOVICE}]\n", "persona requires plan [eval]"},
		{"unknown persona", "cases: [{name: a, user: hi, plan: p, persona: NOVIC}]\n", `unknown persona "NOVIC" [unknown-name] | did you mean "NOVICE"?`},
		{"unknown metric", "metrics: {respnse_match: 1}\n" + hi, `1:11: unknown metric "respnse_match" [unknown-name] | did you mean "response_match"?`},
		{"no metric", "metrics: {}\n" + hi, "1:10: metrics has no metric [eval] | metrics: {response_match: 0.8}"},
		{"list of metrics", "metrics: [safety]\n" + hi, "1:10: metrics must be a mapping of metrics to thresholds or criteria [type]"},
		{"informational metric", "metrics: {token_usage_v1: 1}\n" + hi, "metric token_usage_v1 has no threshold, it is always measured [eval] | remove it"},
		{"metric by both names", "metrics: {safety: 1, safety_v1: 1}\n" + hi, "metric safety_v1 has more than one criterion [duplicate-name]"},
		{"no number", "metrics: {safety: high}\n" + hi, "1:19: safety_v1 must be a threshold or a criterion [type] | such as safety_v1: 1"},
		{"threshold", "metrics: {safety: 2}\n" + hi, "1:19: the threshold of safety_v1 must be between 0 and 1, got 2 [value]"},
		{"key of another metric", "metrics: {safety: {threshold: 1, match_type: EXACT}}\n" + hi, "metric safety_v1 does not use match_type [eval] | remove it, or use it with tool_trajectory_avg_score"},
		{"samples", "metrics: {safety: {threshold: 1, judge_model_options: {num_samples: 0}}}\n" + hi, "must be between 1 and 100 [value]"},
		{"tolerance", "metrics: {tool_trajectory: {threshold: 1, tools: {f: {tolerance: -1}}}}\n" + hi, "must be at least 0 [value]"},
		{"pattern", "metrics: {tool_trajectory: {threshold: 1, tools: {f: {patterns: {a: '('}}}}}\n" + hi, "invalid regular expression: error parsing regexp: missing closing ): `(` [value]"},
		{"metric of turns with a plan", "metrics: {response_match: 1}\ncases: [{name: a, user: hi, plan: p}]\n", "2:35: warning: metric response_match_score cannot score the case: turns with a simulated user have no expectations [eval-plan] | move the case to its own file, or set only_expected: true in the criterion"},
		{"plan with the default metrics", "cases: [{name: a, user: hi, plan: p}]\n", "warning: metric tool_trajectory_avg_score cannot score the case"},
		{"turn without text", hi + "- {name: b, user: hi, expect: {calls: []}}\n- {name: c, user: hi, expect: {calls: []}}\n", "3:3: warning: response_match_score is 0 for a turn without an expected response (and 1 more case) [eval-no-text] | add expect: {text: TEXT}, or set only_expected: true in the criterion"},
		{"later turn without text", "cases:\n- name: b\n  user: hi\n  expect: {text: hi}\n  then: [{user: hi}]\n", "5:10: warning: response_match_score is 0 for a turn without an expected response [eval-no-text]"},
		{"calls without a metric", "metrics: {response_match: 1}\ncases: [{name: a, user: hi, expect: {text: hi, calls: []}}]\n", "2:55: warning: the expected calls are not compared by any metric [eval-unscored] | add tool_trajectory: 1 to metrics"},
		{"text without a metric", "metrics: {tool_trajectory: 1}\ncases: [{name: a, user: hi, expect: {text: hi, calls: []}}]\n", "2:44: warning: the expected response is not compared by any metric [eval-unscored] | add response_match: 0.8 to metrics"},
		{"rubrics without a metric", "cases: [{name: a, user: hi, expect: {text: hi}, rubrics: {polite: Is polite.}}]\n", "1:58: warning: the rubrics are not judged without the metric rubric_based_final_response_quality_v1 [eval-unscored] | add it to metrics"},
		{"rubrics of a turn without a metric", "cases: [{name: a, user: hi, expect: {text: hi, rubrics: {fast: {text: Is fast., type: TOOL_USE_QUALITY}}}}]\n", "1:57: warning: the rubrics are not judged without the metric rubric_based_tool_use_quality_v1 [eval-unscored]"},
		{"metric without rubrics", "metrics: {rubric_based_quality: 1}\n" + hi, "3:3: warning: metric rubric_based_final_response_quality_v1 has no rubrics for the case [eval-no-rubrics] | add rubrics: {NAME: TEXT} to the criterion or to the case"},
		{"user and confirm", "cases: [{name: a, user: hi, confirm: true}]\n", "1:38: user and confirm are mutually exclusive [eval]"},
		{"payload of a rejection", "cases: [{name: a, confirm: false, payload: 1}]\n", "1:44: payload requires confirm: true [eval]"},
		{"parts of a response", "cases: [{name: a, respond: {f: 1}, parts: [{text: a}]}]\n", "1:43: parts cannot be combined with respond [eval]"},
		{"plan and confirm", "cases: [{name: a, user: hi, plan: p, then: [{confirm: true}]}]\n", "plan and then are mutually exclusive [eval]"},
		{"match without state", "cases: [{name: a, user: hi, final_state_match: EXACT}]\n", "1:48: final_state_match requires final_state [eval]"},
		{"match of state", "cases: [{name: a, user: hi, final_state: {}, final_state_match: whole}]\n", `1:65: "whole" is not one of: SUBSET, EXACT [enum]`},
		{"metric of a case", "cases: [{name: a, user: hi, metrics: {saftey: 1}}]\n", `1:39: unknown metric "saftey" [unknown-name] | did you mean "safety"?`},
		{"unknown rubric", "rubrics: {polite: Is polite.}\ncases: [{name: a, user: hi, rubrics: [polit]}]\n", `unknown rubric "polit" [unknown-name] | did you mean "polite"?`},
		{"rubric twice", "rubrics: {polite: Is polite.}\ncases: [{name: a, user: hi, rubrics: [polite, polite]}]\n", `rubric "polite" appears more than once [duplicate-name]`},
		{"rubric of case and turn", "rubrics: {polite: Is polite.}\ncases: [{name: a, user: hi, rubrics: [polite], expect: {rubrics: [polite]}}]\n", `rubric "polite" is also in the case [duplicate-name]`},
		{"rubrics as text", "rubrics: polite\n" + hi, "rubrics must be a mapping of IDs to properties, or a list of rubric IDs in the file [type]"},
		{"empty rubric", "rubrics: {polite: ''}\n" + hi, `rubric "polite" has no text [eval]`},
		{"instructions", "user_simulator_config: {custom_instructions: Go.}\n" + hi, "custom_instructions must contain {{ stop_signal }} [eval]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, ds := evalfile.Read("a.eval.yaml", []byte(c.file), &evalfile.Names{})
			var all strings.Builder
			for _, d := range ds {
				all.WriteString(d.String() + " | " + d.Hint + "\n")
			}
			if !strings.Contains(all.String(), c.want) {
				t.Errorf("got %s, want %s", all.String(), c.want)
			}
		})
	}
}

// TestCaseMetrics expects a case's criteria next to the file's.
func TestCaseMetrics(t *testing.T) {
	f, ds := evalfile.Read("a.eval.yaml", []byte(`
metrics: {response_match: 0.8, tool_trajectory: {threshold: 1, match_type: IN_ORDER}}
cases:
- {name: loose, user: hi, metrics: {tool_trajectory: 0.5, safety: 1}, expect: {text: hi}}
`), &evalfile.Names{})
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	var got []string
	for _, m := range eval.MergeMeasures(f.Config.Measures(), f.Cases[0].Criteria) {
		got = append(got, fmt.Sprintf("%s %g %s", m.Metric, *m.Threshold, m.Criterion.MatchType))
	}
	want := []string{"response_match_score 0.8 EXACT", "tool_trajectory_avg_score 0.5 IN_ORDER", "safety_v1 1 EXACT"}
	if !slices.Equal(got, want) {
		t.Errorf("metrics of the case = %q, want %q", got, want)
	}
	if all := f.Config.Measures(); *all[1].Threshold != 1 {
		t.Errorf("the threshold of the set changed to %g", *all[1].Threshold)
	}
}

// TestUnknownTool expects that expected calls name the app's tools.
func TestUnknownTool(t *testing.T) {
	n, _ := spec.Parse("a.eval.yaml", []byte("cases: [{name: a, user: hi, expect: {calls: [{name: fnd}]}}]\n"))
	_, ds := evalfile.Decode(n, &evalfile.Names{Tools: []string{"find"}})
	if len(ds) != 1 || ds[0].String() != "a.eval.yaml:1:53: the app has no tool fnd [unknown-name]" || ds[0].Hint != `did you mean "find"?` {
		t.Errorf("got %v", ds)
	}
}

// TestRegisteredMetric expects a Go program's metrics to be known, and named in hints.
func TestRegisteredMetric(t *testing.T) {
	names := &evalfile.Names{Metrics: []string{"tone"}}
	f, ds := evalfile.Read("a.eval.yaml", []byte("metrics: {tone: 3}\ncases: [{name: a, user: hi}]\n"), names)
	if len(ds) > 0 || *f.Config.Measures()[0].Threshold != 3 {
		t.Errorf("got %v, want no problem and the threshold 3", ds)
	}
	_, ds = evalfile.Read("a.eval.yaml", []byte("metrics: {tine: 3}\ncases: [{name: a, user: hi}]\n"), names)
	if got := formatDiagnostics(ds); !strings.Contains(got, `1:11: unknown metric "tine" [unknown-name] | did you mean "tone"?`) {
		t.Errorf("got %s, want the suggestion tone", got)
	}
}

// TestExpressionScore expects true and false as 1 and 0, a number as it is, and an error for
// anything else and when a limit is exceeded.
func TestExpressionScore(t *testing.T) {
	for _, c := range []struct{ source, want string }{
		{"true", "1"},
		{"text contains \"b\"", "0"},
		{"0.25", "0.25"},
		{"1", "1"},
		{"turn == 1 ? nil : 1", "none"},
		{"2", "2 is 2, expected a number from 0 to 1"},
		{"0 / 0", "cannot evaluate 0 / 0: division by zero"},
		{"state.x", `state.x is high, expected true, false or a number from 0 to 1`},
		{"len(map(1..300000, # * 2)) > 0", "cannot evaluate len(map(1..300000, # * 2)) > 0: "},
	} {
		e, err := evalfile.CompileExpression(c.source, nil)
		if err != nil {
			t.Errorf("CompileExpression(%s): %v", c.source, err)
			continue
		}
		got := "none"
		score, _, err := e.ScoreTurn(t.Context(), map[string]any{"text": "a", "turn": 1, "state": map[string]any{"x": "high"}})
		switch {
		case err != nil:
			got = err.Error()
		case score != nil:
			got = fmt.Sprint(*score)
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("ScoreTurn(%s) = %s, want %s", c.source, got, c.want)
		}
	}
}
