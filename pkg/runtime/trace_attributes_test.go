package runtime

import (
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// Traced requests omit files, and headers, which may contain keys.
func TestTracedRequest(t *testing.T) {
	req := &model.Request{
		Model: "m",
		Contents: []*genai.Content{{Role: "user", Parts: []*genai.Part{
			{Text: "hello"}, {InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte("png")}},
		}}},
		Config: &genai.GenerateContentConfig{
			SystemInstruction: &genai.Content{Parts: []*genai.Part{{Text: "Be kind."}}},
			HTTPOptions:       &genai.HTTPOptions{Headers: map[string][]string{"Authorization": {"key-1234"}}},
		},
	}
	if got, want := tracedRequest(req), `{"model":"m","config":{"systemInstruction":"Be kind."}}`; got != want {
		t.Errorf("tracedRequest() = %s, want %s", got, want)
	}
	if got, want := tracedContents(req.Contents), `[{"parts":[{"text":"hello"}],"role":"user"}]`; got != want {
		t.Errorf("tracedContents() = %s, want %s", got, want)
	}
}
