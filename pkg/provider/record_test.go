package provider_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/spec"
	"agenthost/wing/gemini"
)

// fixedModel yields fixed responses and then an optional error.
type fixedModel struct {
	answers []*model.Response
	err     error
}

func (fixedModel) Name() string { return "fixedModel" }

func (s fixedModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		for _, r := range s.answers {
			if !yield(r, nil) {
				return
			}
		}
		if s.err != nil {
			yield(nil, s.err)
		}
	}
}

// answer returns a complete response with these parts.
func answer(parts ...*genai.Part) *model.Response {
	return &model.Response{Content: &genai.Content{Role: genai.RoleModel, Parts: parts}, FinishReason: genai.FinishReasonStop}
}

func record(t *testing.T, llm model.LLM, req *model.Request) string {
	t.Helper()
	var script strings.Builder
	rec := provider.NewRecorder(&script)
	_, _ = modeltest.Collect(rec.Wrap(llm).Generate(t.Context(), req))
	if err := rec.Err(); err != nil {
		t.Fatal(err)
	}
	return script.String()
}

// Each recorded entry reproduces its response.
func TestRecordReproducesResponses(t *testing.T) {
	text := func(s string) *genai.Part { return &genai.Part{Text: s} }
	call := func(args map[string]any) *genai.Part {
		return &genai.Part{FunctionCall: &genai.FunctionCall{Name: "f", Args: args}}
	}
	chunk := func(p *genai.Part) *model.Response {
		r := answer(p)
		r.Partial, r.FinishReason = true, ""
		return r
	}
	used, cut, blocked := answer(text("Yes.")), answer(text("Once up")), &model.Response{FinishReason: "SAFETY", ErrorCode: "SAFETY", ErrorMessage: "not {this}"}
	used.UsageMetadata = &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 7, CandidatesTokenCount: 2, TotalTokenCount: 9}
	cut.FinishReason = genai.FinishReasonMaxTokens
	cutInChunks := cut.Clone()
	cutInChunks.ErrorCode, cutInChunks.ErrorMessage = "MAX_TOKENS", "too long"
	for _, tt := range []struct {
		name string
		llm  fixedModel
		want string
	}{
		{"text", fixedModel{answers: []*model.Response{used}}, `text: "Yes."; usage: {prompt: 7, candidates: 2}`},
		{"lines", fixedModel{answers: []*model.Response{answer(text("a: # 'b'\n\t\"c\" \u2028 \u0085 \ufeff é 🙂 <"))}}, `text: "a: # 'b'\n\t\"c\" \u2028 \u0085 \ufeff é 🙂 <"`},
		{"thought, text and calls", fixedModel{answers: []*model.Response{answer(
			&genai.Part{Text: "hm", Thought: true}, text("Wait."), call(map[string]any{"n": 1.0, "m": int64(2), "s": []any{"x", nil}}), call(nil),
		)}}, `thought: "hm"; text: "Wait."; calls: [{name: "f", args: {"m":2,"n":1.0,"s":["x",null]}}, {name: "f", args: {}}]`},
		{"placeholders", fixedModel{answers: []*model.Response{answer(text("Say {user} and {!x}"))}}, `parts: [{"text":"Say {user} and {!x}"}]`},
		{"braces", fixedModel{answers: []*model.Response{answer(text(`{"a": {}}`))}}, `text: "{\"a\": {}}"`},
		{"text after a call", fixedModel{answers: []*model.Response{answer(call(nil), text("x"))}}, `parts: [{"functionCall":{"args":{},"name":"f"}}, {"text":"x"}]`},
		{"an id and a signature", fixedModel{answers: []*model.Response{answer(&genai.Part{
			FunctionCall: &genai.FunctionCall{ID: "c1", Name: "f"}, ThoughtSignature: []byte{250, 251, 252},
		})}}, `parts: [{"functionCall":{"id":"c1","args":{},"name":"f"},"thoughtSignature":"-vv8"}]`},
		{"nothing", fixedModel{answers: []*model.Response{answer()}}, `parts: []`},
		{"cut off", fixedModel{answers: []*model.Response{cut}}, `text: "Once up"; finish: {reason: "MAX_TOKENS", message: ""}`},
		{"cut off in chunks", fixedModel{answers: []*model.Response{chunk(text("Once up")), cutInChunks}}, `text: "Once up"; chunks: 1; finish: {reason: "MAX_TOKENS", message: "too long"}`},
		{"blocked", fixedModel{answers: []*model.Response{blocked}}, `parts: []; finish: {reason: "SAFETY", message: "not (this)"}`},
		{"chunks", fixedModel{answers: []*model.Response{chunk(text("one ")), chunk(text("two")), answer(text("one two"))}}, `text: "one two"; chunks: 2`},
		{"raw chunks", fixedModel{answers: []*model.Response{chunk(text("{a} ")), chunk(text("two")), answer(text("{a} two"))}}, `parts: [{"text":"{a} "}, {"text":"two"}]`},
		{"failure", fixedModel{err: &model.Error{Code: 429, Status: "RESOURCE_EXHAUSTED", Message: "no {room}"}}, `error: {code: 429, status: "RESOURCE_EXHAUSTED", message: "no (room)"}`},
		{"no answer", fixedModel{err: &model.Error{Message: "cut"}}, `error: {code: 503, status: "MODEL_ERROR", message: "cut"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			req := modeltest.ScriptInput("it's\nme", len(tt.llm.answers) > 1)
			req.Origin.Turn = 2
			got := record(t, tt.llm, req)
			want := "- when: 'agent == \"root\" and turn == 2 and user == \"it''s\\nme\"'\n  times: 1\n  " + strings.ReplaceAll(tt.want, "; ", "\n  ") + "\n"
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the entry (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(replayOutline(tt.llm, req), replayOutline(replay(t, got), req)); diff != "" {
				t.Errorf("replayed (-recorded +replayed):\n%s\n%s", diff, got)
			}
		})
	}
}

func replay(t *testing.T, script string) model.LLM {
	t.Helper()
	n, ds := spec.Parse("s.yaml", []byte(script))
	decoded, more := provider.DecodeScript(n)
	if len(ds)+len(more) > 0 {
		t.Fatalf("%v%v in\n%s", ds, more, script)
	}
	return provider.NewScripted(decoded, nil)
}

// replayOutline formats responses without the messages and names that a script changes.
func replayOutline(llm model.LLM, req *model.Request) []string {
	var all []string
	for r, err := range llm.Generate(context.Background(), req) {
		if failed, ok := errors.AsType[*model.Error](err); ok {
			all = append(all, failed.EventCode())
			continue
		}
		line := fmt.Sprint(r.Partial, r.FinishReason, r.ErrorCode)
		if r.Content != nil {
			line += r.Content.Role
			for _, p := range r.Content.Parts {
				line += fmt.Sprintf(" %q %v %s", p.Text, p.Thought, p.ThoughtSignature)
				if p.FunctionCall != nil {
					line += fmt.Sprintf("%s %s %v", p.FunctionCall.ID, p.FunctionCall.Name, p.FunctionCall.Args)
				}
			}
		}
		if u := r.UsageMetadata; u != nil {
			line += fmt.Sprint(u.PromptTokenCount, u.CandidatesTokenCount, u.TotalTokenCount)
		}
		all = append(all, line)
	}
	return all
}

// A long message's condition contains its beginning, cut between two characters.
func TestRecordLongMessage(t *testing.T) {
	req := modeltest.ScriptInput(strings.Repeat("é", 101), false)
	got := record(t, fixedModel{answers: []*model.Response{answer(&genai.Part{Text: "ok"})}}, req)
	want := `- when: 'agent == "root" and turn == 0 and user startsWith "` + strings.Repeat("é", 100) + "\"'\n  times: 1\n  text: \"ok\"\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the entry (-want +got):\n%s", diff)
	}
}

