package modeltest_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/modeltest"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

// A sentCall is one call's request: its URL, the header with the key, and the model's name in the
// body.
type sentCall struct{ url, key, model string }

// RoundTrip records the request and answers "ok".
func (c *sentCall) RoundTrip(req *http.Request) (*http.Response, error) {
	c.url = req.URL.String()
	for _, name := range []string{"Authorization", "Api-Key"} {
		if value := req.Header.Get(name); value != "" {
			c.key = name + ": " + value
		}
	}
	var body struct{ Model string }
	if err := json.NewDecoder(req.Body).Decode(&body); err != nil {
		return nil, err
	}
	c.model = body.Model
	answer := `{"choices": [{"message": {"content": "ok"}}], "message": {"content": "ok"}, "done": true}`
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: req}, nil
}

// callModel calls a model as the loader builds it from settings, with the environments of host and
// app.
func callModel(t *testing.T, settings string, host, app map[string]string) (sentCall, error) {
	t.Helper()
	n, ds := spec.Parse("app.yaml", []byte(settings))
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	kind, ok := modeltest.AllKinds().Lookup(n.Get("provider").Value)
	if !ok {
		t.Fatalf("no provider %s", n.Get("provider").Value)
	}
	plan, ds := kind.Decode(n)
	if err := ds.Err(); err != nil {
		t.Fatal(err)
	}
	var sent sentCall
	llm, err := plan.Build(t.Context(), provider.Env{Lookup: modeltest.Lookup(host), App: app, HTTP: &http.Client{Transport: &sent}})
	if err != nil {
		t.Fatal(err)
	}
	_, err = modeltest.Ask(t, llm, false)
	return sent, err
}

