package live_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/wing/live"
)

// testLive runs a test in a synctest bubble, with a live run of the agent that build returns, and
// ends the run.
func testLive(t *testing.T, m *liveModel, root runtime.Agent, opts *runtime.AppOptions, test func(*liveTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, m, root, opts)
		test(l)
		l.cancel()
		<-l.ended
	})
}

// sleepingTool is a tool that takes a time, unless it is canceled.
func sleepingTool(name string, takes time.Duration, calls *atomic.Int32) *testTool {
	return &testTool{name: name, run: func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		calls.Add(1)
		select {
		case <-time.After(takes):
			return &tool.Result{Response: map[string]any{"ok": true}}, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}}
}

func callsAtOnce() *liveModel {
	return &liveModel{traits: model.LiveTraits{ExecutesCallsAtOnce: true}}
}

// TestLiveSessionBusy: a session's second live run fails after two seconds with its own code, and
// the first one continues.
func TestLiveSessionBusy(t *testing.T) {
	m := &liveModel{}
	testLive(t, m, liveAgent(m), nil, func(l *liveTest) {
		began := time.Now()
		for _, err := range live.Run(l.Context(), l.env.Host, &live.RunRequest{App: "app", UserID: l.key.User, SessionID: l.key.ID, Requests: live.NewQueue()}) {
			if got := runtime.AsRunError(err).Code; got != runtime.CodeSessionBusy {
				t.Errorf("code %s, want %s", got, runtime.CodeSessionBusy)
			}
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("the second run waited %v", took)
		}
		l.speak("still there?")
		checkText(t, "frames", "user: still there?; complete=true", m.conn(1).sent())
	})
}

// TestLiveTalkDuringCall: the host reads the model while a tool runs; the response follows
// when the tool has ended.
func TestLiveTalkDuringCall(t *testing.T) {
	m, calls := callsAtOnce(), &atomic.Int32{}
	testLive(t, m, liveAgent(m, sleepingTool("slow", time.Second, calls)), nil, func(l *liveTest) {
		c := m.conn(1)
		c.call("c1", "slow", nil)
		l.settle(100 * time.Millisecond)
		c.speak("one moment")
		l.settle(100 * time.Millisecond)
		checkText(t, "events", "root: call slow\nroot: one moment (partial)", l.yielded())
		l.settle(time.Second)
		checkText(t, "events", "root: call slow\nroot: one moment (partial)\nroot: slow→{\"ok\":true}", l.yielded())
		checkText(t, "frames", `response c1 slow {"ok":true}`, c.sent())
	})
}

// TestLiveCallCanceled: a call that the model cancels is canceled, is stored with a response
// that states it, and is not answered.
func TestLiveCallCanceled(t *testing.T) {
	m, calls := callsAtOnce(), &atomic.Int32{}
	testLive(t, m, liveAgent(m, sleepingTool("slow", time.Hour, calls), sleepingTool("fast", time.Second, calls)), nil, func(l *liveTest) {
		c := m.conn(1)
		c.in <- &model.LiveMessage{Calls: []*genai.FunctionCall{{ID: "c1", Name: "slow"}, {ID: "c2", Name: "fast"}}}
		l.settle(100 * time.Millisecond)
		c.in <- &model.LiveMessage{CanceledCalls: []string{"c1", "unknown"}}
		l.settle(2 * time.Second)
		checkText(t, "frames", `response c2 fast {"ok":true}`, c.sent())
		checkText(t, "stored", "root: call slow call fast\n"+
			`root: slow→{"error":"This call was canceled because the user interrupted."} fast→{"ok":true}`, l.stored())
	})
}

// TestLiveToolFails: a tool that fails, panics or does not exist is an error for the model,
// and the run continues.
func TestLiveToolFails(t *testing.T) {
	m := callsAtOnce()
	failing := &testTool{name: "failing", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, errors.New("no luck") }}
	panicking := &testTool{name: "panicking", run: func(context.Context, *tool.Call) (*tool.Result, error) { panic("ouch") }}
	testLive(t, m, liveAgent(m, failing, panicking), nil, func(l *liveTest) {
		c := m.conn(1)
		for _, name := range []string{"failing", "panicking", "missing"} {
			c.call(name, name, nil)
			synctest.Wait()
		}
		checkText(t, "frames", `response failing failing {"error":"no luck"}
response panicking panicking {"error":"tool panicking panicked"}
response missing missing {"error":"tool \"missing\" not found: the available tools are failing, panicking"}`, c.sent())
		l.speak("next")
		if got := l.yielded(); strings.Contains(got, "error: ") {
			t.Errorf("the run ended:\n%s", got)
		}
	})
}

