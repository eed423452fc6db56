package runtime_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTranscripts(t *testing.T) {
	testenv.Transcripts(t, "testdata/transcripts", func() *loader.Options {
		return &loader.Options{Functions: testFunctions(t)}
	})
}

// TestTraces has the event streams that adk-python 2.5 to 2.11 records for graphs and delegations:
// authors, branches, scopes, paths and outputs.
func TestTraces(t *testing.T) {
	testenv.Transcripts(t, "testdata/traces", func() *loader.Options { return nil })
}

// testFunctions are the code that transcripts name.
func testFunctions(t *testing.T) loader.Functions {
	stop, err := declare.Func("stop", "Ends the agent's run.", func(_ context.Context, call *tool.Call, _ struct{}) (string, error) {
		call.EndInvocation()
		return "stopped", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return loader.Functions{
		Tools: map[string]tool.Tool{"test.stop": stop},
		Callbacks: map[string]runtime.Callbacks{"test.end": {
			BeforeAgent: []runtime.AgentFunc{func(_ context.Context, m *runtime.CallbackContext) (*genai.Content, error) {
				m.EndInvocation()
				return nil, nil
			}},
			AfterModel: []runtime.AfterModelFunc{func(_ context.Context, m *runtime.CallbackContext, _ *model.Response) (*model.Response, error) {
				m.EndInvocation()
				return nil, nil
			}},
		}, "test.seen": {BeforeModel: []runtime.BeforeModelFunc{noteContents}}},
		ContentFilters: map[string]runtime.ContentFilter{
			"test.user": func(_ context.Context, _ *runtime.CallbackContext, contents []*genai.Content) ([]*genai.Content, error) {
				return slices.DeleteFunc(slices.Clone(contents), func(c *genai.Content) bool { return c.Role != genai.RoleUser }), nil
			},
			"test.nothing": func(context.Context, *runtime.CallbackContext, []*genai.Content) ([]*genai.Content, error) {
				return nil, nil
			},
		},
	}
}

// noteContents writes down what the model is shown.
func noteContents(_ context.Context, m *runtime.CallbackContext, req *model.Request) (*model.Response, error) {
	var seen []string
	for _, c := range req.Contents {
		switch {
		case len(model.CallsOf(c)) > 0:
			seen = append(seen, "call "+model.CallsOf(c)[0].Name)
		case len(model.ResponsesOf(c)) > 0:
			seen = append(seen, "answer of "+model.ResponsesOf(c)[0].Name)
		default:
			seen = append(seen, c.Role+" "+model.TextOf(c))
		}
	}
	m.State.Set("seen", strings.Join(seen, ", "))
	return nil, nil
}
