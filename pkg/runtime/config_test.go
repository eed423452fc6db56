package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// TestRunConfigInRequests: requests contain response_modalities, speech_config, labels
// and service_tier unless the agent's own settings override them.
func TestRunConfigInRequests(t *testing.T) {
	inPortuguese, inGerman := &genai.SpeechConfig{LanguageCode: "pt-BR"}, &genai.SpeechConfig{LanguageCode: "de-DE"}
	config := runtime.DefaultRunConfig()
	config.ResponseModalities, config.SpeechConfig = []string{"AUDIO"}, inPortuguese
	config.Labels, config.ServiceTier = map[string]string{"team": "shop", "env": "test"}, genai.ServiceTierFlex
	for _, tt := range []struct {
		name        string
		agent, want *genai.GenerateContentConfig
	}{
		{"of the run", nil, &genai.GenerateContentConfig{
			ResponseModalities: []string{"AUDIO"}, SpeechConfig: inPortuguese,
			Labels: config.Labels, ServiceTier: genai.ServiceTierFlex,
		}},
		{
			"of the agent",
			&genai.GenerateContentConfig{
				ResponseModalities: []string{"TEXT"}, SpeechConfig: inGerman,
				Labels: map[string]string{"team": "own"}, ServiceTier: genai.ServiceTierPriority,
			},
			&genai.GenerateContentConfig{
				ResponseModalities: []string{"TEXT"}, SpeechConfig: inGerman,
				Labels: map[string]string{"team": "own", "env": "test"}, ServiceTier: genai.ServiceTierPriority,
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			var got *genai.GenerateContentConfig
			llm := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
				c := req.Config
				got = &genai.GenerateContentConfig{ResponseModalities: c.ResponseModalities, SpeechConfig: c.SpeechConfig, Labels: c.Labels, ServiceTier: c.ServiceTier}
				return model.ModelText("ok"), nil
			})
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: llm, GenerateContentConfig: tt.agent}), &runtime.AppOptions{Config: &config})
			formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "hi")))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("the request's config (-want +got):\n%s", diff)
			}
		})
	}
}

// TestToolPool: no more calls run at the same time than tool_thread_pool_config
// allows.
func TestToolPool(t *testing.T) {
	for _, workers := range []int{1, 2} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			e := testenv.New(t, nil)
			var running, most atomic.Int64
			count := &testTool{name: "count", run: func(context.Context, *tool.Call) (*tool.Result, error) {
				defer running.Add(-1)
				for now := running.Add(1); ; {
					if m := most.Load(); now <= m || most.CompareAndSwap(m, now) {
						return &tool.Result{Response: map[string]any{"ok": true}}, nil
					}
				}
			}}
			llm := modelFunc(toolCallModel("count", "count", "count", "count", "count", "count"))
			config := runtime.DefaultRunConfig()
			config.ToolThreadPoolConfig = &runtime.ToolPool{MaxWorkers: workers}
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: llm, Tools: []tool.Tool{count}}), &runtime.AppOptions{Config: &config})
			formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "hi")))
			if got := most.Load(); got < 1 || got > int64(workers) {
				t.Errorf("%d calls ran at a time, want at most %d", got, workers)
			}
		})
	}
}

// TestRunConfigOfRequest: a request from Go code runs with its own config, and one that cannot be
// is refused before anything is stored.
func TestRunConfigOfRequest(t *testing.T) {
	for _, tt := range []struct {
		name   string
		change func(*runtime.RunConfig)
		want   string
	}{
		{"a limit", func(c *runtime.RunConfig) { c.MaxLLMCalls = 1 }, "a: call f\na: f map[result:<nil>]\nerror LLM_CALLS_LIMIT: Max number of llm calls limit of `1` exceeded\n"},
		{"no limit", func(c *runtime.RunConfig) { c.MaxLLMCalls = 0 }, "a: call f\na: f map[result:<nil>]\na: done\n"},
		{"too large a limit", func(c *runtime.RunConfig) { c.MaxLLMCalls = 1<<31 - 1 }, "error INVALID_REQUEST: max_llm_calls must be less than 2147483647; 0 means no limit\n"},
		{"a negative cost", func(c *runtime.RunConfig) { c.MaxCost = -1 }, "error INVALID_REQUEST: max_cost must be above 0 US dollars, got -1\n"},
		{"no workers", func(c *runtime.RunConfig) { c.ToolThreadPoolConfig = &runtime.ToolPool{} }, "error INVALID_REQUEST: max_workers must be at least 1, got 0\n"},
		{"calls by code", func(c *runtime.RunConfig) { c.SupportCFC = true }, "error INVALID_REQUEST: support_cfc requires streaming_mode: sse\n"},
		{"another mode", func(c *runtime.RunConfig) { c.StreamingMode = "fast" }, "error INVALID_REQUEST: streaming_mode \"fast\" is not one of: none, sse, bidi\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }}
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{f}}), nil)
			config := runtime.DefaultRunConfig()
			tt.change(&config)
			key := e.Session(t, "app", "s", nil)
			req := userMessage(key, "hi")
			req.Config = &config
			got := formatRun(e.Host.Run(t.Context(), req))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
			if stored := storedAuthors(t, e, key); strings.HasPrefix(got, "error") && stored != "" {
				t.Errorf("stored: %q, want nothing", stored)
			}
		})
	}
	config := runtime.DefaultRunConfig()
	config.MaxLLMCalls = 1<<31 - 1
	_, err := runtime.NewApp("x", runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi")}), &runtime.AppOptions{Config: &config})
	if want := "app x: max_llm_calls must be less than 2147483647; 0 means no limit"; err == nil || err.Error() != want {
		t.Errorf("NewApp() = %v, want %s", err, want)
	}
}
