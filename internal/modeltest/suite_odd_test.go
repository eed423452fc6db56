package modeltest_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakeodd"
	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// Answers in other forms than the API are read: text with its counts, and two calls with
// their arguments.
func testOdd(t *testing.T, s *suiteSubject) {
	for _, kind := range fakeodd.Kinds() {
		t.Run(strings.ReplaceAll(string(kind), " ", "_"), func(t *testing.T) {
			bothModes(t, func(t *testing.T, stream bool) {
				llm, w := s.build(t, suiteReply{text: []string{"one ", "two"}, usage: true, odd: kind}, suiteReply{calls: lookupCalls(), odd: kind})
				whole := s.generateWhole(t, llm, modeltest.ScriptInput("hi", stream))
				if u := whole.UsageMetadata; model.TextOf(whole.Content) != "one two" || whole.FinishReason != genai.FinishReasonStop || u == nil || u.PromptTokenCount != 12 || u.CandidatesTokenCount != 7 {
					t.Errorf("Generate() = %q, %s, %+v, want one two, STOP and the counts 12 and 7", model.TextOf(whole.Content), whole.FinishReason, u)
				}
				whole = s.generateWhole(t, llm, withTools(modeltest.ScriptInput("hi", stream)))
				var got []any
				for _, c := range model.CallsOf(whole.Content) {
					got = append(got, c.Name, c.Args)
				}
				want := []any{"lookup", map[string]any{"id": "seven"}, "lookup", map[string]any{"id": "eight"}}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("calls (-want +got):\n%s", diff)
				}
				if n := w.countRequests(); n != 2 {
					t.Errorf("%d requests, want 2", n)
				}
			})
		})
	}
}

// An answer without text and calls is a response that ends with STOP and has no parts: the
// runtime makes it the error MODEL_RETURNED_NO_CONTENT.
func testEmpty(t *testing.T, s *suiteSubject) {
	bothModes(t, func(t *testing.T, stream bool) {
		llm, _ := s.build(t, suiteReply{usage: true})
		whole := s.generateWhole(t, llm, modeltest.ScriptInput("hi", stream))
		if len(whole.Content.Parts) != 0 || whole.FinishReason != genai.FinishReasonStop || whole.ErrorCode != "" {
			t.Errorf("Generate() = %+v, want STOP without parts", whole)
		}
	})
}

// Arguments at any depth end at most the turn, with an error that names the cause.
func testDeep(t *testing.T, s *suiteSubject) {
	for _, depth := range []int{1500, 20_000} {
		args := map[string]any{"id": "deepest"}
		for range depth {
			args = map[string]any{"id": args}
		}
		bothModes(t, func(t *testing.T, stream bool) {
			done := suiteReply{text: []string{"done"}}
			llm, _ := s.build(t, suiteReply{calls: []*genai.FunctionCall{{ID: "call_d", Name: "lookup", Args: args}}}, done, done, done)
			a := newSuiteApp(t, llm, runtime.LLMOptions{})
			var onPartial func()
			if stream {
				onPartial = func() {}
			}
			if events, err := a.runTurn(t.Context(), "deep", onPartial); err != nil {
				var failed *runtime.RunError
				if !errors.As(err, &failed) || failed.Code == runtime.CodeInternal {
					t.Errorf("Run() = %q, %v, want an error with a code", events, err)
				}
			}
			if events, err := a.runTurn(t.Context(), "again", onPartial); err != nil {
				t.Errorf("next turn: Run() = %q, %v", events, err)
			}
		})
	}
}
