package runtime_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// TestPending: unanswered requests are grouped by their event; rewound requests
// are not pending.
func TestPending(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f", "g"), Tools: []tool.Tool{new(confirmingTool).withName("f"), new(confirmingTool).withName("g")}}), nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	ids := confirmationIDs(t, e, key)
	formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": false}, ids[0])))
	formatRun(e.Host.Run(t.Context(), userMessage(key, "again")))
	ids = append(ids[1:2], confirmationIDs(t, e, key)[2:]...)
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]string
	for _, open := range runtime.Pending(sess.Events()) {
		var row []string
		for _, c := range open.Calls {
			row = append(row, c.ID)
		}
		got = append(got, row)
	}
	if diff := cmp.Diff([][]string{ids[:1], ids[1:]}, got); diff != "" {
		t.Errorf("Pending (-want +got):\n%s", diff)
	}
	first := sess.Events()[0].InvocationID
	back := &session.Event{ID: "back", InvocationID: "e-back", Author: "user", Actions: session.Actions{RewindBeforeInvocationID: first}}
	if err := e.Store.Sessions.Append(t.Context(), sess, back); err != nil {
		t.Fatal(err)
	}
	if got := runtime.Pending(sess.Events()); len(got) != 0 {
		t.Errorf("Pending after the rewind = %v, want none", got)
	}
}

// TestPendingCalls: calls to long-running tools are pending until the user answers them, unless
// their own result is a failure.
func TestPendingCalls(t *testing.T) {
	called := func(ids ...string) *session.Event {
		ev := &session.Event{Author: "a", InvocationID: "i1", LongRunningToolIDs: ids}
		ev.Content = &genai.Content{}
		for _, id := range append(ids, "quick") {
			ev.Content.Parts = append(ev.Content.Parts, &genai.Part{FunctionCall: &genai.FunctionCall{ID: id, Name: "f"}})
		}
		return ev
	}
	answered := func(author, id, key string) *session.Event {
		ev := &session.Event{Author: author, InvocationID: "i1"}
		ev.Content = &genai.Content{Parts: []*genai.Part{
			{FunctionResponse: &genai.FunctionResponse{ID: id, Name: "f", Response: map[string]any{key: "x"}}},
		}}
		return ev
	}
	for name, c := range map[string]struct {
		events []*session.Event
		want   string
	}{
		"one":             {[]*session.Event{called("c1")}, "[[c1]]"},
		"two of an event": {[]*session.Event{called("c1", "c2")}, "[[c1 c2]]"},
		"two events":      {[]*session.Event{called("c1"), called("c2")}, "[[c1] [c2]]"},
		"answered":        {[]*session.Event{called("c1", "c2"), answered("user", "c1", "result")}, "[[c2]]"},
		"answered twice":  {[]*session.Event{called("c1"), answered("user", "c1", "error"), answered("user", "c1", "result")}, "[]"},
		"a ticket":        {[]*session.Event{called("c1"), answered("a", "c1", "status")}, "[[c1]]"},
		"failed":          {[]*session.Event{called("c1"), answered("a", "c1", "error")}, "[]"},
		"approved":        {[]*session.Event{called("c1"), answered("a", "c1", "error"), answered("a", "c1", "status")}, "[[c1]]"},
		"an id again":     {[]*session.Event{called("c1"), answered("user", "c1", "result"), called("c1")}, "[[c1]]"},
		"rewound":         {[]*session.Event{called("c1"), {Author: "user", InvocationID: "i2", Actions: session.Actions{RewindBeforeInvocationID: "i1"}}}, "[]"},
	} {
		t.Run(name, func(t *testing.T) {
			ids := [][]string{}
			for _, w := range runtime.Pending(c.events) {
				var row []string
				for _, call := range w.Calls {
					row = append(row, call.ID)
				}
				ids = append(ids, row)
			}
			if got := fmt.Sprint(ids); got != c.want {
				t.Errorf("Pending = %s, want %s", got, c.want)
			}
		})
	}
}

// rewindToCall rewinds a session to the last call to a function.
func rewindToCall(t *testing.T, e *testenv.Env, key session.Key, name string) {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, ev := range sess.Events() {
		for _, c := range ev.Calls() {
			if c.Name == name {
				last = ev.ID
			}
		}
	}
	req := &runtime.RewindRequest{App: key.App, UserID: key.User, SessionID: key.ID, AfterEventID: last}
	if out := formatRun(e.Host.Rewind(t.Context(), req)); out != "" {
		t.Fatalf("Rewind = %q", out)
	}
}

func countPendingCalls(t *testing.T, e *testenv.Env, key session.Key) int {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	return len(runtime.Pending(sess.Events()))
}

