package eval_test

import (
	"context"
	"fmt"
	"log"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/wing/evaluation/eval"
)

const weatherSet = `{
  "eval_set_id": "weather",
  "eval_cases": [{
    "eval_id": "paris",
    "conversation": [{
      "user_content": {"role": "user", "parts": [{"text": "Weather in Paris?"}]},
      "final_response": {"role": "model", "parts": [{"text": "It is sunny in Paris."}]},
      "intermediate_data": {"tool_uses": [{"name": "get_weather", "args": {"city": "Paris"}}]}
    }]
  }]
}`

const weatherConfig = `{
  "criteria": {
    "tool_trajectory": 1,
    "response_match": 0.7,
    "final_response_match_v2": {"threshold": 1, "judge_model_options": {"judge_model": "local", "num_samples": 1}}
  }
}`

// An agreeableJudge accepts each answer. A real one calls a model.
type agreeableJudge struct{}

func (agreeableJudge) Answer(context.Context, string) (string, error) {
	return `{"reasoning": "same weather", "is_the_agent_response_valid": "valid"}`, nil
}

// A config's metrics score the events from a run.
func Example() {
	set, err := eval.ReadSet("weather.evalset.json", []byte(weatherSet), nil)
	if err != nil {
		log.Fatal(err)
	}
	config, err := eval.ReadConfig("test_config.json", []byte(weatherConfig))
	if err != nil {
		log.Fatal(err)
	}
	o := &eval.Options{Judges: func(_ context.Context, o *eval.JudgeOptions) (eval.Judge, error) {
		return agreeableJudge{}, nil
	}}
	for _, c := range set.Cases {
		result := o.Evaluate(context.Background(), c, eval.Turns(runCase(c)), config.Measures())
		for _, m := range result.Overall {
			fmt.Printf("%-26s %.2f %v\n", m.Metric, *m.Score, m.Status)
		}
		fmt.Println(c.ID, result.Status)
	}
	// Output:
	// tool_trajectory_avg_score  1.00 PASSED
	// response_match_score       0.75 PASSED
	// final_response_match_v2    1.00 PASSED
	// paris PASSED
}

// runCase returns a run's events.
func runCase(c *eval.Case) []*session.Event {
	event := func(author string, parts ...*genai.Part) *session.Event {
		e := &session.Event{InvocationID: "1", Author: author}
		e.Content = &genai.Content{Parts: parts}
		return e
	}
	return []*session.Event{
		event(session.UserAuthor, c.Conversation[0].UserContent.Parts...),
		event("root", &genai.Part{FunctionCall: &genai.FunctionCall{Name: "get_weather", Args: map[string]any{"city": "Paris"}}}),
		event("root", &genai.Part{FunctionResponse: &genai.FunctionResponse{Name: "get_weather", Response: map[string]any{"sky": "clear"}}}),
		event("root", genai.NewPartFromText("Paris is sunny.")),
	}
}
