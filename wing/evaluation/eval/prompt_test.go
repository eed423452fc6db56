package eval

import (
	"strings"
	"testing"

	"google.golang.org/genai"
)

// TestInstructionsOfPrompt: the instructions belong to the agent that acted first, or to any
// agent if none acted.
func TestInstructionsOfPrompt(t *testing.T) {
	app := &AppDetails{Agents: map[string]*AgentDetails{"a": {}, "b": {Instructions: "of b"}, "c": {Instructions: "of c"}}}
	for _, test := range []struct {
		inv  *Invocation
		want string
	}{
		{&Invocation{}, ""},
		{&Invocation{App: app}, "of b"},
		{&Invocation{App: app, Intermediate: &Intermediate{Events: []*InvocationEvent{{Author: "c"}}}}, "of c"},
		{&Invocation{App: app, Intermediate: &Intermediate{Events: []*InvocationEvent{{Author: "other"}}}}, ""},
	} {
		if got := findInstructions(test.inv); got != test.want {
			t.Errorf("findInstructions = %q, want %q", got, test.want)
		}
	}
}

// TestPromptOfHandwrittenTurn: a turn without events is described by its lists, and one
// without tools and steps by a sentence.
func TestPromptOfHandwrittenTurn(t *testing.T) {
	inv := textTurn("q", "a")
	in := &Input{Actual: []*Invocation{inv}, Criterion: &Criterion{}}
	prompt := promptFinalResponseRubrics(in, 0, []*Rubric{rubric("r", "p", "")})
	for _, part := range []string{noTools, noSteps} {
		if !strings.Contains(prompt, part) {
			t.Errorf("the prompt has no %q:\n%s", part, prompt)
		}
	}
	inv.Intermediate = &Intermediate{
		ToolUses:      []*genai.FunctionCall{{Name: "f", Args: map[string]any{"x": int64(1)}}},
		ToolResponses: []*genai.FunctionResponse{{Name: "f", Response: map[string]any{"y": int64(2)}}},
		Responses:     []*IntermediateResponse{{"sub", []*genai.Part{{Text: "wait"}}}},
	}
	const want = `USER TURN 1: q
AGENT (sub) TURN 1: wait
AGENT (agent) TURN 1 (tool call): f({"x":1})
AGENT (agent) TURN 1 (tool output): f -> {"y":2}
AGENT (agent) TURN 1: a`
	if got := describeDialogue(in.Actual); got != want {
		t.Errorf("describeDialogue =\n%s, want\n%s", got, want)
	}
	if got := answerOf(inv, true); got != "wait\na" {
		t.Errorf("answerOf = %q, want the intermediate text first", got)
	}
}

// TestGroundingOfPrompt: the model's sources are evidence.
func TestGroundingOfPrompt(t *testing.T) {
	inv := textTurn("q", "a")
	inv.Intermediate = &Intermediate{Events: []*InvocationEvent{{Author: "a", GroundingMetadata: &genai.GroundingMetadata{WebSearchQueries: []string{"weather"}}}}}
	prompt := promptFinalResponseRubrics(&Input{Actual: []*Invocation{inv}, Criterion: &Criterion{}}, 0, nil)
	const want = "Grounding metadata of the response:\n{\n  \"web_search_queries\": [\n    \"weather\"\n  ]\n}"
	if !strings.Contains(prompt, want) {
		t.Errorf("the prompt has no %s:\n%s", want, prompt)
	}
}

// TestPromptValuesAreNotTemplates: user text that looks like a placeholder stays.
func TestPromptValuesAreNotTemplates(t *testing.T) {
	if got := fillPrompt("{{a}} {{b}}", "a", "{{b}}", "b", "x"); got != "{{b}} x" {
		t.Errorf("fillPrompt = %q", got)
	}
}
