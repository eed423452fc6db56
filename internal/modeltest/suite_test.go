package modeltest_test

import (
	"encoding/base64"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
)

// A capability is a row in a table in docs/models.md. Each provider either passes its test or is
// declared to lack it.
type capability struct {
	slug, title string
	test        func(t *testing.T, s *suiteSubject)
	// network is set if the capability concerns the connection to a service.
	network bool
}

// requestRows lists what a request may ask for.
func requestRows() []capability {
	return []capability{
		{"text", "text", testText, false},
		{"stream", "streamed text", testStream, false},
		{"tools", "parallel calls of tools, and their responses", testTools, false},
		{"numbers", "numbers of any size in arguments and responses, with all digits", testNumbers, false},
		{"images", "images", testImages, false},
		{"documents", "PDF documents", testDocuments, false},
		{"audio", "audio", testAudio, false},
		{"thoughts", "thoughts, also in the history", testThoughts, false},
		{"schema", "structured output", testSchema, false},
		{"tools_schema", "structured output of an agent with tools", testToolsWithSchema, false},
		{"usage", "token counts", testUsage, false},
		{"caching", "prompt caching, with the count of cached tokens", testCaching, true},
		{"finish", "finish reason at the token limit", testFinish, false},
		{"refusal", "refusal as the error `SAFETY`", testRefusal, false},
		{"builtin", "Gemini's built-in tools", testBuiltin, true},
		{"empty", "answer without content: `MODEL_RETURNED_NO_CONTENT`", testEmpty, true},
		{"odd", "answers in the odd forms of compatible servers and gateways", testOdd, true},
	}
}

// failureRows lists the service failures that a call reports or survives.
func failureRows() []capability {
	return []capability{
		{"errors", "any status: the error names provider, model and address, never the key", testErrors, true},
		{"wrong_key", "wrong key: one attempt, and a hint", testFailure("wrong_key", "check the key: `agenthost models` prints where it comes from"), true},
		{"no_credit", "account without credit: one attempt, and a hint", testFailure("no_credit", "add credit to the account, or declare a fallback for the model"), true},
		{"unknown_model", "unknown model: one attempt, and a hint", testFailure("unknown_model", "check the model's name and region"), true},
		{"region", "region without the model: one attempt, and a hint", testFailure("region", "region"), true},
		{"context", "conversation that is too long: one attempt, and a hint", testFailure("context", "shorten the conversation"), true},
		{"overloaded", "overloaded service: called again", testOverloaded, true},
		{"retry", "rate limit: waits as long as the service asks", testRetry, true},
		{"html", "page of HTML: an error without the page", testHTML, true},
		{"garbage", "malformed answer: an error", testGarbage, true},
		{"stream_error", "error within a stream: an error, called again if nothing has arrived", testStreamError, true},
		{"cut", "interrupted stream: an error", testCut, true},
		{"deep", "call with arguments of 1500 and 20 000 levels: at most an error of the turn", testDeep, true},
		{"half_call", "half a call of a tool: never executed", testHalfCall, true},
		{"silence", "silent service: a timeout", testSilence, true},
		{"cancel", "canceled call: ends at once", testCancel, true},
		{"cancel_stream", "call canceled within a stream: nothing left running", testCancelStream, true},
		{"turn", "failed or canceled turn: nothing stored is lost, the next turn runs", testTurns, true},
	}
}

// TestCapabilitiesAsDeclared is the conformance suite: each provider passes the test for each row
// of the table, or does what is declared where it lacks the capability.
func TestCapabilitiesAsDeclared(t *testing.T) {
	for _, c := range slices.Concat(requestRows(), failureRows()) {
		for _, s := range suiteSubjects() {
			lack, lacking := s.lacks[c.slug]
			if c.network && s.local {
				continue // does not apply
			}
			test := c.test
			if lacking && lack.err == "" {
				test = lack.verify
			}
			t.Run(c.slug+"/"+s.name, func(t *testing.T) {
				own := *s
				own.wantErr = lack.err
				test(t, &own)
			})
		}
	}
}

// bothModes calls a test with and without streaming.
func bothModes(t *testing.T, test func(t *testing.T, stream bool)) {
	for _, stream := range []bool{false, true} {
		t.Run(modeltest.Mode(stream), func(t *testing.T) { test(t, stream) })
	}
}

// generateWhole calls the model and returns the complete response. If the subject lacks
// the capability, it verifies the error and returns nil.
func (s *suiteSubject) generateWhole(t *testing.T, llm model.LLM, req *model.Request) *model.Response {
	t.Helper()
	all, err := modeltest.Collect(llm.Generate(t.Context(), req))
	if s.wantErr != "" {
		if err == nil || !strings.Contains(err.Error(), s.wantErr) {
			t.Errorf("Generate() = %v, want an error with %q", err, s.wantErr)
		}
		return nil
	}
	if err != nil || len(all) == 0 {
		t.Fatalf("Generate() = %v, %v, want a response", modeltest.Outline(all), err)
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
		whole := s.generateWhole(t, llm, modeltest.ScriptInput("hi", stream))
		if model.TextOf(whole.Content) != "one two" || whole.FinishReason != genai.FinishReasonStop || whole.ModelVersion == "" || llm.Name() == "" {
			t.Errorf("Generate() of %q = %q, %s, %q, want one two, STOP and a model version", llm.Name(), model.TextOf(whole.Content), whole.FinishReason, whole.ModelVersion)
		}
	})
}

