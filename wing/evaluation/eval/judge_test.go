package eval

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genai"
)

// A judgeFunc is a test's judge.
type judgeFunc func(ctx context.Context, prompt string) (string, error)

func (f judgeFunc) Answer(ctx context.Context, prompt string) (string, error) { return f(ctx, prompt) }

// openJudge returns judges that are all f.
func openJudge(f judgeFunc) Judges {
	return func(context.Context, *JudgeOptions) (Judge, error) { return f, nil }
}

func textTurn(user, answer string) *Invocation {
	inv := &Invocation{UserContent: genai.NewContentFromText(user, genai.RoleUser)}
	if answer != "" {
		inv.FinalResponse = genai.NewContentFromText(answer, genai.RoleModel)
	}
	return inv
}

func samples(n, parallel int) *JudgeOptions { return &JudgeOptions{Samples: &n, Parallel: &parallel} }

// measureOne measures turns by one metric, with threshold 0.5.
func measureOne(t *testing.T, name string, in *Input) *Scores {
	t.Helper()
	m, ok := FindMetric(name)
	if !ok {
		t.Fatalf("no metric %s", name)
	}
	in.Threshold = 0.5
	if in.Criterion == nil {
		in.Criterion = &Criterion{Judge: samples(1, 1)}
	}
	s, err := m.Measure(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func checkScore(t *testing.T, s *Scores, want float64, status Status) {
	t.Helper()
	if s.Overall == nil || *s.Overall != want || s.Status != status {
		t.Errorf("score = %s, %v, want %v, %v", toJSON(t, s.Overall), s.Status, want, status)
	}
}

// TestJudgeMajority: the majority decides, and the result's reason is an answer from that
// side.
func TestJudgeMajority(t *testing.T) {
	var n atomic.Int32
	judge := func(_ context.Context, prompt string) (string, error) {
		for _, part := range []string{`"User prompt": capital?`, `"Agent response": Paris`, `"Reference response": It is Paris`} {
			if !strings.Contains(prompt, part) {
				t.Errorf("the prompt has no %s:\n%s", part, prompt)
			}
		}
		if n.Add(1) == 1 {
			return `{"reasoning": "no", "is_the_agent_response_valid": "invalid"}`, nil
		}
		return `{"reasoning": "same city", "is_the_agent_response_valid": "valid"}`, nil
	}
	s := measureOne(t, FinalResponseMatch, &Input{
		Actual: []*Invocation{textTurn("capital?", "Paris")}, Expected: []*Invocation{textTurn("capital?", "It is Paris")},
		Criterion: &Criterion{Judge: samples(3, 3)}, Judges: openJudge(judge),
	})
	checkScore(t, s, 1, Passed)
	if !strings.Contains(s.Turns[0].Reason, "same city") || s.Judge != DefaultJudgeModel {
		t.Errorf("reason %q of judge %q", s.Turns[0].Reason, s.Judge)
	}
}

// TestJudgeNonsense: an answer that cannot be read has no score, and is kept. The turn does
// not count for the mean.
func TestJudgeNonsense(t *testing.T) {
	judge := func(_ context.Context, prompt string) (string, error) {
		if strings.Contains(prompt, "second") {
			return `{"is_the_agent_response_valid": "valid"}`, nil
		}
		return "As a language model, I like this answer.", nil
	}
	turns := []*Invocation{textTurn("first", "a"), textTurn("second", "b")}
	s := measureOne(t, FinalResponseMatch, &Input{Actual: turns, Expected: turns, Judges: openJudge(judge)})
	checkScore(t, s, 1, Passed)
	first := s.Turns[0]
	if first.Status != NotEvaluated || first.Answer != "As a language model, I like this answer." || first.Reason != "the answer of the judge has no verdict" {
		t.Errorf("first turn = %+v", first)
	}
}

// TestJudgesInParallel: ten samples that last 200 ms each take as long as one with Parallel
// 10, and as long as five with Parallel 2.
func TestJudgesInParallel(t *testing.T) {
	for parallel, want := range map[int]time.Duration{1: 2 * time.Second, 2: time.Second, 10: 200 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			judge := func(context.Context, string) (string, error) {
				time.Sleep(200 * time.Millisecond)
				return `{"is_the_agent_response_valid": "valid"}`, nil
			}
			turns := []*Invocation{textTurn("a", "a"), textTurn("b", "b")}
			start := time.Now()
			measureOne(t, FinalResponseMatch, &Input{Actual: turns, Expected: turns, Criterion: &Criterion{Judge: samples(5, parallel)}, Judges: openJudge(judge)})
			if got := time.Since(start); got != want {
				t.Errorf("%d in parallel took %v, want %v", parallel, got, want)
			}
		})
	}
}