// Cancellations and internal errors are not recorded.
func TestRecordCanceled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var script strings.Builder
	rec := provider.NewRecorder(&script)
	for _, err := range []error{&model.Error{Message: "cut"}, errors.New("broken")} {
		_, _ = modeltest.Collect(rec.Wrap(fixedModel{err: err}).Generate(ctx, modeltest.ScriptInput("hi", false)))
	}
	for range rec.Wrap(fixedModel{answers: []*model.Response{{Partial: true, Content: model.ModelText("a")}, answer()}}).Generate(t.Context(), modeltest.ScriptInput("hi", true)) {
		break
	}
	if script.Len() != 0 || rec.Err() != nil {
		t.Errorf("recorded %q, %v, want nothing", &script, rec.Err())
	}
}

type full struct{}

func (full) Write([]byte) (int, error) { return 0, errors.New("the disk is full") }

// The first write error is kept and does not affect responses.
func TestRecordFails(t *testing.T) {
	rec := provider.NewRecorder(full{})
	llm := rec.Wrap(fixedModel{answers: []*model.Response{answer(&genai.Part{Text: "ok"})}})
	for range 2 {
		if got, err := modeltest.Ask(t, llm, false); err != nil || model.TextOf(got[0].Content) != "ok" {
			t.Errorf("Generate() = %v, %v, want ok", modeltest.Outline(got), err)
		}
	}
	if got, want := modeltest.ErrorText(rec.Err()), "recording model responses: the disk is full"; got != want {
		t.Errorf("Err() = %q, want %q", got, want)
	}
}