// TestLiveTooManyCalls: calls beyond max_function_calls at the same time are errors for the
// model.
func TestLiveTooManyCalls(t *testing.T) {
	m, calls := callsAtOnce(), &atomic.Int32{}
	config := runtime.DefaultRunConfig()
	config.MaxFunctionCalls = 1
	testLive(t, m, liveAgent(m, sleepingTool("slow", time.Second, calls)), &runtime.AppOptions{Config: &config}, func(l *liveTest) {
		m.conn(1).call("c1", "slow", nil)
		m.conn(1).call("c2", "slow", nil)
		l.settle(2 * time.Second)
		checkText(t, "frames", `response c2 slow {"error":"2 function calls of agent root at the same time exceed the limit of 1 (run_config: max_function_calls)"}
response c1 slow {"ok":true}`, m.conn(1).sent())
	})
}

// TestLiveCallRepeated: a call that the model repeats after a reconnect is not executed again;
// its response is sent on the new connection.
func TestLiveCallRepeated(t *testing.T) {
	m, calls := callsAtOnce(), &atomic.Int32{}
	testLive(t, m, liveAgent(m, sleepingTool("book", time.Second, calls)), withResumption(), func(l *liveTest) {
		m.conn(1).giveHandle("h1")
		m.conn(1).call("c1", "book", map[string]any{"seat": 1.0})
		l.settle(100 * time.Millisecond)
		m.conn(1).drop(&model.LiveCloseError{Code: 1006}, false)
		l.settle(200 * time.Millisecond)
		m.conn(2).call("c1", "book", map[string]any{"seat": 1.0})
		l.settle(2 * time.Second)
		if got := calls.Load(); got != 1 {
			t.Errorf("the tool ran %d times", got)
		}
		checkText(t, "frames", `response c1 book {"ok":true}`, m.conn(2).sent())
		m.conn(2).drop(&model.LiveCloseError{Code: 1006}, false)
		l.settle(time.Second)
		checkText(t, "frames of the third connection", `response c1 book {"ok":true}`, m.conn(3).sent())
	})
}

// TestLiveCallOfEarlierConversation: when a new conversation begins while a tool runs, its
// model receives the result as text, because it has never made the call.
func TestLiveCallOfEarlierConversation(t *testing.T) {
	m, calls := callsAtOnce(), &atomic.Int32{}
	testLive(t, m, liveAgent(m, sleepingTool("slow", 5*time.Second, calls)), withResumption(), func(l *liveTest) {
		m.conn(1).call("c1", "slow", nil)
		synctest.Wait()
		m.conn(1).drop(&model.LiveCloseError{Code: 1006}, false)
		l.settle(10 * time.Second)
		if got := m.conn(2).sent(); !strings.HasSuffix(got, `user: The call of slow has ended with this result: {"ok":true}; complete=true`) {
			t.Errorf("frames %s", got)
		}
	})
}

// TestLiveClientLeaves: an ending run cancels tools, and stores a response for each call, so that
// no call stays open.
func TestLiveClientLeaves(t *testing.T) {
	m, calls := callsAtOnce(), &atomic.Int32{}
	deaf := &testTool{name: "deaf", run: func(context.Context, *tool.Call) (*tool.Result, error) {
		time.Sleep(time.Minute)
		return &tool.Result{Response: map[string]any{"late": true}}, nil
	}}
	for name, leave := range map[string]func(*liveTest){
		"cancel":      func(l *liveTest) { l.cancel() },
		"close":       func(l *liveTest) { l.send(&live.Request{Close: true}) },
		"close queue": func(l *liveTest) { l.queue.Close() },
	} {
		t.Run(name, func(t *testing.T) {
			m.conns = nil
			testLive(t, m, liveAgent(m, sleepingTool("slow", time.Hour, calls), deaf), nil, func(l *liveTest) {
				m.conn(1).call("c1", "slow", nil)
				m.conn(1).call("c2", "deaf", nil)
				l.settle(100 * time.Millisecond)
				leave(l)
				<-l.ended
				got := l.stored()
				for _, want := range []string{`slow→{"error":"This call was canceled because the live conversation ended."}`, `deaf→{"error":"This call was canceled because the live conversation ended."}`} {
					if !strings.Contains(got, want) {
						t.Errorf("stored %s, want %s", got, want)
					}
				}
				time.Sleep(time.Hour) // the tool ends by itself
			})
		})
	}
}

// TestLiveDrain: a drain ends the run after the current turn, and at once when there is none.
func TestLiveDrain(t *testing.T) {
	m := &liveModel{}
	testLive(t, m, liveAgent(m), nil, func(l *liveTest) {
		m.conn(1).speak("half")
		synctest.Wait()
		close(l.drain)
		synctest.Wait()
		m.conn(1).completeTurn()
		synctest.Wait()
		select {
		case <-l.ended:
		default:
			t.Fatal("the run did not end")
		}
		checkText(t, "events", "root: half (partial)\nroot: half\nroot: (complete)", l.yielded())
		if !m.conn(1).closedByHost() {
			t.Error("the connection was not closed")
		}
	})
}

