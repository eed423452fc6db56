package provider_test

import (
	"context"
	"testing"

	"agenthost/internal/fake/fakegemini"
	"agenthost/pkg/provider"
)

func newFake(t *testing.T) *fakegemini.Server {
	t.Helper()
	fake := fakegemini.New()
	t.Cleanup(fake.Close)
	return fake
}

// fakeOptions connect to the fake, with only a key in the environment and without
// retries.
func fakeOptions(fake *fakegemini.Server) *provider.GeminiOptions {
	return &provider.GeminiOptions{
		Lookup: lookup(nil), APIKey: "test-key-1234", BaseURL: fake.URL(), HTTP: fake.Client(),
		Retry: provider.RetryOptions{Attempts: 1},
	}
}

// vertexOptions connect to the fake like to Vertex AI.
func vertexOptions(fake *fakegemini.Server) *provider.GeminiOptions {
	opts := fakeOptions(fake)
	opts.APIKey = ""
	opts.Lookup = lookup(map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_CLOUD_PROJECT": "p"})
	opts.Token = func(context.Context) (string, error) { return "test-token", nil }
	return opts
}
