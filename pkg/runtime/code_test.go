package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// TestCodeBuiltIn: the request enables code execution in addition to the agent's own
// tools (adk-python code_executors/built_in_code_executor.py).
func TestCodeBuiltIn(t *testing.T) {
	fake := fakegemini.New()
	defer fake.Close()
	e := testenv.New(t, &testenv.Options{Loader: &loader.Options{
		HTTP: fake.Client(), Env: func(string) (string, bool) { return "", false },
	}})
	e.Load(t, testenv.Files(t, "app", map[string][]byte{
		"root_agent.yaml": []byte("{name: a, model: gemini-x, instruction: Compute., code_executor: built_in, tools: [{name: exit_loop}]}"),
		".env":            []byte("GOOGLE_API_KEY=k\nGOOGLE_GEMINI_BASE_URL=" + fake.URL() + "\n"),
	}))
	formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "hi")))
	got, err := json.Marshal(fake.Requests()[0].Body["tools"])
	if err != nil {
		t.Fatal(err)
	}
	const want = `[{"functionDeclarations":[{"description":"Exits the loop.\n\nCall this function only when you are instructed to do so.","name":"exit_loop"}]},{"codeExecution":{}}]`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}

// executorFunc is a function as a code executor.
type executorFunc func(ctx context.Context, m *runtime.CallbackContext, code *runtime.Code) (*runtime.CodeResult, error)

func (f executorFunc) ExecuteCode(ctx context.Context, m *runtime.CallbackContext, code *runtime.Code) (*runtime.CodeResult, error) {
	return f(ctx, m, code)
}

// TestCodeExecutor: an executor's results and errors are returned to the model, and the run
// continues.
func TestCodeExecutor(t *testing.T) {
	for _, tt := range []struct {
		name string
		run  executorFunc
		edit func(*runtime.CodeExecution)
		want string
	}{
		{
			"writes on its error output",
			func(context.Context, *runtime.CallbackContext, *runtime.Code) (*runtime.CodeResult, error) {
				return &runtime.CodeResult{Stdout: "half", Stderr: "no such name: x"}, nil
			},
			nil, "OUTCOME_FAILED no such name: x",
		},
		{
			"fails",
			func(context.Context, *runtime.CallbackContext, *runtime.Code) (*runtime.CodeResult, error) {
				return nil, errors.New("the sandbox is gone")
			},
			nil, "OUTCOME_FAILED the sandbox is gone",
		},
		{
			"no output",
			func(context.Context, *runtime.CallbackContext, *runtime.Code) (*runtime.CodeResult, error) {
				return nil, nil
			},
			nil, "OUTCOME_OK Code execution result:\n\n",
		},
		{
			"panics",
			func(context.Context, *runtime.CallbackContext, *runtime.Code) (*runtime.CodeResult, error) {
				panic("oh")
			},
			nil, "OUTCOME_FAILED the code executor panicked",
		},
		{
			"takes too long",
			func(ctx context.Context, _ *runtime.CallbackContext, _ *runtime.Code) (*runtime.CodeResult, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
			func(c *runtime.CodeExecution) { c.Timeout = time.Millisecond },
			"OUTCOME_DEADLINE_EXCEEDED the code exceeded its timeout of 1ms",
		},
		{
			"output over the limit",
			func(context.Context, *runtime.CallbackContext, *runtime.Code) (*runtime.CodeResult, error) {
				return &runtime.CodeResult{Stdout: strings.Repeat("é", 10)}, nil
			},
			func(c *runtime.CodeExecution) { c.MaxOutput = 5 },
			"OUTCOME_OK Code execution result:\néé\n[cut off here: 16 bytes more]\n",
		},
		{
			"makes files",
			func(_ context.Context, m *runtime.CallbackContext, _ *runtime.Code) (*runtime.CodeResult, error) {
				m.State.Set("drawn", true)
				return &runtime.CodeResult{Files: []*genai.Blob{{DisplayName: "plot.png", MIMEType: "image/png", Data: []byte("p")}}}, nil
			},
			nil, "OUTCOME_OK Saved artifacts:\n`plot.png` map[plot.png:0] map[drawn:true]",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := &runtime.CodeExecution{Executor: tt.run}
			if tt.edit != nil {
				tt.edit(c)
			}
			e := testenv.New(t, nil)
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: modelFunc(codingModel), Code: c}), nil)
			if diff := cmp.Diff([]string{tt.want}, codeResults(t, e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "go")))); diff != "" {
				t.Errorf("results (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCodeStateful: stateful executions in a session share an id, which no other session has.
func TestCodeStateful(t *testing.T) {
	counts := map[string]int{}
	count := executorFunc(func(_ context.Context, _ *runtime.CallbackContext, code *runtime.Code) (*runtime.CodeResult, error) {
		counts[code.ExecutionID]++
		return &runtime.CodeResult{Stdout: fmt.Sprint(counts[code.ExecutionID])}, nil
	})
	e := testenv.New(t, nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: modelFunc(codingModel), Code: &runtime.CodeExecution{Executor: count, Stateful: true}}), nil)
	one, other := e.Session(t, "app", "one", nil), e.Session(t, "app", "other", nil)
	for i, key := range []struct {
		req  *runtime.RunRequest
		want string
	}{{userMessage(one, "go"), "1"}, {userMessage(one, "go"), "2"}, {userMessage(other, "go"), "1"}} {
		want := []string{"OUTCOME_OK Code execution result:\n" + key.want + "\n"}
		if diff := cmp.Diff(want, codeResults(t, e.Host.Run(t.Context(), key.req))); diff != "" {
			t.Errorf("run %d (-want +got):\n%s", i, diff)
		}
	}
}

