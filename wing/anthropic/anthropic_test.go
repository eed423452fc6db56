package anthropic_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakeanthropic"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/wing/anthropic"
)

// fakeAnthropic returns a model on a fake server, without retries.
func fakeAnthropic(t *testing.T, replies ...fakeanthropic.Reply) (model.LLM, *fakeanthropic.Server) {
	t.Helper()
	return fakeClaude(t, nil, replies...)
}

// fakeClaude returns a model with options on a fake server.
func fakeClaude(t *testing.T, opts *anthropic.Options, replies ...fakeanthropic.Reply) (model.LLM, *fakeanthropic.Server) {
	t.Helper()
	fake := fakeanthropic.New()
	t.Cleanup(fake.Close)
	fake.Enqueue(replies...)
	own := anthropic.Options{}
	if opts != nil {
		own = *opts
	}
	own.Lookup, own.BaseURL, own.HTTP = modeltest.Lookup(nil), fake.URL(), fake.Client()
	if own.Vertex == nil {
		own.APIKey = fakeanthropic.Key
	}
	if own.Retry.Attempts == 0 {
		own.Retry.Attempts = 1
	}
	return anthropic.New("claude-sonnet-4-5", &own), fake
}

// TestAnthropicRequests compares request bodies with golden files. Each file has an app.yaml model,
// a request, and the body that a strict server accepts.
func TestAnthropicRequests(t *testing.T) {
	files, err := filepath.Glob("testdata/anthropic/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) { compareAnthropicRequest(t, file) })
	}
}

func compareAnthropicRequest(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	section := func(name string) *txtar.File {
		i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == name })
		if i < 0 {
			archive.Files = append(archive.Files, txtar.File{Name: name})
			i = len(archive.Files) - 1
		}
		return &archive.Files[i]
	}
	req := &model.Request{Config: &genai.GenerateContentConfig{}}
	var contents []json.RawMessage
	decodeSection(t, section("contents.json").Data, &contents)
	for _, raw := range contents {
		c, err := session.DecodeContent(raw)
		if err != nil {
			t.Fatal(err)
		}
		req.Contents = append(req.Contents, c)
	}
	if data := section("config.json").Data; len(data) > 0 {
		decodeSection(t, data, req.Config)
	}
	if data := section("cache.json").Data; len(data) > 0 {
		req.Cache = &model.CacheRequest{}
		decodeSection(t, data, req.Cache)
	}
	fake := fakeanthropic.New()
	defer fake.Close()
	llm := buildClaude(t, string(section("model.yaml").Data), fake)
	got := "accepted\n"
	if _, err := modeltest.Collect(llm.Generate(t.Context(), req)); err != nil {
		got = err.Error() + "\n"
	}
	got = strings.ReplaceAll(got, fake.URL(), "http://fake")
	for _, r := range fake.Requests() {
		var body bytes.Buffer
		if err := json.Indent(&body, []byte(r.Raw), "", "  "); err != nil {
			t.Fatal(err)
		}
		got += "POST " + r.Path + "\n" + body.String() + "\n"
	}
	want := section("want")
	if *update {
		want.Data = []byte(got)
		archive.Files = slices.DeleteFunc(archive.Files, func(f txtar.File) bool { return len(f.Data) == 0 })
		if err := os.WriteFile(file, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if diff := cmp.Diff(string(want.Data), got); diff != "" {
		t.Errorf("request (-want +got):\n%s", diff)
	}
}

func decodeSection(t *testing.T, data []byte, v any) {
	t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatal(err)
	}
}

// buildClaude builds app.yaml's model on the fake server.
func buildClaude(t *testing.T, src string, fake *fakeanthropic.Server) model.LLM {
	t.Helper()
	n, ds := spec.Parse("app.yaml", []byte(strings.ReplaceAll(src, "http://fake", fake.URL())))
	kind, ok := modeltest.AllKinds().Lookup("anthropic")
	if err := ds.Err(); err != nil || !ok {
		t.Fatal(err, ok)
	}
	plan, ds := kind.Decode(n)
	if ds.HasErrors() {
		t.Fatal(ds.Strings())
	}
	env := map[string]string{"ANTHROPIC_API_KEY": fakeanthropic.Key, "ANTHROPIC_BASE_URL": fake.URL()}
	llm, err := plan.Build(t.Context(), provider.Env{Lookup: modeltest.Lookup(env), HTTP: authorized{fake.Client()}.client()})
	if err != nil {
		t.Fatal(err)
	}
	return llm
}

