package modeltest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/internal/fake/fakeanthropic"
	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/fake/fakeodd"
	"agenthost/internal/fake/fakeollama"
	"agenthost/internal/fake/fakeopenai"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/wing/anthropic"
	"agenthost/wing/gemini"
)

// A suiteSubject is a provider under test: a column of the table in docs/models.md.
type suiteSubject struct {
	name, title string
	// settings are the model's YAML.
	settings string
	// address is the service's own, where the wire calls the fake; empty is the fake's.
	address string
	// open starts the service's fake.
	open func(t testing.TB, answers []suiteReply) (base string, client *http.Client)
	// newModel builds the model if it has no settings.
	newModel func(base string, env provider.Env, retry provider.RetryOptions) model.LLM
	// mixes is set if a request may have both tools and a response schema.
	mixes bool
	// cacheMark is the request field that asks for a cache; empty if the service needs none.
	cacheMark string
	// local is set for a provider without a service.
	local bool
	// hints are the provider's own hints for failures, by row.
	hints map[string]string
	// lacks are the capabilities that the provider does not have.
	lacks map[string]lack

	wantErr string // from the capability under test
}

// A lack is why a provider does not have a capability, and what happens to a request for
// it: an error that contains err, or what a test verifies.
type lack struct {
	reason, err string
	verify      func(t *testing.T, s *suiteSubject)
}

// A suiteReply is a model response in terms that all providers share.
type suiteReply struct {
	text    []string // chunks
	thought string
	calls   []*genai.FunctionCall
	usage   bool // 12 prompt tokens, 7 response tokens
	limit   bool // the token limit ended the response

	cached  bool // 8 of the 12 prompt tokens
	refusal bool // the model refused to answer

	code       int // a failure's
	reason     string
	message    string
	retryAfter string
	raw        string // a failure's body, or the stream's end, in the service's form

	odd   fakeodd.Kind    // how the response differs from the API
	hold  <-chan struct{} // delays the rest of the response
	times int             // how often a script has it; 0 is once
}

func suiteSubjects() []*suiteSubject {
	builtin := lack{reason: "only Gemini has them; the call fails", err: "has no googleSearch"}
	noAudio := lack{reason: "its API takes no audio; a note to the model replaces it", verify: testAudioNote}
	subjects := []*suiteSubject{
		{name: "gemini", title: "Gemini API", settings: "provider: gemini\nmodel: gemini-x", open: openFakeGemini, cacheMark: "cachedContent"},
		{name: "vertex", title: "Vertex AI", open: openFakeGemini, newModel: newVertexModel, mixes: true, cacheMark: "cachedContent"},
		{
			name: "anthropic", title: "Anthropic", settings: "provider: anthropic\nmodel: claude-sonnet-4-5", open: openFakeAnthropic, mixes: true, cacheMark: "cache_control",
			lacks: map[string]lack{"builtin": builtin, "audio": noAudio},
		},
		{
			name: "anthropic_vertex", title: "Claude on Vertex AI", open: openFakeAnthropic, newModel: newVertexClaude, cacheMark: "cache_control",
			lacks: map[string]lack{"builtin": builtin, "audio": noAudio},
		},
		{
			name: "ollama", title: "Ollama", settings: "provider: ollama\nmodel: qwen3\noptions: {num_ctx: 4096}", open: openFakeOllama,
			hints: map[string]string{"unknown_model": "pull it with `ollama pull qwen3`"},
			lacks: map[string]lack{
				"builtin":   builtin,
				"audio":     noAudio,
				"caching":   {reason: "Ollama caches prompts without counting their tokens", verify: testUncounted},
				"refusal":   {reason: "Ollama reports none: the model's words are the answer", verify: testText},
				"documents": {reason: "its API has only texts and images; a note to the model replaces it", verify: testDocumentNote},
				"context":   {reason: "Ollama drops what exceeds `num_ctx` without an error: set it large enough", verify: testContextSize},
			},
		},
		{name: "scripted", title: "Scripted", local: true},
	}
	for _, v := range []struct{ name, title, model, address, limited string }{
		{"openai", "OpenAI chat", "gpt-4o", "https://api.openai.com/v1", "length"},
		{"openai_responses", "OpenAI Responses", "gpt-5", "https://api.openai.com/v1", "max_output_tokens"},
		{"deepseek", "DeepSeek", "deepseek-chat", "https://api.deepseek.com", "length"},
		{"mistral", "Mistral", "mistral-large", "https://api.mistral.ai/v1", "length"},
		{"openrouter", "OpenRouter", "x/y", "https://openrouter.ai/api/v1", "length"},
		{"openai_compatible", "Compatible server", "m", "", "length"},
	} {
		subjects = slices.Insert(subjects, len(subjects)-2, &suiteSubject{
			name: v.name, title: v.title, settings: "provider: " + strings.TrimSuffix(v.name, "_responses") + "\nmodel: " + v.model, address: v.address,
			open:  openFakeOpenAI(v.name, v.limited),
			lacks: map[string]lack{"builtin": builtin},
		})
	}
	for _, s := range subjects {
		switch s.name {
		case "openai_responses":
			s.mixes = true
			s.lacks["audio"] = noAudio
		case "openai":
			s.mixes = true
			s.lacks["thoughts"] = lack{reason: "OpenAI returns thoughts only by Responses; the setting is left out and logged", verify: testIgnoredThinking}
		}
	}
	return subjects
}

