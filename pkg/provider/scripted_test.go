package provider_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
)

const demo = `
- when: user == "read"
  text: "Loaded: {added}"
- when: agent == "triage" and user contains "refund"
  json: {intent: refund, why: "<b>"}
- when: responses.create_refund != nil
  text: "Done, {user:name?}: {responses.create_refund.id}"
- when: agent == "refund"
  calls: [{name: create_refund, args: {order_id: "7", amount: 300}}]
  times: 1
- when: user contains "slow"
  text: one two three four
  chunks: 4
  delay: 50ms
- when: user contains "boom"
  error: {code: 503, message: "{user} is too much"}
- when: state.tier == "gold" and state["user:name"] == "Ann"
  text: "Welcome, {user:name} of {tier} ({state.tier})"
- when: '"search" in tools and instruction contains "kind"'
  thought: "{tools} for {agent}, step {step}, turn {turn}"
  text: found
  usage: {prompt: 10, candidates: 5}
- when: user == "raw"
  parts: [{text: a}, {function_call: {name: f, args: {n: 1}}}, {inlineData: {mimeType: image/png, data: AQ==}}]
- when: user == "nothing"
  text: ""
- when: user != "unknown"
  text: "You wrote: {user}"
`

func TestScriptedAnswersByCondition(t *testing.T) {
	answered := []*genai.Content{
		model.UserText("refund"),
		{Role: "model", Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{Name: "create_refund"}}}},
		{Role: "user", Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
			Name: "create_refund", Response: map[string]any{"id": "R1"},
		}}}},
	}
	kind := &genai.GenerateContentConfig{
		SystemInstruction: &genai.Content{Parts: []*genai.Part{{Text: "be kind"}}},
		Tools:             []*genai.Tool{{FunctionDeclarations: []*genai.FunctionDeclaration{{Name: "search"}}}},
	}
	tests := []struct {
		name string
		req  model.Request
		want string
	}{
		{"json", model.Request{Origin: model.Origin{Agent: "triage", UserText: "a refund"}}, `model: [{"intent":"refund","why":"<b>"}] STOP`},
		{"responses", model.Request{Contents: answered, Origin: model.Origin{Agent: "refund"}}, "model: [Done, : R1] STOP"},
		{
			"optional state",
			model.Request{Contents: answered, Origin: model.Origin{Run: state{"user:name": "Ann"}}},
			"model: [Done, Ann: R1] STOP",
		},
		{
			"responses before the last message",
			model.Request{Contents: append(answered, model.UserText("thanks"))},
			"model: [You wrote: thanks] STOP",
		},
		{
			"contents that tools add after responses hide none of them",
			model.Request{Contents: append(slices.Clip(answered), model.UserText("Artifact a is:")), Origin: model.Origin{Agent: "refund", Step: 1}},
			"model: [Done, : R1] STOP",
		},
		{
			"added",
			model.Request{Contents: append(slices.Clip(answered), model.UserText("Artifact a is:"), model.UserText("x")), Origin: model.Origin{UserText: "read", Step: 1}},
			"model: [Loaded: Artifact a is: x] STOP",
		},
		{
			"state",
			model.Request{Origin: model.Origin{UserText: "hi", Run: state{"tier": "gold", "user:name": "Ann"}}},
			"model: [Welcome, Ann of gold (gold)] STOP",
		},
		{
			"instruction, tools, thought, usage",
			model.Request{Config: kind, Origin: model.Origin{Agent: "root", UserText: "hi", Step: 2, Turn: 3}},
			`model: (["search"] for root, step 2, turn 3)[found] STOP 15 tokens`,
		},
		{"empty text", model.Request{Origin: model.Origin{UserText: "nothing"}}, "model:  STOP"},
		{"user from contents", model.Request{Contents: []*genai.Content{model.UserText("hello")}}, "model: [You wrote: hello] STOP"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := modeltest.Collect(provider.NewScripted(modeltest.Script(t, demo), nil).Generate(t.Context(), &tt.req))
			if err != nil {
				t.Fatalf("Generate() = %v", err)
			}
			if diff := cmp.Diff(tt.want, modeltest.Detail(got[0])); diff != "" {
				t.Errorf("Generate() (-want +got):\n%s", diff)
			}
		})
	}
}

type state map[string]any

// ReadState implements [model.RunReader].
func (s state) ReadState(key string) (any, bool) {
	v, ok := s[key]
	return v, ok
}

