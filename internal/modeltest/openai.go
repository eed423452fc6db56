package modeltest

import (
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/fake/fakeopenai"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/wing/openai"
)

// FakeOpenAI returns a model on a fake server, without retries.
func FakeOpenAI(t *testing.T, replies ...fakeopenai.Reply) (model.LLM, *fakeopenai.Server) {
	t.Helper()
	fake := fakeopenai.New()
	t.Cleanup(fake.Close)
	fake.Enqueue(replies...)
	return openai.New("gpt-x", &openai.Options{
		BaseURL: fake.URL(), APIKey: "test-key-1234", HTTP: fake.Client(), Retry: provider.RetryOptions{Attempts: 1},
	}), fake
}

// FakeResponses returns a Responses API model on a fake server, without retries. opts may be nil.
func FakeResponses(t *testing.T, name string, opts *openai.Options, replies ...fakeopenai.Reply) (model.LLM, *fakeopenai.Server) {
	t.Helper()
	fake := fakeopenai.New()
	t.Cleanup(fake.Close)
	fake.Enqueue(replies...)
	return ConnectResponses(fake, name, opts), fake
}

// ContinueTurn returns the request after a response with the call c1.
func ContinueTurn(content *genai.Content) *model.Request {
	req := ScriptInput("hi", false)
	req.Contents = append(req.Contents, content, &genai.Content{Role: "user", Parts: []*genai.Part{
		{FunctionResponse: &genai.FunctionResponse{ID: "c1", Name: "look", Response: map[string]any{"n": 1}}},
	}})
	return req
}

// ConnectResponses returns a Responses API model on a fake server, without retries.
func ConnectResponses(fake *fakeopenai.Server, name string, opts *openai.Options) model.LLM {
	var o openai.Options
	if opts != nil {
		o = *opts
	}
	o.API, o.BaseURL, o.APIKey, o.HTTP, o.Retry = "responses", fake.URL(), "test-key-1234", fake.Client(), provider.RetryOptions{Attempts: 1}
	return openai.New(name, &o)
}