// TestDecisionAfterRewind: a decision is final. After a rewind to the confirmation
// request, the request is not pending and a second answer is rejected.
func TestDecisionAfterRewind(t *testing.T) {
	for _, resumable := range []bool{false, true} {
		for _, confirmed := range []bool{true, false} {
			runs := 0
			pay := &testTool{name: "f", capabilities: tool.Capabilities{Confirm: alwaysConfirm()}, run: func(context.Context, *tool.Call) (*tool.Result, error) {
				runs++
				return nil, nil
			}}
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{pay}}), &runtime.AppOptions{Resumable: resumable})
			formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
			ids := confirmationIDs(t, e, key)
			formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": confirmed}, ids...)))
			before := runs
			rewindToCall(t, e, key, runtime.RequestConfirmation)
			if n := countPendingCalls(t, e, key); n != 0 {
				t.Errorf("%d calls wait after the rewind, want none", n)
			}
			got := formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": true}, ids...)))
			want := "error INVALID_REQUEST: the confirmation " + ids[0] + " was answered before the session was rewound: rewind to before the call to answer it again\n"
			if got != want || runs != before {
				t.Errorf("resumable %t, confirmed %t: second answer = %q after %d runs and %d more, want %q", resumable, confirmed, got, before, runs-before, want)
			}
			if out := formatRun(e.Host.Run(t.Context(), userMessage(key, "and now"))); strings.Contains(out, "error INVALID") {
				t.Errorf("the session continues with %q", out)
			}
		}
	}
}

// TestDecisionConcurrent: if two hosts that share a database get approvals at once, only one
// executes the call.
func TestDecisionConcurrent(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	var runs atomic.Int32
	host := func(first int) *testenv.Env {
		e := testenv.New(t, &testenv.Options{URL: url, FirstID: first})
		pay := &testTool{name: "f", capabilities: tool.Capabilities{Confirm: alwaysConfirm()}, run: func(context.Context, *tool.Call) (*tool.Result, error) {
			runs.Add(1)
			return nil, nil
		}}
		deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{pay}}), nil)
		return e
	}
	hosts := []*testenv.Env{host(1), host(5000)}
	key := hosts[0].Session(t, "app", "s", nil)
	formatRun(hosts[0].Host.Run(t.Context(), userMessage(key, "go")))
	ids := confirmationIDs(t, hosts[0], key)
	var wg sync.WaitGroup
	for _, e := range hosts {
		for range 3 {
			wg.Go(func() {
				formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": true}, ids...)))
			})
		}
	}
	wg.Wait()
	if n := runs.Load(); n != 1 {
		t.Errorf("the tool ran %d times, want once", n)
	}
}

// TestAnswerAfterRewind: an answer to a long-running call executes nothing, so
// after a rewind the call accepts a different answer.
func TestAnswerAfterRewind(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	ask := &testTool{name: "f", capabilities: tool.Capabilities{LongRunning: true}, run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{ask}}), nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	answer := func(text string) string {
		req := userMessage(key, "")
		req.Message = &genai.Content{Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
			ID: e.CallIDs(t, key, "f")[0], Name: "f", Response: map[string]any{"result": text},
		}}}}
		return formatRun(e.Host.Run(t.Context(), req))
	}
	if got := answer("left"); got != "a: done\n" {
		t.Errorf("first answer: %q", got)
	}
	if got := answer("right"); !strings.Contains(got, "it already has its final answer") {
		t.Errorf("second answer: %q, want an error that it is already answered", got)
	}
	rewindToCall(t, e, key, "f")
	if n := countPendingCalls(t, e, key); n != 1 {
		t.Errorf("%d calls wait after the rewind, want 1", n)
	}
	if got := answer("right"); got != "a: done\n" {
		t.Errorf("answer after the rewind: %q", got)
	}
}

// TestAnswerAfterCrash: a final answer can be sent again unchanged if its run ended
// before an agent processed it.
func TestAnswerAfterCrash(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	ask := &testTool{name: "f", capabilities: tool.Capabilities{LongRunning: true}, run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{ask}}), nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	given := func(text string) *genai.Content {
		return &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
			ID: e.CallIDs(t, key, "f")[0], Name: "f", Response: map[string]any{"result": text},
		}}}}
	}
	stored := &session.Event{Author: session.UserAuthor, InvocationID: "e-cut"}
	stored.Content = given("left")
	if err := e.Store.Sessions.Append(t.Context(), sess, stored); err != nil {
		t.Fatal(err)
	}
	for _, again := range []struct{ text, want string }{{"right", "error INVALID_REQUEST: cannot answer the call"}, {"left", "a: done"}} {
		req := userMessage(key, "")
		req.Message = given(again.text)
		if got := formatRun(e.Host.Run(t.Context(), req)); !strings.HasPrefix(got, again.want) {
			t.Errorf("answer %q again: %q, want %q", again.text, got, again.want)
		}
	}
}