// authorized adds the token that a Vertex AI proxy adds.
type authorized struct{ *http.Client }

func (a authorized) client() *http.Client { return &http.Client{Transport: a} }

func (a authorized) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Contains(r.URL.Path, "/publishers/") {
		r = r.Clone(r.Context())
		r.Header.Set("Authorization", "Bearer "+fakeanthropic.Token)
	}
	return a.Transport.RoundTrip(r)
}

// A response has every block in order, the usage with cached tokens inside the prompt, and thoughts
// that are marked as Anthropic's.
func TestAnthropicResponse(t *testing.T) {
	reply := fakeanthropic.Reply{
		Blocks: []fakeanthropic.Block{
			fakeanthropic.Thinking("I ", "think"), fakeanthropic.Redacted(), fakeanthropic.Text("Well", "."),
			fakeanthropic.Call("a", `{"n":`, `1}`), fakeanthropic.Call("b"),
		},
		Usage: map[string]any{
			"cache_read_input_tokens": 100, "cache_creation_input_tokens": 1000, "output_tokens": 7,
			"output_tokens_details": map[string]any{"thinking_tokens": 3},
		},
	}
	for _, stream := range []bool{false, true} {
		t.Run(modeltest.Mode(stream), func(t *testing.T) {
			llm, _ := fakeAnthropic(t, reply)
			got, err := modeltest.Ask(t, llm, stream)
			if err != nil {
				t.Fatal(err)
			}
			if want := []string{"+I ", "+think", "+Well", "+.", "+a()", "+b()"}; stream {
				var partial []string
				for _, r := range got[:len(got)-1] {
					text := "+" + r.Content.Parts[0].Text
					if c := r.Content.Parts[0].FunctionCall; c != nil {
						text += c.Name + "()"
					}
					partial = append(partial, text)
				}
				if diff := cmp.Diff(want, partial); diff != "" {
					t.Errorf("chunks (-want +got):\n%s", diff)
				}
			}
			whole := got[len(got)-1]
			signed := map[string]any{"vendor": "anthropic", "model": "claude-sonnet-4-5"}
			redacted := map[string]any{"vendor": "anthropic", "model": "claude-sonnet-4-5", "redacted": true}
			parts := whole.Content.Parts
			want := []*genai.Part{
				{Text: "I think", Thought: true, ThoughtSignature: parts[0].ThoughtSignature, PartMetadata: signed},
				{Thought: true, ThoughtSignature: parts[1].ThoughtSignature, PartMetadata: redacted},
				{Text: "Well."},
				{FunctionCall: &genai.FunctionCall{ID: parts[3].FunctionCall.ID, Name: "a", Args: map[string]any{"n": int64(1)}}},
				{FunctionCall: &genai.FunctionCall{ID: parts[4].FunctionCall.ID, Name: "b", Args: map[string]any{}}},
			}
			if diff := cmp.Diff(want, parts); diff != "" {
				t.Errorf("parts (-want +got):\n%s", diff)
			}
			if len(parts[0].ThoughtSignature) == 0 || len(parts[1].ThoughtSignature) == 0 || parts[3].FunctionCall.ID == parts[4].FunctionCall.ID {
				t.Errorf("signatures and IDs: %v", parts)
			}
			usage := &genai.GenerateContentResponseUsageMetadata{
				PromptTokenCount: 1110, CachedContentTokenCount: 100, CandidatesTokenCount: 4, ThoughtsTokenCount: 3, TotalTokenCount: 1117,
			}
			if diff := cmp.Diff(usage, whole.UsageMetadata); diff != "" {
				t.Errorf("usage (-want +got):\n%s", diff)
			}
			if whole.ModelVersion != "claude-sonnet-4-5" || whole.FinishReason != genai.FinishReasonStop {
				t.Errorf("version %q, finish %q", whole.ModelVersion, whole.FinishReason)
			}
		})
	}
}

