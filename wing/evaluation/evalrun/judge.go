package evalrun

import (
	"context"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/wing/evaluation/eval"
)

// The agents that scripted models see as the request's origin.
const (
	judgeOrigin     = "judge"
	userOrigin      = "user"
	simulatorOrigin = "simulator"
	generatorOrigin = "generator"
)

// NewGenerator returns the model that writes scenarios; see [eval.GenerateScenarios].
func NewGenerator(llm model.LLM) eval.Judge {
	return &judge{llm: llm, origin: generatorOrigin, config: &genai.GenerateContentConfig{}, usage: &usageMeter{}}
}

// Models are models by name, for judges, simulated users and simulated tools.
type Models map[string]model.LLM

// A judge answers prompts by a model.
type judge struct {
	llm    model.LLM
	origin string
	config *genai.GenerateContentConfig
	usage  *usageMeter
}

// judgeRetry returns the retries for judges and simulated users: ADK's
// (evaluation/_retry_options_utils.py), instead of the model's.
func judgeRetry() *model.RetryPolicy {
	return &model.RetryPolicy{Attempts: 7, Initial: 5 * time.Second, Max: 120 * time.Second, Codes: []int{408, 429, 500, 502, 503, 504, 529}}
}

// Answer returns one response's text without thoughts.
func (j *judge) Answer(ctx context.Context, prompt string) (string, error) {
	config := *j.config
	resp, err := model.Answer(ctx, j.llm, &model.Request{
		Contents: []*genai.Content{model.UserText(prompt)}, Config: &config,
		Origin: model.Origin{Agent: j.origin, UserText: prompt, Turn: 1}, Retry: judgeRetry(),
	})
	if resp != nil {
		j.usage.addResponse(resp)
	}
	if err != nil {
		return "", err
	}
	return model.TextOf(resp.Content), nil
}