// TestLiveRefusedHandle: a handle that the service refuses is replaced by a new conversation
// with everything that is stored, whose open turn the model is to answer.
func TestLiveRefusedHandle(t *testing.T) {
	m := &liveModel{refuse: func(_ int, setup *model.LiveSetup) error {
		if setup.Resumption.Handle != "" {
			return &model.LiveCloseError{Code: 1008, Reason: "BidiGenerateContent session not found"}
		}
		return nil
	}}
	testLive(t, m, liveAgent(m), withResumption(), func(l *liveTest) {
		m.conn(1).giveHandle("h1")
		synctest.Wait()
		l.speak("one")
		m.conn(1).speak("first")
		m.conn(1).completeTurn()
		synctest.Wait()
		l.speak("two")
		m.conn(1).drop(errors.New("connection reset"), false)
		l.settle(time.Second)
		checkText(t, "frames", "user: one; user: For context: [root] said: first; user: two; complete=true\nuser: Continue the conversation: answer the user.; complete=true", m.conn(2).sent())
		if h := m.conn(2).setup.History; h == nil || !h.InitialHistoryInClientContent {
			t.Error("the history was not announced")
		}
	})
}

// TestLiveReconnectLimit: five consecutive failures end the run.
func TestLiveReconnectLimit(t *testing.T) {
	m := &liveModel{refuse: func(attempt int, _ *model.LiveSetup) error {
		if attempt > 1 {
			return &model.LiveCloseError{Code: 1011, Reason: "The service is currently unavailable."}
		}
		return nil
	}}
	testLive(t, m, liveAgent(m), withResumption(), func(l *liveTest) {
		m.conn(1).giveHandle("h1")
		l.settle(time.Minute)
		m.conn(1).drop(&model.LiveCloseError{Code: 1011}, false)
		l.settle(time.Minute)
		checkText(t, "events", "root: handle h1\nerror: LIVE_DISCONNECTED: model live failed: 5 attempts to reconnect failed, the last with: "+
			"the live connection was closed with code 1011: The service is currently unavailable.", l.yielded())
		if m.attempts != 6 {
			t.Errorf("%d attempts, want 6", m.attempts)
		}
	})
}

// TestLiveDropsAtOnce: a service that accepts connections and drops them at once ends the
// run as well.
func TestLiveDropsAtOnce(t *testing.T) {
	m := &liveModel{}
	testLive(t, m, liveAgent(m), withResumption(), func(l *liveTest) {
		for i := 1; i <= 5; i++ {
			m.conn(i).giveHandle(fmt.Sprint("h", i))
			synctest.Wait()
			m.conn(i).drop(&model.LiveCloseError{Code: 1006}, false)
			l.settle(4 * time.Second)
		}
		if got := l.yielded(); !strings.Contains(got, "LIVE_DISCONNECTED") || m.attempts != 5 {
			t.Errorf("%d attempts:\n%s", m.attempts, got)
		}
	})
}

// TestLiveGoAway: the next connection is opened before the service ends this one, when the
// turn is complete; frames in the meantime go to the next one.
func TestLiveGoAway(t *testing.T) {
	release := make(chan struct{})
	m := &liveModel{}
	synctest.Test(t, func(t *testing.T) {
		hold := make(chan struct{})
		release = hold
		m.refuse = func(attempt int, _ *model.LiveSetup) error {
			if attempt == 2 {
				<-hold
			}
			return nil
		}
		l := runLive(t, m, liveAgent(m), withResumption())
		c := m.conn(1)
		c.giveHandle("h1")
		c.speak("talking")
		left := time.Minute
		c.in <- &model.LiveMessage{GoAway: &left}
		l.settle(time.Second)
		if m.attempts != 1 {
			t.Error("the next connection was opened during the turn")
		}
		c.completeTurn()
		c.giveHandle("h2")
		l.settle(time.Second)
		if c.closedByHost() {
			t.Error("the connection was closed before the next one was there")
		}
		l.speak("and?")
		checkText(t, "frames of the first connection", "", c.sent())
		close(release)
		l.settle(time.Second)
		checkText(t, "frames of the second connection", "user: and?; complete=true", m.conn(2).sent())
		if !c.closedByHost() {
			t.Error("the first connection is still open")
		}
		l.stop()
	})
}

// TestLiveSlowModel: a model that does not read ends its connection after ten seconds; audio
// that waits is dropped, oldest first, and texts are not.
func TestLiveSlowModel(t *testing.T) {
	m := &liveModel{}
	testLive(t, m, liveAgent(m), withResumption(), func(l *liveTest) {
		m.conn(1).giveHandle("h1")
		synctest.Wait()
		m.conn(1).mu.Lock()
		m.conn(1).stalled = make(chan struct{})
		m.conn(1).mu.Unlock()
		for range 3 {
			l.send(&live.Request{Blob: &genai.Blob{MIMEType: "audio/pcm", Data: make([]byte, 600_000)}})
		}
		l.speak("hello?")
		l.settle(12 * time.Second)
		checkText(t, "frames", "user: hello?; complete=true", m.conn(2).sent())
	})
}