// ReadConfig implements [model.RunReader].
func (state) ReadConfig() map[string]any { return model.SampleRunConfig() }

func TestScriptedParts(t *testing.T) {
	got, err := modeltest.Ask(t, provider.NewScripted(modeltest.Script(t, strings.ReplaceAll(demo, `"raw"`, `"hi"`)), nil), false)
	if err != nil {
		t.Fatal(err)
	}
	want := []*genai.Part{
		{Text: "a"},
		{FunctionCall: &genai.FunctionCall{Name: "f", Args: map[string]any{"n": int64(1)}}},
		{InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte{1}}},
	}
	if diff := cmp.Diff(want, got[0].Content.Parts); diff != "" {
		t.Errorf("parts (-want +got):\n%s", diff)
	}
}

func TestScriptedErrors(t *testing.T) {
	tests := []struct{ name, src, want string }{
		{"failed call", demo, "model: 503 UNAVAILABLE: boom is too much"},
		{"own status", "- error: {code: 429, status: QUOTA, message: enough}", "model: 429 QUOTA: enough"},
		{"default code", "- error: {message: oops}", "model: 500 INTERNAL: oops"},
		{
			"missing value", "- text: \"{order.id}\"",
			"model: 400 INVALID_ARGUMENT: text in the script entry at demo.script.yaml:1:3: Context variable not found: `order.id`.",
		},
		{
			"no match", "- {when: 'agent == \"triage\"', text: hi}",
			`model: 404 NOT_FOUND: no entry of demo.script.yaml answers agent "root", user "boom", step 0, tools [], responses {}; ` +
				`add one, such as - {when: 'agent == "root"', text: …}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := modeltest.Collect(provider.NewScripted(modeltest.Script(t, tt.src), nil).Generate(t.Context(), modeltest.ScriptInput("boom", false)))
			if diff := cmp.Diff(tt.want, modeltest.ErrorText(err)); diff != "" {
				t.Errorf("Generate() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScriptedTimes(t *testing.T) {
	llm := provider.NewScripted(modeltest.Script(t, "- {text: first, times: 2}\n- text: later"), nil)
	var got []string
	for _, session := range []string{"a", "a", "b", "a", "b", "b"} {
		req := modeltest.ScriptInput("hi", false)
		req.Origin.SessionID = session
		rs, err := modeltest.Collect(llm.Generate(t.Context(), req))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, session+" "+modeltest.Outline(rs)[0])
	}
	want := []string{"a first", "a first", "b first", "a later", "b first", "b later"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Generate() (-want +got):\n%s", diff)
	}
}

func TestScriptedEvictsOldSessions(t *testing.T) {
	llm := provider.NewScripted(modeltest.Script(t, "- {text: first, times: 1}\n- text: later"), nil)
	reply := func(session int) string {
		req := modeltest.ScriptInput("hi", false)
		req.Origin.SessionID = fmt.Sprint(session)
		rs, err := modeltest.Collect(llm.Generate(t.Context(), req))
		if err != nil {
			t.Fatal(err)
		}
		return modeltest.Outline(rs)[0]
	}
	for session := range 1025 {
		reply(session)
	}
	if got := reply(1) + " " + reply(0); got != "later first" {
		t.Errorf("sessions 1 and 0 after 1025 others = %q, want \"later first\"", got)
	}
}

func TestScriptedChunks(t *testing.T) {
	tests := []struct {
		name, src string
		want      []string
	}{
		{"a chunk for each word", "- text: ' one two  three '", []string{"+ one ", "+two  ", "+three ", " one two  three "}},
		{"one chunk", "- {text: one two, chunks: 1}", []string{"+one two", "one two"}},
		{"fewer than words", "- {text: one two three, chunks: 2}", []string{"+one ", "+two three", "one two three"}},
		{"more than words", "- {text: día, chunks: 2}", []string{"+d", "+ía", "día"}},
		{"more than characters", "- {text: ab, chunks: 9}", []string{"+a", "+b", "ab"}},
		{"json", "- json: {a: 1}", []string{`+{"a":1}`, `{"a":1}`}},
		{"calls apart", "- {text: hm, calls: [{name: f}, {name: g}]}", []string{"+hm", "+f()", "+g()", "hmf()g()"}},
		{"empty", "- {text: ''}", []string{""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := modeltest.Ask(t, provider.NewScripted(modeltest.Script(t, tt.src), nil), true)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, modeltest.Outline(got)); diff != "" {
				t.Errorf("Generate() (-want +got):\n%s", diff)
			}
		})
	}
	many := provider.NewScripted(modeltest.Script(t, "- text: "+strings.Repeat("word ", 50)), nil)
	if got, err := modeltest.Ask(t, many, true); err != nil || len(got) != 17 {
		t.Errorf("50 words: %d responses, %v, want 16 chunks and the complete response", len(got), err)
	}
}

func TestScriptedDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		llm := provider.NewScripted(modeltest.Script(t, demo), nil)
		for stream, want := range map[bool]time.Duration{false: 50 * time.Millisecond, true: 200 * time.Millisecond} {
			start := time.Now()
			if _, err := modeltest.Collect(llm.Generate(t.Context(), modeltest.ScriptInput("slow", stream))); err != nil {
				t.Fatal(err)
			}
			if took := time.Since(start); took != want {
				t.Errorf("%s: took %v, want %v", modeltest.Mode(stream), took, want)
			}
		}
	})
}

func TestScriptedCallsAreFresh(t *testing.T) {
	llm := provider.NewScripted(modeltest.Script(t, "- {calls: [{name: f}], parts: [{function_call: {name: g}}]}"), nil)
	for range 2 {
		got, err := modeltest.Ask(t, llm, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range model.CallsOf(got[0].Content) {
			if c.ID != "" {
				t.Errorf("call %s has the id %s of an earlier answer", c.Name, c.ID)
			}
			c.ID = "adk-1"
		}
	}
}

func TestDecodeScript(t *testing.T) {
	tests := []struct {
		name, src string
		want      []string
	}{
		{"no list", "text: hi", []string{"s.yaml:1:1: a script must be a list of entries [type]"}},
		{"empty entry", "- times: 1", []string{"s.yaml:1:3: an entry requires text, json, calls, thought, parts, finish, close or error [script]"}},
		{"two texts", "- {text: a, json: {}}", []string{"s.yaml:1:19: text and json are mutually exclusive [script]"}},
		{
			"fails and answers", "- {error: {code: 500}, calls: [{name: f}]}",
			[]string{"s.yaml:1:11: error and calls are mutually exclusive [script]"},
		},
		{
			"tool fails and answers", "- tool: {name: f, error: no, response: {a: 1}}",
			[]string{"s.yaml:1:26: error and response are mutually exclusive [script]"},
		},
		{
			"tool and usage", "- tool: {name: f}\n  usage: {prompt: 1}",
			[]string{"s.yaml:1:9: tool and usage are mutually exclusive [script]"},
		},
		{"no failure", "- error: {code: 200}", []string{"s.yaml:1:17: 200 is not an error status, must be 400 to 599 [value]"}},
		{
			"numbers", "- {text: a, times: 0, chunks: -1, usage: {prompt: -1}}",
			[]string{
				"s.yaml:1:20: must be at least 1 [value]", "s.yaml:1:31: must be at least 1 [value]", "s.yaml:1:51: must be at least 0 [value]",
			},
		},
		{"unknown", "- {txt: a}", []string{
			"s.yaml:1:3: an entry requires text, json, calls, thought, parts, finish, close or error [script]",
			`s.yaml:1:4: unknown field "txt" [unknown-field]`,
		}},
		{"no name", "- {calls: [{args: {}}]}", []string{`s.yaml:1:12: missing field "name" [required]`}},
		{"type", "- {when: xyzzy == 'a', text: hi}", []string{"s.yaml:1:10: unknown name xyzzy [expression]"}},
		{
			"state as a whole", "- {when: 'user == \"\" or state != nil', text: hi}",
			[]string{`s.yaml:1:25: name the state key that you mean: state.tier or state["user:name"] [expression]`},
		},
		{"placeholder", "- {text: 'a {responses.}'}", []string{"s.yaml:1:13: {responses.}: missing name before or after a dot [template]"}},
		{
			"unreachable", "- {text: a}\n- {text: b}\n- {when: 'false', text: c}",
			[]string{
				"s.yaml:2:3: unreachable entry: the one in line 1 always matches [script]",
				"s.yaml:3:3: unreachable entry: the one in line 1 always matches [script]",
			},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n, ds := spec.Parse("s.yaml", []byte(tt.src))
			if err := ds.Err(); err != nil {
				t.Fatal(err)
			}
			_, ds = provider.DecodeScript(n)
			if diff := cmp.Diff(tt.want, ds.Strings()); diff != "" {
				t.Errorf("DecodeScript() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestScriptedCancelWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
		defer cancel()
		got, err := modeltest.Collect(provider.NewScripted(modeltest.Script(t, demo), nil).Generate(ctx, modeltest.ScriptInput("slow", true)))
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Generate() = %v, want deadline exceeded", err)
		}
		if diff := cmp.Diff([]string{"+one ", "+two "}, modeltest.Outline(got)); diff != "" {
			t.Errorf("Generate() (-want +got):\n%s", diff)
		}
	})
}

// A recorded tool call is replayed unchanged, once.
func TestToolReplay(t *testing.T) {
	from := model.Origin{Agent: "a", UserText: "it's\nme", Turn: 2}
	for _, tt := range []struct {
		name string
		call provider.ToolCall
		want string
	}{
		{"an answer", provider.ToolCall{Response: map[string]any{"n": 1.0, "s": []any{"{x}", nil}}}, `args: {}, response: {"n":1.0,"s":["{x}",null]}}`},
		{"an empty answer", provider.ToolCall{Response: map[string]any{}}, `args: {}, response: {}}`},
		{"nothing", provider.ToolCall{Args: map[string]any{"n": int64(7)}}, `args: {"n":7}}`},
		{"a failure", provider.ToolCall{Error: "no \"way\""}, `args: {}, error: "no \"way\""}`},
		{"state", provider.ToolCall{State: map[string]any{"k": "v", "gone": nil}}, `args: {}, state: {"gone":null,"k":"v"}}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var text strings.Builder
			tt.call.Origin, tt.call.Name = from, "f"
			provider.NewRecorder(&text).AddToolCall(&tt.call)
			want := "- when: 'agent == \"a\" and turn == 2 and user == \"it''s\\nme\"'\n  times: 1\n  tool: {name: \"f\", " + tt.want + "\n"
			if diff := cmp.Diff(want, text.String()); diff != "" {
				t.Fatalf("the entry (-want +got):\n%s", diff)
			}
			replay := provider.NewToolReplay(decode(t, text.String()))
			got, err := replay.Answer(t.Context(), from, "f", tt.call.Args)
			if err != nil {
				t.Fatal(err)
			}
			again := provider.ToolCall{Response: got.Response, Error: got.Error, State: got.State}
			recorded := provider.ToolCall{Response: tt.call.Response, Error: tt.call.Error, State: tt.call.State}
			if diff := cmp.Diff(recorded, again); diff != "" {
				t.Errorf("Answer() (-recorded +replayed):\n%s", diff)
			}
			if _, err := replay.Answer(t.Context(), from, "f", tt.call.Args); err == nil || !strings.Contains(err.Error(), "the entry at s.yaml:1:3 answered already") {
				t.Errorf("Answer() again = %v, want that it answered already", err)
			}
		})
	}
}

