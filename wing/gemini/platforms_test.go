package gemini_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/wing/gemini"
)

// A geminiCall is one call's request: its URL and its key.
type geminiCall struct{ url, key string }

// RoundTrip records the request and answers "ok".
func (c *geminiCall) RoundTrip(req *http.Request) (*http.Response, error) {
	c.url, c.key = req.URL.String(), req.Header.Get("X-Goog-Api-Key")+req.Header.Get("Authorization")
	answer := `{"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}`
	if strings.HasSuffix(c.url, "/chat/completions") {
		answer = `{"choices": [{"message": {"content": "ok"}}]}`
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(answer)), Request: req}, nil
}

// A program may have Gemini without the vendors that share its platforms.
func TestPlatformsWithoutVendors(t *testing.T) {
	for _, tt := range []struct {
		kind        spec.Kind[provider.Env, model.LLM]
		model, want string
	}{
		{gemini.VertexKind(nil), "gemini-x", ""},
		{gemini.VertexKind(nil), "claude-x", `vertex_ai has no client for "claude-x": it supports Google's models and Claude`},
		{gemini.ApigeeKind(nil), "gemini/gemini-x", ""},
		{gemini.ApigeeKind(nil), "openai/gpt-x", "this program has no client for OpenAI's API on Apigee"},
	} {
		_, ds := tt.kind.Decode(spec.Text{}.Mapping("model", tt.model))
		if got := ds.Error(); tt.want == "" && len(ds) > 0 || !strings.Contains(got, tt.want) {
			t.Errorf("%s %s: %s, want %q", tt.kind.Name, tt.model, got, tt.want)
		}
	}
}

// vertex_ai is Vertex AI and gemini follows the switch, and apigee calls the proxy in the API that
// the name selects. A proxy that the app names does not get the host key.
func TestGooglePrefixes(t *testing.T) {
	const proxy = "https://proxy.example/llm"
	for _, tt := range []struct {
		prefix, model string
		host, app     map[string]string
		want          geminiCall
		err           string
	}{
		{
			prefix: "vertex_ai", model: "gemini-x", host: map[string]string{"GOOGLE_API_KEY": "k"},
			want: geminiCall{"https://aiplatform.googleapis.com/v1beta1/publishers/google/models/gemini-x:generateContent", "k"},
		},
		{
			prefix: "gemini", model: "gemini-x", host: map[string]string{"GOOGLE_API_KEY": "k"},
			want: geminiCall{"https://generativelanguage.googleapis.com/v1beta/models/gemini-x:generateContent", "k"},
		},
		{
			prefix: "apigee", model: "gemini-x", host: map[string]string{"GOOGLE_API_KEY": "k", "APIGEE_PROXY_URL": proxy},
			want: geminiCall{proxy + "/v1beta/models/gemini-x:generateContent", "k"},
		},
		{
			prefix: "apigee", model: "gemini/v1/gemini-x", host: map[string]string{"GOOGLE_API_KEY": "k", "APIGEE_PROXY_URL": proxy, "GOOGLE_GENAI_USE_VERTEXAI": "1"},
			want: geminiCall{proxy + "/v1/models/gemini-x:generateContent", "k"},
		},
		{
			prefix: "apigee", model: "openai/gpt-x", host: map[string]string{"OPENAI_API_KEY": "k", "APIGEE_PROXY_URL": proxy},
			want: geminiCall{proxy + "/chat/completions", ""},
		},
		{
			prefix: "apigee", model: "gemini-x", host: map[string]string{"GOOGLE_API_KEY": "k"}, app: map[string]string{"APIGEE_PROXY_URL": proxy},
			err: "no key for Gemini at the app's own address, which does not get the host's key",
		},
		{
			prefix: "apigee", model: "gemini-x", host: map[string]string{"GOOGLE_API_KEY": "k"},
			err: "no address: set APIGEE_PROXY_URL, or give the model a base_url under models: in app.yaml",
		},
		{
			prefix: "apigee", model: "openai/gpt-x",
			err: "no address for Apigee: set APIGEE_PROXY_URL, such as https://proxy.example.com/llm, or give the model a base_url under models: in app.yaml",
		},
		{
			prefix: "vertex_ai", model: "gemini-x",
			err: "no project for Vertex AI: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, or GOOGLE_API_KEY for express mode",
		},
	} {
		t.Run(tt.prefix+"/"+tt.model, func(t *testing.T) {
			kind, _ := modeltest.AllKinds().Lookup(tt.prefix)
			plan, ds := kind.Decode(spec.Text{}.Mapping("model", tt.model))
			if err := ds.Err(); err != nil {
				t.Fatal(err)
			}
			var got geminiCall
			llm, err := plan.Build(t.Context(), provider.Env{Lookup: modeltest.Lookup(tt.host), App: tt.app, HTTP: &http.Client{Transport: &got}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := modeltest.Ask(t, llm, false); (err != nil) != (tt.err != "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("Generate() = %v, want %q", err, tt.err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(geminiCall{})); diff != "" {
				t.Errorf("the call (-want +got):\n%s", diff)
			}
		})
	}
}
