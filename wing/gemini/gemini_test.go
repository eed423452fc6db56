package gemini_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/wing/gemini"
)

func TestGeminiMapping(t *testing.T) {
	cutShort := fakegemini.Text("one ", "two")
	cutShort.Finish = genai.FinishReasonMaxTokens
	unsafe := fakegemini.Reply{Finish: genai.FinishReasonSafety}
	thought := fakegemini.Parts(&genai.Part{Text: "hm", Thought: true}, &genai.Part{Text: "a"}, &genai.Part{Text: "b"})
	used := fakegemini.Text("a")
	used.Usage = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 3, TotalTokenCount: 4}
	tests := []struct {
		name   string
		reply  fakegemini.Reply
		stream bool
		want   []string
	}{
		{"empty", fakegemini.Reply{Raw: "{}"}, false, []string{"model: "}},
		{"empty stream", fakegemini.Reply{Raw: "data: {}\n\n"}, true, []string{"+", "model: "}},
		{"content wins over max tokens", cutShort, false, []string{"model: [one two] MAX_TOKENS"}},
		{
			"max tokens names the streamed whole", cutShort, true,
			[]string{"+model: [one ]", "+model: [two] MAX_TOKENS", "model: [one two] MAX_TOKENS !MAX_TOKENS()"},
		},
		{"safety", unsafe, false, []string{"SAFETY !SAFETY()"}},
		{"safety streamed", unsafe, true, []string{"+SAFETY", "SAFETY !SAFETY()"}},
		{"blocked", fakegemini.Blocked(genai.BlockedReasonProhibitedContent), false, []string{"!PROHIBITED_CONTENT()"}},
		{
			"blocked streamed", fakegemini.Blocked(genai.BlockedReasonProhibitedContent), true,
			[]string{"+", "!PROHIBITED_CONTENT()"},
		},
		{"thoughts apart", thought, false, []string{"model: (hm)[ab] STOP"}},
		{
			"thoughts apart streamed", thought, true,
			[]string{"+model: (hm)", "+model: [a]", "+model: [b] STOP", "model: (hm)[ab] STOP"},
		},
		{"usage", used, false, []string{"model: [a] STOP 4 tokens"}},
		{"usage streamed", used, true, []string{"+model: [a] STOP 4 tokens", "model: [a] STOP 4 tokens"}},
		{
			"comments and events are skipped",
			fakegemini.Reply{Raw: ": hello\nevent: x\n" +
				`data: {"candidates":[{"content":{"role":"model",` + "\r\n" + `data: "parts":[{"text":"a"}]},"finishReason":"STOP"}]}` + "\r\n\r\n"},
			true,
			[]string{"+model: [a] STOP", "model: [a] STOP"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := modeltest.NewFake(t)
			fake.Enqueue(tt.reply)
			got, err := modeltest.Ask(t, gemini.New("gemini-x", modeltest.FakeOptions(fake)), tt.stream)
			if err != nil {
				t.Fatalf("Generate() = %v", err)
			}
			var lines []string
			for _, r := range got {
				lines = append(lines, modeltest.Detail(r))
			}
			if diff := cmp.Diff(tt.want, lines); diff != "" {
				t.Errorf("Generate() (-want +got):\n%s", diff)
			}
		})
	}
}

// The finish message is the error's, though the SDK drops it for the Gemini API.
func TestGeminiFinishMessage(t *testing.T) {
	t.Run("Vertex AI", func(t *testing.T) { testFinishMessage(t, modeltest.VertexOptions) })
	t.Run("Gemini API", func(t *testing.T) {
		testFinishMessage(t, func(fake *fakegemini.Server) *gemini.Options {
			return &gemini.Options{Lookup: modeltest.Lookup(nil), APIKey: "k", BaseURL: fake.URL(), HTTP: fake.Client()}
		})
	})
}

func testFinishMessage(t *testing.T, options func(*fakegemini.Server) *gemini.Options) {
	reply := fakegemini.Text("one")
	reply.Finish, reply.FinishMessage = genai.FinishReasonMaxTokens, "too long"
	unsafe := fakegemini.Reply{Finish: genai.FinishReasonSafety, FinishMessage: "not that"}
	fake := modeltest.NewFake(t)
	fake.Enqueue(reply, unsafe, unsafe)
	llm := gemini.New("gemini-x", options(fake))
	var got []string
	for _, stream := range []bool{true, false, true} {
		rs, err := modeltest.Ask(t, llm, stream)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, modeltest.Detail(rs[len(rs)-1]))
	}
	want := []string{"model: [one] MAX_TOKENS !MAX_TOKENS(too long)", "SAFETY !SAFETY(not that)", "SAFETY !SAFETY(not that)"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Generate() (-want +got):\n%s", diff)
	}
}

