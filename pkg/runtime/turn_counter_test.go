package runtime_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/tool"
)

// replyModel answers each request with the same responses.
type replyModel []*model.Response

func (replyModel) Name() string { return "reply" }

func (m replyModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		for _, resp := range m {
			if !yield(resp, nil) {
				return
			}
		}
	}
}

// readOutcome returns the session's latest outcome.
func readOutcome(t *testing.T, e *testenv.Env, key session.Key) (o session.Outcome) {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.Decode(sess.Outcome); err != nil {
		t.Fatal(err)
	}
	return o
}

// wantOutcome compares the latest outcome without its day, which is always the same.
func wantOutcome(t *testing.T, e *testenv.Env, key session.Key, want session.Outcome) {
	t.Helper()
	got := readOutcome(t, e, key)
	got.Day = 0
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("outcome (-want +got):\n%s", d)
	}
}

// pricedAnswer is an answer with 100 prompt tokens, 20 of them cached, 7 response tokens and a price.
func pricedAnswer(content *genai.Content) *model.Response {
	return &model.Response{
		Content: content, FinishReason: genai.FinishReasonStop,
		UsageMetadata:  &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 100, CachedContentTokenCount: 20, CandidatesTokenCount: 5, ThoughtsTokenCount: 2},
		CustomMetadata: map[string]any{model.CostKey: map[string]any{"usd": 0.0000105}},
	}
}

// A turn counts with its time, its tokens, its price and its protocol, and a client cannot set a
// price.
func TestOutcomeOfTurn(t *testing.T) {
	e := testenv.New(t, nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: replyModel{pricedAnswer(model.ModelText("hi"))}}), nil)
	key := e.Session(t, "app", "s", nil)
	for range 2 {
		req := userMessage(key, "go")
		req.Protocol, req.CustomMetadata = "run_sse", map[string]any{model.CostKey: map[string]any{"usd": 1000.0}}
		formatRun(e.Host.Run(t.Context(), req))
	}
	o := readOutcome(t, e, key)
	// The clock advances by a second each time that it is read.
	want := session.Outcome{
		Protocol: "run_sse", Day: 20778, Turns: 2, Millis: 2000, SquaredMillis: 2_000_000,
		Agents: []session.AgentOutcome{{Agent: "a", Calls: 2, Priced: 2, Input: 200, Cached: 40, Output: 14, NanoUSD: 21_000}},
	}
	if d := cmp.Diff(want, o); d != "" {
		t.Errorf("outcome (-want +got):\n%s", d)
	}
}

// A turn ends with the error code of its last event. One whose last event is not final is unfinished:
// its client left, or its process ended.
func TestOutcomeOfFailure(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: modelFunc(failingModel)}), nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	want := session.Outcome{Turns: 1, Code: "UNAVAILABLE", Millis: 1000, SquaredMillis: 1_000_000}
	wantOutcome(t, e, key, want)

	run := func(context.Context, *tool.Call) (*tool.Result, error) { return nil, errors.New("it broke") }
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{&testTool{name: "f", run: run}}}), nil)
	for _, err := range e.Host.Run(t.Context(), userMessage(key, "go")) {
		if err != nil {
			t.Fatal(err)
		}
		break // after the event with the call
	}
	want.Turns, want.Code, want.Failures = 2, session.CodeUnfinished, []session.CodeCount{{Code: "UNAVAILABLE", Turns: 1}}
	want.Millis, want.SquaredMillis = 2000, 2_000_000
	want.Agents = []session.AgentOutcome{{Agent: "a", ToolCalls: 1}}
	wantOutcome(t, e, key, want)

	formatRun(e.Host.Run(t.Context(), userMessage(key, "again")))
	want.Turns, want.Code, want.Failures = 3, "", append(want.Failures, session.CodeCount{Code: session.CodeUnfinished, Turns: 1})
	want.Millis, want.SquaredMillis = 5000, 11_000_000
	want.Agents = []session.AgentOutcome{{Agent: "a", ToolCalls: 2, ToolErrors: 1}}
	wantOutcome(t, e, key, want)
}

