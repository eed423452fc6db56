package modeltest_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
)

// vendorFailures returns how a service reports the suite's failures, by row. KEY is the call's key:
// services repeat it, and no error may.
func vendorFailures(name string) map[string]suiteReply {
	gemini := map[string]suiteReply{
		"wrong_key":     {code: 400, reason: "API_KEY_INVALID", message: "API key not valid. Please pass a valid API key. KEY"},
		"no_credit":     {code: 429, message: "Your prepayment credits are depleted. Please go to AI Studio to manage your project and billing."},
		"unknown_model": {code: 404, message: "models/gemini-x is not found for API version v1beta, or is not supported for generateContent."},
		"context":       {code: 400, message: "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)."},
		"region":        {code: 400, message: "User location is not supported for the API use."},
		"overloaded":    {code: 503, message: "The model is overloaded. Please try again later. KEY"},
		"stream_error":  {raw: `data: {"error":{"code":503,"message":"The model is overloaded. KEY","status":"UNAVAILABLE"}}` + "\n\n"},
	}
	anthropic := map[string]suiteReply{
		"wrong_key":     {code: 401, message: "invalid x-api-key KEY"},
		"no_credit":     {code: 400, message: "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."},
		"unknown_model": {code: 404, message: "model: claude-sonnet-4-5"},
		"context":       {code: 400, message: "input length and `max_tokens` exceed context limit: 198214 + 8192 > 200000, decrease input length or `max_tokens` and try again"},
		"region":        {code: 403, message: "Request not allowed"},
		"overloaded":    {code: 529, message: "Overloaded KEY"},
		"stream_error":  {raw: "event: error\ndata: " + `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded KEY"}}` + "\n\n"},
	}
	openAI := map[string]suiteReply{
		"wrong_key":     {code: 401, reason: "invalid_api_key", message: "Incorrect API key provided: KEY."},
		"no_credit":     {code: 429, reason: "insufficient_quota", message: "You exceeded your current quota, please check your plan and billing details."},
		"unknown_model": {code: 404, reason: "model_not_found", message: "The model `gpt-4o` does not exist or you do not have access to it."},
		"context":       {code: 400, reason: "context_length_exceeded", message: "This model's maximum context length is 128000 tokens. However, your messages resulted in 150000 tokens."},
		"region":        {code: 403, reason: "unsupported_country_region_territory", message: "Country, region, or territory not supported"},
		"overloaded":    {code: 503, message: "The engine is currently overloaded, please try again later KEY"},
		"stream_error":  {raw: `data: {"error":{"message":"The server had an error while processing your request. KEY","type":"server_error","param":null,"code":null}}` + "\n\n"},
	}
	return map[string]map[string]suiteReply{
		"gemini": gemini,
		"vertex": withFailures(gemini, map[string]suiteReply{
			"wrong_key":     {code: 401, reason: "ACCESS_TOKEN_EXPIRED", message: "Request had invalid authentication credentials. KEY"},
			"no_credit":     {code: 403, reason: "BILLING_DISABLED", message: "This API method requires billing to be enabled."},
			"unknown_model": {code: 404, message: "Publisher Model `projects/p/locations/global/publishers/google/models/gemini-x` was not found or your project does not have access to it."},
		}),
		"anthropic": anthropic,
		"anthropic_vertex": withFailures(anthropic, map[string]suiteReply{
			"no_credit": {code: 403, raw: `[{"error":{"code":403,"message":"This API method requires billing to be enabled.","status":"PERMISSION_DENIED",` +
				`"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"BILLING_DISABLED","domain":"googleapis.com"}]}}]`},
		}),
		"openai": openAI,
		"openai_responses": withFailures(openAI, map[string]suiteReply{
			"context":      {code: 400, reason: "context_length_exceeded", message: "Your input exceeds the context window of this model. Please adjust your input and try again."},
			"stream_error": {raw: "event: error\ndata: " + `{"type":"error","code":"server_error","message":"The server had an error. KEY","param":null,"sequence_number":9}` + "\n\n"},
		}),
		"deepseek": withFailures(openAI, map[string]suiteReply{
			"wrong_key":     {code: 401, reason: "invalid_request_error", message: "Authentication Fails, Your api key: KEY is invalid"},
			"no_credit":     {code: 402, reason: "invalid_request_error", message: "Insufficient Balance"},
			"unknown_model": {code: 400, reason: "invalid_request_error", message: "Model Not Exist"},
			"stream_error":  {raw: `data: {"choices":[{"index":0,"delta":{},"finish_reason":"insufficient_system_resource"}]}` + "\n\ndata: [DONE]\n\n"},
		}),
		"mistral": withFailures(openAI, map[string]suiteReply{
			"wrong_key":     {code: 401, raw: `{"detail":"Unauthorized KEY"}`},
			"no_credit":     {code: 402, raw: `{"object":"error","message":"Payment required","type":"billing_error","param":null,"code":null}`},
			"unknown_model": {code: 400, raw: `{"object":"error","message":"Invalid model: mistral-large","type":"invalid_model","param":null,"code":"1500"}`},
			"context":       {code: 400, raw: `{"object":"error","message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length","type":"invalid_request_prompt","param":null,"code":"3051"}`},
			"stream_error":  {raw: `data: {"object":"error","message":"Service unavailable. KEY","type":"internal_server_error","param":null,"code":"1000"}` + "\n\ndata: [DONE]\n\n"},
		}),
		"openrouter": withFailures(openAI, map[string]suiteReply{
			"wrong_key":     {code: 401, raw: `{"error":{"message":"No auth credentials found: KEY","code":401}}`},
			"no_credit":     {code: 402, raw: `{"error":{"message":"Insufficient credits. Add more using https://openrouter.ai/settings/credits","code":402}}`},
			"unknown_model": {code: 400, raw: `{"error":{"message":"x/y is not a valid model ID","code":400},"user_id":"user_1"}`},
			"stream_error":  {raw: `data: {"error":{"code":502,"message":"Provider disconnected unexpectedly: KEY"},"choices":[{"index":0,"delta":{"content":""},"finish_reason":"error"}]}` + "\n\n"},
		}),
		"openai_compatible": withFailures(openAI, map[string]suiteReply{ // llama.cpp and vLLM
			"wrong_key":     {code: 401, raw: `{"error":"Unauthorized KEY"}`},
			"no_credit":     {code: 402, raw: `{"error":"Payment required"}`},
			"unknown_model": {code: 404, raw: `{"object":"error","message":"The model m does not exist.","type":"NotFoundError","param":null,"code":404}`},
			"context":       {code: 400, raw: `{"error":{"code":400,"message":"request (4390 tokens) exceeds the available context size (4096 tokens), try increasing it","type":"exceed_context_size_error"}}`},
			"stream_error":  {raw: `data: {"object":"error","message":"EngineCore encountered an issue. KEY","type":"InternalServerError","param":null,"code":500}` + "\n\ndata: [DONE]\n\n"},
		}),
		"ollama": {
			"wrong_key":     {code: 401, message: "unauthorized KEY"},
			"no_credit":     {code: 402, message: "payment required"},
			"unknown_model": {code: 404, message: `model "qwen3" not found, try pulling it first`},
			"region":        {code: 403, message: "forbidden"},
			"overloaded":    {code: 503, message: "server busy, please try again.  maximum pending requests exceeded KEY"},
			"stream_error":  {raw: `{"error":"an error was encountered while running the model: unexpected EOF KEY"}` + "\n"},
		},
	}[name]
}