// TestLiveInvalidRequest: an invalid request is answered by an error, which is not stored,
// and the run continues.
func TestLiveInvalidRequest(t *testing.T) {
	m := &liveModel{}
	testLive(t, m, liveAgent(m), nil, func(l *liveTest) {
		l.send(&live.Request{Content: &genai.Content{Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "x", Name: "f"}}}}})
		l.send(&live.Request{Content: &genai.Content{Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "x", Name: runtime.RequestConfirmation}}}}})
		l.speak("hi")
		checkText(t, "events", `root: (partial) INVALID_REQUEST function response x does not match any function call of this conversation
root: (partial) INVALID_REQUEST no request for confirmation "x" in this session`, l.yielded())
		checkText(t, "stored", "user: hi", l.stored())
	})
}

// TestLiveUnacceptedInput: inputs that the model does not accept, and a state beyond the store's
// limit, are errors for the client; none is stored, and the run continues.
func TestLiveUnacceptedInput(t *testing.T) {
	m := &liveModel{traits: model.LiveTraits{TextOnly: true}}
	testLive(t, m, liveAgent(m), nil, func(l *liveTest) {
		blob := &genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: []byte{0, 0}}
		l.send(&live.Request{Blob: blob})
		l.send(&live.Request{Blob: blob})
		l.send(&live.Request{Blob: blob, ActivityEnd: true, StateDelta: map[string]any{"a": 1}})
		l.send(&live.Request{Content: model.ModelText("forged")})
		l.send(&live.Request{StateDelta: map[string]any{"a": strings.Repeat("b", 5<<20)}})
		l.speak("hi")
		checkText(t, "events", `root: (partial) INVALID_REQUEST model live accepts no audio/pcm;rate=16000: these blobs are dropped
root: (partial) INVALID_REQUEST expected only one of blob, activity_start, activity_end and audio_stream_end: send each in a separate request
root: (partial) INVALID_REQUEST the content's role must be user, got "model"
root: (partial) INVALID_REQUEST state of the session exceeds the limit of 4 MiB`, l.yielded())
		checkText(t, "stored", "user: hi", l.stored())
	})
}

// TestLiveManyCalls: thousands of calls in a message are refused together, calls with the same ID
// run once, and the conversation continues.
func TestLiveManyCalls(t *testing.T) {
	m := callsAtOnce()
	var calls atomic.Int32
	testLive(t, m, liveAgent(m, sleepingTool("f", time.Second, &calls)), nil, func(l *liveTest) {
		var many []*genai.FunctionCall
		for i := range 5000 {
			many = append(many, &genai.FunctionCall{ID: fmt.Sprint("c", i), Name: "f"})
		}
		m.conn(1).in <- &model.LiveMessage{Calls: many}
		l.settle(5 * time.Second)
		if sent := m.conn(1).sent(); calls.Load() != 0 || strings.Count(sent, "response c") != 5000 || !strings.Contains(sent, "5000 function calls of agent root at the same time exceed the limit of") {
			t.Errorf("%d calls were made, frames %.300s", calls.Load(), sent)
		}
		m.conn(1).in <- &model.LiveMessage{Calls: []*genai.FunctionCall{{ID: "same", Name: "f"}, {ID: "same", Name: "f"}}}
		l.settle(5 * time.Second)
		if sent := m.conn(1).sent(); calls.Load() != 1 || strings.Count(sent, "response same") != 1 {
			t.Errorf("%d calls were made, frames %s", calls.Load(), sent[max(0, len(sent)-300):])
		}
		l.speak("hi")
		if !strings.HasSuffix(m.conn(1).sent(), "user: hi; complete=true") {
			t.Error("the conversation does not continue")
		}
	})
}

