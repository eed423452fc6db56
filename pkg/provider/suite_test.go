package provider_test

import (
	"context"
	"encoding/base64"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/pkg/model"
)

// A capability is a row of the table in docs/models.md. Each provider either passes its
// test or is declared to lack it.
type capability struct {
	slug, title string
	test        func(t *testing.T, s *suiteSubject)
	// network is set if the capability concerns the connection to a service.
	network bool
}

// capabilities lists what is tested for every provider.
func capabilities() []capability {
	return []capability{
		{"text", "Text", testText, false},
		{"stream", "Streamed text", testStream, false},
		{"tools", "Parallel tool calls, and their responses", testTools, false},
		{"images", "Images", testImages, false},
		{"documents", "PDF documents", testDocuments, false},
		{"thoughts", "Thoughts", testThoughts, false},
		{"schema", "Structured output", testSchema, false},
		{"usage", "Token counts", testUsage, false},
		{"finish", "Finish reason at the token limit", testFinish, false},
		{"builtin", "Gemini's built-in tools", testBuiltin, true},
		{"errors", "Errors that name the cause and the way out", testErrors, true},
		{"retry", "Waits as long as the service asks", testRetry, true},
		{"html", "Page of HTML instead of an answer", testHTML, true},
		{"garbage", "Malformed answer", testGarbage, true},
		{"cut", "Interrupted stream", testCut, true},
		{"half_call", "Half a tool call", testHalfCall, true},
		{"silence", "Silent service", testSilence, true},
		{"cancel", "Canceled call", testCancel, true},
	}
}

// TestCapabilities is the conformance suite. A provider that lacks a capability rejects
// it with the declared error.
func TestCapabilities(t *testing.T) {
	for _, c := range capabilities() {
		for _, s := range suiteSubjects() {
			lack, lacking := s.lacks[c.slug]
			if lacking && lack.err == "" || c.network && s.local {
				continue // nothing to reject
			}
			t.Run(c.slug+"/"+s.name, func(t *testing.T) {
				own := *s
				own.wantErr = lack.err
				c.test(t, &own)
			})
		}
	}
}

// bothModes calls a test with and without streaming.
func bothModes(t *testing.T, test func(t *testing.T, stream bool)) {
	for _, stream := range []bool{false, true} {
		t.Run(mode(stream), func(t *testing.T) { test(t, stream) })
	}
}

// generateWhole calls the model and returns the complete response. If the subject lacks
// the capability, it verifies the error and returns nil.
func (s *suiteSubject) generateWhole(t *testing.T, llm model.LLM, req *model.Request) *model.Response {
	t.Helper()
	all, err := collect(llm.Generate(t.Context(), req))
	if s.wantErr != "" {
		if err == nil || !strings.Contains(err.Error(), s.wantErr) {
			t.Errorf("Generate() = %v, want an error with %q", err, s.wantErr)
		}
		return nil
	}
	if err != nil || len(all) == 0 {
		t.Fatalf("Generate() = %v, %v, want a response", outline(all), err)
	}
	for i, r := range all {
		if r.Partial != (i < len(all)-1) {
			t.Fatalf("response %d of %d is partial: %v", i+1, len(all), r.Partial)
		}
	}
	whole := all[len(all)-1]
	if whole.Content == nil || whole.Content.Role != genai.RoleModel {
		t.Fatalf("content = %v, want one of role model", whole.Content)
	}
	return whole
}

// The text arrives, with its end, in both modes.
func testText(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, _ := s.build(t, suiteReply{text: []string{"one ", "two"}})
		whole := s.generateWhole(t, llm, scriptInput("hi", stream))
		if model.TextOf(whole.Content) != "one two" || whole.FinishReason != genai.FinishReasonStop || whole.ModelVersion == "" || llm.Name() == "" {
			t.Errorf("Generate() of %q = %q, %s, %q, want one two, STOP and a model version", llm.Name(), model.TextOf(whole.Content), whole.FinishReason, whole.ModelVersion)
		}
	})
}

func testStream(t *testing.T, s *suiteSubject) {
	llm, _ := s.build(t, suiteReply{text: []string{"one ", "two"}})
	got, err := ask(t, llm, true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"+one ", "+two", "one two"}, outline(got)); diff != "" {
		t.Errorf("Generate() (-want +got):\n%s", diff)
	}
	llm, _ = s.build(t, suiteReply{text: []string{"a ", "b ", "c"}})
	for r, err := range llm.Generate(t.Context(), scriptInput("hi", true)) {
		if err != nil || !r.Partial {
			t.Errorf("Generate() = %v, %v, want a partial response", r, err)
		}
		break // stopping early ends the call
	}
}

