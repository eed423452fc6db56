package eval

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/session"
)

// A vector is an input and what ADK computes from it.
type vector struct {
	ID       string          `json:"id"`
	Group    string          `json:"group"`
	Input    json.RawMessage `json:"input"`
	Expected json.RawMessage `json:"expected"`
}

// TestVectorsFromADK: every metric computes what ADK computes. Numbers agree to 1e-9.
func TestVectorsFromADK(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "adk_vectors.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	groups := vectorGroups()
	run := map[string]int{}
	for line := range bytes.Lines(text) {
		var v vector
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		t.Run(v.ID, func(t *testing.T) {
			check := groups[v.Group]
			if check == nil {
				t.Fatalf("no check for group %s", v.Group)
			}
			got := check(t, v.Input)
			want := decodeAny(t, v.Expected)
			compareVector(t, "", decodeAny(t, []byte(toJSON(t, got))), want)
		})
		run[v.Group]++
	}
	for group := range groups {
		if run[group] == 0 {
			t.Errorf("group %s has no vectors", group)
		}
	}
}

func decodeAny(t *testing.T, text []byte) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func toJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// compareVector compares want's members; got may have more.
func compareVector(t *testing.T, path string, got, want any) {
	t.Helper()
	switch want := want.(type) {
	case map[string]any:
		got, ok := got.(map[string]any)
		if !ok {
			t.Errorf("%s = %v, want %v", path, got, want)
			return
		}
		for k, w := range want {
			compareVector(t, path+"."+k, got[k], w)
		}
		for k := range got {
			if _, ok := want[k]; !ok && strings.HasSuffix(path, "ubricScores") {
				t.Errorf("%s has %q, which is not expected", path, k)
			}
		}
	case []any:
		got, ok := got.([]any)
		if !ok || len(got) != len(want) {
			t.Errorf("%s = %v, want %v", path, got, want)
			return
		}
		for i, w := range want {
			compareVector(t, fmt.Sprintf("%s[%d]", path, i), got[i], w)
		}
	case float64:
		if f, ok := got.(float64); !ok || math.Abs(f-want) > 1e-9 {
			t.Errorf("%s = %v, want %v", path, got, want)
		}
	default:
		if got != want {
			t.Errorf("%s = %v, want %v", path, got, want)
		}
	}
}

// in decodes a vector's input.
func in[T any](t *testing.T, text json.RawMessage) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

type result map[string]any

type vectorCheck func(t *testing.T, input json.RawMessage) any