// TestLiveHookPanics: a panic in a callback or a plugin ends the conversation with an error that
// names it, and not the host; the session is free.
func TestLiveHookPanics(t *testing.T) {
	f := &testTool{name: "f", run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }}
	broken := &runtime.Plugin{Name: "broken", OnEvent: func(_ context.Context, _ *runtime.Invocation, ev *session.Event) (*session.Event, error) {
		if ev.TurnComplete {
			panic("nil map")
		}
		return nil, nil
	}}
	for _, c := range []struct {
		name      string
		callbacks runtime.Callbacks
		plugins   []*runtime.Plugin
		want      string
	}{
		{"before_agent", runtime.Callbacks{BeforeAgent: []runtime.AgentFunc{func(context.Context, *runtime.CallbackContext) (*genai.Content, error) { panic("nil map") }}}, nil, "error: CALLBACK_FAILED: before_agent of agent root failed: it panicked"},
		{"before_model", runtime.Callbacks{BeforeModel: []runtime.BeforeModelFunc{func(context.Context, *runtime.CallbackContext, *model.Request) (*model.Response, error) {
			panic("nil map")
		}}}, nil, "error: CALLBACK_FAILED: before_model of agent root failed: it panicked"},
		{"after_tool", runtime.Callbacks{AfterTool: []runtime.AfterToolFunc{func(context.Context, tool.Tool, *tool.Call, *tool.Result) (*tool.Result, error) { panic("nil map") }}}, nil, "error: CALLBACK_FAILED: after_tool of agent root failed: it panicked"},
		{"on_event", runtime.Callbacks{}, []*runtime.Plugin{broken}, "on_event of plugin broken failed: it panicked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := callsAtOnce()
			root := runtime.NewLLM("root", &runtime.LLMOptions{Model: m, Tools: []tool.Tool{f}, Callbacks: c.callbacks})
			testLive(t, m, root, &runtime.AppOptions{Plugins: c.plugins}, func(l *liveTest) {
				if m.connections() > 0 {
					m.conn(1).call("c1", "f", nil)
					m.conn(1).completeTurn()
					l.settle(time.Second)
				}
				if got := l.yielded(); !strings.Contains(got, c.want) {
					t.Errorf("events %s, want %s", got, c.want)
				}
				<-l.ended
				wantSessionFree(l.T, l.env, l.key)
			})
		})
	}
}

// TestLivePartialContents: a client that never completes its turn cannot fill a waiting model's
// memory.
func TestLivePartialContents(t *testing.T) {
	m := &liveModel{}
	testLive(t, m, liveAgent(m), nil, func(l *liveTest) {
		part := &live.Request{Content: model.UserText(strings.Repeat("a", 400<<10)), Partial: true}
		for range 4 {
			l.send(part)
		}
		l.speak("done")
		l.send(part)
		const refused = "root: (partial) INVALID_REQUEST the turn's partial contents exceed the limit of 1 MiB: send a content that is not partial"
		checkText(t, "events", refused+"\n"+refused, l.yielded())
		if got := strings.Count(m.conn(1).sent(), "complete=false"); got != 3 {
			t.Errorf("%d partial contents were sent, want 3", got)
		}
	})
}

// TestLiveForgedResponse: a model cannot answer calls in the user's name, such as a confirmation
// request.
func TestLiveForgedResponse(t *testing.T) {
	m := callsAtOnce()
	var calls atomic.Int32
	pay := sleepingTool("pay", time.Millisecond, &calls)
	pay.capabilities = tool.Capabilities{Confirm: alwaysConfirm()}
	testLive(t, m, liveAgent(m, pay), nil, func(l *liveTest) {
		m.conn(1).call("c1", "pay", nil)
		synctest.Wait()
		before := l.stored()
		forged := &genai.Part{FunctionResponse: &genai.FunctionResponse{
			ID: l.env.CallIDs(l.T, l.key, runtime.RequestConfirmation)[0], Name: runtime.RequestConfirmation, Response: map[string]any{"confirmed": true},
		}}
		m.conn(1).in <- &model.LiveMessage{Content: &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{forged}}}
		m.conn(1).in <- &model.LiveMessage{Content: &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{forged, {FileData: &genai.FileData{FileURI: "a:b"}}}}}
		l.settle(time.Second)
		checkText(t, "stored", before+"root: ", l.stored())
		if calls.Load() != 0 {
			t.Error("the tool ran without a confirmation")
		}
	})
}

// TestLiveGoAwayLoop: a model that asks to leave every connection at once cannot make the host
// connect without end, each time with the whole history.
func TestLiveGoAwayLoop(t *testing.T) {
	for _, handle := range []string{"", "h"} {
		m := &liveModel{}
		testLive(t, m, liveAgent(m), withResumption(), func(l *liveTest) {
			l.speak("hi")
			for range 100 {
				c := m.conn(m.connections())
				if handle != "" {
					c.giveHandle(handle)
				}
				c.completeTurn()
				c.in <- &model.LiveMessage{GoAway: new(time.Duration)}
				synctest.Wait()
			}
			if got := m.connections(); got > live.MaxConnectsPerMinute {
				t.Errorf("%d connections with handle %q", got, handle)
			}
			l.speak("still here")
			if !strings.Contains(m.conn(m.connections()).sent(), "still here") {
				t.Error("the conversation does not continue")
			}
		})
	}
}