func lookupCalls() []*genai.FunctionCall {
	return []*genai.FunctionCall{
		{ID: "call_a", Name: "lookup", Args: map[string]any{"id": "seven"}},
		{ID: "call_b", Name: "lookup", Args: map[string]any{"id": "eight"}},
	}
}

func withTools(req *model.Request) *model.Request {
	req.Config.Tools = []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{
		Name: "lookup", Description: "Looks up.",
		Parameters: &genai.Schema{Type: genai.TypeObject, Properties: map[string]*genai.Schema{"id": {Type: genai.TypeString}}},
	}}}}
	return req
}

// Calls arrive one by one, and then with the text, in order. The service accepts the
// responses of two calls of one function.
func testTools(t *testing.T, s *suiteSubject) {
	for _, tt := range []struct {
		reply suiteReply
		want  []string
	}{
		{suiteReply{calls: lookupCalls()[:1]}, []string{"+lookup()", "lookup()"}},
		{suiteReply{text: []string{"wait"}, calls: lookupCalls()}, []string{"+wait", "+lookup()", "+lookup()", "waitlookup()lookup()"}},
	} {
		llm, _ := s.build(t, tt.reply)
		got, err := collect(llm.Generate(t.Context(), withTools(scriptInput("hi", true))))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, outline(got)); diff != "" {
			t.Errorf("Generate() (-want +got):\n%s", diff)
		}
	}
	bothModes(t, func(t *testing.T, stream bool) {
		llm, _ := s.build(t, suiteReply{text: []string{"wait"}, calls: lookupCalls()}, suiteReply{text: []string{"done"}})
		req := withTools(scriptInput("hi", stream))
		whole := s.generateWhole(t, llm, req)
		if whole.FinishReason != genai.FinishReasonStop {
			t.Errorf("finish reason = %s, want STOP", whole.FinishReason)
		}
		var args []any
		back := &genai.Content{Role: genai.RoleUser}
		for i, c := range model.CallsOf(whole.Content) {
			args = append(args, c.Name, c.Args["id"])
			back.Parts = append(back.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: c.ID, Name: c.Name, Response: map[string]any{"result": i}}})
		}
		if diff := cmp.Diff([]any{"lookup", "seven", "lookup", "eight"}, args); diff != "" {
			t.Fatalf("calls (-want +got):\n%s", diff)
		}
		req.Contents = append(req.Contents, whole.Content, back)
		if got := s.generateWhole(t, llm, req); model.TextOf(got.Content) != "done" && !s.local {
			t.Errorf("after the responses: %q, want done", model.TextOf(got.Content))
		}
	})
}

func testImages(t *testing.T, s *suiteSubject) {
	testInlineData(t, s, "image/png", "\x89PNG\r\n\x1a\npixels")
}

func testDocuments(t *testing.T, s *suiteSubject) {
	testInlineData(t, s, "application/pdf", "%PDF-1.7 pages")
}

// The service receives the data.
func testInlineData(t *testing.T, s *suiteSubject, mime, data string) {
	llm, w := s.build(t, suiteReply{text: []string{"seen"}})
	req := scriptInput("look", false)
	req.Contents[0].Parts = append(req.Contents[0].Parts, &genai.Part{InlineData: &genai.Blob{MIMEType: mime, Data: []byte(data)}})
	whole := s.generateWhole(t, llm, req)
	if whole == nil {
		return
	}
	if want := base64.StdEncoding.EncodeToString([]byte(data)); model.TextOf(whole.Content) != "seen" || !s.local && !strings.Contains(w.lastRequest(t), want) {
		t.Errorf("Generate() = %q, want seen, and a request with %s", model.TextOf(whole.Content), want)
	}
}

