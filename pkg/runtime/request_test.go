package runtime_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool"
)

// TestRequestSettings: changes by callbacks and one run's settings do not leak into later requests.
// A config that nothing can change is built once and shared.
func TestRequestSettings(t *testing.T) {
	cold := genai.Ptr[float32](0)
	setTemperature := func(_ context.Context, _ *runtime.CallbackContext, req *model.Request) (*model.Response, error) {
		if req.Config.Temperature == nil {
			req.Config.Temperature = cold
			req.AppendInstruction("Be brief.")
		}
		return nil, nil
	}
	failing := func(context.Context, *runtime.CallbackContext, *model.Request, error) (*model.Response, error) {
		return nil, nil
	}
	for _, tt := range []struct {
		name, instruction string
		callbacks         runtime.Callbacks
		planner           *runtime.Planner
		shared            bool
		suffix            string // after the agent's identity
		temperature       *float32
	}{
		{name: "plain", instruction: "Answer.", shared: true},
		{name: "filled", instruction: "Answer{name?}."},
		{
			name: "changed by a callback", instruction: "Answer.",
			callbacks: runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{setTemperature}},
			suffix:    "\n\nBe brief.", temperature: cold,
		},
		{
			name: "shown to a callback", instruction: "Answer.",
			callbacks: runtime.Callbacks{OnModelError: []runtime.ModelErrorFunc{failing}},
		},
		{
			name: "planned", instruction: "Answer.",
			planner: &runtime.Planner{Thinking: &genai.ThinkingConfig{IncludeThoughts: true}},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var configs []*genai.GenerateContentConfig
			llm := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
				configs = append(configs, req.Config)
				return model.ModelText("ok"), nil
			})
			opts := &runtime.LLMOptions{
				Model: llm, Instruction: runtime.NewInstruction(tt.instruction, nil), Callbacks: tt.callbacks, Planner: tt.planner,
			}
			app, err := runtime.NewApp("a", runtime.NewLLM("clerk", opts), nil)
			if err != nil {
				t.Fatal(err)
			}
			host, err := runtime.InMemory(app)
			if err != nil {
				t.Fatal(err)
			}
			audioConfig := app.Config()
			audioConfig.ResponseModalities = []string{"AUDIO"}
			for _, config := range []*runtime.RunConfig{nil, &audioConfig, nil} {
				req := &runtime.RunRequest{App: "a", UserID: "u", SessionID: "s", CreateSession: true, Message: model.UserText("hello"), Config: config}
				for _, err := range host.Run(t.Context(), req) {
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			if first, last := configs[0], configs[2]; (first == last) != tt.shared {
				t.Errorf("settings are shared: %v, want %v", first == last, tt.shared)
			}
			if len(configs[0].ResponseModalities) != 0 || len(configs[1].ResponseModalities) != 1 || len(configs[2].ResponseModalities) != 0 {
				t.Errorf("modalities %v, %v, %v", configs[0].ResponseModalities, configs[1].ResponseModalities, configs[2].ResponseModalities)
			}
			want := "Answer.\n\nYou are an agent. Your internal name is \"clerk\"." + tt.suffix
			for i, c := range configs {
				if got := model.TextOf(c.SystemInstruction); got != want || c.Temperature != tt.temperature {
					t.Errorf("request %d: temperature %v, instruction %q, want %v, %q", i+1, c.Temperature, got, tt.temperature, want)
				}
			}
		})
	}
}

// cacheModel records cache requests, and returns a cache's metadata.
type cacheModel struct {
	modelFunc
	requests *[]string
	metadata func(n int) *model.CacheMetadata
}

func (k cacheModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		*k.requests = append(*k.requests, formatCacheRequest(req))
		for r, err := range k.modelFunc.Generate(ctx, req) {
			if err == nil {
				r.CacheMetadata = k.metadata(len(*k.requests))
				r.UsageMetadata = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: int32(1000 * len(*k.requests))}
			}
			if !yield(r, err) {
				return
			}
		}
	}
}

func formatCacheRequest(req *model.Request) string {
	c := req.Cache
	switch {
	case c == nil:
		return req.Origin.Agent + " nothing"
	case c.Metadata == nil:
		return fmt.Sprintf("%s first, %v", req.Origin.Agent, c.CacheConfig)
	default:
		return fmt.Sprintf("%s %s used %d, %d tokens", req.Origin.Agent, c.Metadata.Name, c.Metadata.Used, c.PromptTokens)
	}
}

// activeCache returns a new cache's metadata, named after the response.
func activeCache(n int) *model.CacheMetadata {
	return &model.CacheMetadata{Name: fmt.Sprint("cache", n), Expires: time.Unix(2_000_000_000, 0), Used: 1, Fingerprint: "f", Contents: 1}
}

