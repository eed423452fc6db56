package runtime_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

// requestBodies runs one message and returns the model request bodies.
func requestBodies(t *testing.T, yaml string, replies ...fakegemini.Reply) []map[string]any {
	t.Helper()
	fake := fakegemini.New()
	defer fake.Close()
	fake.Enqueue(replies...)
	e := testenv.New(t, &testenv.Options{Loader: &loader.Options{
		HTTP: fake.Client(), Env: func(string) (string, bool) { return "", false },
	}})
	e.Load(t, testenv.Files(t, "app", map[string][]byte{
		"root_agent.yaml": []byte(yaml),
		".env":            []byte("GOOGLE_API_KEY=k\nGOOGLE_GEMINI_BASE_URL=" + fake.URL() + "\n"),
	}))
	formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "hi")))
	var bodies []map[string]any
	for _, r := range fake.Requests() {
		bodies = append(bodies, r.Body)
	}
	return bodies
}

// TestPlannerBuiltIn: the planner's thinking_config takes precedence over the agent's own, whose
// other fields are kept (adk-python planners/built_in_planner.py).
func TestPlannerBuiltIn(t *testing.T) {
	bodies := requestBodies(t, `
name: a
model: gemini-x
instruction: Help.
generate_content_config: {temperature: 0, thinking_config: {thinking_level: HIGH}}
planner: {built_in: {thinking_config: {include_thoughts: true, thinking_budget: 0}}}
`, fakegemini.Text("ok"))
	got, err := json.Marshal(bodies[0]["generationConfig"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"temperature":0,"thinkingConfig":{"includeThoughts":true,"thinkingBudget":0}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("settings (-want +got):\n%s", diff)
	}
}

// TestPlannerShowsPlan: in the next step a plan-react model sees its plan as plain
// text (adk-python flows/llm_flows/_nl_planning.py). The planning instruction
// follows the agent's instruction.
func TestPlannerShowsPlan(t *testing.T) {
	bodies := requestBodies(t, `
name: a
model: gemini-x
instruction: Help.
planner: plan_react
tools: [{expr: {name: two, description: Two., value: 2}}]
`, fakegemini.Parts(
		&genai.Part{Text: "/*PLANNING*/ 1. two"}, &genai.Part{FunctionCall: &genai.FunctionCall{ID: "c", Name: "two"}},
	), fakegemini.Text("/*FINAL_ANSWER*/2"))
	got, err := json.Marshal(bodies[1]["contents"].([]any)[1])
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"parts":[{"text":"/*PLANNING*/ 1. two"},{"functionCall":{"id":"c","name":"two"}}],"role":"model"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("the plan (-want +got):\n%s", diff)
	}
	system, err := json.Marshal(bodies[0]["systemInstruction"])
	if err != nil {
		t.Fatal(err)
	}
	at := 0
	for _, s := range []string{"Help.", "PLANNING", "REPLANNING", "FINAL_ANSWER"} {
		i := strings.Index(string(system[at:]), s)
		if i < 0 {
			t.Fatalf("system instruction %s lacks %s in the expected order", system, s)
		}
		at += i
	}
}