func TestGeminiErrors(t *testing.T) {
	part := fakegemini.Text("one ")
	cut, odd, late := part, part, part
	cut.Cut = true
	odd.Raw = "data: {\"candidates\": 7}\n\n"
	late.Raw = `data: {"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}` + "\n\n"
	endless := part
	endless.Raw = `data: {"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f"}}]}}]}` + "\n\n" + `data: {"usageMetadata":{"totalTokenCount":4}}` + "\n\n"
	bare := part
	bare.Raw = `{"error":{"code":500,` + "\n" + `"message":"oops","status":"INTERNAL"}}` + "\n"
	tests := []struct {
		name      string
		reply     fakegemini.Reply
		stream    bool
		partials  []string
		want      string
		retryable bool
	}{
		{"refused", fakegemini.Failure(400, "bad schema"), false, nil, "model: 400 INVALID_ARGUMENT: bad schema", false},
		{"refused streamed", fakegemini.Failure(400, "bad schema"), true, nil, "model: 400 INVALID_ARGUMENT: bad schema", false},
		{"not found", fakegemini.Failure(404, "no such model"), false, nil, "model: 404 NOT_FOUND: no such model", false},
		{"failure in a list", fakegemini.Reply{Status: 400, Raw: `[{"error":{"code":400,"message":"bad schema","status":"INVALID_ARGUMENT"}}]`}, true, nil, "model: 400 INVALID_ARGUMENT: bad schema", false},
		{"failure of a proxy", fakegemini.Reply{Status: 502, Raw: "<h1>bad gateway"}, false, nil, "model: 502: Gemini answered with HTML", true},
		{"long failure of a proxy", fakegemini.Reply{Status: 502, Raw: strings.Repeat("x", 300)}, false, nil, "model: 502: " + strings.Repeat("x", 200) + "…", true},
		{"failure without words", fakegemini.Reply{Status: 500, Raw: "[]"}, false, nil, "model: 500 INTERNAL: []", true},
		{"blank failure", fakegemini.Reply{Status: 500, Raw: "\n"}, false, nil, "model: 500 INTERNAL: Gemini answered 500 Internal Server Error", true},
		{"key in the message", fakegemini.Failure(400, "bad key test-key-1234"), false, nil, "model: 400 INVALID_ARGUMENT: bad key ***", false},
		{"cut", fakegemini.Reply{Cut: true}, false, nil, "model: Gemini's response was truncated: unexpected EOF", true},
		{"no finish reason", endless, true, []string{"+one ", "+f()", "+"}, "model: Gemini's stream ended before the response was complete", true},
		{"no chunk", fakegemini.Reply{Raw: "\n"}, true, nil, "model: Gemini's stream ended before the response was complete", true},
		{"cut streamed", cut, true, []string{"+one "}, "model: Gemini's stream was interrupted: unexpected EOF", true},
		{
			"malformed",
			fakegemini.Reply{Raw: "<html>"},
			false, nil,
			"model: Gemini answered with HTML: is base_url right?", true,
		},
		{
			"malformed chunk", odd, true,
			[]string{"+one "},
			"model: malformed response from Gemini: json: cannot unmarshal number into Go struct field .response.candidates of type []*genai.Candidate in \"{\\\"candidates\\\": 7}\"", true,
		},
		{
			"candidate is null",
			fakegemini.Reply{Raw: `{"candidates":[null]}`},
			false, nil,
			"model: malformed response from Gemini: interface conversion: interface {} is nil, not map[string]interface {}", true,
		},
		{
			"candidate is null streamed",
			fakegemini.Reply{Raw: `data: {"candidates":[null]}` + "\n\n"},
			true, nil,
			"model: malformed response from Gemini: interface conversion: interface {} is nil, not map[string]interface {}", true,
		},
		{
			"malformed unary",
			fakegemini.Reply{Raw: `{"candidates":7}`},
			false, nil,
			"model: malformed response from Gemini: json: cannot unmarshal number into Go struct field .response.candidates of type []*genai.Candidate in \"{\\\"candidates\\\":7}\"", true,
		},
		{"late error", late, true, []string{"+one "}, "model: 503 UNAVAILABLE: overloaded", true},
		{"late bare error", bare, true, []string{"+one "}, "model: 500 INTERNAL: oops", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fake := modeltest.NewFake(t)
			fake.Enqueue(tt.reply)
			got, err := modeltest.Ask(t, gemini.New("gemini-x", modeltest.FakeOptions(fake)), tt.stream)
			failed, ok := errors.AsType[*model.Error](err)
			if !ok {
				t.Fatalf("Generate() = %v, want a *model.Error", err)
			}
			if diff := cmp.Diff(tt.want, failed.Error()); diff != "" {
				t.Errorf("error (-want +got):\n%s", diff)
			}
			if failed.Retryable() != tt.retryable {
				t.Errorf("Retryable() = %v, want %v", failed.Retryable(), tt.retryable)
			}
			if diff := cmp.Diff(tt.partials, modeltest.Outline(got)); diff != "" {
				t.Errorf("before the error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGeminiNoAnswer(t *testing.T) {
	fake := modeltest.NewFake(t)
	opts := modeltest.FakeOptions(fake)
	fake.Close()
	_, err := modeltest.Ask(t, gemini.New("gemini-x", opts), false)
	failed, ok := errors.AsType[*model.Error](err)
	if !ok || !failed.Retryable() || !strings.HasPrefix(failed.Error(), "model: no response from Gemini: dial tcp ") {
		t.Errorf("Generate() = %v, want a retryable *model.Error about a failed dial", err)
	}
}

// Only Vertex AI supports tools and a schema in one request, for Gemini 2 and newer.
func TestMixesToolsAndSchema(t *testing.T) {
	vertex := map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "true"}
	for _, tt := range []struct {
		model string
		env   map[string]string
		want  bool
	}{
		{"gemini-2.5-flash", vertex, true},
		{"gemini-flash-latest", vertex, true},
		{"projects/p/locations/l/publishers/google/models/gemini-3-pro", vertex, true},
		{"gemini-1.5-pro", vertex, false},
		{"projects/p/locations/l/endpoints/7", vertex, false},
		{"gemma-3-27b-it", vertex, false},
		{"gemini-2.5-flash", nil, false},
	} {
		llm := gemini.New(tt.model, &gemini.Options{Lookup: modeltest.Lookup(tt.env)})
		mixer, ok := llm.(interface{ MixesToolsAndSchema() bool })
		if !ok || mixer.MixesToolsAndSchema() != tt.want {
			t.Errorf("%s with %v: MixesToolsAndSchema() is not %v", tt.model, tt.env, tt.want)
		}
	}
}

// Gemini 3 gets a placeholder for the signature when another model made a step's calls; signed
// steps and older models are unchanged.
func TestGeminiSignsForeignCalls(t *testing.T) {
	call := func(name, signature string) *genai.Part {
		p := &genai.Part{FunctionCall: &genai.FunctionCall{Name: name}}
		if signature != "" {
			p.ThoughtSignature = []byte(signature)
		}
		return p
	}
	answer := func(names ...string) *genai.Content {
		c := &genai.Content{Role: genai.RoleUser}
		for _, name := range names {
			c.Parts = append(c.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{Name: name, Response: map[string]any{}}})
		}
		return c
	}
	for name, want := range map[string]int{"gemini-3-pro": 1, "gemini-2.5-flash": 0} {
		fake := modeltest.NewFake(t)
		req := modeltest.ScriptInput("hi", false)
		req.Contents = append(req.Contents,
			&genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{call("a", ""), call("b", "")}}, answer("a", "b"),
			&genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{call("c", "signed")}}, answer("c"),
		)
		if _, err := modeltest.Collect(gemini.New(name, modeltest.FakeOptions(fake)).Generate(t.Context(), req)); err != nil {
			t.Fatal(err)
		}
		body, err := json.Marshal(fake.Requests()[0])
		placeholder := base64.StdEncoding.EncodeToString([]byte("skip_thought_signature_validator"))
		if got := strings.Count(string(body), placeholder); err != nil || got != want {
			t.Errorf("%s: %d placeholders, want %d in %s (%v)", name, got, want, body, err)
		}
	}
}
