package eval

import "testing"

// TestStatusErrors: a status is a number or a name.
func TestStatusErrors(t *testing.T) {
	for status, want := range map[string]string{
		`0`:        `r.json:1:24: eval_case_results[0].final_eval_status: status must be between 1 and 4, got 0`,
		`"passd"`:  `r.json:1:24: eval_case_results[0].final_eval_status: unknown status "passd" (did you mean "PASSED"?)`,
		`[]`:       `r.json:1:24: eval_case_results[0].final_eval_status: status must be a number or a name`,
		`"failed"`: ``,
	} {
		got := ""
		if _, err := ReadResult("r.json", []byte(`{"eval_case_results":[{"final_eval_status":`+status+`}]}`)); err != nil {
			got = describeError(err)
		}
		if got != want {
			t.Errorf("ReadResult(%s) = %q, want %q", status, got, want)
		}
	}
}

// TestResultKeepsNulls: result files have the keys that ADK requires, also without a value;
// over HTTP they are left out.
func TestResultKeepsNulls(t *testing.T) {
	r := &MetricResult{Metric: "m", Status: NotEvaluated}
	file, err := EncodeFile(r)
	if err != nil {
		t.Fatal(err)
	}
	const wantFile = "{\n  \"metric_name\": \"m\",\n  \"threshold\": null,\n  \"criterion\": null,\n  \"score\": null,\n  \"eval_status\": 3,\n  \"details\": null\n}"
	if string(file) != wantFile {
		t.Errorf("EncodeFile = %s, want %s", file, wantFile)
	}
	wire, err := EncodeWire(r)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"metricName":"m","evalStatus":3}`; string(wire) != want {
		t.Errorf("EncodeWire = %s, want %s", wire, want)
	}
}

// TestSetCase: cases are found by their ID.
func TestSetCase(t *testing.T) {
	s := &Set{Cases: []*Case{{ID: "a"}, {ID: "b"}}}
	if s.Case("b") != s.Cases[1] || s.Case("c") != nil {
		t.Errorf("Case = %v, %v", s.Case("b"), s.Case("c"))
	}
}

// TestInvalidNames: IDs for new sets and path segments are checked with their value.
func TestInvalidNames(t *testing.T) {
	for err, want := range map[error]string{
		CheckNewSetID("my set"):   `eval set ID must consist of letters, digits and underscores, got "my set"`,
		CheckPathSegment("../up"): `cannot use "../up" as a file name`,
	} {
		if err == nil || err.Error() != want {
			t.Errorf("error = %v, want %s", err, want)
		}
	}
}

// TestScenarioIDEscapes: the hash is over what Python writes.
func TestScenarioIDEscapes(t *testing.T) {
	if got, want := quoteASCII("é\n\"\\\x01😀\x7f"), `"\u00e9\n\"\\\u0001\ud83d\ude00\u007f"`; got != want {
		t.Errorf("quoteASCII = %s, want %s", got, want)
	}
}

// TestParameterMatch: the score is the mean over the expected calls; a turn without any is
// not evaluated.
func TestParameterMatch(t *testing.T) {
	turn := func(calls string) *Invocation {
		return &Invocation{Intermediate: &Intermediate{ToolUses: callsOf(t, calls)}}
	}
	s := measureOne(t, ToolParameterMatch, &Input{
		Actual:   []*Invocation{turn(`[{"name": "f", "args": {"a": 1, "b": 3}}]`), turn(`[{"name": "g"}]`)},
		Expected: []*Invocation{turn(`[{"name": "f", "args": {"a": 1, "b": 2}}, {"name": "h"}]`), turn(`[]`)},
	})
	checkScore(t, s, 0.25, Failed)
	if s.Turns[1].Status != NotEvaluated {
		t.Errorf("turn without calls = %v", s.Turns[1].Status)
	}
}