// TestJudgeError: an error ends its turn with the reason, and is not repeated here: judges
// retry themselves. A canceled evaluation does not wait for a free slot.
func TestJudgeError(t *testing.T) {
	calls := 0
	judge := func(context.Context, string) (string, error) { calls++; return "", errors.New("no key") }
	turns := []*Invocation{textTurn("a", "a")}
	s := measureOne(t, FinalResponseMatch, &Input{Actual: turns, Expected: turns, Criterion: &Criterion{Judge: samples(1, 1)}, Judges: openJudge(judge)})
	if calls != 1 || s.Status != NotEvaluated || s.Turns[0].Reason != "no key" {
		t.Errorf("%d calls, %v, reason %q", calls, s.Status, s.Turns[0].Reason)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p := &panel{judge: judgeFunc(judge), slots: make(chan struct{})}
	if _, err := p.requestAnswer(ctx, "p"); !errors.Is(err, context.Canceled) {
		t.Errorf("requestAnswer = %v", err)
	}
}

// TestJudgePanic: a judge that panics fails its turn only.
func TestJudgePanic(t *testing.T) {
	judge := func(context.Context, string) (string, error) { panic("boom") }
	turns := []*Invocation{textTurn("a", "a")}
	s := measureOne(t, FinalResponseMatch, &Input{Actual: turns, Expected: turns, Judges: openJudge(judge)})
	if s.Status != NotEvaluated || s.Turns[0].Reason != "panic: boom" {
		t.Errorf("%v, reason %q", s.Status, s.Turns[0].Reason)
	}
}

func rubric(id, text, kind string) *Rubric {
	return &Rubric{ID: id, Content: &RubricContent{text}, Type: kind}
}

// toolTurn is a turn with a call, recorded with the agent's instructions and tools.
func toolTurn() *Invocation {
	inv := textTurn("weather in Paris?", "22 degrees")
	inv.Intermediate = &Intermediate{Events: []*InvocationEvent{
		{Author: "root", Content: &genai.Content{Parts: []*genai.Part{{Text: "I will look."}, {FunctionCall: &genai.FunctionCall{ID: "1", Name: "get_weather", Args: map[string]any{"city": "Paris"}}}}}},
		{Author: "root", Content: &genai.Content{Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "1", Name: "get_weather", Response: map[string]any{"degrees": 22.0}}}}}},
	}}
	inv.App = &AppDetails{Agents: map[string]*AgentDetails{"root": {
		Name: "root", Instructions: "Be brief.",
		Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "get_weather", Description: "Returns the weather."}}}},
	}}}
	return inv
}