// withFailures returns failures with those that another service reports differently.
func withFailures(usual, own map[string]suiteReply) map[string]suiteReply {
	all := maps.Clone(usual)
	maps.Copy(all, own)
	return all
}

// failure returns how the subject's service reports a failure.
func (s *suiteSubject) failure(t *testing.T, row string) suiteReply {
	t.Helper()
	f, ok := vendorFailures(s.name)[row]
	if !ok {
		t.Fatalf("no failure %s of %s", row, s.name)
	}
	f.message, f.raw = strings.ReplaceAll(f.message, "KEY", s.key()), strings.ReplaceAll(f.raw, "KEY", s.key())
	return f
}

// An error has the service's status and message, the model and the address, and never the key. Only
// some are worth a retry.
func testErrors(t *testing.T, s *suiteSubject) {
	for code, again := range map[int]bool{400: false, 403: false, 429: true, 500: true, 503: true, 529: true} {
		t.Run(strconv.Itoa(code), func(t *testing.T) {
			bothModes(t, func(t *testing.T, stream bool) {
				llm, w := s.build(t, suiteReply{code: code, message: "the reason of " + s.key()})
				got, err := modeltest.Ask(t, llm, stream)
				if e := s.requireError(t, llm, w, got, err); e.Code != code || !strings.Contains(e.Message, "the reason of") || e.Retryable() != again {
					t.Errorf("Generate() = %+v, retryable %v, want code %d, %v", e, e.Retryable(), code, again)
				}
			})
		})
	}
}

