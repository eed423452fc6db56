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

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// An observedClient is a client that agents can look at: what has been flushed to it.
type observedClient struct {
	*httptest.ResponseRecorder

	mu      sync.Mutex // parallel agents look while the other one's event is flushed
	flushed string
	// neverReceives is the control: nothing that is flushed arrives.
	neverReceives bool
	// late are the texts that had not arrived when somebody looked for them.
	late []string
}

func (c *observedClient) Flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.neverReceives {
		c.flushed = c.Body.String()
	}
}

// expectFlushed notes a text that has not arrived.
func (c *observedClient) expectFlushed(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !strings.Contains(c.flushed, `"`+text+`"`) {
		c.late = append(c.late, text)
	}
}

// expectUnflushed notes a text that has arrived, although it is to go with the end.
func (c *observedClient) expectUnflushed(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if strings.Contains(c.flushed, text) {
		c.late = append(c.late, "the last event was not held: "+text)
	}
}

// A sayer answers its texts in turn; "call NAME" calls a function. Before each answer,
// and when it has answered, it looks for the texts that were said before.
type scriptModel struct {
	client  *observedClient
	replies []string
	// after is what has to have arrived before this model is asked.
	after []string
	// flushesLast says that also the last answer has to arrive before the run continues.
	flushesLast bool
}

func (*scriptModel) Name() string { return "sayer" }

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

// An announcer is an agent of another kind, which says texts.
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

// orderedAgents are agents that look, whenever they continue, whether what was said before has
// reached the client.
func orderedAgents(t *testing.T, c *observedClient) map[string]runtime.Agent {
	t.Helper()
	look, err := tool.FromFunc("look", "Looks.", func(context.Context, *tool.Call, struct{}) (any, error) {
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
		"one answer":         llm("a", &scriptModel{replies: []string{"one"}}, nil),
		"tool":               llm("a", &scriptModel{replies: []string{"call look", "done"}}, nil),
		"callback after":     llm("a", &scriptModel{replies: []string{"one"}, flushesLast: true}, after),
		"sequence":           runtime.NewSequential("s", "", llm("a", &scriptModel{replies: []string{"one"}, flushesLast: true}, nil), llm("b", &scriptModel{replies: []string{"two"}, after: []string{"one"}}, nil)),
		"router":             runtime.NewRouter("r", "", runtime.Route{Agent: llm("a", &scriptModel{replies: []string{"call look", "done"}}, nil)}),
		"parallel":           runtime.NewParallel("p", "", llm("a", &scriptModel{replies: []string{"one"}, flushesLast: true}, nil), llm("b", &scriptModel{replies: []string{"two"}, flushesLast: true}, nil)),
		"loop":               runtime.NewLoop("l", &runtime.LoopOptions{MaxIterations: 2, SubAgents: []runtime.Agent{llm("a", &scriptModel{replies: []string{"one", "two"}, flushesLast: true}, nil)}}),
		"agent of one's own": &textAgent{runtime.Base{AgentName: "a"}, c, []string{"one", "two", "three"}},
	}
}

// lateEvents runs an agent over POST /run_sse, and returns what had not arrived when it was
// looked for.
func lateEvents(t *testing.T, name string, opts *runtime.AppOptions, deaf bool) (late []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { // no moment passes: nothing is flushed by a timer
		c := &observedClient{ResponseRecorder: httptest.NewRecorder(), neverReceives: deaf}
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

// TestEventsBeforeAgentContinues: every event but the final one is written to the client and
// flushed before the agent that yielded it, or whoever follows it, continues.
func TestEventsBeforeAgentContinues(t *testing.T) {
	for name := range orderedAgents(t, &observedClient{}) {
		t.Run(name, func(t *testing.T) {
			if late := lateEvents(t, name, nil, false); len(late) > 0 {
				t.Errorf("not at the client when the run went on: %q", late)
			}
			if late := lateEvents(t, name, nil, true); len(late) == 0 && name != "one answer" {
				t.Error("control: a client that nothing arrives at is not noticed")
			}
		})
	}
}

// TestLastEventOfResumableApp: where a checkpoint follows, the answer is not held.
func TestLastEventOfResumableApp(t *testing.T) {
	want := []string{"the last event was not held: one"}
	if late := lateEvents(t, "one answer", &runtime.AppOptions{Resumable: true}, false); !slices.Equal(late, want) {
		t.Errorf("got %q, want %q", late, want)
	}
}
