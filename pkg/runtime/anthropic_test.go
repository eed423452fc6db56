package runtime_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakeanthropic"
	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/fake/fakeopenai"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/session"
)

// modelFakes are three vendors' servers, and an app whose model can be switched.
type modelFakes struct {
	claude *fakeanthropic.Server
	gemini *fakegemini.Server
	openai *fakeopenai.Server
	env    *testenv.Env
	key    session.Key
}

func newModelFakes(t *testing.T) *modelFakes {
	t.Helper()
	f := &modelFakes{claude: fakeanthropic.New(), gemini: fakegemini.New(), openai: fakeopenai.New()}
	t.Cleanup(f.claude.Close)
	t.Cleanup(f.gemini.Close)
	t.Cleanup(f.openai.Close)
	host := map[string]string{
		"ANTHROPIC_API_KEY": fakeanthropic.Key, "ANTHROPIC_BASE_URL": f.claude.URL(),
		"GOOGLE_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": f.gemini.URL(), "OPENAI_API_KEY": "k", "OPENAI_BASE_URL": f.openai.URL(),
	}
	f.env = testenv.New(t, &testenv.Options{Loader: &loader.Options{HTTP: f.claude.Client(), Env: func(name string) (string, bool) {
		value, ok := host[name]
		return value, ok
	}}})
	f.key = f.env.Session(t, "app", "s", nil)
	return f
}

// switchModel publishes the app with a model.
func (f *modelFakes) switchModel(t *testing.T, model string) {
	t.Helper()
	f.env.Load(t, testenv.Files(t, "app", map[string][]byte{"app.yaml": []byte(`
models:
  m: ` + model + `
root_agent:
  name: clerk
  model: m
  instruction: Help.
  tools:
    - expr: {name: weather, params: {city: string}, description: The weather., value: '"sunny in " + args.city'}
    - expr: {name: clock, description: The time., value: '"noon"'}
`)}))
}

// runText runs a message, and returns an event outline: the author, and each part.
func (f *modelFakes) runText(t *testing.T, text string, stream bool) string {
	t.Helper()
	req := userMessage(f.key, text)
	req.Streaming = &stream
	var out strings.Builder
	for ev, err := range f.env.Host.Run(t.Context(), req) {
		if err != nil {
			fmt.Fprintf(&out, "error %v\n", err)
			break
		}
		if ev.Partial {
			out.WriteByte('+')
		}
		out.WriteString(ev.Author + ":")
		if ev.Content != nil {
			for _, p := range ev.Content.Parts {
				out.WriteString(" " + outlinePart(p))
			}
		}
		if ev.ErrorCode != "" {
			out.WriteString(" !" + ev.ErrorCode + " " + ev.ErrorMessage)
		}
		out.WriteByte('\n')
	}
	return out.String()
}

func outlinePart(p *genai.Part) string {
	text := fmt.Sprintf("%q", p.Text)
	switch {
	case p.FunctionCall != nil:
		args, _ := json.Marshal(p.FunctionCall.Args)
		text = p.FunctionCall.Name + string(args)
	case p.FunctionResponse != nil:
		response, _ := json.Marshal(p.FunctionResponse.Response)
		text = p.FunctionResponse.Name + "=" + string(response)
	}
	if p.Thought {
		text = "thought " + text
	}
	if len(p.ThoughtSignature) > 0 {
		text += " signed"
	}
	return text
}

const claudeThinks = "{provider: anthropic, model: claude-sonnet-4-5, thinking: 2048, retry: {attempts: 1}}"

// TestClaudeToolLoop: thoughts are streamed, stored with their signatures, and sent back unchanged
// before the calls that they led to. Parallel calls' results are in one message.
func TestClaudeToolLoop(t *testing.T) {
	f := newModelFakes(t)
	f.switchModel(t, claudeThinks)
	f.claude.Enqueue(
		fakeanthropic.Reply{Blocks: []fakeanthropic.Block{
			fakeanthropic.Thinking("Two ", "tools."), fakeanthropic.Redacted(), fakeanthropic.Text("Let me see."),
			fakeanthropic.Call("weather", `{"city":`, `"Rome"}`), fakeanthropic.Call("clock"),
		}},
		fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Thinking("Again."), fakeanthropic.Call("weather", `{"city":"Oslo"}`)}},
		fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Text("Sunny ", "at noon.")}},
	)
	want := `+clerk: thought "Two "
+clerk: thought "tools."
+clerk: "Let me see."
+clerk: weather{"city":"Rome"}
+clerk: clock{}
clerk: thought "Two tools." signed thought "" signed "Let me see." weather{"city":"Rome"} clock{}
clerk: weather={"result":"sunny in Rome"} clock={"result":"noon"}
+clerk: thought "Again."
+clerk: weather{"city":"Oslo"}
clerk: thought "Again." signed weather{"city":"Oslo"}
clerk: weather={"result":"sunny in Oslo"}
+clerk: "Sunny "
+clerk: "at noon."
clerk: "Sunny at noon."
`
	if diff := cmp.Diff(want, f.runText(t, "hi", true)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff("clerk: \"ok\"\n", f.runText(t, "thanks", false)); diff != "" {
		t.Errorf("second turn (-want +got):\n%s", diff)
	}
	for i, r := range f.claude.Requests() {
		if r.Rejected != "" {
			t.Errorf("request %d was rejected: %s", i, r.Rejected)
		}
	}
	messages := f.claude.Requests()[1].Body["messages"].([]any)
	var types []string
	for _, b := range messages[1].(map[string]any)["content"].([]any) {
		types = append(types, b.(map[string]any)["type"].(string))
	}
	if diff := cmp.Diff([]string{"thinking", "redacted_thinking", "text", "tool_use", "tool_use"}, types); diff != "" {
		t.Errorf("blocks sent back (-want +got):\n%s", diff)
	}
	if results := messages[2].(map[string]any)["content"].([]any); len(messages) != 3 || len(results) != 2 {
		t.Errorf("%d messages, %d results, want 3, 2", len(messages), len(results))
	}
}