func testStream(t *testing.T, s *suiteSubject) {
	llm, _ := s.build(t, suiteReply{text: []string{"one ", "two"}})
	got, err := modeltest.Ask(t, llm, true)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"+one ", "+two", "one two"}, modeltest.Outline(got)); diff != "" {
		t.Errorf("Generate() (-want +got):\n%s", diff)
	}
	llm, _ = s.build(t, suiteReply{text: []string{"a ", "b ", "c"}})
	for r, err := range llm.Generate(t.Context(), modeltest.ScriptInput("hi", true)) {
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

// Calls arrive one by one, and then with the text, in order. The service accepts the responses to
// two calls of one function.
func testTools(t *testing.T, s *suiteSubject) {
	for _, tt := range []struct {
		reply suiteReply
		want  []string
	}{
		{suiteReply{calls: lookupCalls()[:1]}, []string{"+lookup()", "lookup()"}},
		{suiteReply{text: []string{"wait"}, calls: lookupCalls()}, []string{"+wait", "+lookup()", "+lookup()", "waitlookup()lookup()"}},
	} {
		llm, _ := s.build(t, tt.reply)
		got, err := modeltest.Collect(llm.Generate(t.Context(), withTools(modeltest.ScriptInput("hi", true))))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tt.want, modeltest.Outline(got)); diff != "" {
			t.Errorf("Generate() (-want +got):\n%s", diff)
		}
	}
	bothModes(t, func(t *testing.T, stream bool) {
		llm, _ := s.build(t, suiteReply{text: []string{"wait"}, calls: lookupCalls()}, suiteReply{text: []string{"done"}})
		req := withTools(modeltest.ScriptInput("hi", stream))
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

func testAudio(t *testing.T, s *suiteSubject) {
	testInlineData(t, s, "audio/wav", "RIFF sound")
}

// A note replaces what the service does not take, so that the turn and all later turns
// work.
func testAudioNote(t *testing.T, s *suiteSubject) { testNote(t, s, "audio/wav", "RIFF sound") }

func testDocumentNote(t *testing.T, s *suiteSubject) {
	testNote(t, s, "application/pdf", "%PDF-1.7 pages")
}

func testNote(t *testing.T, s *suiteSubject, mime, data string) {
	llm, w := s.build(t, suiteReply{text: []string{"seen"}})
	req := modeltest.ScriptInput("listen", false)
	req.Contents[0].Parts = append(req.Contents[0].Parts, &genai.Part{InlineData: &genai.Blob{MIMEType: mime, Data: []byte(data)}})
	s.generateWhole(t, llm, req)
	if want := "[a file of type " + mime + " was left out: this service does not take files of this type]"; !strings.Contains(w.lastRequest(t), want) {
		t.Errorf("the request has no note %q: %s", want, w.lastRequest(t))
	}
}

// The service receives the data.
func testInlineData(t *testing.T, s *suiteSubject, mime, data string) {
	llm, w := s.build(t, suiteReply{text: []string{"seen"}})
	req := modeltest.ScriptInput("look", false)
	req.Contents[0].Parts = append(req.Contents[0].Parts, &genai.Part{InlineData: &genai.Blob{MIMEType: mime, Data: []byte(data)}})
	whole := s.generateWhole(t, llm, req)
	if whole == nil {
		return
	}
	if want := base64.StdEncoding.EncodeToString([]byte(data)); model.TextOf(whole.Content) != "seen" || !s.local && !strings.Contains(w.lastRequest(t), want) {
		t.Errorf("Generate() = %q, want seen, and a request with %s", model.TextOf(whole.Content), want)
	}
}

// Thoughts precede the text in their own parts, and the service accepts them in the history.
func testThoughts(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, _ := s.build(t, suiteReply{thought: "let me think", text: []string{"one"}}, suiteReply{text: []string{"two"}})
		req := modeltest.ScriptInput("hi", stream)
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

// A request for thoughts is logged and left out: the service rejects it.
func testIgnoredThinking(t *testing.T, s *suiteSubject) {
	llm, w := s.build(t, suiteReply{text: []string{"one"}})
	req := modeltest.ScriptInput("hi", false)
	req.Config.ThinkingConfig = &genai.ThinkingConfig{IncludeThoughts: true, ThinkingBudget: genai.Ptr[int32](1024)}
	whole := s.generateWhole(t, llm, req)
	if got := modeltest.Outline([]*model.Response{whole}); got[0] != "one" || strings.Contains(w.lastRequest(t), "reasoning") || !strings.Contains(w.log.String(), "settings=[thinkingConfig]") {
		t.Errorf("Generate() = %v after the request %s, log %s", got, w.lastRequest(t), w.log.String())
	}
}

// The context size setting reaches the service. The service reports nothing.
func testContextSize(t *testing.T, s *suiteSubject) {
	llm, w := s.build(t, suiteReply{text: []string{"one"}})
	s.generateWhole(t, llm, modeltest.ScriptInput(strings.Repeat("long ", 5000), false))
	if !strings.Contains(w.lastRequest(t), `"num_ctx":4096`) {
		t.Errorf("the request has no num_ctx")
	}
}

// The schema reaches the service.
func testSchema(t *testing.T, s *suiteSubject) {
	llm, w := s.build(t, suiteReply{text: []string{`{"city_name":"Bonn"}`}})
	req := modeltest.ScriptInput("where?", false)
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
		usage := s.generateWhole(t, llm, modeltest.ScriptInput("hi", stream)).UsageMetadata
		if usage == nil || usage.PromptTokenCount != 12 || usage.CandidatesTokenCount != 7 || usage.TotalTokenCount != 19 {
			t.Errorf("usage = %+v, want 12 tokens of the prompt and 7 of the response, 19 in total", usage)
		}
	})
}

// A model that caches asks for a cache, once the prompt repeats. All models count the
// tokens that the service read from its cache.
func testCaching(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		reply := suiteReply{text: []string{"one"}, usage: true, cached: true}
		llm, w := s.build(t, reply, reply)
		if model.CanCache(llm) != (s.cacheMark != "") {
			t.Errorf("CanCache() = %v, want %v", model.CanCache(llm), s.cacheMark != "")
		}
		req := modeltest.ScriptInput("hi", stream)
		req.Config.SystemInstruction = model.UserText("Be kind.")
		req.Cache = &model.CacheRequest{CacheConfig: model.CacheConfig{TTL: time.Hour, Intervals: 10}, PromptTokens: 5000}
		for range 2 {
			whole := s.generateWhole(t, llm, req)
			if u := whole.UsageMetadata; u == nil || u.PromptTokenCount != 12 || u.CachedContentTokenCount != 8 {
				t.Errorf("usage = %+v, want 12 tokens of the prompt, 8 of them cached", u)
			}
			req.Contents = append(req.Contents, whole.Content, model.UserText("again"))
			req.Cache.Metadata = whole.CacheMetadata
		}
		if !strings.Contains(w.lastRequest(t), s.cacheMark) {
			t.Errorf("the request has no %s: %s", s.cacheMark, w.lastRequest(t))
		}
	})
}

