package runtime_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTranscripts(t *testing.T) {
	testenv.Transcripts(t, "testdata/transcripts", func() *loader.Options {
		return &loader.Options{Functions: functions(t)}
	})
}

// functions are the code that transcripts name.
func functions(t *testing.T) runtime.Functions {
	stop, err := tool.FromFunc("stop", "Ends the agent's run.", func(_ context.Context, call *tool.Call, _ struct{}) (string, error) {
		call.EndInvocation()
		return "stopped", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return runtime.Functions{
		Tools: map[string]tool.Tool{"test.stop": stop},
		Callbacks: map[string]runtime.Callbacks{"test.end": {
			BeforeAgent: []runtime.AgentFunc{func(_ context.Context, m *runtime.Moment) (*genai.Content, error) {
				m.EndInvocation()
				return nil, nil
			}},
			AfterModel: []runtime.AfterModelFunc{func(_ context.Context, m *runtime.Moment, _ *model.Response) (*model.Response, error) {
				m.EndInvocation()
				return nil, nil
			}},
		}},
	}
}
