package server

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// An observedClient records what has been flushed to it, for agents to inspect.
type observedClient struct {
	*httptest.ResponseRecorder

	mu      sync.Mutex // parallel agents read while another event is flushed
	flushed string
	// neverReceives is the control: the client receives nothing.
	neverReceives bool
	// late lists the texts that had not arrived when expected.
	late []string
}

func (c *observedClient) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.neverReceives {
		c.flushed = c.Body.String()
	}
}

// expectFlushed records text that has not arrived.
func (c *observedClient) expectFlushed(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !strings.Contains(c.flushed, `"`+text+`"`) {
		c.late = append(c.late, text)
	}
}

// expectUnflushed records text that has already arrived.
func (c *observedClient) expectUnflushed(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(c.flushed, text) {
		c.late = append(c.late, "the last event was flushed early: "+text)
	}
}

// A scriptModel sends its replies in turn; "call NAME" calls a function. Before and
// after each reply it checks that the earlier texts were flushed.
type scriptModel struct {
	client  *observedClient
	replies []string
	// after lists the texts that must have arrived before the model is called.
	after []string
	// flushesLast is set if the last reply must be flushed before the run continues.
	flushesLast bool
}

func (*scriptModel) Name() string { return "script" }

func (m *scriptModel) Generate(_ context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		for _, text := range m.after {
			m.client.expectFlushed(text)
		}
		if len(m.replies) == 0 {
			return
		}
		text := m.replies[0]
		m.replies, m.after = m.replies[1:], append(m.after, text)
		r := &model.Response{Content: model.ModelText(text)}
		name, calls := strings.CutPrefix(text, "call ")
		if calls {
			r.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: text, Name: name}}}}
		}
		if !yield(r, nil) {
			return
		}
		if len(m.replies) > 0 || m.flushesLast {
			m.client.expectFlushed(text)
		} else {
			m.client.expectUnflushed(text)
		}
	}
}

// textAgent is a custom agent that emits text events.
type textAgent struct {
	runtime.Base
	client *observedClient
	texts  []string
}

func (a *textAgent) Run(_ context.Context, inv *runtime.Invocation) runtime.Events {
	return func(yield func(*session.Event, error) bool) {
		for _, text := range a.texts {
			ev := inv.NewEvent()
			ev.Content = model.ModelText(text)
			if !yield(ev, nil) {
				return
			}
			a.client.expectFlushed(text)
		}
	}
}

