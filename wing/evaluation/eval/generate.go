package eval

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"agenthost/internal/adkjson"
)

// A GenerationConfig configures [GenerateScenarios], as ADK's ConversationGenerationConfig.
type GenerationConfig struct {
	// Count is the number of scenarios, 1 to 100.
	Count int `json:"count"`
	// Instruction describes which scenarios are wanted, Environment what exists around the agent,
	// such as the data that its tools find.
	Instruction string `json:"generationInstruction,omitempty"`
	Environment string `json:"environmentContext,omitempty"`
	// Model names the model that writes them.
	Model string `json:"modelName"`
}

// The limits for generated scenarios.
const (
	// MaxScenarios limits GenerationConfig.Count.
	MaxScenarios    = 100
	maxScenarioText = 8 << 10
	maxGenerations  = 3
)

// ReadGenerationConfig reads a config in JSON; count and model_name are required.
func ReadGenerationConfig(file string, src []byte) (*GenerationConfig, error) {
	c := &GenerationConfig{}
	return c, Decode(file, src, c)
}

func (c *GenerationConfig) validateFields() *adkjson.Error {
	if c.Model == "" {
		return &adkjson.Error{Message: "model_name is required"}
	}
	if c.Count < 1 || c.Count > MaxScenarios {
		return &adkjson.Error{Path: []any{"count"}, Message: fmt.Sprintf("must be between 1 and %d, got %d", MaxScenarios, c.Count)}
	}
	return nil
}

// GenerateScenarios requests scenarios that test an app from a model. The description lists
// the app's agents, their instructions and tools. It sends up to 3 requests while scenarios
// are missing or an answer cannot be read. Fewer scenarios than requested come with an error.
func GenerateScenarios(ctx context.Context, m Judge, description string, c *GenerationConfig) ([]*Scenario, error) {
	var all []*Scenario
	var last error
	for range maxGenerations {
		answer, err := m.Answer(ctx, buildGenerationPrompt(description, c, all))
		if err != nil {
			return all, fmt.Errorf("generating scenarios: %w", err)
		}
		more, err := readScenarioAnswer(answer)
		last = err
		for _, s := range more {
			if len(all) < c.Count && !containsScenario(all, s) {
				all = append(all, s)
			}
		}
		if len(all) == c.Count {
			return all, nil
		}
	}
	if last != nil {
		return all, fmt.Errorf("the model returned %d of %d scenarios: %w", len(all), c.Count, last)
	}
	return all, fmt.Errorf("the model returned %d of %d different scenarios", len(all), c.Count)
}

func containsScenario(all []*Scenario, s *Scenario) bool {
	for _, other := range all {
		if other.StartingPrompt == s.StartingPrompt && other.Plan == s.Plan {
			return true
		}
	}
	return false
}

var jsonObject = regexp.MustCompile(`(?s)\{.*\}`)

// readScenarioAnswer reads an answer's JSON object, which may have text around it.
func readScenarioAnswer(answer string) ([]*Scenario, error) {
	object := jsonObject.FindString(answer)
	if object == "" {
		return nil, fmt.Errorf("the answer is not JSON: %q", abbreviateAnswer(answer))
	}
	var found Scenarios
	if err := Decode("answer", []byte(object), &found); err != nil {
		return nil, err
	}
	for i, s := range found.Scenarios {
		if err := s.checkGenerated(); err != nil {
			return nil, fmt.Errorf("scenario %d: %w", i+1, err)
		}
	}
	return found.Scenarios, nil
}

func abbreviateAnswer(answer string) string {
	const limit = 200
	answer = strings.Join(strings.Fields(answer), " ")
	if len(answer) > limit {
		return strings.ToValidUTF8(answer[:limit], "") + "…"
	}
	return answer
}

func (s *Scenario) checkGenerated() error {
	switch {
	case s == nil:
		return errors.New("it is null")
	case strings.TrimSpace(s.StartingPrompt) == "":
		return errors.New("starting_prompt is empty")
	case strings.TrimSpace(s.Plan) == "":
		return errors.New("conversation_plan is empty")
	case len(s.StartingPrompt) > maxScenarioText || len(s.Plan) > maxScenarioText:
		return fmt.Errorf("its text exceeds the limit of %d bytes", maxScenarioText)
	case strings.Contains(strings.ToLower(s.StartingPrompt), DefaultStopSignal):
		return fmt.Errorf("starting_prompt contains the stop signal %s", DefaultStopSignal)
	}
	return nil
}

const generationPrompt = `You write scenarios that test an AI agent. In each, a user has a goal and talks to the agent until the goal is reached or cannot be reached. Scenarios differ from each other: usual requests, rare ones, missing and wrong details, changes of mind, and requests that the agent must decline.

# The agent
{{description}}

# Its environment
{{environment}}

# What the scenarios are about
{{instruction}}

# Scenarios that exist already
{{existing}}

Write {{count}} further scenarios. Answer with one JSON object and nothing else:
{"scenarios": [{"starting_prompt": "the first message of the user", "conversation_plan": "what the user wants, the details that it gives on request, and when it ends the conversation"}]}`

func buildGenerationPrompt(description string, c *GenerationConfig, existing []*Scenario) string {
	orDefault := func(text, instead string) string {
		if strings.TrimSpace(text) == "" {
			return instead
		}
		return text
	}
	var prompts []string
	for _, s := range existing {
		quoted, _ := json.Marshal(s.StartingPrompt) // never fails for a string
		prompts = append(prompts, "- "+string(quoted))
	}
	return fillPrompt(generationPrompt,
		"description", description,
		"environment", orDefault(c.Environment, "Nothing is known about it."),
		"instruction", orDefault(c.Instruction, "Everything that the agent can do."),
		"existing", orDefault(strings.Join(prompts, "\n"), "None."),
		"count", fmt.Sprint(c.Count-len(existing)))
}