func TestAnthropicStopReasons(t *testing.T) {
	tests := []struct {
		stop, code, message string
		finish              genai.FinishReason
	}{
		{"end_turn", "", "", genai.FinishReasonStop},
		{"stop_sequence", "", "", genai.FinishReasonStop},
		{"max_tokens", "MAX_TOKENS", "the response exceeds the limit of 8192 tokens: set max_output_tokens", genai.FinishReasonMaxTokens},
		{"model_context_window_exceeded", "MAX_TOKENS", "the conversation exceeds the context window of claude-sonnet-4-5", genai.FinishReasonMaxTokens},
		{"refusal", "SAFETY", "claude-sonnet-4-5 refused to answer", genai.FinishReasonSafety},
		{"new_reason", "OTHER", "", genai.FinishReasonOther},
	}
	for _, tt := range tests {
		for _, stream := range []bool{false, true} {
			t.Run(tt.stop+"/"+modeltest.Mode(stream), func(t *testing.T) {
				llm, _ := fakeAnthropic(t, fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Text("a")}, Stop: tt.stop})
				got, err := modeltest.Ask(t, llm, stream)
				if err != nil {
					t.Fatal(err)
				}
				whole := got[len(got)-1]
				if whole.FinishReason != tt.finish || whole.ErrorCode != tt.code || whole.ErrorMessage != tt.message {
					t.Errorf("finish %s, error %q: %q, want %s, %q: %q", whole.FinishReason, whole.ErrorCode, whole.ErrorMessage, tt.finish, tt.code, tt.message)
				}
			})
		}
	}
}

// A paused turn is continued with its content, without its trailing white space, and becomes one
// response. The number of continuations is bounded.
func TestAnthropicPause(t *testing.T) {
	pause := fakeanthropic.Reply{
		Blocks: []fakeanthropic.Block{
			fakeanthropic.Thinking("hm"), {Type: "server_tool_use", ID: "srv_1", Name: "search", Chunks: []string{`{"q":`, `1}`}}, fakeanthropic.Text("one \n"),
		},
		Stop: "pause_turn",
	}
	for _, stream := range []bool{false, true} {
		t.Run(modeltest.Mode(stream), func(t *testing.T) {
			llm, fake := fakeAnthropic(t, pause, fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Text("two")}})
			got, err := modeltest.Ask(t, llm, stream)
			if err != nil {
				t.Fatal(err)
			}
			whole := got[len(got)-1]
			if text := model.TextOf(whole.Content); text != "one \ntwo" || whole.UsageMetadata.TotalTokenCount != 30 {
				t.Errorf("text %q, usage %+v", text, whole.UsageMetadata)
			}
			messages := fake.Requests()[1].Body["messages"].([]any)
			signature := whole.Content.Parts[0].ThoughtSignature
			want := fmt.Sprintf(`{"content":[{"signature":%q,"thinking":"hm","type":"thinking"},{"id":"srv_1","input":{"q":1},"name":"search","type":"server_tool_use"},`+
				`{"text":"one","type":"text"}],"role":"assistant"}`, signature)
			if diff := cmp.Diff(want, modeltest.BodyOf(t, messages[1])); diff != "" {
				t.Errorf("the continued message (-want +got):\n%s", diff)
			}
		})
	}
	always := slices.Repeat([]fakeanthropic.Reply{{Blocks: []fakeanthropic.Block{fakeanthropic.Text("a")}, Stop: "pause_turn"}}, 40)
	llm, fake := fakeClaude(t, &anthropic.Options{Retry: provider.RetryOptions{Attempts: 3}}, always...)
	_, err := modeltest.Ask(t, llm, false)
	if want := "model: 504 DEADLINE_EXCEEDED: claude-sonnet-4-5 paused its turn more than 8 times"; err == nil || err.Error() != want || len(fake.Requests()) != 9 {
		t.Errorf("Generate() = %v after %d requests, want %s after 9", err, len(fake.Requests()), want)
	}
}

