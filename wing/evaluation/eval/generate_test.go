package eval

import (
	"context"
	"fmt"
	"strings"
	"testing"
)

// answers returns a model that gives answers one after the other, and keeps the prompts.
func answers(prompts *[]string, all ...string) Judge {
	return judgeFunc(func(_ context.Context, prompt string) (string, error) {
		*prompts = append(*prompts, prompt)
		answer := all[min(len(*prompts), len(all))-1]
		return answer, nil
	})
}

func scenarioAnswer(prompts ...string) string {
	var list []string
	for _, p := range prompts {
		list = append(list, fmt.Sprintf(`{"starting_prompt": %q, "conversation_plan": "Ask."}`, p))
	}
	return "Here they are:\n```json\n{\"scenarios\": [" + strings.Join(list, ", ") + "]}\n```"
}

// TestGenerateScenarios: the prompt has the agent, the environment and what is wanted. If
// scenarios are missing or repeated, a further request names those that exist.
func TestGenerateScenarios(t *testing.T) {
	var prompts []string
	m := answers(&prompts, scenarioAnswer("a", "b", "a"), "I am tired.", scenarioAnswer("c", "d"))
	got, err := GenerateScenarios(t.Context(), m, "AGENT desk", &GenerationConfig{Count: 3, Instruction: "REFUNDS", Environment: "ORDER 7"})
	if err != nil || len(got) != 3 || got[0].StartingPrompt != "a" || got[2].StartingPrompt != "c" {
		t.Errorf("GenerateScenarios = %d, %v; want a, b and c", len(got), err)
	}
	if len(prompts) != 3 {
		t.Fatalf("%d requests, want 3", len(prompts))
	}
	for _, want := range []string{"AGENT desk", "REFUNDS", "ORDER 7", "Write 3 further scenarios"} {
		if !strings.Contains(prompts[0], want) {
			t.Errorf("the first prompt lacks %s", want)
		}
	}
	if !strings.Contains(prompts[1], "- \"a\"\n- \"b\"") || !strings.Contains(prompts[1], "Write 1 further scenarios") {
		t.Errorf("the second prompt lacks the scenarios that exist:\n%s", prompts[1])
	}
}

// TestGenerateScenariosErrors: an answer that cannot be used is an error with the reason, and
// the scenarios so far are returned.
func TestGenerateScenariosErrors(t *testing.T) {
	for _, tt := range []struct{ answer, want string }{
		{"No.", `the model returned 0 of 2 scenarios: the answer is not JSON: "No."`},
		{`{"scenarios": [{"starting_prompt": "a"}]}`, "the model returned 0 of 2 scenarios: scenario 1: conversation_plan is empty"},
		{`{"scenarios": [null]}`, "null"},
		{`{"scenarios": [{"starting_prompt": "a </finished>", "conversation_plan": "b"}]}`, "starting_prompt contains the stop signal </finished>"},
		{`{"scenarios": [{"starting_prompt": "` + strings.Repeat("a", 9000) + `", "conversation_plan": "b"}]}`, "its text exceeds the limit of 8192 bytes"},
		{`{"cases": []}`, "cases"},
		{scenarioAnswer("a"), "the model returned 1 of 2 different scenarios"},
	} {
		var prompts []string
		_, err := GenerateScenarios(t.Context(), answers(&prompts, tt.answer), "x", &GenerationConfig{Count: 2})
		if err == nil || !strings.Contains(err.Error(), tt.want) || len(prompts) != maxGenerations {
			t.Errorf("%s: error %v after %d requests, want %s", tt.answer, err, len(prompts), tt.want)
		}
	}
}

// TestReadGenerationConfig: both ADK spellings are read, and problems have places.
func TestReadGenerationConfig(t *testing.T) {
	for text, want := range map[string]string{
		`{"count": 2, "model_name": "m", "generation_instruction": "x"}`: "",
		`{"count": 2, "modelName": "m", "environmentContext": "x"}`:      "",
		`{"count": 0, "model_name": "m"}`:                                "c.json:1:2: count: must be between 1 and 100, got 0",
		`{"model_name": "m"}`:                                            "count: must be between 1 and 100, got 0",
		`{"count": 1}`:                                                   "model_name is required",
		`{"count": 1, "model_name": "m", "instruction": "x"}`:            "c.json:1:33: ",
	} {
		_, err := ReadGenerationConfig("c.json", []byte(text))
		if got := fmt.Sprint(err); (err == nil) != (want == "") || !strings.Contains(got, want) && want != "" {
			t.Errorf("%s: %s, want %s", text, got, want)
		}
	}
}