// Each prefix has its address, and sends its key as the service expects it.
func TestVendorsSendKeyToTheirAddress(t *testing.T) {
	bearer := func(key string) string { return "Authorization: Bearer " + key }
	for _, tt := range []struct {
		prefix string
		env    map[string]string
		url    string
		key    string
	}{
		{"openai", map[string]string{"OPENAI_API_KEY": "k"}, "https://api.openai.com/v1/chat/completions", bearer("k")},
		{"openai", map[string]string{"OPENAI_BASE_URL": "http://vllm:8000/v1/"}, "http://vllm:8000/v1/chat/completions", ""},
		{
			"azure",
			map[string]string{"AZURE_API_KEY": "k", "AZURE_API_BASE": "https://shop.openai.azure.com/"},
			"https://shop.openai.azure.com/openai/v1/chat/completions", "Api-Key: k",
		},
		{
			"azure_ai",
			map[string]string{"AZURE_AI_API_KEY": "k", "AZURE_AI_API_BASE": "https://shop.services.ai.azure.com"},
			"https://shop.services.ai.azure.com/openai/v1/chat/completions", "Api-Key: k",
		},
		{
			"azure_ai",
			map[string]string{"AZURE_AI_API_KEY": "k", "AZURE_AI_API_BASE": "https://phi.eastus.models.ai.azure.com/v1"},
			"https://phi.eastus.models.ai.azure.com/v1/chat/completions", "Api-Key: k",
		},
		{"groq", map[string]string{"GROQ_API_KEY": "k"}, "https://api.groq.com/openai/v1/chat/completions", bearer("k")},
		{"mistral", map[string]string{"MISTRAL_API_KEY": "k"}, "https://api.mistral.ai/v1/chat/completions", bearer("k")},
		{"deepseek", map[string]string{"DEEPSEEK_API_KEY": "k"}, "https://api.deepseek.com/chat/completions", bearer("k")},
		{"together_ai", map[string]string{"TOGETHERAI_API_KEY": "k"}, "https://api.together.xyz/v1/chat/completions", bearer("k")},
		{"together_ai", map[string]string{"TOGETHER_API_KEY": "k"}, "https://api.together.xyz/v1/chat/completions", bearer("k")},
		{"fireworks_ai", map[string]string{"FIREWORKS_AI_API_KEY": "k"}, "https://api.fireworks.ai/inference/v1/chat/completions", bearer("k")},
		{"openrouter", map[string]string{"OPENROUTER_API_KEY": "k"}, "https://openrouter.ai/api/v1/chat/completions", bearer("k")},
		{"xai", map[string]string{"XAI_API_KEY": "k"}, "https://api.x.ai/v1/chat/completions", bearer("k")},
		{"cohere", map[string]string{"COHERE_API_KEY": "k"}, "https://api.cohere.ai/compatibility/v1/chat/completions", bearer("k")},
		{
			"databricks",
			map[string]string{"DATABRICKS_API_KEY": "k", "DATABRICKS_API_BASE": "https://adb-1.azuredatabricks.net"},
			"https://adb-1.azuredatabricks.net/serving-endpoints/chat/completions", bearer("k"),
		},
		{"ai21", map[string]string{"AI21_API_KEY": "k"}, "https://api.ai21.com/studio/v1/chat/completions", bearer("k")},
		{
			"bedrock",
			map[string]string{"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_REGION": "us-west-2"},
			"https://bedrock-runtime.us-west-2.amazonaws.com/openai/v1/chat/completions", bearer("k"),
		},
		{"perplexity", map[string]string{"PERPLEXITYAI_API_KEY": "k"}, "https://api.perplexity.ai/chat/completions", bearer("k")},
		{"cerebras", map[string]string{"CEREBRAS_API_KEY": "k"}, "https://api.cerebras.ai/v1/chat/completions", bearer("k")},
		{"sambanova", map[string]string{"SAMBANOVA_API_KEY": "k"}, "https://api.sambanova.ai/v1/chat/completions", bearer("k")},
		{"nvidia_nim", map[string]string{"NVIDIA_NIM_API_KEY": "k"}, "https://integrate.api.nvidia.com/v1/chat/completions", bearer("k")},
		{"deepinfra", map[string]string{"DEEPINFRA_API_KEY": "k"}, "https://api.deepinfra.com/v1/openai/chat/completions", bearer("k")},
		{"moonshot", map[string]string{"MOONSHOT_API_KEY": "k"}, "https://api.moonshot.ai/v1/chat/completions", bearer("k")},
		{"dashscope", map[string]string{"DASHSCOPE_API_KEY": "k"}, "https://dashscope-intl.aliyuncs.com/compatible-mode/v1/chat/completions", bearer("k")},
		{"hosted_vllm", map[string]string{"HOSTED_VLLM_API_BASE": "http://gpu:8001"}, "http://gpu:8001/v1/chat/completions", ""},
		{"hosted_vllm", map[string]string{"HOSTED_VLLM_API_BASE": "http://gpu:8001/v1", "HOSTED_VLLM_API_KEY": "k"}, "http://gpu:8001/v1/chat/completions", bearer("k")},
		{"lm_studio", nil, "http://127.0.0.1:1234/v1/chat/completions", ""},
		{"lm_studio", map[string]string{"LM_STUDIO_API_BASE": "http://desk:1234/v1"}, "http://desk:1234/v1/chat/completions", ""},
		{"llamafile", nil, "http://127.0.0.1:8080/v1/chat/completions", ""},
		{
			"litellm_proxy",
			map[string]string{"LITELLM_PROXY_API_BASE": "http://litellm:4000", "LITELLM_PROXY_API_KEY": "k"},
			"http://litellm:4000/chat/completions", bearer("k"),
		},
		{"ollama", nil, "http://127.0.0.1:11434/api/chat", ""},
		{"ollama_chat", map[string]string{"OLLAMA_API_BASE": "http://gpu:11434"}, "http://gpu:11434/api/chat", ""},
		{"openai_compatible", map[string]string{"OPENAI_API_KEY": "k"}, "https://api.openai.com/v1/chat/completions", bearer("k")},
	} {
		t.Run(tt.prefix, func(t *testing.T) {
			got, err := callModel(t, "{provider: "+tt.prefix+", model: maker/m-1}", tt.env, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(sentCall{tt.url, tt.key, "maker/m-1"}, got, cmp.AllowUnexported(sentCall{})); diff != "" {
				t.Errorf("the call (-want +got):\n%s", diff)
			}
		})
	}
}

// A missing key, address or region is an error that names the variable.
func TestVendorsMissing(t *testing.T) {
	for _, tt := range []struct {
		settings string
		env      map[string]string
		want     string
	}{
		{
			"{provider: groq, model: m}", nil,
			"model: 401 UNAUTHENTICATED: no key for Groq: set GROQ_API_KEY in the environment or in the app's .env, " +
				"or give the model an api_key or a base_url under models: in app.yaml",
		},
		{
			"{provider: azure, model: m}",
			map[string]string{"AZURE_API_KEY": "k"},
			"model: 400 INVALID_ARGUMENT: no address for Azure OpenAI: set AZURE_API_BASE, such as https://RESOURCE.openai.azure.com, " +
				"or give the model a base_url under models: in app.yaml",
		},
		{
			"{provider: azure, model: m}",
			map[string]string{"AZURE_API_BASE": "https://shop.openai.azure.com"},
			"model: 401 UNAUTHENTICATED: no key for Azure OpenAI: set AZURE_API_KEY in the environment or in the app's .env, " +
				"or give the model an api_key or a base_url under models: in app.yaml",
		},
		{
			"{provider: hosted_vllm, model: m}", nil,
			"model: 400 INVALID_ARGUMENT: no address for vLLM: set HOSTED_VLLM_API_BASE, such as http://127.0.0.1:8001/v1, " +
				"or give the model a base_url under models: in app.yaml",
		},
		{
			"{provider: bedrock, model: m}",
			map[string]string{"AWS_BEARER_TOKEN_BEDROCK": "k"},
			"model: 400 INVALID_ARGUMENT: no region for Amazon Bedrock: set AWS_REGION, such as us-east-1, " +
				"or give the model a base_url under models: in app.yaml",
		},
		{
			"{provider: bedrock, model: m}",
			map[string]string{"AWS_BEARER_TOKEN_BEDROCK": "k", "AWS_REGION": "evil.example/"},
			"model: 400 INVALID_ARGUMENT: no region for Amazon Bedrock: set AWS_REGION, such as us-east-1, " +
				"or give the model a base_url under models: in app.yaml",
		},
		{
			"{provider: xai, model: m}",
			map[string]string{"XAI_API_KEY": "k", "XAI_API_BASE": "api.x.ai"},
			"model: 400 INVALID_ARGUMENT: base_url must be a URL such as https://example.com",
		},
	} {
		got, err := callModel(t, tt.settings, tt.env, nil)
		if err == nil || err.Error() != tt.want || got.url != "" {
			t.Errorf("%s with %v: %v to %q, want %s", tt.settings, tt.env, err, got.url, tt.want)
		}
	}
}

// The host's key is never sent to an address that the app chose, for no prefix.
func TestVendorsKeepKeys(t *testing.T) {
	const secret = "key-of-the-host"
	host := func() map[string]string {
		env := map[string]string{}
		for _, key := range []string{
			"OPENAI_API_KEY", "AZURE_API_KEY", "AZURE_OPENAI_API_KEY", "AZURE_AI_API_KEY", "GROQ_API_KEY", "MISTRAL_API_KEY", "DEEPSEEK_API_KEY",
			"TOGETHERAI_API_KEY", "FIREWORKS_AI_API_KEY", "OPENROUTER_API_KEY", "XAI_API_KEY", "COHERE_API_KEY", "DATABRICKS_API_KEY",
			"AI21_API_KEY", "AWS_BEARER_TOKEN_BEDROCK", "OLLAMA_API_KEY", "PERPLEXITYAI_API_KEY", "CEREBRAS_API_KEY", "SAMBANOVA_API_KEY",
			"NVIDIA_NIM_API_KEY", "DEEPINFRA_API_KEY", "MOONSHOT_API_KEY", "DASHSCOPE_API_KEY", "HOSTED_VLLM_API_KEY", "LM_STUDIO_API_KEY",
			"LLAMAFILE_API_KEY", "LITELLM_PROXY_API_KEY",
		} {
			env[key] = secret
		}
		return env
	}
	bases := []string{
		"OPENAI_BASE_URL", "OPENAI_API_BASE", "AZURE_API_BASE", "AZURE_AI_API_BASE", "GROQ_API_BASE", "MISTRAL_API_BASE", "DEEPSEEK_API_BASE",
		"TOGETHER_AI_API_BASE", "FIREWORKS_API_BASE", "OPENROUTER_API_BASE", "XAI_API_BASE", "DATABRICKS_API_BASE", "AI21_API_BASE", "OLLAMA_API_BASE",
		"PERPLEXITY_API_BASE", "CEREBRAS_API_BASE", "SAMBANOVA_API_BASE", "NVIDIA_NIM_API_BASE", "DEEPINFRA_API_BASE", "MOONSHOT_API_BASE",
		"DASHSCOPE_API_BASE", "HOSTED_VLLM_API_BASE", "LM_STUDIO_API_BASE", "LLAMAFILE_API_BASE", "LITELLM_PROXY_API_BASE",
	}
	app := map[string]string{}
	for _, name := range bases {
		app[name] = "https://app.example/v1"
	}
	for _, kind := range modeltest.AllKinds() {
		if _, ok := kind.NewConfig().(provider.NameConfig); !ok || kind.Name == "gemini" || kind.Name == "anthropic" {
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			got, err := callModel(t, "{provider: "+kind.Name+", model: m}", host(), app)
			if strings.Contains(got.url, "app.example") && got.key != "" {
				t.Errorf("the call of an address in .env had the key %s", got.key)
			}
			if err == nil && !strings.Contains(got.url, "app.example") && kind.Name != "cohere" && kind.Name != "bedrock" {
				t.Errorf("the address in .env was ignored for %s", got.url)
			}
			got, err = callModel(t, "{provider: "+kind.Name+", model: m, base_url: 'https://app.example/v1'}", host(), nil)
			if strings.Contains(got.key, secret) {
				t.Errorf("the call of a base_url had the key of the host: %v", err)
			}
			got, err = callModel(t, "{provider: "+kind.Name+", model: m, base_url: 'https://app.example/v1', api_key: own-key}", host(), nil)
			if err != nil || !strings.HasSuffix(got.key, "own-key") {
				t.Errorf("the call of a base_url had the key %q, want own-key: %v", got.key, err)
			}
		})
	}
}

// Some names need no prefix.
func TestRecognizedNames(t *testing.T) {
	for name, want := range map[string]string{
		"gpt-4o": "openai", "gpt-5-mini": "openai", "o1": "openai", "o3-mini": "openai", "o4-mini": "openai", "chatgpt-4o-latest": "openai",
		"gemini-flash-latest": "gemini", "gemma-3-27b-it": "gemini", "models/gemini-x": "gemini", "projects/p/locations/l/endpoints/1": "gemini",
		"projects/p/locations/l/publishers/google/models/gemini-x": "gemini",
		"claude-sonnet-4-5": "anthropic", "projects/p/locations/l/publishers/anthropic/models/claude-opus-4-6": "anthropic",
		"ollama": "", "oracle": "", "o": "", "gpt": "", "llama3": "",
	} {
		got := ""
		for _, kind := range modeltest.AllKinds() {
			if c, ok := kind.NewConfig().(provider.NameConfig); ok && c.RecognizesName(name) {
				got += kind.Name
			}
		}
		if got != want {
			t.Errorf("%s is recognized by %q, want %q", name, got, want)
		}
	}
}