// The error names the closest entry.
func TestToolReplayMissing(t *testing.T) {
	replay := provider.NewToolReplay(decode(t, "- text: hi\n- when: turn == 9\n  tool: {name: f, args: {a: 1}}\n- when: turn == 1\n  tool: {name: g, args: {a: 1}}\n"))
	for _, tt := range []struct{ name, want string }{
		{"f", "the entry at s.yaml:2:3 is for another message, turn or agent"},
		{"g", `the entry at s.yaml:4:3 has the arguments {"a":1}`},
		{"h", "there is no entry for the tool h"},
	} {
		_, err := replay.Answer(t.Context(), model.Origin{Agent: "a", Turn: 1}, tt.name, map[string]any{"a": 2})
		want := "s.yaml has no answer for this call to " + tt.name + ` by agent "a" in turn 1, with the arguments {"a":2}: ` + tt.want + "; record the conversation again, or add an entry"
		if diff := cmp.Diff(want, modeltest.ErrorText(err)); diff != "" {
			t.Errorf("Answer(%s) (-want +got):\n%s", tt.name, diff)
		}
	}
}

func decode(t *testing.T, text string) *provider.Script {
	t.Helper()
	n, ds := spec.Parse("s.yaml", []byte(text))
	script, more := provider.DecodeScript(n)
	if len(ds)+len(more) > 0 {
		t.Fatalf("%v%v in\n%s", ds, more, text)
	}
	return script
}