// TestClaudeSwitch: a conversation continues with another vendor's model and back, also
// after calls and thoughts: each vendor gets only its own signatures.
func TestClaudeSwitch(t *testing.T) {
	f := newModelFakes(t)
	others := []struct{ name, model string }{
		{"gemini", "{provider: gemini, model: gemini-x}"},
		{"openai", "{provider: openai_compatible, model: gpt-x}"},
		{"another Claude", "{provider: anthropic, model: claude-opus-4-6, thinking: adaptive}"},
	}
	turn := func(name, model, want string) {
		t.Helper()
		f.switchModel(t, model)
		if diff := cmp.Diff(want, f.runText(t, "next", false)); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", name, diff)
		}
	}
	for _, other := range others {
		f.claude.Enqueue(
			fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Thinking("hm"), fakeanthropic.Redacted(), fakeanthropic.Call("clock")}},
			fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Thinking("so"), fakeanthropic.Text("noon")}},
		)
		turn("claude", claudeThinks, "clerk: thought \"hm\" signed thought \"\" signed clock{}\nclerk: clock={\"result\":\"noon\"}\nclerk: thought \"so\" signed \"noon\"\n")
		f.gemini.Enqueue(fakegemini.Parts(
			&genai.Part{Text: "planning", Thought: true},
			&genai.Part{FunctionCall: &genai.FunctionCall{ID: "g:1", Name: "clock"}, ThoughtSignature: []byte("gemini")},
		), fakegemini.Text("late"))
		f.openai.Enqueue(fakeopenai.Reply{Thought: "planning", Calls: []fakeopenai.Call{{ID: "o.1", Name: "clock", Arguments: "{}"}}}, fakeopenai.Reply{Chunks: []string{"late"}})
		if strings.HasSuffix(other.name, "Claude") {
			f.claude.Enqueue(
				fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Thinking("planning"), fakeanthropic.Call("clock")}},
				fakeanthropic.Reply{Blocks: []fakeanthropic.Block{fakeanthropic.Text("late")}})
		}
		f.switchModel(t, other.model)
		if got := f.runText(t, "next", false); !strings.HasSuffix(got, "clerk: clock={\"result\":\"noon\"}\nclerk: \"late\"\n") {
			t.Errorf("%s: events:\n%s", other.name, got)
		}
		f.gemini.Enqueue(fakegemini.Text("unused"))
	}
	turn("claude at the end", claudeThinks, "clerk: \"ok\"\n")
	for i, r := range f.claude.Requests() {
		if r.Rejected != "" {
			t.Errorf("request %d of Claude was rejected: %s", i, r.Rejected)
		}
	}
	for _, r := range f.gemini.Requests() {
		if body, err := json.Marshal(r.Body); err != nil || strings.Contains(string(body), "partMetadata") || strings.Contains(string(body), "sig+") {
			t.Errorf("Gemini got %s, %v", body, err)
		}
	}
}

// TestClaudeJoinsLoop: when Claude continues another model's calls, as a fallback does, the service
// would demand thoughts before them: thinking is off until they are answered.
func TestClaudeJoinsLoop(t *testing.T) {
	f := newModelFakes(t)
	f.gemini.Enqueue(fakegemini.Parts(&genai.Part{FunctionCall: &genai.FunctionCall{Name: "clock"}, ThoughtSignature: []byte("gemini")}),
		fakegemini.Failure(503, "no"))
	f.env.Load(t, testenv.Files(t, "app", map[string][]byte{"app.yaml": []byte(`
models:
  m: {provider: gemini, model: gemini-x, retry: {attempts: 1}, fallback: [claude]}
  claude: ` + claudeThinks + `
root_agent:
  name: clerk
  model: m
  instruction: Help.
  tools: [{expr: {name: clock, description: The time., value: '"noon"'}}]
`)}))
	got := f.runText(t, "hi", false)
	if want := "clerk: clocknull signed\nclerk: clock={\"result\":\"noon\"}\nclerk: \"ok\"\n"; got != want {
		t.Errorf("events:\n%s\nwant:\n%s", got, want)
	}
	if requests := f.claude.Requests(); len(requests) != 1 || requests[0].Body["thinking"] != nil {
		t.Errorf("requests of Claude: %v", requests)
	}
}
