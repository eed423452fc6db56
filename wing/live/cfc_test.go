package live_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/testenv"
	"agenthost/internal/textlive"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
	"agenthost/wing/live"
)

// TestSupportCFC: with support_cfc an agent calls its tools in a live conversation, and its run
// yields the same events as any other, here a chunk and the whole answer. A model without a live
// API ends the run.
func TestSupportCFC(t *testing.T) {
	for _, tt := range []struct {
		name   string
		llm    model.LLM
		driver runtime.LiveDriver
		want   string
	}{
		{"live", textlive.OverText(toolCallModel("f"), nil), live.Driver{}, "a: call f\na: f map[result:clear]\na: done\na: done\n"},
		{"no driver", textlive.OverText(toolCallModel("f"), nil), nil, "error INVALID_REQUEST: support_cfc requires live conversations, which this program does not include\n"},
		{"not live", toolCallModel("f"), live.Driver{}, "error INVALID_REQUEST: support_cfc requires models with a live API; model answering of agent a has none\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) {
				return &tool.Result{Response: map[string]any{"result": "clear"}}, nil
			}}
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: tt.llm, Tools: []tool.Tool{f}}), &runtime.AppOptions{Live: tt.driver})
			config := runtime.DefaultRunConfig()
			config.StreamingMode, config.SupportCFC = runtime.StreamingSSE, true
			req := userMessage(e.Session(t, "app", "s", nil), "hi")
			req.Config = &config
			if diff := cmp.Diff(tt.want, formatRun(e.Host.Run(t.Context(), req))); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
		})
	}
}
