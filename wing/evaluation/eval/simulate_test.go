package eval

import (
	"context"
	"strings"
	"testing"
)

// TestSimulatorPrompt: the model reads the plan, the conversation, and the rules or the
// persona; custom instructions replace them all.
func TestSimulatorPrompt(t *testing.T) {
	ask := func(persona *Persona, config *SimulatorConfig) string {
		prompt := ""
		s := &Simulator{
			Scenario: &Scenario{StartingPrompt: "hi", Plan: "book a room", Persona: persona}, Config: config,
			Model: judgeFunc(func(_ context.Context, p string) (string, error) { prompt = p; return "next", nil }),
		}
		for range 2 {
			if _, _, err := s.Next(t.Context(), []string{"user: hi", "agent: hello"}); err != nil {
				t.Fatal(err)
			}
		}
		return prompt
	}
	for _, test := range []struct {
		prompt string
		parts  []string
	}{
		{ask(nil, nil), []string{"To end the conversation, write </finished>", "# Plan\nbook a room", "user: hi\n\nagent: hello", "correct it"}},
		{ask(findPersona("NOVICE"), nil), []string{"A first-time user", "## End on failure\n- If a step fails, end the conversation."}},
		{ask(nil, &SimulatorConfig{Instructions: "S {{stop_signal}} P {{ conversation_plan }} H {{ conversation_history }}"}), []string{"S </finished> P book a room H user: hi"}},
	} {
		for _, part := range test.parts {
			if !strings.Contains(test.prompt, part) {
				t.Errorf("the prompt has no %q:\n%s", part, test.prompt)
			}
		}
	}
}

// TestSimulatorErrors: a message without text ends the run with an error, not the
// conversation.
func TestSimulatorErrors(t *testing.T) {
	for answer, want := range map[string]string{"": "simulating the user: the model returned no text"} {
		s := &Simulator{Scenario: &Scenario{StartingPrompt: "hi"}, Model: &scriptedJudge{[]string{answer}}, sent: 1}
		if _, _, err := s.Next(t.Context(), nil); err == nil || err.Error() != want {
			t.Errorf("Next = %v, want %s", err, want)
		}
	}
	s := &Simulator{Scenario: &Scenario{Persona: findPersona("NOVICE")}, Config: &SimulatorConfig{Instructions: "{{stop_signal}}{{conversation_plan}}{{conversation_history}}"}, sent: 1}
	const want = "custom_instructions must contain {{ persona }}"
	if _, _, err := s.Next(t.Context(), nil); err == nil || err.Error() != want {
		t.Errorf("Next = %v, want %s", err, want)
	}
}
