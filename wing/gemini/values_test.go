package gemini

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/number/numbertest"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// decodeNumbers returns the numbers that numbertest has.
func decodeNumbers(t *testing.T) map[string]any {
	t.Helper()
	m, err := session.DecodeMap([]byte(numbertest.Object))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A bodyRecorder is a transport that keeps the last request's body.
type bodyRecorder struct {
	next http.RoundTripper
	body string
}

func (b *bodyRecorder) RoundTrip(req *http.Request) (*http.Response, error) {
	text, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	b.body = string(text)
	req.Body = io.NopCloser(strings.NewReader(b.body))
	return b.next.RoundTrip(req)
}

// newRecordedGemini returns a model at a fake, and the bodies that it sends.
func newRecordedGemini(t *testing.T, replies ...fakegemini.Reply) (model.LLM, *bodyRecorder) {
	t.Helper()
	server, client := fakegemini.NewInMemory()
	t.Cleanup(server.Close)
	server.Enqueue(replies...)
	recorder := &bodyRecorder{next: client.Transport}
	llm := New("gemini-2.5-flash", &Options{APIKey: "key-secret", BaseURL: "http://gemini.test", HTTP: &http.Client{Transport: recorder}})
	return llm, recorder
}

// Every request value that may be any object keeps its digits: arguments, responses, metadata, and
// the schemas of tools and answer. The caller's request is not modified.
func TestGeminiKeepsDigitsOfRequests(t *testing.T) {
	llm, sent := newRecordedGemini(t, fakegemini.Text("ok"))
	contents := []*genai.Content{
		{Role: "user", Parts: []*genai.Part{{Text: "go", PartMetadata: decodeNumbers(t)}}},
		{Role: "model", Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{Name: "f", Args: decodeNumbers(t)}}}},
		{Role: "user", Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{Name: "f", Response: decodeNumbers(t)}}}},
	}
	schema := func() map[string]any {
		return map[string]any{"type": "object", "properties": map[string]any{}, "default": decodeNumbers(t)}
	}
	tools := []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
		{Name: "f", Description: "Does.", ParametersJsonSchema: schema(), ResponseJsonSchema: schema()},
	}}}
	req := &model.Request{Contents: contents, Config: &genai.GenerateContentConfig{
		Tools: tools, ResponseJsonSchema: schema(), ResponseMIMEType: "application/json",
	}}
	for _, err := range llm.Generate(t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
	}
	numbertest.Check(t, "request", sent.body, 6)
	if contents[1].Parts[0].FunctionCall.Args == nil || tools[0].FunctionDeclarations[0].ParametersJsonSchema == nil || req.Config.ResponseJsonSchema == nil {
		t.Error("the request of the caller was modified")
	}
}

// A response's values keep their digits, whatever their keys are. Arguments that are not an object,
// or nested beyond the limit, are the error MALFORMED_FUNCTION_CALL.
func TestGeminiArguments(t *testing.T) {
	deep := strings.Repeat(`{"a":`, 1500) + "1" + strings.Repeat("}", 1500)
	for _, tt := range []struct{ name, args, want string }{
		{"numbers", numbertest.Object, numbertest.Object},
		{"whole float", `{"n":5.0}`, `{"n":5.0}`},
		{"empty key", `{"":"text"}`, `{"":"text"}`},
		{"empty key of JSON", `{"":"{\"a\":1}"}`, `{"":"{\"a\":1}"}`},
		{"text of an object", `"{\"n\":9007199254740993}"`, `{"n":9007199254740993}`},
		{"name of a count", `{"totalTokenCount":"x","functionCall":{"args":{"n":7}}}`, `{"functionCall":{"args":{"n":7}},"totalTokenCount":"x"}`},
		{"null", `null`, `{}`},
		{"list", `[1]`, "MALFORMED_FUNCTION_CALL: arguments of f must be a JSON object: [1]"},
		{"text", `"x"`, "MALFORMED_FUNCTION_CALL: arguments of f must be a JSON object: x"},
		{"too deep", deep, "MALFORMED_FUNCTION_CALL: arguments of f must be a JSON object: " + deep[:200] + "…"},
	} {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, stream %v", tt.name, stream), func(t *testing.T) {
				raw := `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f","args":` + tt.args + `}}]},"finishReason":"STOP"}]}`
				if stream {
					raw = "data: " + raw + "\n\n"
				}
				llm, _ := newRecordedGemini(t, fakegemini.Reply{Raw: raw})
				var last *model.Response
				for r, err := range llm.Generate(t.Context(), &model.Request{Contents: []*genai.Content{model.UserText("go")}, Stream: stream}) {
					if err != nil {
						t.Fatal(err)
					}
					last = r
				}
				got := last.ErrorCode + ": " + last.ErrorMessage
				if last.ErrorCode == "" {
					text, err := session.EncodeMap(last.Content.Parts[0].FunctionCall.Args)
					if err != nil {
						t.Fatal(err)
					}
					got = string(text)
				}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// In live conversations too, numbers keep their digits: in calls, in responses and in the history.
func TestGeminiLiveKeepsDigits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		llm, server := newLiveGemini(t, "gemini-live-2.5-flash", Options{})
		defer server.Close()
		server.HandleLive(func(c *fakegemini.LiveConn) {
			_ = c.Accept("")
			_ = c.Send(`{"toolCall":{"functionCalls":[{"id":"c1","name":"f","args":` + numbertest.Object + `}]}}`)
			for {
				if _, err := c.Receive(); err != nil {
					return
				}
			}
		})
		conn, err := llm.ConnectLive(t.Context(), &model.LiveSetup{Tools: []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{
			{Name: "f", ParametersJsonSchema: map[string]any{"type": "object", "default": decodeNumbers(t)}},
		}}}})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		m, err := conn.Receive(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		args, err := session.EncodeMap(m.Calls[0].Args)
		if err != nil {
			t.Fatal(err)
		}
		numbertest.Check(t, "call", string(args), 1)
		history := []*genai.Content{
			model.UserText("go"),
			{Role: "model", Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "c0", Name: "f", Args: decodeNumbers(t)}}}},
			{Role: "user", Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "c0", Name: "f", Response: decodeNumbers(t)}}}},
		}
		for _, f := range []*model.LiveFrame{
			{Responses: []*genai.FunctionResponse{{ID: "c1", Name: "f", Response: decodeNumbers(t)}}},
			{Turns: history, TurnComplete: true},
		} {
			if err := conn.Send(t.Context(), f); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		frames, err := json.Marshal(server.LiveConns()[0].Frames())
		if err != nil {
			t.Fatal(err)
		}
		numbertest.Check(t, "frames", string(frames), 4)
	})
}