// key returns the credential that no error shows.
func (s *suiteSubject) key() string {
	if s.name == "anthropic_vertex" {
		return fakeanthropic.Token
	}
	return suiteKey
}

// build returns a model whose service gives the answers. It makes an attempt for each
// answer if the first one fails, else one.
func (s *suiteSubject) build(t testing.TB, answers ...suiteReply) (model.LLM, *wire) {
	t.Helper()
	w := &wire{}
	if s.local {
		return provider.NewScripted(modeltest.Script(t, encodeScript(answers)), nil), w
	}
	base, client := s.open(t, answers)
	w.base, w.fake = cmp.Or(s.address, base), base
	logger := slog.New(slog.NewTextHandler(&w.log, nil))
	retry := provider.RetryOptions{Attempts: 1, Wait: waitNever, Provider: s.name, Logger: logger}
	if len(answers) > 0 && (answers[0].code != 0 || answers[0].raw != "") {
		retry.Attempts = len(answers)
	}
	env := provider.Env{Name: "m", Provider: s.name, Lookup: modeltest.Lookup(nil), HTTP: w.wrapClient(client), Wait: waitNever, Logger: logger}
	if s.newModel != nil {
		return s.newModel(base, env, retry), w
	}
	src := fmt.Sprintf("%s\napi_key: %s\nretry: {attempts: %d}\n", s.settings, suiteKey, retry.Attempts)
	if s.address == "" {
		src += "base_url: " + base + "\n"
	}
	n, ds := spec.Parse("app.yaml", []byte(src))
	kind, _ := modeltest.AllKinds().Lookup(n.Get("provider").Value)
	plan, more := kind.Decode(n)
	if err := append(ds, more...).Err(); err != nil {
		t.Fatal(err)
	}
	llm, err := plan.Build(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	return llm, w
}

func newVertexModel(base string, env provider.Env, retry provider.RetryOptions) model.LLM {
	return gemini.New("gemini-x", &gemini.Options{
		Lookup:  modeltest.Lookup(map[string]string{"GOOGLE_GENAI_USE_VERTEXAI": "1", "GOOGLE_CLOUD_PROJECT": "p"}),
		Token:   func(context.Context) (string, error) { return suiteKey, nil },
		BaseURL: base, HTTP: env.HTTP, Retry: retry,
	})
}

func newVertexClaude(base string, env provider.Env, retry provider.RetryOptions) model.LLM {
	return anthropic.New("claude-sonnet-4-5", &anthropic.Options{
		Vertex: &anthropic.Vertex{
			Project: "p", Location: "europe-west1", Token: func(context.Context) (string, error) { return fakeanthropic.Token, nil },
		},
		Lookup: modeltest.Lookup(nil), BaseURL: base, HTTP: env.HTTP, Retry: retry,
	})
}

func openFakeGemini(t testing.TB, answers []suiteReply) (string, *http.Client) {
	fake := fakegemini.New()
	t.Cleanup(fake.Close)
	for _, a := range answers {
		r := fakegemini.Reply{Status: a.code, Message: a.message, Reason: a.reason, RetryAfter: a.retryAfter, Raw: a.raw, Hold: a.hold, Odd: a.odd}
		if a.thought != "" {
			r.Parts = append(r.Parts, &genai.Part{Text: a.thought, Thought: true, ThoughtSignature: []byte("signed")})
		}
		for _, chunk := range a.text {
			r.Parts = append(r.Parts, &genai.Part{Text: chunk})
		}
		for _, c := range a.calls {
			r.Parts = append(r.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{Name: c.Name, Args: c.Args}})
		}
		if a.usage {
			r.Usage = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 12, CandidatesTokenCount: 7, TotalTokenCount: 19}
			if a.cached {
				r.Usage.CachedContentTokenCount = 8
			}
		}
		if a.refusal {
			r.Finish, r.FinishMessage = genai.FinishReasonSafety, "unsafe"
		}
		if a.limit {
			r.Finish = genai.FinishReasonMaxTokens
		}
		fake.Enqueue(r)
	}
	return fake.URL(), fake.Client()
}

