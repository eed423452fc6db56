package runtime_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// TestRunConfigInRequests wants response_modalities and speech_config in what
// the model is asked, unless the agent says something else.
func TestRunConfigInRequests(t *testing.T) {
	inPortuguese, inGerman := &genai.SpeechConfig{LanguageCode: "pt-BR"}, &genai.SpeechConfig{LanguageCode: "de-DE"}
	config := runtime.DefaultRunConfig()
	config.ResponseModalities, config.SpeechConfig = []string{"AUDIO"}, inPortuguese
	for _, tt := range []struct {
		name        string
		agent, want *genai.GenerateContentConfig
	}{
		{"of the run", nil, &genai.GenerateContentConfig{ResponseModalities: []string{"AUDIO"}, SpeechConfig: inPortuguese}},
		{
			"of the agent",
			&genai.GenerateContentConfig{ResponseModalities: []string{"TEXT"}, SpeechConfig: inGerman},
			&genai.GenerateContentConfig{ResponseModalities: []string{"TEXT"}, SpeechConfig: inGerman},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			var got *genai.GenerateContentConfig
			llm := answering(func(_ context.Context, req *model.Request) (*genai.Content, error) {
				got = &genai.GenerateContentConfig{ResponseModalities: req.Config.ResponseModalities, SpeechConfig: req.Config.SpeechConfig}
				return model.ModelText("ok"), nil
			})
			deploy(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: llm, GenerateContentConfig: tt.agent}), &runtime.AppOptions{Config: &config})
			outline(e.Host.Run(t.Context(), say(e.Session(t, "app", "s", nil), "hi")))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the request's config (-want +got):\n%s", diff)
			}
		})
	}
}

// TestToolPool wants no more calls at a time than tool_thread_pool_config
// lets in.
func TestToolPool(t *testing.T) {
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			e := testenv.New(t, nil)
			var running, most atomic.Int64
			count := &action{name: "count", run: func(context.Context, *tool.Call) (*tool.Result, error) {
				defer running.Add(-1)
				for now := running.Add(1); ; {
					if m := most.Load(); now <= m || most.CompareAndSwap(m, now) {
						return &tool.Result{Response: map[string]any{"ok": true}}, nil
					}
				}
			}}
			llm := answering(calling("count", "count", "count", "count", "count", "count"))
			config := runtime.DefaultRunConfig()
			config.ToolThreadPoolConfig = &runtime.ToolPool{MaxWorkers: workers}
			deploy(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: llm, Tools: []tool.Tool{count}}), &runtime.AppOptions{Config: &config})
			outline(e.Host.Run(t.Context(), say(e.Session(t, "app", "s", nil), "hi")))
			if got := most.Load(); got < 1 || got > int64(workers) {
				t.Errorf("%d calls ran at a time, want at most %d", got, workers)
			}
		})
	}
}
