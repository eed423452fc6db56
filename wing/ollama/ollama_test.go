package ollama_test

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakeollama"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/wing/ollama"
)

// fakeOllama returns a model on a fake server, without retries. opts may be nil.
func fakeOllama(t *testing.T, name string, opts *ollama.Options, replies ...fakeollama.Reply) (model.LLM, *fakeollama.Server) {
	t.Helper()
	fake := fakeollama.New()
	t.Cleanup(fake.Close)
	fake.Enqueue(replies...)
	if opts == nil {
		opts = &ollama.Options{}
	}
	opts.Lookup, opts.BaseURL, opts.HTTP = modeltest.Lookup(nil), fake.URL(), fake.Client()
	opts.Retry = provider.RetryOptions{Attempts: 1, Provider: "ollama"}
	return ollama.New(name, opts), fake
}

// A request contains the whole conversation and all settings that the server has.
func TestOllamaRequest(t *testing.T) {
	llm, fake := fakeOllama(t, "qwen3", &ollama.Options{
		APIKey: "test-key-1234", KeepAlive: "10m", Options: map[string]any{"num_ctx": 32768, "temperature": 1.0},
	})
	if _, err := modeltest.Collect(llm.Generate(t.Context(), modeltest.WholeRequest("ollama"))); err != nil {
		t.Fatal(err)
	}
	got := fake.Requests()[0]
	if key := got.Header.Get("Authorization"); key != "Bearer test-key-1234" {
		t.Errorf("Authorization = %q, want the key", key)
	}
	modeltest.CheckGolden(t, *update, "ollama_request.json", got.Body)
}

// An agent's request, or else the model's setting, decides whether the model thinks. Only gpt-oss
// has levels.
func TestOllamaThink(t *testing.T) {
	level := func(l genai.ThinkingLevel) *genai.ThinkingConfig { return &genai.ThinkingConfig{ThinkingLevel: l} }
	budget := func(n int32) *genai.ThinkingConfig { return &genai.ThinkingConfig{ThinkingBudget: &n} }
	for _, tt := range []struct {
		name, model, think string
		config             *genai.ThinkingConfig
		want               any
	}{
		{"nothing set", "qwen3", "", nil, nil},
		{"setting", "qwen3", "false", nil, false},
		{"level of gpt-oss", "gpt-oss", "high", nil, "high"},
		{"thoughts included", "qwen3", "true", &genai.ThinkingConfig{IncludeThoughts: true}, true},
		{"level", "qwen3", "false", level(genai.ThinkingLevelLow), true},
		{"level for gpt-oss", "gpt-oss", "", level(genai.ThinkingLevelHigh), "high"},
		{"minimal level for gpt-oss", "gpt-oss", "", level(genai.ThinkingLevelMinimal), "low"},
		{"no budget", "qwen3", "true", budget(0), false},
		{"automatic budget", "qwen3", "", budget(-1), true},
		{"budget", "qwen3", "", budget(1024), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			llm, fake := fakeOllama(t, tt.model, &ollama.Options{Think: tt.think})
			req := modeltest.ScriptInput("hi", false)
			req.Config.ThinkingConfig = tt.config
			if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
				t.Fatal(err)
			}
			if got := fake.Requests()[0].Body["think"]; got != tt.want {
				t.Errorf("think = %v, want %v", got, tt.want)
			}
		})
	}
}

