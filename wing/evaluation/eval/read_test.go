package eval

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/spec"
)

// TestReadSetErrors: the error refers to the form that the file resembles, and has the
// value's line and column.
func TestReadSetErrors(t *testing.T) {
	for _, test := range []struct{ name, src, want string }{
		{"empty file", ``, `set.json:1:1: invalid JSON: unexpected end of JSON input`},
		{"syntax", "{\n  \"eval_set_id\": \"s\",\n}", `set.json:3:1: invalid JSON: invalid character '}' looking for beginning of object key string`},
		{"not UTF-8", "{\"eval_set_id\": \"\xff\"}", `set.json: file is not UTF-8; save it as UTF-8`},
		{"many values", "[" + strings.Repeat("0,", 2_000_000) + "0]", `set.json: file exceeds the limit of 2000000 values; split the file`},
		{"deep", strings.Repeat("[", 1025), `set.json: file exceeds the nesting limit of 1024; split the file`},
		{"neither form", `"text"`, `set.json:1:1: expected an object, got a string`},
		{"no ID", `{"eval_cases": []}`, `set.json:1:1: eval_set_id is required`},
		{"no cases", `{"eval_set_id": "s"}`, `set.json:1:1: eval_cases is required`},
		{"mistyped cases", "{\"eval_set_id\": \"s\",\n \"eval_case\": []}", `set.json:2:2: eval_case: unknown key (did you mean "eval_cases"?)`},
		{"wrong type", "{\"eval_set_id\": \"s\", \"eval_cases\": [\n  {\"eval_id\": 7}]}", `set.json:2:4: eval_cases[0].eval_id: expected a string, got a number`},
		{"case without ID", `{"eval_set_id": "s", "eval_cases": [{"conversation": []}]}`, `set.json:1:37: eval_cases[0]: eval_id is required`},
		{"same ID, camelCase", `{"evalSetId": "s", "evalCases": [{"evalId": "a", "conversation": []}, {"evalId": "a", "conversation": []}]}`, `set.json:1:71: eval_cases[1]: eval_id "a" appears more than once`},
		{"same ID", `{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": []}, {"eval_id": "a", "conversation": []}]}`, `set.json:1:75: eval_cases[1]: eval_id "a" appears more than once`},
		{"neither conversation nor scenario", `{"eval_set_id": "s", "eval_cases": [{"eval_id": "a"}]}`, `set.json:1:37: eval_cases[0]: conversation or conversation_scenario is required`},
		{"mistyped conversation", `{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversatoin": []}]}`, `set.json:1:54: eval_cases[0].conversatoin: unknown key (did you mean "conversation"?)`},
		{"both", `{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation": [], "conversation_scenario": {"starting_prompt": "p", "conversation_plan": "c"}}]}`, `set.json:1:37: eval_cases[0]: cannot have both conversation and conversation_scenario`},
		{"unknown key of a turn", turnOf("{\n\"user_content\": {\"parts\": []}, \"final_reponse\": {}}"), `set.json:2:32: eval_cases[0].conversation[0].final_reponse: unknown key (did you mean "final_response"?)`},
		{"no user content", turnOf(`{"final_response": {}}`), `set.json:1:70: eval_cases[0].conversation[0]: user_content is required`},
		{"both forms of data", turnOf(`{"user_content": {}, "intermediate_data": {"tool_uses": [{"name": "f"}], "invocation_events": []}}`), `set.json:1:91: eval_cases[0].conversation[0].intermediate_data: cannot have invocation_events together with tool_uses, tool_responses or intermediate_responses`},
		{"response without parts", turnOf(`{"user_content": {}, "intermediate_data": {"intermediate_responses": [["a"]]}}`), `set.json:1:140: eval_cases[0].conversation[0].intermediate_data.intermediate_responses[0]: must be a list of an author and a list of parts`},
		{"part of a response", turnOf(`{"user_content": {}, "intermediate_data": {"intermediate_responses": [["a", [{"txt": "x"}]]]}}`), `set.json:1:148: eval_cases[0].conversation[0].intermediate_data.intermediate_responses[0][1][0].txt: unknown key (did you mean "text"?)`},
		{"unknown persona", `{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation_scenario": {"starting_prompt": "p", "conversation_plan": "c", "user_persona": "EXPRT"}}]}`, `set.json:1:130: eval_cases[0].conversation_scenario.user_persona: unknown persona "EXPRT" (did you mean "EXPERT"?)`},

		{"old case without name", "[\n {\"data\": []}]", `set.json:2:2: [0]: name is required`},
		{"old case without data", `[{"name": "n"}]`, `set.json:1:2: [0]: data is required`},
		{"old case with a typo", `[{"name": "n", "dta": []}]`, `set.json:1:16: [0].dta: unknown key (did you mean "data"?)`},
		{"old turn without query", `[{"name": "n", "data": [{"reference": "r"}]}]`, `set.json:1:25: [0].data[0]: query is required`},
		{"same name", `[{"name": "n", "data": []}, {"name": "n", "data": []}]`, `set.json:1:29: [1]: eval_id "n" appears more than once`},
		{"turn with a typo", `[{"query": "q", "refrence": "r"}]`, `set.json:1:17: [0].refrence: unknown key (did you mean "reference"?)`},
		{"turn of the wrong type", `[{"query": "q", "expected_tool_use": "none"}]`, `set.json:1:17: [0].expected_tool_use: expected a list, got a string`},
		{"old call without name", `[{"query": "q", "expected_tool_use": [{"tool": "f"}]}]`, `set.json:1:39: [0].expected_tool_use[0]: tool_name is required`},
		{"turn without query", `[{"reference": "r"}]`, `set.json:1:2: [0]: query is required`},
	} {
		t.Run(test.name, func(t *testing.T) {
			_, err := ReadSet("set.json", []byte(test.src), nil)
			if err == nil {
				t.Fatal("ReadSet succeeded")
			}
			if got := describeError(err); got != test.want {
				t.Errorf("ReadSet =\n%s, want\n%s", got, test.want)
			}
		})
	}
}