func vectorGroups() map[string]vectorCheck {
	return map[string]vectorCheck{
		"porter": func(t *testing.T, input json.RawMessage) any {
			v := in[struct{ Word string }](t, input)
			return result{"stem": stemWord(v.Word)}
		},
		"tokenize": func(t *testing.T, input json.RawMessage) any {
			v := in[struct {
				Text, Rules string
				Stem        bool
			}](t, input)
			tok := tokenizer{stem: v.Stem, tokens: []string{}}
			if v.Rules == "2.5" {
				tok.addASCII(lowerFully(v.Text))
			} else {
				tok.addText(v.Text)
			}
			return result{"tokens": tok.tokens}
		},
		"rouge1": func(t *testing.T, input json.RawMessage) any {
			v := in[struct{ Candidate, Reference string }](t, input)
			p, r, f := Rouge1(v.Candidate, v.Reference)
			var old1, old2 tokenizer
			old1.stem, old2.stem = true, true
			old1.addASCII(lowerFully(v.Candidate))
			old2.addASCII(lowerFully(v.Reference))
			_, _, old := scoreOverlap(old1.tokens, old2.tokens)
			return result{"precision": p, "recall": r, "fmeasure": f, "fmeasureUpTo2_5": old}
		},
		"rouge1-case":                 checkRougeCase,
		"trajectory":                  checkTrajectory,
		"trajectory-case":             checkTrajectoryCase,
		"match-type":                  checkMatchType,
		"tool-parameter-match":        checkParameterMatch,
		"judge-answer-v2":             checkAnswer(readMatchAnswer),
		"judge-answer-user-simulator": checkAnswer(readSimulatorAnswer),
		"majority-vote": func(t *testing.T, input json.RawMessage) any {
			v := in[struct{ Samples []*float64 }](t, input)
			i := chooseSample(v.Samples)
			return result{"chosenSample": i, "score": v.Samples[i]}
		},
		"judge-overall-v2":       checkOverall,
		"user-simulator-overall": checkSimulatorOverall,
		"rubric-answer":          checkRubricAnswer,
		"rubric-text-equal": func(t *testing.T, input json.RawMessage) any {
			v := in[struct{ A, B string }](t, input)
			old := func(s string) string { return strings.ToLower(strings.TrimSpace(s)) }
			return result{
				"equal": normalizeProperty(v.A) == normalizeProperty(v.B), "normalized": normalizeProperty(v.A),
				"equalUpTo2_6": old(v.A) == old(v.B),
			}
		},
		"rubric-samples":        checkRubricSamples,
		"rubric-overall":        checkRubricOverall,
		"hallucination-labels":  checkLabels,
		"hallucination-overall": checkHallucinationOverall,
		"hallucination-answer":  checkHallucinationAnswer,
		"hallucination-segments": func(t *testing.T, input json.RawMessage) any {
			v := in[struct{ Text string }](t, input)
			return result{"sentences": append([]string{}, readSentences(v.Text)...)}
		},
		"case-status": checkCaseStatus,
		"threshold": func(t *testing.T, input json.RawMessage) any {
			v := in[struct{ Score, Threshold float64 }](t, input)
			return result{"status": StatusOf(&v.Score, v.Threshold).String()}
		},
		"multi-run": func(t *testing.T, input json.RawMessage) any {
			v := in[struct {
				Runs      [][]*float64
				Threshold float64
			}](t, input)
			score, status := mergeScores(v.Runs, v.Threshold)
			return result{"score": score, "status": status.String()}
		},
		"cli-selector":          checkSelections,
		"scenario-case-id":      checkScenarioID,
		"id":                    checkIDs,
		"efficiency":            checkEfficiency,
		"old-format":            checkOldFormat,
		"events-to-invocations": checkTurns,
		"eval-config":           checkConfig,
		"user-simulator":        checkSimulator,
		"result-name": func(t *testing.T, input json.RawMessage) any {
			v := in[struct {
				App, EvalSet string
				Timestamp    float64
			}](t, input)
			r := NewSetResult(v.App, v.EvalSet, v.Timestamp)
			return result{"evalSetResultId": r.ID, "evalSetResultName": r.Name, "file": r.Name + ResultSuffix}
		},
	}
}

func turnsOf(texts []string) []*Invocation {
	var turns []*Invocation
	for _, s := range texts {
		turns = append(turns, &Invocation{FinalResponse: genai.NewContentFromText(s, genai.RoleModel)})
	}
	return turns
}

func scoresResult(s *Scores) result {
	turns := []result{}
	for _, turn := range s.Turns {
		turns = append(turns, result{"score": turn.Score, "status": turn.Status.String()})
	}
	return result{"perInvocation": turns, "overall": s.Overall, "overallStatus": s.Status.String()}
}

func checkRougeCase(t *testing.T, input json.RawMessage) any {
	v := in[struct {
		Actual, Expected []string
		Threshold        float64
	}](t, input)
	m, _ := FindMetric(ResponseMatch)
	s, err := m.Measure(t.Context(), &Input{Actual: turnsOf(v.Actual), Expected: append([]*Invocation{}, turnsOf(v.Expected)...), Threshold: v.Threshold, Criterion: &Criterion{}})
	if err != nil {
		t.Fatal(err)
	}
	return scoresResult(s)
}

// A vectorCalls has a vector's calls, read like a file's.
type vectorCalls struct{ Actual, Expected json.RawMessage }

