package runtime_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/fakegemini"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
)

// TestCodeExecutor: the service is told that the model may run code, beside the
// agent's own tools (adk-python code_executors/built_in_code_executor.py).
func TestCodeExecutor(t *testing.T) {
	fake := fakegemini.New()
	defer fake.Close()
	e := testenv.New(t, &testenv.Options{Loader: &loader.Options{
		HTTP: fake.Client(), Env: func(string) (string, bool) { return "", false },
	}})
	e.Load(t, testenv.Files(t, "app", map[string][]byte{
		"root_agent.yaml": []byte("{name: a, model: gemini-x, instruction: Compute., code_executor: built_in, tools: [{name: exit_loop}]}"),
		".env":            []byte("GOOGLE_API_KEY=k\nGOOGLE_GEMINI_BASE_URL=" + fake.URL() + "\n"),
	}))
	outline(e.Host.Run(t.Context(), say(e.Session(t, "app", "s", nil), "hi")))
	got, err := json.Marshal(fake.Requests()[0].Body["tools"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"functionDeclarations":[{"description":"Ends the loop. Call it only when you were told to.","name":"exit_loop"}]},{"codeExecution":{}}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}
