package modeltest_test

import (
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/fake/fakeopenai"
	"agenthost/internal/modeltest"
)

// An OpenAI reasoning model and other models continue each other's turns.
func TestResponsesSwitch(t *testing.T) {
	llm, fake := modeltest.FakeResponses(t, "gpt-5", nil, fakeopenai.Reply{Thought: "Hm.", Calls: []fakeopenai.Call{{ID: "c1", Name: "look", Arguments: "{}"}}})
	got, err := modeltest.Ask(t, llm, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range suiteSubjects() {
		if other.local {
			continue
		}
		next, _ := other.build(t)
		if _, err := modeltest.Collect(next.Generate(t.Context(), modeltest.ContinueTurn(got[0].Content))); err != nil {
			t.Errorf("%s after OpenAI: %v", other.name, err)
		}
		next, _ = other.build(t, suiteReply{calls: []*genai.FunctionCall{{ID: "c1", Name: "look", Args: map[string]any{"at": "a"}}}})
		answer, err := modeltest.Ask(t, next, false)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := modeltest.Collect(llm.Generate(t.Context(), modeltest.ContinueTurn(answer[0].Content))); err != nil {
			t.Errorf("OpenAI after %s: %v", other.name, err)
		}
	}
	if n, want := len(fake.Requests()), len(suiteSubjects()); n != want { // the first, and one after each other model
		t.Errorf("%d requests, want %d", n, want)
	}
}