func (v vectorCalls) turns(t *testing.T) (actual, expected *Invocation) {
	read := func(calls json.RawMessage) *Invocation {
		inv := &Invocation{}
		text := fmt.Sprintf(`{"user_content":{"parts":[]},"intermediate_data":{"tool_uses":%s}}`, calls)
		if err := Decode("vector", []byte(text), inv); err != nil {
			t.Fatal(err)
		}
		return inv
	}
	return read(v.Actual), read(v.Expected)
}

func checkTrajectory(t *testing.T, input json.RawMessage) any {
	v := in[struct {
		vectorCalls
		MatchType  string
		IgnoreArgs bool
	}](t, input)
	kind, err := ParseMatchType(v.MatchType)
	if err != nil {
		t.Fatal(err)
	}
	m, err := newCallMatcher(&Criterion{MatchType: kind, IgnoreArgs: v.IgnoreArgs})
	if err != nil {
		t.Fatal(err)
	}
	actual, expected := v.turns(t)
	return result{"score": m.scoreCalls(actual.Calls(), expected.Calls())}
}

func checkTrajectoryCase(t *testing.T, input json.RawMessage) any {
	v := in[struct {
		Invocations []vectorCalls
		Threshold   float64
		MatchType   string
	}](t, input)
	kind, err := ParseMatchType(v.MatchType)
	if err != nil {
		t.Fatal(err)
	}
	input2 := &Input{Threshold: v.Threshold, Criterion: &Criterion{MatchType: kind}}
	for _, calls := range v.Invocations {
		actual, expected := calls.turns(t)
		input2.Actual, input2.Expected = append(input2.Actual, actual), append(input2.Expected, expected)
	}
	m, _ := FindMetric("tool_trajectory")
	s, err := m.Measure(t.Context(), input2)
	if err != nil {
		t.Fatal(err)
	}
	return scoresResult(s)
}

func checkMatchType(t *testing.T, input json.RawMessage) any {
	v := in[struct{ MatchType json.RawMessage }](t, input)
	c := &Criterion{}
	if err := Decode("vector", fmt.Appendf(nil, `{"match_type":%s}`, v.MatchType), c); err != nil {
		return result{"error": true}
	}
	return result{"matchType": c.MatchType.String()}
}

func checkParameterMatch(t *testing.T, input json.RawMessage) any {
	actual, expected := in[vectorCalls](t, input).turns(t)
	return result{"score": scoreParameters(actual.Calls(), expected.Calls())}
}

func checkAnswer(read func(string) *float64) vectorCheck {
	return func(t *testing.T, input json.RawMessage) any {
		score := read(in[struct{ Text string }](t, input).Text)
		label := "NOT_FOUND"
		if score != nil {
			label = map[float64]string{0: "INVALID", 1: "VALID"}[*score]
		}
		return result{"label": label, "score": score}
	}
}

func checkOverall(t *testing.T, input json.RawMessage) any {
	v := in[struct {
		InvocationScores []*float64
		Threshold        float64
	}](t, input)
	mean := meanOf(v.InvocationScores)
	return result{"overall": mean, "status": StatusOf(mean, v.Threshold).String()}
}

func checkSimulatorOverall(t *testing.T, input json.RawMessage) any {
	v := in[struct {
		TurnScores []*float64
		Threshold  float64
	}](t, input)
	var turns []*TurnScore
	for _, s := range v.TurnScores {
		turns = append(turns, &TurnScore{Score: s, Status: StatusOf(s, v.Threshold)})
	}
	score := sharePassed(turns)
	return result{"overall": score, "status": StatusOf(score, v.Threshold).String()}
}

func checkRubricAnswer(t *testing.T, input json.RawMessage) any {
	verdicts := []result{}
	for _, v := range readRubricAnswer(in[struct{ Text string }](t, input).Text) {
		r := result{"id": nil, "property": v.Property, "rationale": v.Rationale, "score": v.Score}
		if v.ID != "" {
			r["id"] = v.ID
		}
		verdicts = append(verdicts, r)
	}
	return result{"verdicts": verdicts}
}