// Every error type has its HTTP status, also inside a stream, and names the request. None shows the
// key.
func TestAnthropicErrors(t *testing.T) {
	tests := []struct {
		name   string
		reply  fakeanthropic.Reply
		stream bool
		want   string
	}{
		{"invalid", fakeanthropic.Reply{Status: 400, Message: "max_tokens: too large"}, false, "model: 400 INVALID_ARGUMENT: max_tokens: too large (request req_0001)"},
		{"key", fakeanthropic.Reply{Status: 401, Message: "invalid x-api-key " + fakeanthropic.Key}, false, "model: 401 UNAUTHENTICATED: invalid x-api-key *** (request req_0001)"},
		{"billing", fakeanthropic.Reply{Status: 402, Message: "pay"}, false, "model: 402: pay (request req_0001)"},
		{"permission", fakeanthropic.Reply{Status: 403, Message: "no"}, false, "model: 403 PERMISSION_DENIED: no (request req_0001)"},
		{"not found", fakeanthropic.Reply{Status: 404, Message: "model: claude-9"}, false, "model: 404 NOT_FOUND: model: claude-9 (request req_0001)"},
		{"too large", fakeanthropic.Reply{Status: 413, Message: "Request exceeds the maximum size"}, false, "model: 413: Request exceeds the maximum size (request req_0001)"},
		{"rate limit", fakeanthropic.Reply{Status: 429, Message: "slow"}, true, "model: 429 RESOURCE_EXHAUSTED: slow (request req_0001)"},
		{"internal", fakeanthropic.Reply{Status: 500, Message: "oops"}, true, "model: 500 INTERNAL: oops (request req_0001)"},
		{"overloaded", fakeanthropic.Reply{Status: 529, Message: "Overloaded"}, true, "model: 529: Overloaded (request req_0001)"},
		{"overloaded in the stream", fakeanthropic.Reply{Raw: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n"}, true, "model: 529: Overloaded (request req_0001)"},
		{"unknown in the stream", fakeanthropic.Reply{Raw: "event: error\ndata: {\"type\":\"error\",\"error\":{}}\n\n"}, true, "model: claude-sonnet-4-5 failed without a message"},
		{"cut", fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Text("a")}, Raw: "\n"}, true, "model: no response from claude-sonnet-4-5: stream ended before the response was complete"},
		{"half a call", fakeanthropic.Reply{
			Blocks: []fakeanthropic.Block{fakeanthropic.Text("a")},
			Raw:    "data: {\"type\":\"content_block_start\",\"index\":1,\"content_block\":{\"type\":\"tool_use\",\"id\":\"t\",\"name\":\"f\",\"input\":{}}}\n\n",
		}, true, "model: no response from claude-sonnet-4-5: stream ended before the response was complete"},
		{"garbage", fakeanthropic.Reply{Raw: "data: {7\n\n"}, true, `model: malformed response from claude-sonnet-4-5: invalid character '7' looking for beginning of object key string in "{7"`},
		{"delta without a block", fakeanthropic.Reply{Raw: "data: {\"type\":\"content_block_delta\"}\n\n"}, true, `model: malformed response from claude-sonnet-4-5: delta without a block in "{\"type\":\"content_block_delta\"}"`},
		{"index", fakeanthropic.Reply{Raw: "data: {\"type\":\"content_block_start\",\"index\":9}\n\n"}, true, `model: malformed response from claude-sonnet-4-5: unexpected block index in "{\"type\":\"content_block_start\",\"index\":9}"`},
		{"page", fakeanthropic.Reply{Raw: "<html>", ContentType: "text/html"}, false, "model: claude-sonnet-4-5 answered with HTML: is base_url right?"},
		{"no message", fakeanthropic.Reply{Raw: "{}"}, false, `model: malformed response from claude-sonnet-4-5: no stop_reason in "{}"`},
		{"error with status 200", fakeanthropic.Reply{Raw: `{"type":"error","error":{"type":"api_error","message":"oops"}}`}, false, "model: 500 INTERNAL: oops"},
		{"Google's", fakeanthropic.Reply{Status: 403, Raw: `[{"error":{"code":403,"message":"denied","status":"PERMISSION_DENIED"}}]`}, true, "model: 403 PERMISSION_DENIED: denied"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.reply.Usage = nil
			llm, _ := fakeAnthropic(t, tt.reply)
			_, err := modeltest.Ask(t, llm, tt.stream)
			failed, ok := errors.AsType[*model.Error](err)
			if !ok {
				t.Fatalf("Generate() = %v, want a *model.Error", err)
			}
			got := failed.Error()
			for n := range 10 {
				got = strings.ReplaceAll(got, fmt.Sprintf("req_%04d", n), "req_0001")
			}
			if got != tt.want {
				t.Errorf("Generate() = %s\nwant %s", got, tt.want)
			}
		})
	}
}

// An overloaded service is called again after the time that it requests.
func TestAnthropicRetry(t *testing.T) {
	var waited modeltest.Waits
	llm, fake := fakeClaude(t, &anthropic.Options{Retry: provider.RetryOptions{Attempts: 2, Wait: waited.Wait}},
		fakeanthropic.Reply{Status: 529, Message: "Overloaded", RetryAfter: "3"})
	got, err := modeltest.Ask(t, llm, true)
	if err != nil || len(fake.Requests()) != 2 || len(waited) != 1 || waited[0].Seconds() != 3 || model.TextOf(got[len(got)-1].Content) != "ok" {
		t.Errorf("Generate() = %v, %v after %v and %d requests", modeltest.Outline(got), err, waited, len(fake.Requests()))
	}
}