// preparedExecutor is an executor that has to be prepared.
type preparedExecutor struct {
	executorFunc
	prepare func(ctx context.Context) error
}

func (e preparedExecutor) PrepareCode(ctx context.Context) error { return e.prepare(ctx) }

// TestCodePreparer expects an execution's timeout to begin after the preparation, and a preparation
// error to be the result.
func TestCodePreparer(t *testing.T) {
	for want, prepareErr := range map[string]error{"OUTCOME_OK Code execution result:\nready\n": nil, "OUTCOME_FAILED broken": errors.New("broken")} {
		ready := false
		executor := preparedExecutor{
			func(context.Context, *runtime.CallbackContext, *runtime.Code) (*runtime.CodeResult, error) {
				if !ready || prepareErr != nil {
					t.Error("code ran before its preparation")
				}
				return &runtime.CodeResult{Stdout: "ready"}, nil
			},
			func(ctx context.Context) error {
				if _, limited := ctx.Deadline(); limited {
					t.Error("the preparation has a timeout")
				}
				ready = true
				return prepareErr
			},
		}
		e := testenv.New(t, nil)
		deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: modelFunc(codingModel), Code: &runtime.CodeExecution{Executor: executor}}), nil)
		if diff := cmp.Diff([]string{want}, codeResults(t, e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "go")))); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

// codingModel writes code once, then is done.
func codingModel(_ context.Context, req *model.Request) (*genai.Content, error) {
	if strings.Contains(model.TextOf(req.Contents[len(req.Contents)-1]), "tool_output") {
		return model.ModelText("done"), nil
	}
	return model.ModelText("```python\ncompute()\n```"), nil
}

func codeResults(t *testing.T, events runtime.Events) []string {
	t.Helper()
	var results []string
	for ev, err := range events {
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range ev.Content.Parts {
			if r := p.CodeExecutionResult; r != nil {
				line := string(r.Outcome) + " " + r.Output
				if len(ev.Actions.ArtifactDelta) > 0 {
					line += fmt.Sprint(" ", ev.Actions.ArtifactDelta, " ", ev.Actions.StateDelta)
				}
				results = append(results, line)
			}
		}
	}
	return results
}
