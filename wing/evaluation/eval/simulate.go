package eval

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// SimulatorConfig configures the simulated user for cases with a scenario.
type SimulatorConfig struct {
	// Type is llm_backed or llm_audio; empty for llm_backed.
	Type  string `json:"type,omitempty"`
	Model string `json:"model,omitempty"`
	// ModelConfig is a GenerateContentConfig as it is written.
	ModelConfig json.RawMessage `json:"modelConfiguration,omitempty"`
	// MaxMessages limits the user's messages, including the first; nil for 20, negative for
	// no limit.
	MaxMessages *int `json:"maxAllowedInvocations,omitempty"`
	// Instructions replace the prompt. They contain {{ stop_signal }},
	// {{ conversation_plan }} and {{ conversation_history }}, and {{ persona }} if the
	// scenario has one.
	Instructions string `json:"customInstructions,omitempty"`
	// IncludeCalls shows function calls and responses to the simulated user.
	IncludeCalls bool  `json:"includeFunctionCalls,omitempty"`
	Extra        Extra `json:"-"`
}

const defaultMaxMessages = 20

// An End is why a simulated user sends no more messages.
type End string

const (
	// EndNone comes with a message.
	EndNone End = ""
	// EndTurnLimit means that the user sent as many messages as the config allows.
	EndTurnLimit End = "turn_limit_reached"
	// EndStopSignal means that the user ended the conversation.
	EndStopSignal End = "stop_signal_detected"
)

// A Simulator is the user in a scenario. It is not safe for concurrent use.
type Simulator struct {
	Scenario *Scenario
	// Config may be nil.
	Config *SimulatorConfig
	// Model writes the messages after the first one.
	Model Judge

	sent int
}

// Next returns the next message, or why there is none. The history has the texts so far, each
// as "author: text".
func (s *Simulator) Next(ctx context.Context, history []string) (message string, end End, err error) {
	limit := defaultMaxMessages
	if s.Config != nil && s.Config.MaxMessages != nil {
		limit = *s.Config.MaxMessages
	}
	if limit >= 0 && s.sent >= limit {
		return "", EndTurnLimit, nil
	}
	message = s.Scenario.StartingPrompt
	if s.sent > 0 {
		if message, err = s.writeMessage(ctx, history); err != nil {
			return "", EndNone, err
		}
	}
	if strings.Contains(strings.ToLower(message), DefaultStopSignal) {
		return "", EndStopSignal, nil
	}
	s.sent++
	return message, EndNone, nil
}

func (s *Simulator) writeMessage(ctx context.Context, history []string) (string, error) {
	prompt, err := s.buildPrompt(history)
	if err != nil {
		return "", err
	}
	answer, err := s.Model.Answer(ctx, prompt)
	if err != nil {
		return "", fmt.Errorf("simulating the user: %w", err)
	}
	if answer == "" {
		return "", errors.New("simulating the user: the model returned no text")
	}
	return answer, nil
}

// CheckFields returns an error if the type is unknown, or if custom instructions lack a
// placeholder. Only a persona requires the persona's placeholder.
func (c *SimulatorConfig) CheckFields(hasPersona bool) error {
	if kind := cmp.Or(c.Type, "llm_backed"); kind != "llm_backed" && kind != "llm_audio" {
		return fmt.Errorf("type must be llm_backed or llm_audio, got %q", c.Type)
	}
	if c.Instructions == "" {
		return nil
	}
	required := []string{"stop_signal", "conversation_plan", "conversation_history"}
	if hasPersona {
		required = append(required, "persona")
	}
	for _, name := range required {
		if !containsPlaceholder(c.Instructions, name) {
			return fmt.Errorf("custom_instructions must contain {{ %s }}", name)
		}
	}
	return nil
}

func containsPlaceholder(text, name string) bool {
	return strings.Contains(text, "{{ "+name+" }}") || strings.Contains(text, "{{"+name+"}}")
}

func (s *Simulator) buildPrompt(history []string) (string, error) {
	persona := ""
	if p := s.Scenario.Persona; p != nil {
		persona = describePersona(p)
	}
	text := userPrompt
	if s.Config != nil {
		if err := s.Config.CheckFields(persona != ""); err != nil {
			return "", err
		}
		text = cmp.Or(s.Config.Instructions, text)
	}
	rules := defaultUserRules
	if persona != "" {
		rules = persona
	}
	var pairs []string
	for _, p := range [][2]string{
		{"stop_signal", DefaultStopSignal},
		{"conversation_plan", s.Scenario.Plan},
		{"conversation_history", strings.Join(history, "\n\n")},
		{"persona", persona},
		{"rules", rules},
	} {
		pairs = append(pairs, p[0], p[1], " "+p[0]+" ", p[1])
	}
	return fillPrompt(text, pairs...), nil
}

func describePersona(p *Persona) string {
	var b strings.Builder
	b.WriteString(p.Description + "\n")
	for _, behavior := range p.Behaviors {
		if behavior == nil {
			continue
		}
		fmt.Fprintf(&b, "\n## %s\n", behavior.Name)
		for _, i := range behavior.Instructions {
			fmt.Fprintf(&b, "- %s\n", i)
		}
	}
	return strings.TrimSpace(b.String())
}

const defaultUserRules = `Read the agent's last reply, then do exactly one of these:
- If the agent needs information, give it from the plan.
- If the last task is done, continue with the next task of the plan.
- If a task failed, help once: repeat it or rephrase it.
- If the agent contradicts the plan, correct it.
- If all tasks are done, a task failed for the second time, or the agent transferred you to a human, end the conversation.`

const userPrompt = `You play a user who talks to an AI agent. You are never the agent: do not answer for it and do not act for it. Write only the next message of the user.

# Rules
{{rules}}
To end the conversation, write {{stop_signal}} and nothing else.

# Plan
{{conversation_plan}}

# Conversation so far
{{conversation_history}}`

// DefaultStopSignal is how a simulated user ends a conversation.
const DefaultStopSignal = "</finished>"