// The event that begins a turn counts the turn alone, and follows the outcome before. A turn that ends there, because
// its process was killed or its client left, is unfinished; the others lose nothing, whatever comes next.
func TestOutcomeOfBegunTurn(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	turn := func(left bool) session.Outcome {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var m model.LLM = replyModel{pricedAnswer(model.ModelText("hi"))}
		if left {
			m = modelFunc(func(context.Context, *model.Request) (*genai.Content, error) {
				cancel()
				return nil, ctx.Err()
			})
		}
		deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: m}), nil)
		formatRun(e.Host.Run(ctx, userMessage(key, "go")))
		return readOutcome(t, e, key)
	}
	turn(false)
	if o := turn(true); o.Turns != 1 || o.Code != session.CodeUnfinished || o.Previous != 2 || o.Agents != nil {
		t.Errorf("the outcome of a begun turn is %+v, want 1 unfinished turn after event 2", o)
	}
	for i, left := range []bool{false, true, true, false} {
		turn(left)
		var sum session.Outcome
		_, err := e.Store.Outcomes.EachSession(t.Context(), &store.OutcomeRequest{App: "app"}, func(s *store.SessionOutcomes) error {
			for j := range s.Outcomes {
				sum.Add(&s.Outcomes[j])
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		want := []struct{ turns, failed, calls int64 }{{3, 1, 2}, {4, 2, 2}, {5, 3, 2}, {6, 3, 3}}[i]
		if sum.Turns != want.turns || sum.CountFailed() != want.failed || sum.Agents[0].Calls != want.calls {
			t.Errorf("after %d more turns the sum is %+v, want %+v", i+1, sum, want)
		}
	}
}

// A confirmation counts with its request and with its answer. A call that waits or is rejected does not
// count as a tool error.
func TestOutcomeOfConfirmation(t *testing.T) {
	for _, confirmed := range []bool{true, false} {
		e := testenv.New(t, nil)
		f := &testTool{name: "f", capabilities: tool.Capabilities{Confirm: alwaysConfirm()}, run: func(context.Context, *tool.Call) (*tool.Result, error) {
			return &tool.Result{Response: map[string]any{"ok": true}}, nil
		}}
		deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{f}}), nil)
		key := e.Session(t, "app", "s", nil)
		formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
		asked := readOutcome(t, e, key)
		if asked.Turns != 1 || asked.Code != "" || asked.Asked != 1 || asked.Approved+asked.Rejected != 0 {
			t.Errorf("outcome after the request: %+v", asked)
		}
		formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": confirmed}, confirmationIDs(t, e, key)...)))
		o := readOutcome(t, e, key)
		if o.Turns != 2 || o.Code != "" || o.Asked != 1 || (o.Approved == 1) != confirmed || o.Approved+o.Rejected != 1 {
			t.Errorf("outcome after the answer %v: %+v", confirmed, o)
		}
		if want := (session.AgentOutcome{Agent: "a", ToolCalls: 1}); o.Agents[0] != want {
			t.Errorf("agent after the answer %v: %+v, want %+v", confirmed, o.Agents[0], want)
		}
	}
}

// Agents called as tools count for the session that called them, and begin no turn.
func TestOutcomeOfInnerRun(t *testing.T) {
	e := testenv.New(t, nil)
	inner := runtime.NewLLM("inner", &runtime.LLMOptions{Model: replyModel{pricedAnswer(model.ModelText("inside"))}})
	call := modelFunc(func(_ context.Context, req *model.Request) (*genai.Content, error) {
		if len(model.ResponsesOf(req.Contents[len(req.Contents)-1])) > 0 {
			return model.ModelText("done"), nil
		}
		return &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "c", Name: "inner", Args: map[string]any{"request": "x"}}}}}, nil
	})
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: call, Tools: []tool.Tool{runtime.NewAgentTool(inner, nil)}}), nil)
	key := e.Session(t, "app", "s", nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	o := readOutcome(t, e, key)
	want := []session.AgentOutcome{{Agent: "a", ToolCalls: 1}, {Agent: "inner", Calls: 1, Priced: 1, Input: 100, Cached: 20, Output: 7, NanoUSD: 10_500}}
	if d := cmp.Diff(want, o.Agents); d != "" || o.Turns != 1 || o.Code != "" {
		t.Errorf("outcome %+v, agents (-want +got):\n%s", o, d)
	}
}

// On another revision, an outcome begins that names the last event on the one before. A rewind takes
// back the conversation and not what it cost.
func TestOutcomeOfRevisions(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	for _, revision := range []string{"r1", "r1", "r2"} {
		root := runtime.NewLLM("a", &runtime.LLMOptions{Model: replyModel{pricedAnswer(model.ModelText("hi"))}})
		deployApp(t, e, root, &runtime.AppOptions{Revision: revision})
		formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	}
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	for ev, err := range e.Host.Rewind(t.Context(), &runtime.RewindRequest{App: "app", UserID: key.User, SessionID: "s", BeforeInvocationID: sess.Events()[0].InvocationID}) {
		if err != nil {
			t.Fatal(ev, err)
		}
	}
	o := readOutcome(t, e, key)
	if o.Revision != "r2" || o.Previous != 4 || o.Turns != 1 || o.Agents[0].Calls != 1 {
		t.Errorf("outcome %+v, want 1 turn on r2 after event 4", o)
	}
}

// A damaged outcome is logged, and counting begins again.
func TestOutcomeDamaged(t *testing.T) {
	var log strings.Builder
	e := testenv.New(t, &testenv.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("hi")}), nil)
	key := e.Session(t, "app", "s", nil)
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	sess.Outcome = []byte("1 damaged")
	if err := e.Store.Sessions.Append(t.Context(), sess, &session.Event{Author: "a"}); err != nil {
		t.Fatal(err)
	}
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	wantOutcome(t, e, key, session.Outcome{Turns: 1, Millis: 1000, SquaredMillis: 1_000_000})
	if !strings.Contains(log.String(), "the session's outcome is damaged, counting from 0") {
		t.Errorf("log: %s", log.String())
	}
}