// TestRubricMetrics: each metric judges by the criterion's rubrics and those with its own
// type, and shows the judge what it judges.
func TestRubricMetrics(t *testing.T) {
	for _, test := range []struct {
		metric, kind string
		parts        []string
	}{
		{"rubric_based_quality", TypeFinalResponse, []string{"Be brief.", `"name": "get_weather"`, "weather in Paris?", `"tool_calls_and_response"`, `"degrees": 22.0`, "22 degrees", "*  [id: c] Is polite.", "*  [id: t] Has a number."}},
		{"rubric_based_tool_use", TypeToolUse, []string{`"name": "get_weather"`, "weather in Paris?", `"step": 0`, "*  [id: c] Is polite."}},
		{RubricTrajectory, TypeTrajectory, []string{"Agent root Instructions:\nBe brief.", "Agent: root\n- get_weather: Returns the weather.", "USER TURN 1: weather in Paris?", "AGENT (root) TURN 1: I will look.", `AGENT (root) TURN 1 (tool call): get_weather({"city":"Paris"})`, `AGENT (root) TURN 1 (tool output): get_weather -> {"degrees":22}`, "AGENT (root) TURN 1: 22 degrees", `"property": "Is polite."`}},
	} {
		t.Run(test.metric, func(t *testing.T) {
			turn := toolTurn()
			turn.Rubrics = []*Rubric{rubric("t", "Has a number.", test.kind), rubric("other", "Other.", "OTHER")}
			judge := func(_ context.Context, prompt string) (string, error) {
				for _, part := range test.parts {
					if !strings.Contains(prompt, part) {
						t.Errorf("the prompt has no %q:\n%s", part, prompt)
					}
				}
				return "ID: c\nProperty: Is polite.\nRationale: no greeting\nVerdict: no\n\nProperty: **has a number.**\nRationale: 22\nVerdict: Yes\n\nID: x\nProperty: Unknown.\nRationale: r\nVerdict: yes", nil
			}
			s := measureOne(t, test.metric, &Input{
				Actual: []*Invocation{turn}, Judges: openJudge(judge),
				Criterion: &Criterion{Judge: samples(1, 1), Rubrics: []*Rubric{rubric("c", "Is polite.", "")}},
			})
			checkScore(t, s, 0.5, Passed)
			if s.Turns[0].Rubrics[0].Rationale != "no greeting" {
				t.Errorf("rubrics = %s", toJSON(t, s.Turns[0].Rubrics))
			}
		})
	}
}

// TestRubricErrors: rubrics are required, and their IDs are unique.
func TestRubricErrors(t *testing.T) {
	for want, rubrics := range map[string][]*Rubric{
		"rubrics are required":              nil,
		`rubric "a" appears more than once`: {rubric("a", "x", ""), rubric("a", "y", "")},
	} {
		m, _ := FindMetric(RubricToolUse)
		_, err := m.Measure(t.Context(), &Input{Actual: []*Invocation{textTurn("q", "a")}, Criterion: &Criterion{Rubrics: rubrics}})
		if err == nil || err.Error() != want {
			t.Errorf("Measure = %v, want %s", err, want)
		}
	}
}

// TestHallucinationsPerSentence: each text is split into sentences, which are checked against what
// the agent had before it.
func TestHallucinationsPerSentence(t *testing.T) {
	var contexts []string
	judge := func(_ context.Context, prompt string) (string, error) {
		if strings.HasPrefix(prompt, "Split") {
			return "<sentence>One.</sentence><sentence>Two.</sentence>", nil
		}
		contexts = append(contexts, prompt)
		label := "supported"
		if strings.Contains(prompt, "tool_outputs:") {
			label = "contradictory"
		}
		return "sentence: One.\nlabel: supported\nrationale: r\nsupporting_excerpt: e\ncontradicting_excerpt: null\n\n" +
			"sentence: Two.\nlabel: " + label + "\nrationale: r\nsupporting_excerpt: null\ncontradicting_excerpt: null", nil
	}
	checkScore(t, measureOne(t, "hallucinations", &Input{Actual: []*Invocation{toolTurn()}, Judges: openJudge(judge)}), 0.5, Passed)
	if len(contexts) != 1 || !strings.Contains(contexts[0], "Developer instructions:\nroot:\nBe brief.\nUser prompt:\nweather in Paris?\nTool definitions:\n{") ||
		!strings.Contains(contexts[0], "I will look.\ntool_calls:\n[") {
		t.Errorf("contexts = %q", contexts)
	}
	contexts = nil
	s := measureOne(t, "hallucinations", &Input{Actual: []*Invocation{toolTurn()}, Judges: openJudge(judge), Criterion: &Criterion{CheckIntermediate: true}})
	checkScore(t, s, 0.75, Passed)
	if len(contexts) != 2 || strings.Contains(contexts[0], "tool_calls:") {
		t.Errorf("contexts = %q", contexts)
	}
	s = measureOne(t, "hallucinations", &Input{Actual: []*Invocation{textTurn("q", "")}, Judges: openJudge(judge)})
	if s.Status != NotEvaluated || s.Turns[0].Reason != "the turn has no text to check" {
		t.Errorf("a turn without text: %v, %q", s.Status, s.Turns[0].Reason)
	}
}