// orderedAgents returns agents that check, whenever they continue, that earlier texts
// have reached the client.
func orderedAgents(t *testing.T, c *observedClient) map[string]runtime.Agent {
	t.Helper()
	look, err := declare.Func("look", "Looks.", func(context.Context, *tool.Call, struct{}) (any, error) {
		c.expectFlushed("call look")
		return nil, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	llm := func(name string, m *scriptModel, edit func(*runtime.LLMOptions)) runtime.Agent {
		m.client = c
		o := &runtime.LLMOptions{Model: m, Tools: []tool.Tool{look}}
		if edit != nil {
			edit(o)
		}
		return runtime.NewLLM(name, o)
	}
	after := func(o *runtime.LLMOptions) {
		o.Callbacks.AfterAgent = []runtime.AgentFunc{func(context.Context, *runtime.CallbackContext) (*genai.Content, error) {
			c.expectFlushed("one")
			return model.ModelText("two"), nil
		}}
	}
	return map[string]runtime.Agent{
		"one reply":      llm("a", &scriptModel{replies: []string{"one"}}, nil),
		"tool":           llm("a", &scriptModel{replies: []string{"call look", "done"}}, nil),
		"callback after": llm("a", &scriptModel{replies: []string{"one"}, flushesLast: true}, after),
		"sequence":       runtime.NewSequential("s", "", llm("a", &scriptModel{replies: []string{"one"}, flushesLast: true}, nil), llm("b", &scriptModel{replies: []string{"two"}, after: []string{"one"}}, nil)),
		"router":         runtime.NewRouter("r", "", runtime.Route{Agent: llm("a", &scriptModel{replies: []string{"call look", "done"}}, nil)}),
		"parallel":       runtime.NewParallel("p", "", llm("a", &scriptModel{replies: []string{"one"}, flushesLast: true}, nil), llm("b", &scriptModel{replies: []string{"two"}, flushesLast: true}, nil)),
		"loop":           runtime.NewLoop("l", &runtime.LoopOptions{MaxIterations: new(2), SubAgents: []runtime.Agent{llm("a", &scriptModel{replies: []string{"one", "two"}, flushesLast: true}, nil)}}),
		"custom agent":   &textAgent{runtime.Base{AgentName: "a"}, c, []string{"one", "two", "three"}},
	}
}

// lateEvents runs an agent over POST /run_sse and returns the texts that had not
// arrived when expected.
func lateEvents(t *testing.T, name string, opts *runtime.AppOptions, isControl bool) (late []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { // no time passes: the timer flushes nothing
		c := &observedClient{ResponseRecorder: httptest.NewRecorder(), neverReceives: isControl}
		app, err := runtime.NewApp("app", orderedAgents(t, c)[name], opts)
		if err != nil {
			t.Fatal(err)
		}
		host, err := runtime.InMemory(app)
		if err != nil {
			t.Fatal(err)
		}
		s := New(host, &Options{AutoCreateSession: true})
		body := `{"appName":"app","userId":"u","sessionId":"s","newMessage":{"parts":[{"text":"go"}]}}`
		r := httptest.NewRequest(http.MethodPost, "/run_sse", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		s.ServeHTTP(c, r)
		if strings.Contains(c.Body.String(), `"error`) || c.Body.Len() == 0 {
			t.Errorf("the run failed: %s", c.Body)
		}
		late = c.late
	})
	return late
}

// Every event except the last one is written and flushed before the agent that yielded
// it, or the next agent, continues.
func TestEventsBeforeAgentContinues(t *testing.T) {
	for name := range orderedAgents(t, &observedClient{}) {
		t.Run(name, func(t *testing.T) {
			if late := lateEvents(t, name, nil, false); len(late) > 0 {
				t.Errorf("not flushed before the run continued: %q", late)
			}
			if late := lateEvents(t, name, nil, true); len(late) == 0 && name != "one reply" {
				t.Error("control: a client that receives nothing is not detected")
			}
		})
	}
}

// In a resumable app a checkpoint follows the last reply, so the reply is flushed
// immediately.
func TestLastEventOfResumableApp(t *testing.T) {
	want := []string{"the last event was flushed early: one"}
	if late := lateEvents(t, "one reply", &runtime.AppOptions{Resumable: true}, false); !slices.Equal(late, want) {
		t.Errorf("got %q, want %q", late, want)
	}
}

// Writing to an ended stream, such as its header, does not restart the keep-alive
// timer.
func TestEndedStreamKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := &Services{opts: Options{KeepAlive: time.Second, WriteTimeout: time.Second}}
		st := s.newStream(w, true)
		end := st.StartKeepAlive(func() {})
		<-time.After(1500 * time.Millisecond)
		end()
		if err := st.start(); err != nil {
			t.Fatal(err)
		}
		if st.keepAliveTimer.Stop() {
			t.Error("the timer of an ended stream is running")
		}
		<-time.After(3 * time.Second)
		if got, want := w.Body.String(), ": keep-alive\n\n"; got != want {
			t.Errorf("the stream is %q, want %q", got, want)
		}
	})
}

// A flushRecorder records what is flushed together.
type flushRecorder struct {
	*httptest.ResponseRecorder
	flushes []string
}

func (w *flushRecorder) Flush() {
	w.flushes = append(w.flushes, w.Body.String())
	w.Body.Reset()
}

// The last frames of a run leave together, at most a millisecond later.
func TestLastFramesFlushTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &flushRecorder{ResponseRecorder: httptest.NewRecorder()}
		s := &Services{opts: Options{KeepAlive: time.Hour, WriteTimeout: time.Second}}
		st := s.newStream(w, true)
		defer st.StartKeepAlive(func() {})()
		for i, text := range []string{"data: 1\n\n", "data: 2\n\n", "data: 3\n\n"} {
			if err := st.SendFrames([]byte(text), i > 0); err != nil {
				t.Fatal(err)
			}
		}
		<-time.After(maxFlushDelay)
		synctest.Wait()
		if want := []string{"data: 1\n\n", "data: 2\n\ndata: 3\n\n"}; !slices.Equal(w.flushes, want) {
			t.Errorf("flushed %q, want %q", w.flushes, want)
		}
	})
}

// A buffered event is flushed before any later frame: a partial event, a comment or an
// error.
func TestFramesFlushSeparately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes
		w := &flushRecorder{ResponseRecorder: httptest.NewRecorder()}
		s := &Services{opts: Options{KeepAlive: time.Hour, WriteTimeout: time.Second}}
		st := s.newStream(w, true)
		end := st.StartKeepAlive(func() {})
		whole, partial := &session.Event{ID: "whole"}, &session.Event{ID: "partial"}
		partial.Partial = true
		for _, ev := range []*session.Event{whole, partial, whole} {
			if err := st.writeEvent(ev, false, false); err != nil {
				t.Fatal(err)
			}
		}
		end()
		if err := st.writeFailure(failure{detail: "no"}, ""); err != nil {
			t.Fatal(err)
		}
		var frames []int
		for _, text := range append(w.flushes, w.Body.String()) {
			frames = append(frames, strings.Count(text, "data: "))
		}
		if want := []int{1, 1, 1, 1}; !slices.Equal(frames, want) {
			t.Errorf("frames per flush = %v, want %v", frames, want)
		}
	})
}