func openFakeAnthropic(t testing.TB, answers []suiteReply) (string, *http.Client) {
	fake := fakeanthropic.New()
	t.Cleanup(fake.Close)
	for _, a := range answers {
		r := fakeanthropic.Reply{
			Status: a.code, Type: a.reason, Message: a.message, RetryAfter: a.retryAfter, Raw: a.raw, ContentType: "application/json", Hold: a.hold, Odd: a.odd,
		}
		if a.thought != "" {
			r.Blocks = append(r.Blocks, fakeanthropic.Thinking(a.thought))
		}
		if len(a.text) > 0 {
			r.Blocks = append(r.Blocks, fakeanthropic.Text(a.text...))
		}
		for _, c := range a.calls {
			args := encodeArgs(c)
			r.Blocks = append(r.Blocks, fakeanthropic.Call(c.Name, args[:5], args[5:]))
		}
		if a.usage {
			r.Usage = map[string]any{"input_tokens": 12, "output_tokens": 7}
		}
		if a.cached {
			r.Usage["input_tokens"], r.Usage["cache_read_input_tokens"] = 4, 8
		}
		if a.refusal {
			r.Stop = "refusal"
		}
		if a.limit {
			r.Stop = "max_tokens"
		}
		fake.Enqueue(r)
	}
	return fake.URL(), fake.Client()
}

func openFakeOpenAI(name, limited string) func(testing.TB, []suiteReply) (string, *http.Client) {
	return func(t testing.TB, answers []suiteReply) (string, *http.Client) {
		return openFakeChat(t, name, limited, answers)
	}
}

func openFakeChat(t testing.TB, name, limited string, answers []suiteReply) (string, *http.Client) {
	fake := fakeopenai.New()
	t.Cleanup(fake.Close)
	for _, a := range answers {
		r := fakeopenai.Reply{
			Status: a.code, Code: a.reason, Message: a.message, RetryAfter: a.retryAfter, Raw: a.raw, Hold: a.hold, Odd: a.odd,
			Thought: a.thought, Chunks: a.text,
		}
		for _, c := range a.calls {
			r.Calls = append(r.Calls, fakeopenai.Call{ID: c.ID, Name: c.Name, Arguments: encodeArgs(c)})
		}
		if a.usage {
			r.Usage = map[string]any{"prompt_tokens": 12, "completion_tokens": 7, "input_tokens": 12, "output_tokens": 7, "total_tokens": 19}
		}
		if a.cached && name == "deepseek" {
			r.Usage["prompt_cache_hit_tokens"] = 8
		} else if a.cached {
			details := map[string]any{"cached_tokens": 8}
			r.Usage["prompt_tokens_details"], r.Usage["input_tokens_details"] = details, details
		}
		if a.refusal && strings.HasPrefix(name, "openai") {
			r.Refusal = "I cannot help with that."
		} else if a.refusal {
			r.Finish = "content_filter"
		}
		if a.limit {
			r.Finish = limited
		}
		fake.Enqueue(r)
	}
	return fake.URL(), fake.Client()
}

func openFakeOllama(t testing.TB, answers []suiteReply) (string, *http.Client) {
	fake := fakeollama.New()
	t.Cleanup(fake.Close)
	for _, a := range answers {
		r := fakeollama.Reply{
			Status: a.code, Message: a.message, RetryAfter: a.retryAfter, Raw: a.raw, Hold: a.hold, Odd: a.odd, Thought: a.thought, Chunks: a.text,
		}
		for _, c := range a.calls {
			r.Calls = append(r.Calls, fakeollama.Call{ID: c.ID, Name: c.Name, Args: c.Args})
		}
		if a.usage {
			r.Prompt, r.Output = 12, 7
		}
		if a.limit {
			r.Done = "length"
		}
		fake.Enqueue(r)
	}
	return fake.URL(), fake.Client()
}

func encodeArgs(c *genai.FunctionCall) string {
	raw, err := session.EncodeMap(c.Args)
	if err != nil { // deeper than events may be
		raw, _ = json.Marshal(c.Args)
	}
	return string(raw)
}

// encodeScript returns a script with one entry for each answer.
func encodeScript(answers []suiteReply) string {
	var entries []map[string]any
	for _, a := range answers {
		e := map[string]any{"times": max(a.times, 1)}
		if text := strings.Join(a.text, ""); text != "" {
			e["text"], e["chunks"] = text, len(a.text)
			if strings.HasPrefix(text, "{") {
				e["json"] = json.RawMessage(text)
				delete(e, "text")
				delete(e, "chunks")
			}
		}
		if a.thought != "" {
			e["thought"] = a.thought
		}
		var calls []any
		for _, c := range a.calls {
			calls = append(calls, map[string]any{"name": c.Name, "args": c.Args})
		}
		if calls != nil {
			e["calls"] = calls
		}
		if a.usage {
			e["usage"] = map[string]int{"prompt": 12, "candidates": 7}
		}
		if a.limit {
			e["finish"] = map[string]string{"reason": "MAX_TOKENS"}
		}
		if a.refusal {
			e["finish"] = map[string]string{"reason": "SAFETY", "message": "unsafe"}
			e["text"] = ""
		}
		entries = append(entries, e)
	}
	raw, _ := json.Marshal(entries) // JSON is YAML
	return string(raw)
}
