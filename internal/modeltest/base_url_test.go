package modeltest_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
)

// TestBaseURLQuery expects each provider to call its path before the base URL's query.
func TestBaseURLQuery(t *testing.T) {
	for _, tt := range []struct{ config, base, want string }{
		{"provider: openai_compatible, model: m", "/v1?a=1", "/v1/chat/completions?a=1"},
		{"provider: openai_compatible, model: m", "?a=1&b=/", "/chat/completions?a=1&b=/"},
		{"provider: openai_compatible, model: m, api: responses", "/v1/?a=1", "/v1/responses?a=1"},
		{"provider: anthropic, model: m", "/p/v1?a=1", "/p/v1/messages?a=1"},
		{"provider: ollama, model: m", "/api?a=1", "/api/chat?a=1"},
		{"provider: gemini, model: m", "/p?a=1", "/p/v1beta/models/m:generateContent?a=1"},
		{"provider: azure, model: m", "?a=1", "/openai/v1/chat/completions?a=1"},
	} {
		got := ""
		service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got = r.URL.String()
			w.WriteHeader(http.StatusBadRequest)
		}))
		llm, problems := modeltest.BuildModel(t, fmt.Sprintf("{%s, base_url: '%s%s', api_key: k}", tt.config, service.URL, tt.base), nil)
		if llm == nil {
			t.Fatal(tt.config, problems)
		}
		for range llm.Generate(t.Context(), &model.Request{Contents: genai.Text("hi")}) {
			break
		}
		service.Close()
		if got != tt.want {
			t.Errorf("{%s} with the base URL %s called %s, want %s", tt.config, tt.base, got, tt.want)
		}
	}
}