// TestUserSimulatorQuality: the first message is compared with the scenario, the others
// are judged, and a wrong end fails the last turn.
func TestUserSimulatorQuality(t *testing.T) {
	in := func(valid string) *Input {
		return &Input{
			Actual:   []*Invocation{textTurn(" hi ", "hello"), textTurn("book it", "done")},
			Scenario: &Scenario{StartingPrompt: "hi", Plan: "book a room", Persona: findPersona("EXPERT")},
			Judges: openJudge(func(_ context.Context, prompt string) (string, error) {
				if !strings.Contains(prompt, "# Conversation Plan\nbook a room") || !strings.Contains(prompt, "user:  hi \n\nmodel: hello") || !strings.Contains(prompt, "# Persona Description\nA specialist") {
					t.Errorf("prompt = %s", prompt)
				}
				if strings.HasSuffix(prompt, "# Generated User Response\n</finished>") {
					return `{"criteria": [], "is_valid": ` + valid + `}`, nil
				}
				return `{"criteria": [], "is_valid": true}`, nil
			}),
		}
	}
	checkScore(t, measureOne(t, UserSimulatorQuality, in("true")), 1, Passed)
	checkScore(t, measureOne(t, UserSimulatorQuality, in("false")), 0.5, Passed)
	m, _ := FindMetric(UserSimulatorQuality)
	if _, err := m.Measure(t.Context(), &Input{Criterion: &Criterion{}}); err == nil || err.Error() != "the case has no scenario" {
		t.Errorf("Measure = %v", err)
	}
}

// TestLocalJudges: a judge scores the metrics that ADK leaves to Vertex AI. A turn's score is
// the mean over its samples; numbers outside the interval do not count.
func TestLocalJudges(t *testing.T) {
	for _, test := range []struct {
		metric, answer string
		want           float64
		status         Status
	}{
		{"safety", `{"reasoning": "rude", "score": 0}`, 0, Failed},
		{ResponseEvaluation, `{"reasoning": "fine", "score": 4}`, 4, Passed},
		{TaskSuccess, `{"reasoning": "half", "score": 0.5}`, 0.5, Passed},
		{TrajectoryQuality, `{"reasoning": "\"score\": 1", "score": 0.25}`, 0.25, Failed},
		{ToolUseQuality, "```json\n{\"score\": \"1\"}\n```", 1, Passed},
	} {
		t.Run(test.metric, func(t *testing.T) {
			var n atomic.Int32
			judge := func(context.Context, string) (string, error) {
				if n.Add(1) == 1 {
					return `{"score": 70}`, nil
				}
				return test.answer, nil
			}
			turns := []*Invocation{toolTurn()}
			s := measureOne(t, test.metric, &Input{Actual: turns, Expected: turns, Judges: openJudge(judge), Criterion: &Criterion{Judge: samples(3, 1)}})
			checkScore(t, s, test.want, test.status)
		})
	}
}