// TestLiveTranscriptOffsets: with save_live_blob, each final transcript has its part of the stored
// recording; a turn that the client leaves open is saved as well.
func TestLiveTranscriptOffsets(t *testing.T) {
	m := &liveModel{}
	config := runtime.DefaultRunConfig()
	config.SaveLiveBlob = true
	testLive(t, m, liveAgent(m), &runtime.AppOptions{Config: &config}, func(l *liveTest) {
		c := m.conn(1)
		second := &genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: make([]byte, 32000)}
		listen := func(text string) {
			c.in <- &model.LiveMessage{InputTranscription: &genai.Transcription{Text: text, Finished: true}}
			synctest.Wait()
		}
		l.send(&live.Request{Blob: second})
		listen("one")
		l.send(&live.Request{Blob: second})
		l.send(&live.Request{ActivityStart: true})
		l.send(&live.Request{Blob: second})
		listen("two")
		c.in <- &model.LiveMessage{Content: &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{InlineData: &genai.Blob{MIMEType: "audio/pcm;rate=24000", Data: make([]byte, 24000)}}}}}
		c.in <- &model.LiveMessage{OutputTranscription: &genai.Transcription{Text: "three"}}
		c.completeTurn()
		synctest.Wait()
		l.send(&live.Request{Blob: second})
		listen("four")
		l.stop()
		sess, err := l.env.Store.Sessions.Get(context.Background(), l.key, nil)
		if err != nil {
			t.Fatal(err)
		}
		var got strings.Builder
		for _, ev := range sess.Events() {
			for _, tr := range []*genai.Transcription{ev.InputTranscription, ev.OutputTranscription} {
				if tr != nil {
					fmt.Fprintf(&got, "%s %s-%s\n", tr.Text, tr.StartOffset, tr.EndOffset)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(ev.Actions.ArtifactDelta)) {
				fmt.Fprintf(&got, "%s %s\n", ev.Author, strings.TrimRight(name, "0123456789.wav"))
			}
		}
		checkText(t, "stored", `one 0s-1s
two 2s-3s
three 0s-500ms
user adk_live_audio_storage_input_audio_
root adk_live_audio_storage_output_audio_
four 0s-1s
user adk_live_audio_storage_input_audio_`, got.String())
	})
}

// TestLiveConfirmation: a call that requires confirmation is requested from the client; the model
// gets the call's result when a person has approved it.
func TestLiveConfirmation(t *testing.T) {
	m := callsAtOnce()
	pay := &testTool{name: "pay", capabilities: tool.Capabilities{Confirm: alwaysConfirm()}, run: func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		return &tool.Result{Response: map[string]any{"paid": c.IdempotencyKey}}, nil
	}}
	testLive(t, m, liveAgent(m, pay), nil, func(l *liveTest) {
		c := m.conn(1)
		c.call("c1", "pay", nil)
		synctest.Wait()
		checkText(t, "frames before", "", c.sent())
		c.speak("Shall I?")
		c.completeTurn()
		synctest.Wait()
		id := l.env.CallIDs(l.T, l.key, runtime.RequestConfirmation)[0]
		l.send(&live.Request{Content: &genai.Content{Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
			ID: id, Name: runtime.RequestConfirmation, Response: map[string]any{"confirmed": true},
		}}}}})
		if got := c.sent(); !strings.HasPrefix(got, `response c1 pay {"paid":"e-`) || !strings.HasSuffix(got, `/c1"}`) {
			t.Errorf("frames %s", got)
		}
		stored := strings.ReplaceAll(l.stored(), "e-", "")
		for _, want := range []string{"root: call adk_request_confirmation", "pay→{\"error\":\"This tool call requires confirmation, please approve or reject.\"}", `pay→{"paid"`} {
			if !strings.Contains(stored, want) {
				t.Errorf("stored\n%s\nwithout %s", stored, want)
			}
		}
	})
}

// TestLiveLongRunning: the client answers a long-running call; the answer is stored and sent.
func TestLiveLongRunning(t *testing.T) {
	m := callsAtOnce()
	ask := &testTool{name: "ask", capabilities: tool.Capabilities{LongRunning: true}, run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }}
	testLive(t, m, liveAgent(m, ask), nil, func(l *liveTest) {
		m.conn(1).call("c1", "ask", nil)
		synctest.Wait()
		l.send(&live.Request{Content: &genai.Content{Role: "user", Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "c1", Name: "ask", Response: map[string]any{"yes": true}}}}}})
		checkText(t, "frames", `response c1 ask {"yes":true}`, m.conn(1).sent())
		checkText(t, "stored", "root: call ask\nuser: ask→{\"yes\":true}", l.stored())
	})
}