// Thoughts precede the text in parts of their own, and the service accepts them in the
// history.
func testThoughts(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, _ := s.build(t, suiteReply{thought: "let me think", text: []string{"one"}}, suiteReply{text: []string{"two"}})
		req := scriptInput("hi", stream)
		req.Config.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true, ThinkingBudget: genai.Ptr[int32](1024)}
		whole := s.generateWhole(t, llm, req)
		var thought strings.Builder
		for _, p := range whole.Content.Parts {
			if p.Thought {
				thought.WriteString(p.Text)
			}
		}
		if thought.String() != "let me think" || model.TextOf(whole.Content) != "one" || !whole.Content.Parts[0].Thought {
			t.Errorf("Generate() = thought %q, text %q, want let me think, then one", thought.String(), model.TextOf(whole.Content))
		}
		req.Contents = append(req.Contents, whole.Content, model.UserText("and then?"))
		s.generateWhole(t, llm, req)
	})
}

// The schema reaches the service.
func testSchema(t *testing.T, s *suiteSubject) {
	llm, w := s.build(t, suiteReply{text: []string{`{"city_name":"Bonn"}`}})
	req := scriptInput("where?", false)
	req.Config.ResponseMIMEType = "application/json"
	req.Config.ResponseSchema = &genai.Schema{
		Type: genai.TypeObject, Properties: map[string]*genai.Schema{"city_name": {Type: genai.TypeString}}, Required: []string{"city_name"},
	}
	whole := s.generateWhole(t, llm, req)
	if got := model.TextOf(whole.Content); got != `{"city_name":"Bonn"}` || !s.local && !strings.Contains(w.lastRequest(t), "city_name") {
		t.Errorf("Generate() = %s, want JSON, and a request with the schema", got)
	}
}

func testUsage(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, _ := s.build(t, suiteReply{text: []string{"one"}, usage: true})
		usage := s.generateWhole(t, llm, scriptInput("hi", stream)).UsageMetadata
		if usage == nil || usage.PromptTokenCount != 12 || usage.CandidatesTokenCount != 7 || usage.TotalTokenCount != 19 {
			t.Errorf("usage = %+v, want 12 tokens of the prompt and 7 of the response, 19 in total", usage)
		}
	})
}

// A response that the token limit ended keeps its text.
func testFinish(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, _ := s.build(t, suiteReply{text: []string{"one"}, limit: true})
		whole := s.generateWhole(t, llm, scriptInput("hi", stream))
		if whole.FinishReason != genai.FinishReasonMaxTokens || model.TextOf(whole.Content) != "one" {
			t.Errorf("Generate() = %q, %s, want one, MAX_TOKENS", model.TextOf(whole.Content), whole.FinishReason)
		}
	})
}

func testBuiltin(t *testing.T, s *suiteSubject) {
	llm, w := s.build(t, suiteReply{text: []string{"found"}})
	req := scriptInput("search", false)
	req.Config.Tools = []*genai.Tool{{GoogleSearch: &genai.GoogleSearch{}}}
	if s.generateWhole(t, llm, req) != nil && !strings.Contains(w.lastRequest(t), "googleSearch") {
		t.Error("the request has no googleSearch")
	}
}

// An error has the status of the service, its message, the model, the address and a
// hint, and never the key.
func testErrors(t *testing.T, s *suiteSubject) {
	for _, tt := range []struct {
		name string
		code int
		hint string
	}{
		{"wrong key", 401, "check the key"},
		{"no credit", 402, "add credit"},
		{"unknown model", 404, "check the model's name"},
		{"rate limit", 429, ""},
		{"failure", 500, ""},
		{"unavailable", 503, ""},
		{"overloaded", 529, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bothModes(t, func(t *testing.T, stream bool) {
				llm, w := s.build(t, suiteReply{code: tt.code, message: "the reason of " + s.key()})
				got, err := ask(t, llm, stream)
				e := requireError(t, got, err)
				if e.Code != tt.code || e.Model != llm.Name() || e.Provider == "" || !strings.HasPrefix(e.URL, w.base) || !strings.Contains(e.Message, "the reason of") {
					t.Errorf("Generate() = %+v, want code %d with provider, model, address and message", e, tt.code)
				}
				if again := tt.code == 429 || tt.code >= 500; e.Retryable() != again {
					t.Errorf("Retryable() = %v, want %v", e.Retryable(), again)
				}
				if !strings.Contains(e.Hint, tt.hint) || strings.Contains(err.Error(), s.key()) {
					t.Errorf("Generate() = %q, want the hint %q and no key", err, tt.hint)
				}
			})
		})
	}
}