// TestCacheRequests: a request contains the latest metadata and prompt size from the agent's own
// events. The first use in a new invocation increments the use count.
func TestCacheRequests(t *testing.T) {
	var requests []string
	llm := cacheModel{toolCallModel("look"), &requests, activeCache}
	look := &testTool{name: "look", run: func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Response: map[string]any{"ok": true}}, nil
	}}
	root := runtime.NewSequential("line", "",
		runtime.NewLLM("one", &runtime.LLMOptions{Model: llm, Tools: []tool.Tool{look}}),
		runtime.NewLLM("two", &runtime.LLMOptions{Model: cacheModel{textModel("ok"), &requests, activeCache}}),
	)
	e := testenv.New(t, nil)
	deployApp(t, e, root, &runtime.AppOptions{ContextCache: &model.CacheConfig{MinTokens: 7, TTL: time.Minute, Intervals: 3}})
	key := e.Session(t, "app", "s", nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "hi")))
	formatRun(e.Host.Run(t.Context(), userMessage(key, "more")))
	want := []string{
		"one first, {7 1m0s 3}",
		"one cache1 used 1, 1000 tokens",
		"two first, {7 1m0s 3}",
		"one cache2 used 2, 2000 tokens",
		"one cache4 used 1, 4000 tokens",
		"two cache3 used 2, 3000 tokens",
	}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// TestCacheFingerprintNotCounted: a fingerprint without a cache does not count as
// a use.
func TestCacheFingerprintNotCounted(t *testing.T) {
	var requests []string
	metadata := func(int) *model.CacheMetadata { return &model.CacheMetadata{Fingerprint: "f", Contents: 1} }
	e := testenv.New(t, nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: cacheModel{textModel("ok"), &requests, metadata}}),
		&runtime.AppOptions{ContextCache: &model.CacheConfig{Intervals: 1, TTL: time.Second}})
	key := e.Session(t, "app", "s", nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "hi")))
	formatRun(e.Host.Run(t.Context(), userMessage(key, "more")))
	if diff := cmp.Diff([]string{"a first, {0 1s 1}", "a  used 0, 1000 tokens"}, requests); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// TestCacheAgentTool: agents that are called as tools, and apps without the
// setting, do not request caching.
func TestCacheAgentTool(t *testing.T) {
	var requests []string
	helper := runtime.NewAgentTool(runtime.NewLLM("helper", &runtime.LLMOptions{Model: cacheModel{textModel("ok"), &requests, activeCache}}), nil)
	helping := modelFunc(func(ctx context.Context, req *model.Request) (*genai.Content, error) {
		c, err := toolCallModel("helper")(ctx, req)
		if calls := model.CallsOf(c); len(calls) > 0 {
			calls[0].Args = map[string]any{"request": "help"}
		}
		return c, err
	})
	root := runtime.NewLLM("root", &runtime.LLMOptions{Model: cacheModel{helping, &requests, activeCache}, Tools: []tool.Tool{helper}})
	for _, config := range []*model.CacheConfig{{Intervals: 1, TTL: time.Second}, nil} {
		e := testenv.New(t, nil)
		deployApp(t, e, root, &runtime.AppOptions{ContextCache: config})
		formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "hi")))
	}
	want := []string{"root first, {0 1s 1}", "helper nothing", "root cache1 used 1, 1000 tokens", "root nothing", "helper nothing", "root nothing"}
	if diff := cmp.Diff(want, requests); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

// TestCacheAcrossRestart: the cache state is stored in the history, so a new host
// continues to use the cache.
func TestCacheAcrossRestart(t *testing.T) {
	fake := fakegemini.New()
	defer fake.Close()
	reply := fakegemini.Text("ok")
	reply.Usage = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 5000}
	fake.Enqueue(reply, reply, reply)
	dir := testenv.Files(t, "app", map[string][]byte{
		"root_agent.yaml": []byte("{name: a, model: gemini-x, instruction: Answer.}"),
		"app.yaml":        []byte("context_cache_config: {cache_intervals: 2}"),
		".env":            []byte("GOOGLE_API_KEY=k\nGOOGLE_GEMINI_BASE_URL=" + fake.URL() + "\n"),
	})
	url := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	l := loader.New(testenv.Kinds(), &loader.Options{HTTP: fake.Client(), Env: func(string) (string, bool) { return "", false }})
	got := []string{runOnNewHost(t, l, dir, url), runOnNewHost(t, l, dir, url), runOnNewHost(t, l, dir, url)}
	want := []string{`"" holds 1, use 0`, `"cachedContents/1" holds 1, use 1`, `"cachedContents/1" holds 1, use 2`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	created := 0
	for _, r := range fake.Requests() {
		if r.Action == "cachedContents "+http.MethodPost {
			created++
		}
	}
	if created != 1 {
		t.Errorf("%d caches created, want 1", created)
	}
}

// runOnNewHost runs one message on a new host, and summarizes the response's cache metadata.
func runOnNewHost(t *testing.T, l *loader.Loader, dir, url string) (summary string) {
	t.Helper()
	st, err := storeurl.Open(t.Context(), url, &storeurl.Options{Schemes: testenv.Schemes()})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	host := runtime.NewHost(st, nil)
	defer host.Close()
	app, ds := l.Load(t.Context(), dir)
	if len(ds) > 0 {
		t.Fatal(ds)
	}
	host.Swap(app)
	req := userMessage(session.Key{App: "app", User: "u", ID: "s"}, "hi")
	req.CreateSession = true
	for ev, err := range host.Run(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		m := ev.CacheMetadata
		summary = fmt.Sprintf("%q holds %d, use %d", m.Name, m.Contents, m.Used)
	}
	return summary
}