// Arguments that are not a JSON object are reported, unless the limit cut them.
func TestAnthropicMalformedCall(t *testing.T) {
	for _, tt := range []struct{ input, stop, want string }{
		{`{"a":`, "", `MALFORMED_FUNCTION_CALL: arguments of f must be a JSON object: {"a":`},
		{`7`, "", `MALFORMED_FUNCTION_CALL: arguments of f must be a JSON object: 7`},
		{`{"a":`, "max_tokens", `MAX_TOKENS: the response exceeds the limit of 8192 tokens: set max_output_tokens`},
	} {
		llm, _ := fakeAnthropic(t, fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Call("f", tt.input)}, Stop: tt.stop})
		got, err := modeltest.Ask(t, llm, true)
		if err != nil || len(got) != 1 || got[0].ErrorCode+": "+got[0].ErrorMessage != tt.want {
			t.Errorf("%s: Generate() = %+v, %v, want %s", tt.input, got, err, tt.want)
		}
	}
}

func TestAnthropicKeys(t *testing.T) {
	ask := func(opts anthropic.Options, env map[string]string) string {
		opts.Lookup, opts.Retry = modeltest.Lookup(env), provider.RetryOptions{Attempts: 1}
		_, err := modeltest.Collect(anthropic.New("claude-x", &opts).Generate(t.Context(), modeltest.ScriptInput("hi", false)))
		return err.Error()
	}
	tests := []struct {
		name string
		opts anthropic.Options
		env  map[string]string
		want string
	}{
		{"none", anthropic.Options{}, nil, "model: 401 UNAUTHENTICATED: no key for Anthropic: set ANTHROPIC_API_KEY in the environment or in the app's .env, " +
			"or give the model an api_key or a base_url under models: in app.yaml"},
		{
			"at the app's address",
			anthropic.Options{App: map[string]string{"ANTHROPIC_BASE_URL": "https://app.example"}},
			map[string]string{"ANTHROPIC_API_KEY": "host"},
			"model: 401 UNAUTHENTICATED: no key for Anthropic at the app's own address, which does not get the host's key: " +
				"give the model an api_key under models: in app.yaml, such as ${secret:ANTHROPIC_API_KEY}",
		},
		{"no project", anthropic.Options{Vertex: &anthropic.Vertex{}}, nil, "model: 401 UNAUTHENTICATED: no project for Vertex AI: set GOOGLE_CLOUD_PROJECT and GOOGLE_CLOUD_LOCATION, " +
			"or give the model vertex: {project: P, location: L} under models: in app.yaml"},
		{
			"region",
			anthropic.Options{Vertex: &anthropic.Vertex{}},
			map[string]string{"GOOGLE_CLOUD_LOCATION": "evil.example/", "GOOGLE_CLOUD_PROJECT": "p"},
			"model: 400 INVALID_ARGUMENT: GOOGLE_CLOUD_LOCATION must be a region such as europe-west1, got \"evil.example/\"",
		},
	}
	for _, tt := range tests {
		if got := ask(tt.opts, tt.env); got != tt.want {
			t.Errorf("%s: Generate() = %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// The host's key or token is never sent to an address that the app chose.
func TestAnthropicKeepsKeys(t *testing.T) {
	fake := fakeanthropic.New()
	defer fake.Close()
	host := modeltest.Lookup(map[string]string{"ANTHROPIC_API_KEY": fakeanthropic.Key, "GOOGLE_CLOUD_PROJECT": "p"})
	for name, opts := range map[string]anthropic.Options{
		"base_url": {BaseURL: fake.URL()}, "base_url on Vertex AI": {BaseURL: fake.URL(), Vertex: &anthropic.Vertex{}},
		".env": {App: map[string]string{"ANTHROPIC_BASE_URL": fake.URL()}}, ".env on Vertex AI": {App: map[string]string{"ANTHROPIC_VERTEX_BASE_URL": fake.URL()}, Vertex: &anthropic.Vertex{}},
	} {
		opts.Lookup, opts.HTTP, opts.Retry = host, fake.Client(), provider.RetryOptions{Attempts: 1}
		if _, err := modeltest.Collect(anthropic.New("claude-x", &opts).Generate(t.Context(), modeltest.ScriptInput("hi", false))); err == nil || !strings.Contains(err.Error(), "401") {
			t.Errorf("%s: Generate() = %v, want 401", name, err)
		}
	}
	for _, r := range fake.Requests() {
		if r.Header.Get("X-Api-Key") != "" || r.Header.Get("Authorization") != "" {
			t.Errorf("the app's address got credentials: %v", r.Header)
		}
	}
}

// On Vertex AI the model is part of the address, and the token is Google's.
func TestAnthropicOnVertex(t *testing.T) {
	token := func(context.Context) (string, error) { return fakeanthropic.Token, nil }
	for _, stream := range []bool{false, true} {
		t.Run(modeltest.Mode(stream), func(t *testing.T) {
			llm, fake := fakeClaude(t, &anthropic.Options{Vertex: &anthropic.Vertex{Project: "p", Location: "europe-west1", Token: token}})
			if _, err := modeltest.Ask(t, llm, stream); err != nil {
				t.Fatal(err)
			}
			method := map[bool]string{false: "rawPredict", true: "streamRawPredict"}[stream]
			got := fake.Requests()[0]
			if want := "/v1/projects/p/locations/europe-west1/publishers/anthropic/models/claude-sonnet-4-5:" + method; got.Path != want || got.Header.Get("X-Api-Key") != "" {
				t.Errorf("path %s, key %q, want %s, no key", got.Path, got.Header.Get("X-Api-Key"), want)
			}
		})
	}
}

// vertex_ai/claude-… is Claude on Vertex AI: vertex_ai is a prefix that both vendors have.
func TestVertexPrefixOfClaude(t *testing.T) {
	fake := fakeanthropic.New()
	defer fake.Close()
	kind, _ := modeltest.AllKinds().Lookup("vertex_ai")
	n, _ := spec.Parse("app.yaml", []byte("{model: claude-opus-4-6, base_url: '"+fake.URL()+"'}"))
	plan, ds := kind.Decode(n)
	if ds.HasErrors() {
		t.Fatal(ds.Strings())
	}
	env := provider.Env{Lookup: modeltest.Lookup(map[string]string{"GOOGLE_CLOUD_PROJECT": "p"}), HTTP: authorized{fake.Client()}.client()}
	llm, err := plan.Build(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := modeltest.Ask(t, llm, false); err != nil {
		t.Fatal(err)
	}
	if got, want := fake.Requests()[0].Path, "/v1/projects/p/locations/global/publishers/anthropic/models/claude-opus-4-6:rawPredict"; got != want {
		t.Errorf("path %s, want %s", got, want)
	}
}

func TestAnthropicConfigErrors(t *testing.T) {
	tests := []struct{ src, want string }{
		{"{provider: anthropic, model: m, thinking: 100}", "app.yaml:1:43: thinking must be off, adaptive or a budget of at least 1024 tokens, got \"100\" [value]"},
		{"{provider: anthropic, model: m, thinking: max}", "app.yaml:1:43: thinking must be off, adaptive or a budget of at least 1024 tokens, got \"max\" [value]"},
		{"{provider: anthropic, model: m, max_output_tokens: 0}", "app.yaml:1:52: max_output_tokens must be at least 1 [value]"},
		{"{provider: anthropic, model: m, vertex: {}, api_key: k}", "app.yaml:1:54: Claude on Vertex AI has no api_key: it uses the host's Google credentials [value]"},
		{"{provider: anthropic, model: m, vertex: {location: a.b}}", "app.yaml:1:30: location must be a region such as europe-west1, or global, got \"a.b\" [value]"},
		{"{provider: vertex_ai, model: claude-opus-4-6, api_key: k}", "app.yaml:1:56: Claude on Vertex AI has no api_key: it uses the host's Google credentials [value]"},
		{"{provider: vertex_ai, model: anthropic/claude-opus-4-6}", ""},
		{"{provider: anthropic, model: m, thinking: off, effort: max, cache: 1h, vertex: {}}", ""},
	}
	for _, tt := range tests {
		_, got := modeltest.BuildModel(t, tt.src, nil)
		if strings.Join(got, "\n") != tt.want {
			t.Errorf("%s:\n%s\nwant %s", tt.src, strings.Join(got, "\n"), tt.want)
		}
	}
}