// requireError requires an error with provider, model and address, and no complete response.
// Neither the error nor what clients see of it contains the key, and clients do not see the
// address.
func (s *suiteSubject) requireError(t *testing.T, llm model.LLM, w *wire, got []*model.Response, err error) *model.Error {
	t.Helper()
	e, ok := errors.AsType[*model.Error](err)
	if !ok || slices.ContainsFunc(got, func(r *model.Response) bool { return !r.Partial }) {
		t.Fatalf("Generate() = %v, %v, want a *model.Error and no complete response", modeltest.Outline(got), err)
	}
	if e.Model != llm.Name() || e.Provider == "" || !strings.HasPrefix(e.URL, w.base) {
		t.Errorf("Generate() = %+v, want an error with provider, model and address", e)
	}
	if strings.Contains(err.Error()+e.Reason+e.ClientMessage(), s.key()) || strings.Contains(e.ClientMessage(), w.base) {
		t.Errorf("Generate() = %q, for clients %q: the key or the address is visible", err, e.ClientMessage())
	}
	return e
}

// testFailure returns the test for a failure that no retry fixes: the only request fails with the
// service's message, and a hint.
func testFailure(row, hint string) func(t *testing.T, s *suiteSubject) {
	return func(t *testing.T, s *suiteSubject) {
		bothModes(t, func(t *testing.T, stream bool) {
			failed := s.failure(t, row)
			llm, w := s.build(t, failed, failed)
			got, err := modeltest.Ask(t, llm, stream)
			e := s.requireError(t, llm, w, got, err)
			hint := hint
			if own, ok := s.hints[row]; ok {
				hint = own
			}
			if e.Code != failed.code || !strings.Contains(e.Hint, hint) || !strings.HasSuffix(e.ClientMessage(), e.Hint) {
				t.Errorf("Generate() = %v, want code %d and the hint %q", err, failed.code, hint)
			}
			if n := w.countRequests(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

// An overloaded service is called again.
func testOverloaded(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, w := s.build(t, s.failure(t, "overloaded"), suiteReply{text: []string{"one"}})
		whole := s.generateWhole(t, llm, modeltest.ScriptInput("hi", stream))
		if n := w.countRequests(); n != 2 || model.TextOf(whole.Content) != "one" {
			t.Errorf("Generate() = %q after %d requests, want one after 2", model.TextOf(whole.Content), n)
		}
		if log := w.log.String(); !strings.Contains(log, "retrying") || strings.Contains(log, s.key()) {
			t.Errorf("log = %s, want the retry without the key", log)
		}
	})
}

// A stream that ends with a service error fails the call. It is retried only if nothing was
// yielded.
func testStreamError(t *testing.T, s *suiteSubject) {
	failed := s.failure(t, "stream_error")
	late := failed
	late.text = []string{"one "}
	llm, w := s.build(t, late, late)
	got, err := modeltest.Ask(t, llm, true)
	if e := s.requireError(t, llm, w, got, err); e.Code < 500 || e.Message == "" || !e.Retryable() {
		t.Errorf("Generate() = %v, want an error of the server with its message", err)
	}
	if diff := cmp.Diff([]string{"+one "}, modeltest.Outline(got)); diff != "" || w.countRequests() != 1 {
		t.Errorf("%d requests, want 1; before the error (-want +got):\n%s", w.countRequests(), diff)
	}
	llm, w = s.build(t, failed, suiteReply{text: []string{"two"}})
	if whole := s.generateWhole(t, llm, modeltest.ScriptInput("hi", true)); model.TextOf(whole.Content) != "two" || w.countRequests() != 2 {
		t.Errorf("Generate() = %q after %d requests, want two after 2", model.TextOf(whole.Content), w.countRequests())
	}
}

func testRetry(t *testing.T, s *suiteSubject) {
	llm, _ := s.build(t, suiteReply{code: 429, message: "slow down", retryAfter: "7"}, suiteReply{text: []string{"one"}})
	var shown []time.Duration
	req := modeltest.ScriptInput("hi", true)
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
			got, err := modeltest.Ask(t, llm, stream)
			if e := s.requireError(t, llm, w, got, err); !e.Retryable() || strings.Contains(e.Message, "<p>") {
				t.Errorf("%d: Generate() = %q, retryable %v, want a retryable error without the page", code, e, e.Retryable())
			}
		})
	}
}

