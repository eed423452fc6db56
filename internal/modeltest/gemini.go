package modeltest

import (
	"context"
	"testing"

	"agenthost/internal/fake/fakegemini"
	"agenthost/pkg/provider"
	"agenthost/wing/gemini"
)

// NewFake starts a fake Gemini service until the test ends.
func NewFake(t *testing.T) *fakegemini.Server {
	t.Helper()
	fake := fakegemini.New()
	t.Cleanup(fake.Close)
	return fake
}

// FakeOptions connect to the fake, with only a key in the environment and without
// retries.
func FakeOptions(fake *fakegemini.Server) *gemini.Options {
	return &gemini.Options{
		Lookup: Lookup(nil), APIKey: "test-key-1234", BaseURL: fake.URL(), HTTP: fake.Client(),
		Retry: provider.RetryOptions{Attempts: 1},
	}
}

// VertexOptions connect to the fake like to Vertex AI.
func VertexOptions(fake *fakegemini.Server) *gemini.Options {
	opts := FakeOptions(fake)
	opts.APIKey = ""
	opts.Lookup = Lookup(map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_CLOUD_PROJECT": "p"})
	opts.Token = func(context.Context) (string, error) { return "test-token", nil }
	return opts
}