func describeError(err error) string {
	var ds spec.Diagnostics
	if !errors.As(err, &ds) || len(ds) != 1 {
		return err.Error()
	}
	text := ds[0].Pos.String() + ": " + ds[0].Message
	if ds[0].Hint != "" {
		text += "; " + ds[0].Hint
	}
	return text
}

// turnOf returns a set with one turn.
func turnOf(turn string) string {
	return `{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation":[` + turn + `]}]}`
}

// TestReadTurns: a list of turns is one case, named after the file, with the session from the
// initial session file. Keys that no release reads are ignored.
func TestReadTurns(t *testing.T) {
	const src = `[{"query": "q", "expected_tool_use": [{"tool_name": "f", "tool_input": {}, "mock_tool_output": "x"}], "extra_note": 1}]`
	s, err := ReadSession("initial.session.json", []byte(`{"app_name": "a", "user_id": "u", "state": {"k": 1}}`))
	if err != nil {
		t.Fatal(err)
	}
	set, err := ReadSet("dir/a.test.json", []byte(src), &ReadOptions{
		SetID: "set", Session: s, NewID: func() string { return "id" }, Now: func() time.Time { return time.Unix(1, 5e8) },
	})
	if err != nil {
		t.Fatal(err)
	}
	text, err := EncodeFile(set)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{
  "eval_set_id": "set",
  "name": "set",
  "eval_cases": [
    {
      "eval_id": "dir/a.test.json",
      "conversation": [
        {
          "invocation_id": "id",
          "user_content": {
            "parts": [
              {
                "text": "q"
              }
            ],
            "role": "user"
          },
          "final_response": {
            "parts": [
              {
                "text": ""
              }
            ],
            "role": "model"
          },
          "intermediate_data": {
            "tool_uses": [
              {
                "args": {},
                "name": "f"
              }
            ]
          },
          "creation_timestamp": 1.5
        }
      ],
      "session_input": {
        "app_name": "a",
        "user_id": "u",
        "state": {
          "k": 1
        }
      },
      "creation_timestamp": 1.5
    }
  ],
  "creation_timestamp": 1.5
}`
	if diff := cmp.Diff(want, string(text)); diff != "" {
		t.Errorf("EncodeFile (-want +got):\n%s", diff)
	}
}

// TestInitialSessionOfOtherForms: only a list of turns has no session.
func TestInitialSessionOfOtherForms(t *testing.T) {
	for src, want := range map[string]string{
		`{"eval_set_id": "s", "eval_cases": []}`: `set.json: an eval set cannot have an initial session file; move the session to session_input of each case`,
		`[{"name": "n", "data": []}]`:            `set.json: a list of cases cannot have an initial session file; move the session to initial_session of each case`,
	} {
		_, err := ReadSet("set.json", []byte(src), &ReadOptions{Session: &SessionInput{}})
		if err == nil || describeError(err) != want {
			t.Errorf("ReadSet(%s) = %v, want %s", src, err, want)
		}
	}
}

// TestUnknownKeys: cases, session inputs and criteria keep unknown keys as they are
// written, sets too; results keep them in every object.
func TestUnknownKeys(t *testing.T) {
	const set = `{"eval_set_id":"s","eval_cases":[{"eval_id":"a","conversation":[],"session_input":{"app_name":"a","user_id":"u","my_key":1},"Own-Key":{"a_b":[null]}}],"model_execution_mode":"live"}`
	checkRoundTrip(t, []byte(set), func(file string, src []byte) (*Set, error) { return ReadSet(file, src, nil) })
	text, err := ReadSet("", []byte(set), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, encoded := range []func(any) ([]byte, error){EncodeFile, EncodeWire} {
		got, err := encoded(text)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range []string{`"my_key"`, `"Own-Key"`, `"a_b"`, `"model_execution_mode"`} {
			if !strings.Contains(string(got), key) {
				t.Errorf("%s is lost in %s", key, got)
			}
		}
	}
	const result = `{"evalSetResultId":"r","evalSetId":"s","evalCaseResults":[{"evalId":"a","finalEvalStatus":"passed","futureKey":1,"evalMetricResultPerInvocation":[],"overallEvalMetricResults":[{"metricName":"m","evalStatus":4,"later":true,"details":{"x":1}}]}],"summary":{}}`
	checkRoundTrip(t, []byte(result), ReadResult)
}

// TestWireForm: over HTTP, keys are in camelCase and nulls are left out, but a set's keys are
// in snake_case.
func TestWireForm(t *testing.T) {
	set, err := ReadSet("", []byte(turnOf(`{"userContent": {"parts": [{"functionCall": {"name": "f"}}]}}`)), nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := EncodeWire(set)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"eval_set_id":"s","eval_cases":[{"evalId":"a","conversation":[{"userContent":{"parts":[{"functionCall":{"name":"f"}}]}}]}]}`
	if string(got) != want {
		t.Errorf("EncodeWire = %s, want %s", got, want)
	}
}