// Ollama has no tool choice: functions that may not be called are left out, and a call
// that is required is logged.
func TestOllamaToolChoice(t *testing.T) {
	for _, tt := range []struct {
		name   string
		choice *genai.FunctionCallingConfig
		want   []string
		logged bool
	}{
		{"auto", &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAuto}, []string{"look", "ask"}, false},
		{"none", &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeNone}, nil, false},
		{"one of them", &genai.FunctionCallingConfig{Mode: genai.FunctionCallingConfigModeAny, AllowedFunctionNames: []string{"ask"}}, []string{"ask"}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var log bytes.Buffer
			llm, fake := fakeOllama(t, "qwen3", &ollama.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			req := modeltest.ScriptInput("hi", false)
			req.Config.Tools = modeltest.WholeRequest("ollama").Config.Tools
			req.Config.ToolConfig = &genai.ToolConfig{FunctionCallingConfig: tt.choice}
			if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
				t.Fatal(err)
			}
			var names []string
			tools, _ := fake.Requests()[0].Body["tools"].([]any)
			for _, tool := range tools {
				names = append(names, tool.(map[string]any)["function"].(map[string]any)["name"].(string))
			}
			if diff := cmp.Diff(tt.want, names); diff != "" {
				t.Errorf("tools (-want +got):\n%s", diff)
			}
			if got := strings.Contains(log.String(), "settings=[toolConfig]"); got != tt.logged {
				t.Errorf("log = %q, want the tool choice in it: %v", &log, tt.logged)
			}
		})
	}
}