func rubricLists(maps []map[string]*float64) [][]*RubricScore {
	var lists [][]*RubricScore
	for _, m := range maps {
		var list []*RubricScore
		for id, score := range m {
			list = append(list, &RubricScore{RubricID: id, Score: score})
		}
		lists = append(lists, list)
	}
	return lists
}

func rubricMap(scores []*RubricScore) map[string]*float64 {
	m := map[string]*float64{}
	for _, s := range scores {
		m[s.RubricID] = s.Score
	}
	return m
}

func checkRubricSamples(t *testing.T, input json.RawMessage) any {
	v := in[struct {
		Samples   []map[string]*float64
		Threshold float64
	}](t, input)
	merged, score := mergeRubricSamples(rubricLists(v.Samples))
	return result{"rubricScores": rubricMap(merged), "score": score, "status": StatusOf(score, v.Threshold).String()}
}

func checkRubricOverall(t *testing.T, input json.RawMessage) any {
	v := in[struct {
		Invocations []map[string]*float64
		Threshold   float64
	}](t, input)
	overall, means := averageRubrics(rubricLists(v.Invocations))
	return result{"overall": overall, "status": StatusOf(overall, v.Threshold).String(), "overallRubricScores": rubricMap(means)}
}

func checkLabels(t *testing.T, input json.RawMessage) any {
	return result{"score": scoreLabels(in[struct{ Labels []string }](t, input).Labels)}
}

func checkHallucinationOverall(t *testing.T, input json.RawMessage) any {
	v := in[struct {
		StepScores [][]*float64
		Threshold  float64
	}](t, input)
	var turns []result
	var scores []*float64
	for _, steps := range v.StepScores {
		score := meanOf(steps)
		scores = append(scores, score)
		turns = append(turns, result{"score": score, "status": StatusOf(score, v.Threshold).String()})
	}
	overall := meanOf(scores)
	return result{"invocations": turns, "overall": overall, "status": StatusOf(overall, v.Threshold).String()}
}

func checkHallucinationAnswer(t *testing.T, input json.RawMessage) any {
	blocks, labels := []result{}, []string{}
	for _, b := range readSupport(in[struct{ Text string }](t, input).Text) {
		orNull := func(s string) any {
			if s == "" {
				return nil
			}
			return s
		}
		labels = append(labels, b.Label)
		blocks = append(blocks, result{
			"sentence": b.Sentence, "label": b.Label, "rationale": b.Rationale,
			"supporting_excerpt": orNull(b.Supporting), "contradicting_excerpt": orNull(b.Contradicting),
		})
	}
	return result{"blocks": blocks, "score": scoreLabels(labels)}
}