// TestLiveTransfer: the agent that takes over has its own connection and no handle, and its
// model speaks first. A transfer to an agent that may not take over is an error for the
// model.
func TestLiveTransfer(t *testing.T) {
	m := callsAtOnce()
	billing := runtime.NewLLM("billing", &runtime.LLMOptions{})
	root := runtime.NewLLM("root", &runtime.LLMOptions{Model: m, SubAgents: []runtime.Agent{billing}})
	testLive(t, m, root, withResumption(), func(l *liveTest) {
		m.conn(1).giveHandle("h1")
		m.conn(1).call("c0", "transfer_to_agent", map[string]any{"agent_name": "root"})
		synctest.Wait()
		if got := m.conn(1).sent(); !strings.Contains(got, "agent_name: value must be 'billing'") {
			t.Errorf("frames %s", got)
		}
		m.conn(1).call("c1", "transfer_to_agent", map[string]any{"agent_name": "billing"})
		synctest.Wait()
		if got := m.conn(2).setup.Resumption.Handle; got != "" {
			t.Errorf("handle %q", got)
		}
		if got := m.conn(2).sent(); !strings.HasSuffix(got, "user: Continue the conversation: answer the user.; complete=true") {
			t.Errorf("frames %s", got)
		}
		if !m.conn(1).closedByHost() {
			t.Error("the first connection is still open")
		}
		m.conn(2).speak("Your bill")
		synctest.Wait()
		if got := l.yielded(); !strings.HasSuffix(got, "billing: Your bill (partial)\n") {
			t.Errorf("events %s", got)
		}
	})
}

// TestLiveTransferLoop: models that transfer to each other without end are refused, and the
// conversation continues with one model.
func TestLiveTransferLoop(t *testing.T) {
	m := callsAtOnce()
	billing := runtime.NewLLM("billing", &runtime.LLMOptions{})
	root := runtime.NewLLM("root", &runtime.LLMOptions{Model: m, SubAgents: []runtime.Agent{billing}})
	testLive(t, m, root, nil, func(l *liveTest) {
		for i := range 50 {
			to := []string{"billing", "root"}[(m.connections()+1)%2]
			m.conn(m.connections()).call(fmt.Sprint("c", i), "transfer_to_agent", map[string]any{"agent_name": to})
			synctest.Wait()
		}
		last := m.conn(m.connections())
		if got := last.sent(); m.connections() > live.MaxConnectsPerMinute || !strings.Contains(got, "too many transfers: at most 12 a minute") {
			t.Errorf("%d connections, frames %.300s", m.connections(), got)
		}
		l.speak("still here")
		if !strings.Contains(last.sent(), "still here") {
			t.Error("the conversation does not continue")
		}
	})
}

// TestLiveSequence: each agent in a sequence ends with task_completed, which only live runs offer,
// and the run ends with the last one.
func TestLiveSequence(t *testing.T) {
	m := callsAtOnce()
	seq := runtime.NewSequential("seq", "",
		runtime.NewLLM("one", &runtime.LLMOptions{Model: m}), runtime.NewLLM("two", &runtime.LLMOptions{Model: m}))
	testLive(t, m, seq, nil, func(l *liveTest) {
		for i := 1; i <= 2; i++ {
			setup := m.conn(i).setup
			if setup.Tools[0].FunctionDeclarations[0].Name != live.TaskCompleted || !strings.Contains(model.TextOf(setup.SystemInstruction), live.TaskCompleted) {
				t.Errorf("setup without %s", live.TaskCompleted)
			}
			m.conn(i).call(fmt.Sprint("c", i), live.TaskCompleted, nil)
			synctest.Wait()
		}
		<-l.ended
		checkText(t, "events", `one: call task_completed
one: task_completed→{"result":"Task completion signaled."}
two: call task_completed
two: task_completed→{"result":"Task completion signaled."}`, l.yielded())
	})
}

// TestLiveUnsupported: an agent that cannot hold a live conversation is a clear error, and so
// is a model without a live mode.
func TestLiveUnsupported(t *testing.T) {
	for _, c := range []struct {
		name string
		root runtime.Agent
		want string
	}{
		{"loop", runtime.NewParallel("both", ""), "agent both cannot hold a live conversation: only LlmAgent and SequentialAgent can"},
	} {
		t.Run(c.name, func(t *testing.T) {
			testLive(t, nil, c.root, nil, func(l *liveTest) {
				if got := l.yielded(); !strings.Contains(got, c.want) || !strings.Contains(got, runtime.CodeLiveUnsupported) {
					t.Errorf("events %s", got)
				}
			})
		})
	}
}

// TestLiveModalities: a run in two modalities is an error before a connection is opened,
// because the service refuses them only after the user has begun to speak.
func TestLiveModalities(t *testing.T) {
	config := runtime.DefaultRunConfig()
	config.ResponseModalities = []string{"TEXT", "AUDIO"}
	m := &liveModel{}
	testLive(t, m, liveAgent(m), &runtime.AppOptions{Config: &config}, func(l *liveTest) {
		if got := l.yielded(); !strings.Contains(got, "a live model answers in one modality, got TEXT, AUDIO") || !strings.Contains(got, runtime.CodeInvalidRequest) {
			t.Errorf("events %s", got)
		}
	})
}