// TestReadResultString: old results are JSON within a JSON string.
func TestReadResultString(t *testing.T) {
	r, err := ReadResult("r.json", []byte(`"{\"eval_set_result_id\": \"r\", \"eval_case_results\": []}"`))
	if err != nil || r.ID != "r" {
		t.Errorf("ReadResult = %v, %v", r, err)
	}
	if _, err := ReadResult("r.json", []byte(`"text"`)); err == nil || describeError(err) != `r.json:1:2: invalid JSON: invalid character 'e' in literal true (expecting 'r')` {
		t.Errorf("ReadResult = %v", err)
	}
}

// TestConfigErrors: a config is read as ADK reads it, but a mistyped key is an error.
func TestConfigErrors(t *testing.T) {
	for src, want := range map[string]string{
		`{"criteria": {"m": "high"}}`:                                                                   `c.json:1:15: criteria.m: must be a threshold or a criterion, got "high"`,
		`{"criteria": {"m": {}}}`:                                                                       `c.json:1:15: criteria.m: threshold is required`,
		`{"criteria": {"m": {"threshold": 1, "match_type": "SOME"}}}`:                                   `c.json:1:37: criteria.m.match_type: match_type must be EXACT, IN_ORDER or ANY_ORDER, got "SOME"`,
		`{"criteria": {"m": {"threshold": 1, "match_type": 3}}}`:                                        `c.json:1:37: criteria.m.match_type: match_type must be 0, 1 or 2, got 3`,
		`{"criteria": {"m": {"threshold": 1, "judge_model_options": {"num_samples": 0}}}}`:              `c.json:1:15: criteria.m: num_samples must be between 1 and 100, got 0`,
		`{"criteria": {"m": {"threshold": 1, "judge_model_options": {"parallelism_limit": 101}}}}`:      `c.json:1:15: criteria.m: parallelism_limit must be between 1 and 100, got 101`,
		`{"userSimulatorConfig": {"type": "llm"}}`:                                                      `c.json:1:2: user_simulator_config: type must be llm_backed or llm_audio, got "llm"`,
		`{"user_simulator_config": {"custom_instructions": "{{ stop_signal }} {{conversation_plan}}"}}`: `c.json:1:2: user_simulator_config: custom_instructions must contain {{ conversation_history }}`,
		`{"criterea": {}}`: `c.json:1:2: criterea: unknown key (did you mean "criteria"?)`,
	} {
		_, err := ReadConfig("c.json", []byte(src))
		if err == nil || describeError(err) != want {
			t.Errorf("ReadConfig(%s) = %v, want %s", src, err, want)
		}
	}
}

