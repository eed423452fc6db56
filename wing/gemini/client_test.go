package gemini_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/wing/gemini"
)

func TestGeminiEnvironment(t *testing.T) {
	const developer = "/v1beta/models/gemini-x:generateContent"
	const vertex = "/v1beta1/publishers/google/models/gemini-x:generateContent"
	const project = "/v1beta1/projects/p/locations/europe-west1/publishers/google/models/gemini-x:generateContent"
	token := func(context.Context) (string, error) { return "adc-token", nil }
	tests := []struct {
		name string
		env  map[string]string
		opts gemini.Options
		want string
	}{
		{"google key wins", map[string]string{"GOOGLE_API_KEY": "a-google", "GEMINI_API_KEY": "a-gemini"}, gemini.Options{}, developer + " key …ogle"},
		{"gemini key", map[string]string{"GEMINI_API_KEY": "a-gemini"}, gemini.Options{}, developer + " key …mini"},
		{"given key wins", map[string]string{"GOOGLE_API_KEY": "a-google"}, gemini.Options{APIKey: "my-own"}, developer + " key …-own"},
		{
			"vertex project",
			map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west1"},
			gemini.Options{Token: token},
			project + " bearer …oken",
		},
		{
			"project wins over key, old name of location",
			map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "TRUE", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_REGION": "europe-west1", "GOOGLE_API_KEY": "k"},
			gemini.Options{Token: token},
			project + " bearer …oken",
		},
		{"express mode", map[string]string{"GOOGLE_GENAI_USE_ENTERPRISE": "true", "GOOGLE_API_KEY": "a-google"}, gemini.Options{}, vertex + " key …ogle"},
		{
			"newer switch wins",
			map[string]string{"GOOGLE_GENAI_USE_ENTERPRISE": "0", "GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_API_KEY": "a-google"},
			gemini.Options{},
			developer + " key …ogle",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := modeltest.NewFake(t)
			tt.env["GOOGLE_GEMINI_BASE_URL"], tt.env["GOOGLE_VERTEX_BASE_URL"] = fake.URL(), fake.URL()
			tt.opts.Lookup, tt.opts.HTTP = modeltest.Lookup(tt.env), fake.Client()
			if _, err := modeltest.Ask(t, gemini.New("gemini-x", &tt.opts), false); err != nil {
				t.Fatalf("Generate() = %v", err)
			}
			req := fake.Requests()[0]
			if got := req.Path + " " + req.Credential; got != tt.want {
				t.Errorf("request = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestGeminiInvalidConfig(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		want string
	}{
		{
			"no key", nil,
			"model: 401 UNAUTHENTICATED: no key for Gemini: set GOOGLE_API_KEY or GEMINI_API_KEY in the environment or in the app's .env, " +
				"or give the model an api_key under models: in app.yaml",
		},
		{
			"no project",
			map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "1"},
			"model: 401 UNAUTHENTICATED: no project for Vertex AI: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, " +
				"or GOOGLE_API_KEY for express mode",
		},
		{
			"bad base",
			map[string]string{"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": "example.com"},
			"model: 400 INVALID_ARGUMENT: base_url must be a URL such as https://example.com",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var waited modeltest.Waits
			llm := gemini.New("gemini-x", &gemini.Options{
				Lookup: modeltest.Lookup(tt.env), Retry: provider.RetryOptions{Wait: waited.Wait},
			})
			_, err := modeltest.Ask(t, llm, false)
			if diff := cmp.Diff(tt.want, modeltest.ErrorText(err)); diff != "" {
				t.Errorf("Generate() (-want +got):\n%s", diff)
			}
			if len(waited) != 0 {
				t.Errorf("waited %v, want no retry", waited)
			}
		})
	}
}

func TestGeminiTokenFails(t *testing.T) {
	fake := modeltest.NewFake(t)
	opts := modeltest.VertexOptions(fake)
	opts.Token = func(context.Context) (string, error) { return "", errors.New("expired") }
	_, err := modeltest.Ask(t, gemini.New("gemini-x", opts), false)
	if got, want := modeltest.ErrorText(err), "model: no token for Vertex AI: expired"; got != want {
		t.Errorf("Generate() = %q, want %q", got, want)
	}
}

func TestGeminiRequestBody(t *testing.T) {
	fake := modeltest.NewFake(t)
	temperature := float32(0.5)
	req := &model.Request{
		Model: "gemini-other",
		Contents: []*genai.Content{
			model.UserText("hi"),
			{Role: "model", Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "c1", Name: "f", Args: map[string]any{"n": 1}}}}},
			{Role: "user", Parts: []*genai.Part{
				{FunctionResponse: &genai.FunctionResponse{ID: "c1", Name: "f", Response: map[string]any{"ok": true}}},
				{InlineData: &genai.Blob{DisplayName: "cat.png", MIMEType: "image/png", Data: []byte{1}}},
				{FileData: &genai.FileData{DisplayName: "dog.png", MIMEType: "image/png", FileURI: "gs://dog"}},
			}},
		},
		Config: &genai.GenerateContentConfig{
			SystemInstruction: &genai.Content{Parts: []*genai.Part{{Text: "be kind"}}},
			Temperature:       &temperature,
			Labels:            map[string]string{"adk_agent_name": "root"},
			Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{
				Name: "f", Description: "Does f.", Parameters: &genai.Schema{Type: "OBJECT"},
			}}}},
		},
	}
	if _, err := modeltest.Collect(gemini.New("gemini-x", modeltest.FakeOptions(fake)).Generate(t.Context(), req)); err != nil {
		t.Fatal(err)
	}
	got := fake.Requests()[0]
	type object = map[string]any
	want := object{
		"systemInstruction": object{"role": "user", "parts": []any{object{"text": "be kind"}}},
		"contents": []any{
			object{"role": "user", "parts": []any{object{"text": "hi"}}},
			object{"role": "model", "parts": []any{object{"functionCall": object{"id": "c1", "name": "f", "args": object{"n": 1.0}}}}},
			object{"role": "user", "parts": []any{
				object{"functionResponse": object{"id": "c1", "name": "f", "response": object{"ok": true}}},
				object{"inlineData": object{"mimeType": "image/png", "data": "AQ=="}},
				object{"fileData": object{"mimeType": "image/png", "fileUri": "gs://dog"}},
			}},
		},
		"generationConfig": object{"temperature": 0.5},
		"tools": []any{object{"functionDeclarations": []any{object{
			"name": "f", "description": "Does f.", "parametersJsonSchema": object{"type": "object", "properties": object{}},
		}}}},
	}
	if diff := cmp.Diff(want, got.Body); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	if got.Model != "gemini-other" {
		t.Errorf("model = %s, want the request's", got.Model)
	}
	if req.Config.SystemInstruction.Role != "" || req.Config.Labels == nil || req.Contents[2].Parts[1].InlineData.DisplayName == "" {
		t.Error("Generate changed the request")
	}
}

