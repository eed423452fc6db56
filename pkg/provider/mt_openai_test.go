package provider_test

import (
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/fake/fakeopenai"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
)

// fakeOpenAI returns a model on a fake server, without retries.
func fakeOpenAI(t *testing.T, replies ...fakeopenai.Reply) (model.LLM, *fakeopenai.Server) {
	t.Helper()
	fake := fakeopenai.New()
	t.Cleanup(fake.Close)
	fake.Enqueue(replies...)
	return provider.NewOpenAI("gpt-x", &provider.OpenAIOptions{
		BaseURL: fake.URL(), APIKey: "test-key-1234", HTTP: fake.Client(), Retry: provider.RetryOptions{Attempts: 1},
	}), fake
}

// fakeResponses returns a model of the Responses API on a fake server, without retries.
// opts may be nil.
func fakeResponses(t *testing.T, name string, opts *provider.OpenAIOptions, replies ...fakeopenai.Reply) (model.LLM, *fakeopenai.Server) {
	t.Helper()
	fake := fakeopenai.New()
	t.Cleanup(fake.Close)
	fake.Enqueue(replies...)
	return connectResponses(fake, name, opts), fake
}

// continueTurn returns the request after a response with the call c1.
func continueTurn(content *genai.Content) *model.Request {
	req := scriptInput("hi", false)
	req.Contents = append(req.Contents, content, &genai.Content{Role: "user", Parts: []*genai.Part{
		{FunctionResponse: &genai.FunctionResponse{ID: "c1", Name: "look", Response: map[string]any{"n": 1}}},
	}})
	return req
}