// requireError requires an error of the model and no complete response.
func requireError(t *testing.T, got []*model.Response, err error) *model.Error {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok || slices.ContainsFunc(got, func(r *model.Response) bool { return !r.Partial }) {
		t.Fatalf("Generate() = %v, %v, want a *model.Error and no complete response", outline(got), err)
	}
	return e
}

func testRetry(t *testing.T, s *suiteSubject) {
	llm, _ := s.build(t, suiteReply{code: 429, message: "slow down", retryAfter: "7"}, suiteReply{text: []string{"one"}})
	var shown []time.Duration
	req := scriptInput("hi", true)
	req.OnWait = func(w model.Wait) { shown = append(shown, w.Delay) }
	whole := s.generateWhole(t, llm, req)
	if diff := cmp.Diff([]time.Duration{7 * time.Second}, shown); diff != "" || model.TextOf(whole.Content) != "one" {
		t.Errorf("Generate() = %q, waits (-want +got):\n%s", model.TextOf(whole.Content), diff)
	}
}

func testHTML(t *testing.T, s *suiteSubject) {
	for _, code := range []int{200, 502} {
		bothModes(t, func(t *testing.T, stream bool) {
			llm, w := s.build(t, suiteReply{text: []string{"one"}})
			w.fault = answerHTML(code)
			got, err := ask(t, llm, stream)
			if e := requireError(t, got, err); !e.Retryable() || strings.Contains(e.Message, "<p>") {
				t.Errorf("%d: Generate() = %q, retryable %v, want a retryable error without the page", code, e, e.Retryable())
			}
		})
	}
}

func testGarbage(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, w := s.build(t, suiteReply{text: []string{"one"}})
		w.fault = answerBody("data: {\"key\": \"" + s.key() + "\", [\n\n")
		got, err := ask(t, llm, stream)
		if e := requireError(t, got, err); !strings.Contains(e.Message, "malformed response") || strings.Contains(err.Error(), s.key()) {
			t.Errorf("Generate() = %q, want a malformed response without the key", err)
		}
	})
}

func testCut(t *testing.T, s *suiteSubject) {
	for _, clean := range []bool{false, true} {
		if clean && s.endsSilently {
			continue
		}
		llm, w := s.build(t, suiteReply{text: []string{"one ", "two"}})
		w.fault = cutAfter("one ", clean)
		got, err := ask(t, llm, true)
		requireError(t, got, err)
		if diff := cmp.Diff([]string{"+one "}, outline(got)); diff != "" {
			t.Errorf("before the cut (-want +got):\n%s", diff)
		}
	}
}

// A call that did not arrive completely is never executed.
func testHalfCall(t *testing.T, s *suiteSubject) {
	for _, clean := range []bool{false, true} {
		llm, w := s.build(t, suiteReply{calls: lookupCalls()[:1]})
		w.fault = cutInside("lookup", clean)
		got, err := collect(llm.Generate(t.Context(), withTools(scriptInput("hi", true))))
		requireError(t, got, err)
		for _, r := range got {
			if calls := model.CallsOf(r.Content); len(calls) > 0 {
				t.Errorf("Generate() yields the call %v", calls[0])
			}
		}
	}
}

// A service that never answers, or stops in the middle, ends the call after its timeout.
func testSilence(t *testing.T, s *suiteSubject) {
	for _, tt := range []struct{ body, want string }{
		{"", "timeout after 5m0s without a first byte"},
		{"\n", "timeout after 2m0s without further data"},
	} {
		bothModes(t, func(t *testing.T, stream bool) {
			llm, w := s.build(t, suiteReply{text: []string{"one"}})
			w.stall = &tt.body
			synctest.Test(t, func(t *testing.T) {
				got, err := ask(t, llm, stream)
				if e := requireError(t, got, err); !strings.Contains(e.Message, tt.want) || !strings.Contains(e.Hint, "timeouts") {
					t.Errorf("Generate() = %v, want %q and a hint", err, tt.want)
				}
			})
		})
	}
}

func testCancel(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, w := s.build(t, suiteReply{text: []string{"one"}})
		body := ""
		w.stall = &body
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w.started = cancel
		if got, err := collect(llm.Generate(ctx, scriptInput("hi", stream))); !errors.Is(err, context.Canceled) || len(got) > 0 {
			t.Errorf("Generate() = %v, %v, want context canceled", outline(got), err)
		}
	})
}