// Streamed and other responses have the same result.
func TestOllamaAnswer(t *testing.T) {
	for _, tt := range []struct {
		name  string
		reply fakeollama.Reply
		want  *model.Response
	}{
		{
			"thoughts, text, calls and usage",
			fakeollama.Reply{
				Thought: "Hm.", Chunks: []string{"Look", "ing."}, Prompt: 10, Output: 7,
				Calls: []fakeollama.Call{{ID: "c1", Name: "look", Args: map[string]any{"at": "a b"}}, {Name: "look"}},
			},
			&model.Response{
				Content: &genai.Content{Role: "model", Parts: []*genai.Part{
					{Text: "Hm.", Thought: true, PartMetadata: map[string]any{"vendor": "ollama", "model": "qwen3"}},
					{Text: "Looking."},
					{FunctionCall: &genai.FunctionCall{ID: "c1", Name: "look", Args: map[string]any{"at": "a b"}}},
					{FunctionCall: &genai.FunctionCall{Name: "look", Args: map[string]any{}}},
				}},
				FinishReason: genai.FinishReasonStop, ModelVersion: "qwen3",
				UsageMetadata: &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 10, CandidatesTokenCount: 7, TotalTokenCount: 17},
			},
		},
		{
			"nothing",
			fakeollama.Reply{},
			&model.Response{Content: &genai.Content{Role: "model"}, FinishReason: genai.FinishReasonStop, ModelVersion: "qwen3"},
		},
		{
			"truncated",
			fakeollama.Reply{Done: "length"},
			&model.Response{ErrorCode: "MAX_TOKENS", ErrorMessage: "Maximum tokens reached", FinishReason: genai.FinishReasonMaxTokens, ModelVersion: "qwen3"},
		},
		{
			"unknown reason",
			fakeollama.Reply{Done: "tired"},
			&model.Response{ErrorCode: "OTHER", FinishReason: genai.FinishReasonOther, ModelVersion: "qwen3"},
		},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(tt.name+"/"+modeltest.Mode(stream), func(t *testing.T) {
				llm, _ := fakeOllama(t, "qwen3", nil, tt.reply)
				got, err := modeltest.Ask(t, llm, stream)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, got[len(got)-1]); diff != "" {
					t.Errorf("the whole answer (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Arguments are an object, or a string with one, as compatible servers send them.
func TestOllamaArguments(t *testing.T) {
	const start, end = `{"model":"qwen3","message":{"role":"assistant","tool_calls":[{"function":{"name":"look","arguments":`, `}}]},"done":true}`
	for arguments, want := range map[string]string{
		`{"at":1}`: "look()", `"{\"at\":1}"`: "look()", `null`: "look()", `""`: "look()",
		`[1]`: "!MALFORMED_FUNCTION_CALL", `"{"`: "!MALFORMED_FUNCTION_CALL", `7`: "!MALFORMED_FUNCTION_CALL",
	} {
		for _, stream := range []bool{false, true} {
			llm, _ := fakeOllama(t, "qwen3", nil, fakeollama.Reply{Raw: start + arguments + end})
			got, err := modeltest.Ask(t, llm, stream)
			if err != nil || modeltest.Outline(got)[len(got)-1] != want {
				t.Errorf("arguments %s, stream %v: %q, %v, want %s", arguments, stream, modeltest.Outline(got), err, want)
			}
		}
	}
}

// Which of its own thoughts the model gets back is a setting; by default, the current turn's.
func TestOllamaThoughts(t *testing.T) {
	for mode, want := range map[string][]string{"drop": nil, "tools": {"I think."}, "": {"I think."}, "always": {"I thought.", "I think."}} {
		llm, fake := fakeOllama(t, "qwen3", &ollama.Options{Thoughts: mode})
		if _, err := modeltest.Collect(llm.Generate(t.Context(), modeltest.WholeRequest("ollama"))); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range fake.Requests()[0].Body["messages"].([]any) {
			if text, ok := m.(map[string]any)["thinking"].(string); ok {
				got = append(got, text)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("thoughts: %q (-want +got):\n%s", mode, diff)
		}
	}
}

// Each failure has a message, and a hint where there is a way out.
func TestOllamaFailures(t *testing.T) {
	tools := modeltest.WholeRequest("ollama").Config.Tools
	for _, tt := range []struct {
		name, model string
		reply       fakeollama.Reply
		config      genai.GenerateContentConfig
		stream      bool
		want        string
	}{
		{"unknown model", "llama9", fakeollama.Reply{}, genai.GenerateContentConfig{}, false, "ollama/llama9: 404 NOT_FOUND: model 'llama9' not found (POST URL); pull it with `ollama pull llama9`"},
		{
			"older text", "qwen3",
			fakeollama.Reply{Status: 404, Message: `model "qwen3" not found, try pulling it first`},
			genai.GenerateContentConfig{},
			true,
			`ollama/qwen3: 404 NOT_FOUND: model "qwen3" not found, try pulling it first (POST URL); pull it with ` + "`ollama pull qwen3`",
		},
		{"no tools", "plain", fakeollama.Reply{}, genai.GenerateContentConfig{Tools: tools}, false, "ollama/plain: 400 INVALID_ARGUMENT: registry.ollama.ai/library/plain:latest does not support tools (POST URL); use a model with tools, or an agent without"},
		{
			"no thinking", "plain",
			fakeollama.Reply{},
			genai.GenerateContentConfig{ThinkingConfig: &genai.ThinkingConfig{ThinkingLevel: "HIGH"}},
			false,
			`ollama/plain: 400 INVALID_ARGUMENT: "plain" does not support thinking (POST URL); remove think from the model, and thinking_config from the agent`,
		},
		{"busy", "qwen3", fakeollama.Reply{Status: 503, Message: "server busy, please try again.  maximum pending requests exceeded"}, genai.GenerateContentConfig{}, false, "ollama/qwen3: 503 UNAVAILABLE: server busy, please try again.  maximum pending requests exceeded (POST URL)"},
		{"out of memory", "qwen3", fakeollama.Reply{Chunks: []string{"a"}, Raw: `{"error":"llama runner process has terminated"}` + "\n"}, genai.GenerateContentConfig{}, true, "ollama/qwen3: 500 INTERNAL: llama runner process has terminated (POST URL)"},
		{"cut stream", "qwen3", fakeollama.Reply{Chunks: []string{"a"}, Raw: "\n"}, genai.GenerateContentConfig{}, true, "ollama/qwen3: no response from qwen3: stream ended before the response was complete (POST URL); check base_url and that the service is reachable"},
		{"half a chunk", "qwen3", fakeollama.Reply{Raw: `{"model":`}, genai.GenerateContentConfig{}, true, `ollama/qwen3: no response from qwen3: stream was interrupted: unexpected EOF (POST URL); check base_url and that the service is reachable`},
		{"another API", "qwen3", fakeollama.Reply{Raw: `{"choices":[]}`}, genai.GenerateContentConfig{}, false, `ollama/qwen3: malformed response from qwen3: response is not done in "{\"choices\":[]}" (POST URL); check base_url and that the service is reachable`},
		{"page", "qwen3", fakeollama.Reply{Status: 404, Raw: "<html>"}, genai.GenerateContentConfig{}, false, "ollama/qwen3: 404 NOT_FOUND: qwen3 answered with HTML: is base_url right? (POST URL); check the model's name and region: GET /api/tags of the service lists the names"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			llm, fake := fakeOllama(t, tt.model, nil, tt.reply)
			req := modeltest.ScriptInput("hi", tt.stream)
			req.Config = &tt.config
			_, err := modeltest.Collect(llm.Generate(t.Context(), req))
			if want := strings.ReplaceAll(tt.want, "URL", fake.URL()+"/api/chat"); modeltest.ErrorText(err) != want {
				t.Errorf("Generate() =\n%v, want\n%s", err, want)
			}
		})
	}
}

// Without a server, the error has the command that starts one.
func TestOllamaNotRunning(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = l.Close()
	llm := ollama.New("qwen3", &ollama.Options{
		Lookup: modeltest.Lookup(map[string]string{"OLLAMA_HOST": l.Addr().String()}), Retry: provider.RetryOptions{Attempts: 1, Provider: "ollama"},
	})
	_, err = modeltest.Ask(t, llm, false)
	if want := "; start it with `ollama serve`, or set OLLAMA_API_BASE to its address"; !strings.HasSuffix(modeltest.ErrorText(err), want) {
		t.Errorf("Generate() = %v, want …%s", err, want)
	}
}

// The address comes from the document, from LiteLLM's variable, or from Ollama's own, which may be
// the one that the server listens on.
func TestOllamaAddress(t *testing.T) {
	for _, tt := range []struct {
		base string
		env  map[string]string
		want string
	}{
		{"", nil, "http://127.0.0.1:11434"},
		{"", map[string]string{"OLLAMA_HOST": "0.0.0.0"}, "http://127.0.0.1:11434"},
		{"", map[string]string{"OLLAMA_HOST": "0.0.0.0:8080"}, "http://127.0.0.1:8080"},
		{"", map[string]string{"OLLAMA_HOST": "[::]:8080"}, "http://[::1]:8080"},
		{"", map[string]string{"OLLAMA_HOST": "gpu"}, "http://gpu:11434"},
		{"", map[string]string{"OLLAMA_HOST": "https://gpu.example.com"}, "https://gpu.example.com"},
		{"", map[string]string{"OLLAMA_HOST": "gpu", "OLLAMA_API_BASE": "http://other:11434/"}, "http://other:11434"},
		{"", map[string]string{"OLLAMA_API_BASE": "http://other:11434/v1"}, "http://other:11434"},
		{"http://mine:1/proxy/api", map[string]string{"OLLAMA_API_BASE": "http://other:11434"}, "http://mine:1/proxy"},
	} {
		n, ds := spec.Parse("app.yaml", []byte("{model: qwen3, base_url: '"+tt.base+"'}"))
		kind, _ := modeltest.AllKinds().Lookup("ollama_chat")
		plan, more := kind.Decode(n)
		if err := append(ds, more...).Err(); err != nil {
			t.Fatal(err)
		}
		if got := plan.Config.(provider.EndpointConfig).Endpoint(provider.Env{Lookup: modeltest.Lookup(tt.env)}).URL; got != tt.want {
			t.Errorf("base_url %q, %v: %s, want %s", tt.base, tt.env, got, tt.want)
		}
	}
}

// Settings with a wrong value are reported at their place.
func TestOllamaProblems(t *testing.T) {
	_, got := modeltest.BuildModel(t, "{provider: ollama, model: m, think: much, keep_alive: long, thoughts: some, base_url: x}", nil)
	want := []string{
		`app.yaml:1:37: think must be true, false, low, medium or high, got "much" [value]`,
		`app.yaml:1:55: keep_alive must be a duration such as 10m or a number of seconds, got "long" [value]`,
		`app.yaml:1:71: "some" is not one of: drop, tools, always [enum]`,
		"app.yaml:1:87: base_url must be a URL such as https://example.com [value]",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("problems (-want +got):\n%s", diff)
	}
	if llm, problems := modeltest.BuildModel(t, "{provider: ollama, model: m, think: true, keep_alive: -1, options: {num_ctx: 32768}}", nil); llm == nil {
		t.Errorf("problems: %q", problems)
	}
}