func checkCaseStatus(t *testing.T, input json.RawMessage) any {
	var all []Status
	for _, name := range in[struct{ MetricStatuses []string }](t, input).MetricStatuses {
		s, err := ParseStatus(name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	final := FinalStatus(all)
	counted := "failed"
	if final == Passed {
		counted = "passed"
	}
	return result{"finalStatus": final.String(), "countedAs": counted}
}

func checkSelections(t *testing.T, input json.RawMessage) any {
	sets := map[string][]string{}
	for _, s := range ParseSelections(in[struct{ Arguments []string }](t, input).Arguments) {
		sets[s.Set] = append([]string{}, s.Cases...)
	}
	return result{"sets": sets}
}

func checkScenarioID(t *testing.T, input json.RawMessage) any {
	s := &Scenario{}
	if err := Decode("vector", in[struct{ Scenario json.RawMessage }](t, input).Scenario, s); err != nil {
		t.Fatal(err)
	}
	return result{"evalId": s.CaseID(), "hashed": s.hashText()}
}

func checkIDs(t *testing.T, input json.RawMessage) any {
	id := in[struct{ EvalSetID string }](t, input).EvalSetID
	return result{"createAccepted": CheckNewSetID(id) == nil, "pathSegmentAccepted": CheckPathSegment(id) == nil}
}

func checkEfficiency(t *testing.T, input json.RawMessage) any {
	v := in[struct{ PerTurn []*float64 }](t, input)
	s := countTurns(&Input{Actual: turnsWithDurations(v.PerTurn)}, func(inv *Invocation) *float64 { return inv.Duration })
	return result{"score": s.Overall, "status": s.Status.String()}
}

func turnsWithDurations(seconds []*float64) []*Invocation {
	var turns []*Invocation
	for _, s := range seconds {
		turns = append(turns, &Invocation{Duration: s})
	}
	return turns
}

func checkOldFormat(t *testing.T, input json.RawMessage) any {
	v := in[struct {
		File      json.RawMessage
		EvalSetID string
	}](t, input)
	s, err := ReadSet("old.evalset.json", v.File, &ReadOptions{
		SetID: v.EvalSetID, NewID: func() string { return "<uuid>" }, Now: func() time.Time { return time.Unix(5, 0) },
	})
	if err != nil {
		return result{"error": true}
	}
	got, err := EncodeFile(s)
	if err != nil {
		t.Fatal(err)
	}
	// The placeholder for the time, and the empty lists that files leave out.
	tree := decodeAny(t, []byte(strings.ReplaceAll(string(got), ": 5.0", `: "<now>"`)))
	fillIntermediate(tree)
	return result{"evalSet": tree}
}

func fillIntermediate(v any) {
	switch v := v.(type) {
	case map[string]any:
		for k, item := range v {
			if m, ok := item.(map[string]any); ok && k == "intermediate_data" {
				for _, list := range []string{"tool_uses", "tool_responses", "intermediate_responses"} {
					if m[list] == nil {
						m[list] = []any{}
					}
				}
			}
			fillIntermediate(item)
		}
	case []any:
		for _, item := range v {
			fillIntermediate(item)
		}
	}
}

func checkTurns(t *testing.T, input json.RawMessage) any {
	v := in[struct{ Events []*session.Event }](t, input)
	turns := []any{}
	for _, inv := range Turns(v.Events) {
		text, err := EncodeWire(inv)
		if err != nil {
			t.Fatal(err)
		}
		turns = append(turns, decodeAny(t, text))
	}
	return result{"invocations": turns}
}

func checkConfig(t *testing.T, input json.RawMessage) any {
	raw := in[struct{ Config json.RawMessage }](t, input).Config
	c := DefaultConfig()
	if string(raw) != "null" {
		var err error
		if c, err = ReadConfig("test_config.json", raw); err != nil {
			return result{"error": true}
		}
	}
	metrics := []result{}
	for _, m := range c.Measures() {
		r := result{"metricName": m.Metric, "threshold": m.Threshold}
		if m.CustomFunction != "" {
			r["customFunctionPath"] = m.CustomFunction
		}
		metrics = append(metrics, r)
	}
	return result{"metrics": metrics}
}

// A scriptedJudge returns its answers in turn.
type scriptedJudge struct{ answers []string }

func (j *scriptedJudge) Answer(context.Context, string) (string, error) {
	if len(j.answers) == 0 {
		return "", errors.New("the script has no more answers")
	}
	answer := j.answers[0]
	j.answers = j.answers[1:]
	return answer, nil
}

func checkSimulator(t *testing.T, input json.RawMessage) any {
	v := in[struct {
		StartingPrompt        string
		MaxAllowedInvocations int
		ModelAnswers          []string
	}](t, input)
	s := &Simulator{
		Scenario: &Scenario{StartingPrompt: v.StartingPrompt},
		Config:   &SimulatorConfig{MaxMessages: &v.MaxAllowedInvocations},
		Model:    &scriptedJudge{v.ModelAnswers},
	}
	messages := []string{}
	for {
		message, end, err := s.Next(t.Context(), nil)
		if err != nil {
			return result{"messages": messages, "error": true}
		}
		if end != EndNone {
			return result{"messages": messages, "end": end}
		}
		messages = append(messages, message)
	}
}