func testGarbage(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, w := s.build(t, suiteReply{text: []string{"one"}})
		w.fault = answerBody("data: {\"key\": \"" + s.key() + "\", [\n\n")
		got, err := modeltest.Ask(t, llm, stream)
		if e := s.requireError(t, llm, w, got, err); !strings.Contains(e.Message, "malformed response") || strings.Contains(err.Error(), s.key()) {
			t.Errorf("Generate() = %q, want a malformed response without the key", err)
		}
	})
}

func testCut(t *testing.T, s *suiteSubject) {
	for _, clean := range []bool{false, true} {
		llm, w := s.build(t, suiteReply{text: []string{"one ", "two"}})
		w.fault = cutAfter("one ", clean)
		got, err := modeltest.Ask(t, llm, true)
		s.requireError(t, llm, w, got, err)
		if diff := cmp.Diff([]string{"+one "}, modeltest.Outline(got)); diff != "" {
			t.Errorf("before the cut (-want +got):\n%s", diff)
		}
	}
}

// A call that did not arrive completely is never executed.
func testHalfCall(t *testing.T, s *suiteSubject) {
	for _, clean := range []bool{false, true} {
		llm, w := s.build(t, suiteReply{calls: lookupCalls()[:1]})
		w.fault = cutInside("lookup", clean)
		got, err := modeltest.Collect(llm.Generate(t.Context(), withTools(modeltest.ScriptInput("hi", true))))
		s.requireError(t, llm, w, got, err)
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
				got, err := modeltest.Ask(t, llm, stream)
				if e := s.requireError(t, llm, w, got, err); !strings.Contains(e.Message, tt.want) || !strings.Contains(e.Hint, "timeouts") {
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
		if got, err := modeltest.Collect(llm.Generate(ctx, modeltest.ScriptInput("hi", stream))); !errors.Is(err, context.Canceled) || len(got) > 0 {
			t.Errorf("Generate() = %v, %v, want context canceled", modeltest.Outline(got), err)
		}
	})
}

// A call that is canceled within a stream ends at once, without an answer. Nothing
// remains: no goroutine and no connection.
func testCancelStream(t *testing.T, s *suiteSubject) {
	before := goleak.IgnoreCurrent()
	llm, w := s.build(t, suiteReply{text: []string{"one ", "two"}, hold: make(chan struct{})})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var got []*model.Response
	var err error
	for r, e := range llm.Generate(ctx, modeltest.ScriptInput("hi", true)) {
		if err = e; e == nil {
			got = append(got, r)
		}
		cancel()
	}
	if diff := cmp.Diff([]string{"+one "}, modeltest.Outline(got)); diff != "" || !errors.Is(err, context.Canceled) {
		t.Errorf("Generate() = %v, want context canceled; (-want +got):\n%s", err, diff)
	}
	w.closeIdle()
	if err := goleak.Find(before, goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1")); err != nil {
		t.Error(err)
	}
}
