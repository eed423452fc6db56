package evalfile_test

import (
	"slices"
	"strings"
	"testing"

	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

func formatDiagnostics(ds spec.Diagnostics) string {
	var b strings.Builder
	for _, d := range ds {
		b.WriteString(d.String() + " | " + d.Hint + "\n")
	}
	return b.String()
}

// TestReadConfig expects an error with its place for each thing in a test_config.json that a
// run cannot measure.
func TestReadConfig(t *testing.T) {
	names := &evalfile.Names{Metrics: []string{"registered", "checks.registered"}}
	for _, c := range []struct{ name, file, want string }{
		{"unknown metric", "{\"criteria\": {\n  \"response_mach\": 1}}", `c.json:2:3: unknown metric "response_mach" [eval-file] | did you mean "response_match"?`},
		{"metric by both names", `{"criteria": {"safety": 1, "safety_v1": 1}}`, "c.json:1:28: metric safety_v1 has more than one criterion [eval-file] | remove one of them"},
		{"informational metric", `{"criteria": {"token_usage_v1": 1}}`, "c.json:1:15: metric token_usage_v1 has no threshold, it is always measured [eval-file] | remove it from criteria"},
		{"python function", `{"criteria": {"own": 1}, "custom_metrics": {"own": {"code_config": {"name": "pkg.own"}}}}`, "c.json:1:15: metric own is the Python function pkg.own, which cannot be called [eval-file] | remove it from criteria, or register a Go function with its name"},
		{"no function", `{"criteria": {"own": 1}, "custom_metrics": {"own": {"code_config": null}}}`, "metric own is a custom metric without a function, which cannot be called [eval-file]"},
		{"live", `{"criteria": {"safety": 1}, "live_model_config": {"timeout_seconds": 0}}`, "c.json:1:29: live_model_config: timeout_seconds must be above 0 and at most 86400, got 0"},
		{"audio", `{"criteria": {"safety": 1}, "user_simulator_config": {"type": "llm_audio"}}`, "c.json:1:55: user_simulator_config of type llm_audio is not supported [eval-file] | use llm_backed"},
		{"pattern", `{"criteria": {"tool_trajectory": {"threshold": 1, "tools": {"f": {"patterns": {"a": "("}}}}}}`, "c.json:1:80: invalid regular expression: error parsing regexp: missing closing ): `(` [eval-file]"},
		{"tolerance", `{"criteria": {"tool_trajectory": {"threshold": 1, "tools": {"f": {"tolerance": -1}}}}}`, "c.json:1:67: tolerance must be at least 0 [eval-file]"},
		{"no rule", `{"criteria": {"tool_trajectory": {"threshold": 1, "tools": {"f": null}}}}`, "c.json:1:61: criteria.tool_trajectory.tools.f: expected an object, got null [eval-file]"},
		{"not a config", `{"criteria": []}`, "c.json:1:2: criteria: "},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, ds := evalfile.ReadConfig("c.json", []byte(c.file), names)
			if got := formatDiagnostics(ds); !ds.HasErrors() || !strings.Contains(got, c.want) {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	for _, file := range []string{
		`{"criteria": {"registered": 1}}`,
		`{"criteria": {"own": 1}, "custom_metrics": {"own": {"code_config": {"name": "checks.registered"}}}, "future": 1}`,
		`{"criteria": {"safety": 1}, "custom_metrics": {"unused": {"code_config": {"name": "f"}}}, "allow_not_evaluated": true}`,
	} {
		if _, ds := evalfile.ReadConfig("c.json", []byte(file), names); len(ds) > 0 {
			t.Errorf("%s: got %v, want no problem", file, ds)
		}
	}
}

// TestReadSetWithCaseCriteria expects case criteria in ADK sets to be checked as well.
func TestReadSetWithCaseCriteria(t *testing.T) {
	const file = `{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": [],
  "criteria": {"response_mach": 0.5}}]}`
	set, ds := evalfile.ReadSet("s.evalset.json", []byte(file), nil, &evalfile.Names{})
	const want = `s.evalset.json:2:16: unknown metric "response_mach" [eval-file] | did you mean "response_match"?` + "\n"
	if got := formatDiagnostics(ds); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if again, err := eval.EncodeFile(set); err != nil || !strings.Contains(string(again), `"criteria": {`) {
		t.Errorf("EncodeFile = %s, %v, want the criteria of the case", again, err)
	}
}

// TestSetCoverage expects warnings with places for what no metric in a set can score. Recorded
// calls and responses may stay without a metric. The metrics come from the config next to the
// set.
func TestSetCoverage(t *testing.T) {
	const file = `{"eval_set_id": "s", "eval_cases": [
  {"eval_id": "a", "conversation": [
    {"user_content": {}, "intermediate_data": {"tool_uses": [{"name": "f"}]}, "final_response": {"parts": [{"text": "hi"}]}},
    {"user_content": {}, "rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "p"}}]}]},
  {"eval_id": "b",
   "conversation_scenario": {"starting_prompt": "hi", "conversation_plan": "p"}}]}`
	for _, c := range []struct{ name, config, want string }{
		{"default", "", `s.evalset.json:4:26: warning: no metric judges rubrics of the type "" [eval-unscored]
s.evalset.json:4:5: warning: response_match_score is 0 for a turn without an expected response [eval-no-text]
s.evalset.json:6:4: warning: metric response_match_score cannot score the case: turns with a simulated user have no expectations [eval-plan]
s.evalset.json:6:4: warning: metric tool_trajectory_avg_score cannot score the case: turns with a simulated user have no expectations [eval-plan]
`},
		{
			"config", `{"criteria": {"response_match_score": {"threshold": 1, "only_expected": true}, "safety_v1": 1}}`,
			"s.evalset.json:4:26: warning: no metric judges rubrics of the type \"\" [eval-unscored]\n",
		},
		{
			"custom metric", `{"criteria": {"short": {"threshold": 1, "expr": "len(text) < 9"}}}`,
			"s.evalset.json:4:26: warning: no metric judges rubrics of the type \"\" [eval-unscored]\n",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			names := &evalfile.Names{}
			if c.config != "" {
				names.Config, _ = evalfile.ReadConfig("test_config.json", []byte(c.config), names)
			}
			_, ds := evalfile.ReadSet("s.evalset.json", []byte(file), nil, names)
			var lines []string
			for _, d := range ds {
				lines = append(lines, d.String()+"\n")
			}
			slices.Sort(lines)
			if got := strings.Join(lines, ""); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
