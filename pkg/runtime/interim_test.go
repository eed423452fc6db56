package runtime_test

import (
	"context"
	"errors"
	"fmt"
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

// An interimTool stores a ticket as its interim response, and then waits.
type interimTool struct {
	*testTool
	// attempts are the interim responses that the attempts received.
	attempts []string
	// abandoned reports that an attempt was canceled, and that none will follow.
	abandoned bool
}

func newInterimTool(wait func(ctx context.Context) error) *interimTool {
	it := &interimTool{}
	it.testTool = &testTool{name: "work", capabilities: tool.Capabilities{StoresInterim: true}, run: func(ctx context.Context, call *tool.Call) (*tool.Result, error) {
		it.attempts = append(it.attempts, fmt.Sprint(call.Interim))
		if call.Interim == nil {
			if err := call.StoreInterim(ctx, map[string]any{"ticket": "7"}); err != nil {
				return nil, err
			}
		}
		if err := wait(ctx); err != nil {
			it.abandoned = call.IsAbandoned()
			return nil, err
		}
		return &tool.Result{Response: map[string]any{"ok": true}}, nil
	}}
	return it
}

// runInterim continues a history with the tools work and look, and returns all stored events and what
// the model read about the calls.
func runInterim(t *testing.T, work *interimTool, history []*session.Event) (all []*session.Event, seen string) {
	t.Helper()
	e := testenv.New(t, &testenv.Options{FirstID: 1000 * (len(history) + 1)})
	key := e.Session(t, "app", "s", nil)
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	llm := modelFunc(func(ctx context.Context, req *model.Request) (*genai.Content, error) {
		for _, r := range model.ResponsesOf(req.Contents[len(req.Contents)-1]) {
			seen += fmt.Sprint(r.Name, r.Response)
		}
		return toolCallModel("work", "look")(ctx, req)
	})
	look := &testTool{name: "look", run: func(context.Context, *tool.Call) (*tool.Result, error) {
		return &tool.Result{Response: map[string]any{"ok": true}}, nil
	}}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: llm, Tools: []tool.Tool{work, look}}), &runtime.AppOptions{Resumable: true})
	req := userMessage(key, "go")
	for _, ev := range history {
		stored := *ev
		stored.Seq = 0
		if err := e.Store.Sessions.Append(t.Context(), sess, &stored); err != nil {
			t.Fatal(err)
		}
		req.Message, req.InvocationID = nil, ev.InvocationID
	}
	formatRun(e.Host.Run(t.Context(), req))
	return storedEvents(t, e, key), seen
}

// TestInterimResponse: a call's interim response is stored before the call continues. When the
// process ends after any event, the resumed invocation makes the call again with that response, if it
// has no result: the history is the same, and the model reads the result.
func TestInterimResponse(t *testing.T) {
	format := func(events []*session.Event) string {
		var b strings.Builder
		for _, ev := range events {
			b.WriteString(formatEvent(ev) + "\n")
		}
		return b.String()
	}
	atOnce := func(context.Context) error { return nil }
	whole, seen := runInterim(t, newInterimTool(atOnce), nil)
	want := `user: go
a: call work call look
a: work map[ticket:7]
a: work map[ok:true] look map[ok:true]
a: done
a: 
`
	if diff := cmp.Diff(want, format(whole)); diff != "" || seen != "workmap[ok:true]lookmap[ok:true]" {
		t.Fatalf("the model read %s; the events are (-want +got):\n%s", seen, diff)
	}
	for cut, attempts := range []string{0: "", 1: "[map[]]", 2: "[map[]]", 3: "[map[ticket:7]]", 4: "[]", 5: "[]"} {
		if cut == 0 {
			continue
		}
		work := newInterimTool(atOnce)
		all, _ := runInterim(t, work, whole[:cut])
		if diff := cmp.Diff(want, format(all)); diff != "" || fmt.Sprint(work.attempts) != attempts {
			t.Errorf("after event %d: attempts %v, want %s (-want +got):\n%s", cut, work.attempts, attempts, diff)
		}
	}
}

// TestInterimAbandoned: a call that is canceled learns whether another attempt will follow: not if the
// client left or stopped the run, if the time is up, or if the app is not resumable. A shutdown and
// another replica leave the call to them.
func TestInterimAbandoned(t *testing.T) {
	timeUp := &runtime.RunError{Code: runtime.CodeTimeLimit, Message: "time is up"}
	left := func(is bool) func() bool { return func() bool { return is } }
	for _, tt := range []struct {
		name       string
		fixed      bool // the app is not resumable
		cause      error
		clientLeft func() bool
		want       bool
	}{
		{"the client left", false, context.Canceled, left(true), true},
		{"a shutdown", false, context.Canceled, left(false), false},
		{"a shutdown without resumability", true, context.Canceled, left(false), true},
		{"a caller without a client", false, context.Canceled, nil, true},
		{"stopped", false, store.ErrStopped, left(false), true},
		{"the time is up", false, timeUp, left(false), true},
		{"another replica", false, session.ErrFenced, left(true), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			work := newInterimTool(func(ctx context.Context) error {
				cancel(tt.cause)
				<-ctx.Done()
				return ctx.Err()
			})
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("work"), Tools: []tool.Tool{work}}), &runtime.AppOptions{Resumable: !tt.fixed})
			req := userMessage(key, "go")
			req.ClientLeft = tt.clientLeft
			formatRun(e.Host.Run(ctx, req))
			if len(work.attempts) != 1 || work.abandoned != tt.want {
				t.Errorf("attempts %v, abandoned %v, want %v", work.attempts, work.abandoned, tt.want)
			}
			events := storedEvents(t, e, key)
			last := formatEvent(events[len(events)-1])
			wantAnswer := errors.Is(tt.cause, context.Canceled) && tt.clientLeft != nil && tt.clientLeft() || errors.Is(tt.cause, store.ErrStopped)
			if wantAnswer != strings.Contains(last, "the client left") {
				t.Errorf("the last event is %s", last)
			}
		})
	}
}

// TestInterimUnavailable: an agent that is called as a tool has a temporary session, in which nothing
// can be stored for later.
func TestInterimUnavailable(t *testing.T) {
	var stores bool
	work := &testTool{name: "work", capabilities: tool.Capabilities{StoresInterim: true}, run: func(_ context.Context, call *tool.Call) (*tool.Result, error) {
		stores = call.StoreInterim != nil
		return &tool.Result{Response: map[string]any{"ok": true}}, nil
	}}
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	inner := runtime.NewLLM("inner", &runtime.LLMOptions{Model: toolCallModel("work"), Tools: []tool.Tool{work}})
	callInner := modelFunc(func(ctx context.Context, req *model.Request) (*genai.Content, error) {
		c, err := toolCallModel("inner")(ctx, req)
		for _, call := range model.CallsOf(c) {
			call.Args = map[string]any{"request": "go"}
		}
		return c, err
	})
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: callInner, Tools: []tool.Tool{runtime.NewAgentTool(inner, nil)}}), nil)
	if got := formatRun(e.Host.Run(t.Context(), userMessage(key, "go"))); !strings.Contains(got, "inner map[result:done]") || stores {
		t.Errorf("stores %v:\n%s", stores, got)
	}
}