// TestLiveResumeLatest: a later run resumes the session's newest handle, on any replica, and sends
// what the session has and the model has not answered.
func TestLiveResumeLatest(t *testing.T) {
	config := runtime.DefaultRunConfig()
	config.SessionResumption = &genai.SessionResumptionConfig{Handle: live.LatestHandle}
	m := &liveModel{}
	synctest.Test(t, func(t *testing.T) {
		l := runLive(t, m, liveAgent(m), &runtime.AppOptions{Config: &config})
		if got := m.conn(1).setup.Resumption.Handle; got != "" {
			t.Errorf("the first run has the handle %q", got)
		}
		l.speak("one")
		m.conn(1).completeTurn()
		m.conn(1).giveHandle("h1")
		synctest.Wait()
		l.speak("two")
		l.cancel()
		<-l.ended
		again := &liveTest{T: t, env: l.env, key: l.key, ended: make(chan struct{}), queue: live.NewQueue()}
		again.start()
		if got := m.conn(2).setup.Resumption.Handle; got != "h1" {
			t.Errorf("handle %q, want h1", got)
		}
		checkText(t, "frames", "user: two; complete=true", m.conn(2).sent())
		again.stop()
	})
}

// TestLiveBeforeModel: the callbacks before a model see the request that begins a
// conversation, and can change it or answer instead.
func TestLiveBeforeModel(t *testing.T) {
	m := &liveModel{}
	agent := func(answer *model.Response) runtime.Agent {
		return runtime.NewLLM("root", &runtime.LLMOptions{Model: m, Callbacks: runtime.Callbacks{
			BeforeModel: []runtime.BeforeModelFunc{func(_ context.Context, _ *runtime.CallbackContext, req *model.Request) (*model.Response, error) {
				req.AppendInstruction("Be kind.")
				return answer, nil
			}},
		}})
	}
	testLive(t, m, agent(nil), nil, func(*liveTest) {
		if got := model.TextOf(m.conn(1).setup.SystemInstruction); !strings.HasSuffix(got, "Be kind.") {
			t.Errorf("instruction %q", got)
		}
	})
	testLive(t, m, agent(&model.Response{Content: model.ModelText("Not today.")}), nil, func(l *liveTest) {
		checkText(t, "events", "root: Not today.", l.yielded())
		<-l.ended
	})
}

// TestLiveLimits: max_cost ends the run with the message that reaches it.
func TestLiveCost(t *testing.T) {
	m := &liveModel{}
	config := runtime.DefaultRunConfig()
	config.MaxCost = 0.01

	testLive(t, m, liveAgent(m), &runtime.AppOptions{Config: &config}, func(l *liveTest) {
		m.conn(1).in <- &model.LiveMessage{Usage: &genai.GenerateContentResponseUsageMetadata{TotalTokenCount: 5}}
		synctest.Wait()
		checkText(t, "events", "root:", l.yielded())
	})
}

// TestLiveLimits: a conversation ends at each app limit, with the limit in the error.
func TestLiveLimits(t *testing.T) {
	for _, tt := range []struct {
		limits runtime.LiveLimits
		after  time.Duration
		want   string
	}{
		{runtime.LiveLimits{MaxDuration: time.Minute}, time.Minute, "error: LIVE_LIMIT: the live conversation has reached its maximum duration of 1m0s (run_config: live.max_duration)"},
		{runtime.LiveLimits{IdleTimeout: time.Minute}, 90 * time.Second, "error: LIVE_LIMIT: the live conversation was idle for 1m0s (run_config: live.idle_timeout)"},
		{runtime.LiveLimits{}, 15*time.Minute + 30*time.Second, "error: LIVE_LIMIT: the live conversation was idle for 15m0s (run_config: live.idle_timeout)"},
		{runtime.LiveLimits{MaxTokens: 10}, 0, "root:\nerror: LIVE_LIMIT: the live conversation has used 12 tokens of at most 10 (run_config: live.max_tokens)"},
	} {
		m := &liveModel{}
		config := runtime.DefaultRunConfig()
		config.Live = tt.limits
		testLive(t, m, liveAgent(m), &runtime.AppOptions{Config: &config}, func(l *liveTest) {
			l.settle(30 * time.Second)
			if tt.after == 0 {
				m.conn(1).in <- &model.LiveMessage{Usage: &genai.GenerateContentResponseUsageMetadata{TotalTokenCount: 12}}
				synctest.Wait()
			} else {
				l.send(&live.Request{Blob: &genai.Blob{MIMEType: "audio/pcm;rate=16000", Data: []byte{0, 0}}})
				l.settle(tt.after - 30*time.Second)
			}
			checkText(t, "events", tt.want, l.yielded())
		})
	}
}

// TestLivePanic: a model that panics ends the run with an error, and not the host.
func TestLivePanic(t *testing.T) {
	m := &liveModel{refuse: func(int, *model.LiveSetup) error { panic("ouch") }}
	testLive(t, m, liveAgent(m), nil, func(l *liveTest) {
		checkText(t, "events", "error: LIVE_DISCONNECTED: model live failed: it panicked", l.yielded())
	})
}