func TestGeminiRefusesParameter(t *testing.T) {
	fake := modeltest.NewFake(t)
	req := modeltest.ScriptInput("hi", false)
	req.Config.RoutingConfig = &genai.GenerationConfigRoutingConfig{}
	_, err := modeltest.Collect(gemini.New("gemini-x", modeltest.FakeOptions(fake)).Generate(t.Context(), req))
	const want = "model: 400 INVALID_ARGUMENT: routingConfig parameter is only supported in Gemini Enterprise Agent Platform mode, " +
		"not in Gemini Developer API mode."
	if diff := cmp.Diff(want, modeltest.ErrorText(err)); diff != "" {
		t.Errorf("Generate() (-want +got):\n%s", diff)
	}
	if n := len(fake.Requests()); n != 0 {
		t.Errorf("the service received %d requests", n)
	}
}

// Parallel agents share a config. The SDK must not modify it.
func TestGeminiSharedConfig(t *testing.T) {
	fake := modeltest.NewFake(t)
	llm := gemini.New("gemini-x", modeltest.FakeOptions(fake))
	config := &genai.GenerateContentConfig{
		SystemInstruction: &genai.Content{Parts: []*genai.Part{{Text: "be kind"}}},
		HTTPOptions:       &genai.HTTPOptions{Headers: http.Header{"x-team": {"blue"}}},
	}
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			req := modeltest.ScriptInput(fmt.Sprint("hi ", i), i%2 == 0)
			req.Config = config
			if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
				t.Errorf("Generate() = %v", err)
			}
		})
	}
	group.Wait()
	if diff := cmp.Diff(http.Header{"x-team": {"blue"}}, config.HTTPOptions.Headers); diff != "" {
		t.Errorf("headers of the shared config (-want +got):\n%s", diff)
	}
	for _, req := range fake.Requests() {
		if got := req.Header.Get("X-Team"); got != "blue" {
			t.Errorf("X-Team = %q, want blue", got)
		}
	}
}

func TestGeminiWithoutCredentials(t *testing.T) {
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", "/no/such/file.json")
	fake := modeltest.NewFake(t)
	opts := modeltest.VertexOptions(fake)
	opts.Token = nil
	_, err := modeltest.Ask(t, gemini.New("gemini-x", opts), false)
	if got, want := modeltest.ErrorText(err), "model: 403 PERMISSION_DENIED: Method doesn't allow unregistered callers."; got != want {
		t.Errorf("with a base URL: Generate() = %q, want the service's answer %q", got, want)
	}
	opts.BaseURL = ""
	_, err = modeltest.Ask(t, gemini.New("gemini-x", opts), false)
	const want = "model: 401 UNAUTHENTICATED: no credentials for Vertex AI: set GOOGLE_APPLICATION_CREDENTIALS for the host, " +
		"or run gcloud auth application-default login: "
	if got := modeltest.ErrorText(err); !strings.HasPrefix(got, want) {
		t.Errorf("Generate() = %q, want %q and the cause", got, want)
	}
}

// On Vertex AI, each request has a label with its agent for billing; an agent's own label takes
// precedence. The Gemini API has no labels.
func TestGeminiLabels(t *testing.T) {
	for _, tt := range []struct {
		name    string
		options func(*fakegemini.Server) *gemini.Options
		own     map[string]string
		want    any
	}{
		{"vertex", modeltest.VertexOptions, map[string]string{"team": "x"}, map[string]any{"team": "x", "adk_agent_name": "billing"}},
		{"vertex, its own", modeltest.VertexOptions, map[string]string{"adk_agent_name": "mine"}, map[string]any{"adk_agent_name": "mine"}},
		{"gemini", modeltest.FakeOptions, nil, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			fake := modeltest.NewFake(t)
			req := modeltest.ScriptInput("hi", false)
			req.Origin.Agent, req.Config.Labels = "Billing", tt.own
			if _, err := modeltest.Collect(gemini.New("gemini-x", tt.options(fake)).Generate(t.Context(), req)); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, fake.Requests()[0].Body["labels"]); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
			if len(tt.own) != len(req.Config.Labels) {
				t.Error("the request's own labels were changed")
			}
		})
	}
}