// No tokens are counted as cached.
func testUncounted(t *testing.T, s *suiteSubject) {
	llm, _ := s.build(t, suiteReply{text: []string{"one"}, usage: true})
	whole := s.generateWhole(t, llm, modeltest.ScriptInput("hi", false))
	if u := whole.UsageMetadata; u == nil || u.CachedContentTokenCount != 0 || model.CanCache(llm) {
		t.Errorf("usage = %+v, CanCache() = %v, want no cache", u, model.CanCache(llm))
	}
}

// A refusal is a response error with a message, in both modes.
func testRefusal(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, _ := s.build(t, suiteReply{refusal: true})
		got, err := modeltest.Ask(t, llm, stream)
		if err != nil || len(got) == 0 {
			t.Fatalf("Generate() = %v, %v, want a response", modeltest.Outline(got), err)
		}
		whole := got[len(got)-1]
		if whole.ErrorCode != "SAFETY" || whole.FinishReason != genai.FinishReasonSafety || whole.ErrorMessage == "" || whole.Content != nil {
			t.Errorf("Generate() = %+v, want SAFETY with a message and no content", whole)
		}
	})
}

// A response that the token limit ended keeps its text.
func testFinish(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, _ := s.build(t, suiteReply{text: []string{"one"}, limit: true})
		whole := s.generateWhole(t, llm, modeltest.ScriptInput("hi", stream))
		if whole.FinishReason != genai.FinishReasonMaxTokens || model.TextOf(whole.Content) != "one" {
			t.Errorf("Generate() = %q, %s, want one, MAX_TOKENS", model.TextOf(whole.Content), whole.FinishReason)
		}
	})
}

func testBuiltin(t *testing.T, s *suiteSubject) {
	llm, w := s.build(t, suiteReply{text: []string{"found"}})
	req := modeltest.ScriptInput("search", false)
	req.Config.Tools = []*genai.Tool{{GoogleSearch: &genai.GoogleSearch{}}}
	if s.generateWhole(t, llm, req) != nil && !strings.Contains(w.lastRequest(t), "googleSearch") {
		t.Error("the request has no googleSearch")
	}
}