// Parallel responses are recorded one after the other.
func TestRecordParallel(t *testing.T) {
	var script strings.Builder
	rec := provider.NewRecorder(&script)
	llm := rec.Wrap(fixedModel{answers: []*model.Response{answer(&genai.Part{Text: "ok"})}})
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			_, _ = modeltest.Collect(llm.Generate(context.Background(), modeltest.ScriptInput(fmt.Sprint(i), false)))
		})
	}
	group.Wait()
	again := replay(t, script.String())
	for i := range 8 {
		if _, err := modeltest.Collect(again.Generate(t.Context(), modeltest.ScriptInput(fmt.Sprint(i), false))); err != nil {
			t.Error(err)
		}
	}
}

// A recording model has its model's capabilities.
func TestRecordCapabilities(t *testing.T) {
	rec := provider.NewRecorder(full{})
	gemini, other := rec.Wrap(gemini.New("gemini-x", nil)), rec.Wrap(fixedModel{})
	if !model.CanCache(gemini) || model.CanCache(other) {
		t.Error("CanCache of a recorded model is not that of the model")
	}
	if !model.RunsCode(gemini) || model.RunsCode(other) || model.RunsCode(nil) {
		t.Error("RunsCode of a recorded model is not that of the model")
	}
}

// FuzzRecord records and replays arbitrary text.
// TestRecordLinesAsBlock: an answer of several lines is a literal block, unless a block would change it.
func TestRecordLinesAsBlock(t *testing.T) {
	for _, tt := range []struct{ text, want string }{
		{"# Title\n\n- a: 1\n\t# b\n", "  text: |\n    # Title\n\n    - a: 1\n    \t# b\n"},
		{"one\ntwo", "  text: |-\n    one\n    two\n"},
		{"  one\ntwo", `  text: "  one\ntwo"`},
		{"one\ntwo\n\n", `  text: "one\ntwo\n\n"`},
		{"one\r\ntwo", `  text: "one\r\ntwo"`},
		{"one\u0085\ntwo", `  text: "one\u0085\ntwo"`},
		{"one\n", `  text: "one\n"`},
	} {
		req := modeltest.ScriptInput("hi", false)
		llm := fixedModel{answers: []*model.Response{answer(&genai.Part{Text: tt.text})}}
		script := record(t, llm, req)
		if !strings.Contains(script, tt.want) {
			t.Errorf("%q is recorded as\n%s\nwant\n%s", tt.text, script, tt.want)
		}
		if diff := cmp.Diff(replayOutline(llm, req), replayOutline(replay(t, script), req)); diff != "" {
			t.Errorf("%q replayed (-recorded +replayed):\n%s", tt.text, diff)
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, s := range []string{"# T\n\n- a: 1\n", "a\n b\n\t\nc", "a\n   \nb", "a", "{user}", "{args.}", "a: b # c", "\x00\x7f\u0085\u2028\ufeff\U0001f642", "' \" \\ \n", "{{", "\xff"} {
		f.Add(s, s)
	}
	f.Fuzz(func(t *testing.T, user, text string) {
		text = strings.ToValidUTF8(text, "?")
		if text == "" || user == "" {
			t.Skip()
		}
		req := modeltest.ScriptInput(strings.ToValidUTF8(user, "?"), false)
		llm := fixedModel{answers: []*model.Response{answer(&genai.Part{Text: text})}}
		script := record(t, llm, req)
		if diff := cmp.Diff(replayOutline(llm, req), replayOutline(replay(t, script), req)); diff != "" {
			t.Errorf("replayed (-recorded +replayed):\n%s\n%s", diff, script)
		}
	})
}