// TestCriterionRoundTrip: a criterion keeps all its fields; one with only a threshold is
// written as a number.
func TestCriterionRoundTrip(t *testing.T) {
	const src = `{"criteria": {"b": 0.5, "a": {"threshold": 1, "matchType": "in-order", "ignoreArgs": true, "partial_score": true,
		"tools": {"*": {"only": ["x"], "ignore": ["y"], "patterns": {"z": "a+"}, "tolerance": 0.1}},
		"judge_model_options": {"judge_model": "m", "judge_model_config": {"temperature": 0}, "num_samples": 3, "parallelism_limit": 2},
		"rubrics": [{"rubric_id": "r", "rubric_content": {"text_property": "p"}, "type": "t"}], "own": {"K": null}}}}`
	c, err := ReadConfig("c.json", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	text, err := EncodeFile(c)
	if err != nil {
		t.Fatal(err)
	}
	again, err := ReadConfig("c.json", text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, again); diff != "" {
		t.Errorf("ReadConfig (-first +second):\n%s", diff)
	}
	if !strings.HasPrefix(string(text), "{\n  \"criteria\": {\n    \"b\": 0.5,\n    \"a\": {\n      \"threshold\": 1.0,") {
		t.Errorf("EncodeFile = %s", text)
	}
}

// FuzzReadSet: any input is read or rejected with a position, and what is read is written
// and read equal.
func FuzzReadSet(f *testing.F) {
	for _, seed := range []string{
		turnOf(`{"user_content": {"parts": [{"text": "q"}]}, "intermediate_data": {"intermediate_responses": [["a", [{"text": "x"}]]]}}`),
		turnOf(`{"user_content": {"role": "user", "content": "q"}, "tools": [{"name": "f", "arguments": {}, "result": 1}]}`),
		`{"eval_set_id": "s", "eval_cases": [{"eval_id": "a", "conversation_scenario": {"starting_prompt": "p", "conversation_plan": "c", "user_persona": "NOVICE"}}]}`,
		`[{"name": "n", "data": [{"query": "q"}], "initial_session": {"state": {"a": 1}}}]`,
		`[{"query": "q", "reference": "r"}]`,
	} {
		f.Add([]byte(seed))
	}
	o := &ReadOptions{NewID: func() string { return "id" }, Now: func() time.Time { return time.Unix(1, 0) }}
	f.Fuzz(func(t *testing.T, src []byte) {
		set, err := ReadSet("f.json", src, o)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.json") {
				t.Errorf("ReadSet = %v, which has no position", err)
			}
			return
		}
		for _, encode := range []func(any) ([]byte, error){EncodeFile, EncodeWire} {
			text, err := encode(set)
			if err != nil {
				t.Skip(err)
			}
			again, err := ReadSet("f.json", text, o)
			if err != nil {
				t.Fatalf("%v in %s", err, text)
			}
			second, err := encode(again)
			if err != nil || string(second) != string(text) {
				t.Errorf("written again, it is\n%s\n%v, want\n%s", second, err, text)
			}
		}
	})
}
