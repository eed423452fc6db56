package modeltest_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// A suiteApp is an app with one agent that has the model under test.
type suiteApp struct {
	host  *runtime.Host
	store *store.Store
	key   session.Key
}

func newSuiteApp(t *testing.T, llm model.LLM, opts runtime.LLMOptions) *suiteApp {
	t.Helper()
	st, err := storeurl.Open(t.Context(), "memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	opts.Model = llm
	app, err := runtime.NewApp("app", runtime.NewLLM("clerk", &opts), nil)
	if err != nil {
		t.Fatal(err)
	}
	a := &suiteApp{runtime.NewHost(st, nil), st, session.Key{App: "app", User: "u", ID: "s"}}
	a.host.Swap(app)
	if _, err := st.Sessions.Create(t.Context(), a.key, nil); err != nil {
		t.Fatal(err)
	}
	return a
}

// runTurn runs one turn and returns its complete events in outline, and its error.
func (a *suiteApp) runTurn(ctx context.Context, text string, onPartial func()) (events []string, failure error) {
	stream := onPartial != nil
	req := &runtime.RunRequest{App: a.key.App, UserID: a.key.User, SessionID: a.key.ID, Message: model.UserText(text), Streaming: &stream}
	for ev, err := range a.host.Run(ctx, req) {
		switch {
		case err != nil:
			return events, err
		case ev.Partial:
			onPartial()
		default:
			events = append(events, eventOutline(ev))
		}
	}
	return events, nil
}

// eventOutline formats an event as its author, text, calls and error code.
func eventOutline(ev *session.Event) string {
	return strings.Join(append([]string{ev.Author + ":"}, modeltest.Outline([]*model.Response{&ev.Response})...), " ")
}

// An agent with tools gives its answer in the form that its schema requires: the request has both,
// or else a tool that takes the answer.
func testToolsWithSchema(t *testing.T, s *suiteSubject) {
	answer := suiteReply{text: []string{`{"city_name":"Bonn"}`}}
	if !s.mixes {
		answer = suiteReply{calls: []*genai.FunctionCall{{ID: "call_c", Name: "set_model_response", Args: map[string]any{"city_name": "Bonn"}}}}
	}
	llm, w := s.build(t, suiteReply{calls: lookupCalls()[:1]}, answer)
	if m, ok := llm.(interface{ MixesToolsAndSchema() bool }); (ok && m.MixesToolsAndSchema()) != s.mixes {
		t.Fatalf("MixesToolsAndSchema() is not %v", s.mixes)
	}
	schema, err := declare.Schema(map[string]any{
		"type": "object", "properties": map[string]any{"city_name": map[string]any{"type": "string"}}, "required": []any{"city_name"},
	})
	if err != nil {
		t.Fatal(err)
	}
	lookup, err := declare.Func("lookup", "Looks up.", func(context.Context, *tool.Call, struct{ ID string }) (string, error) { return "found", nil })
	if err != nil {
		t.Fatal(err)
	}
	a := newSuiteApp(t, llm, runtime.LLMOptions{OutputSchema: schema, Tools: []tool.Tool{lookup}})
	events, err := a.runTurn(t.Context(), "where?", nil)
	if err != nil || len(events) < 3 || events[len(events)-1] != `clerk: {"city_name":"Bonn"}` {
		t.Fatalf("Run() = %q, %v, want the answer in the form of the schema", events, err)
	}
	if !s.local && (strings.Contains(w.lastRequest(t), "set_model_response") == s.mixes || !strings.Contains(w.lastRequest(t), "city_name")) {
		t.Errorf("the request has both a schema and its tool, or none: %s", w.lastRequest(t))
	}
}

// A turn whose call fails ends with an event that has the error, and a canceled turn
// without one, as in ADK. The session keeps what was stored, without what a broken stream
// had sent, and the next turn has it.
func testTurns(t *testing.T, s *suiteSubject) {
	late := s.failure(t, "stream_error")
	late.text = []string{"broken "}
	llm, w := s.build(t,
		suiteReply{text: []string{"one"}}, s.failure(t, "wrong_key"), s.failure(t, "no_credit"), late,
		suiteReply{text: []string{"two ", "cut"}, hold: make(chan struct{})}, suiteReply{text: []string{"three"}})
	a := newSuiteApp(t, llm, runtime.LLMOptions{})
	if events, err := a.runTurn(t.Context(), "first", nil); err != nil {
		t.Fatalf("Run() = %q, %v", events, err)
	}
	for _, turn := range []struct {
		text      string
		onPartial func()
	}{{"second", nil}, {"third", nil}, {"fourth", func() {}}} {
		if events, err := a.runTurn(t.Context(), turn.text, turn.onPartial); err == nil || len(events) != 1 {
			t.Fatalf("Run(%s) = %q, %v, want one event and an error", turn.text, events, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if events, err := a.runTurn(ctx, "fifth", cancel); err == nil || runtime.AsRunError(err).Code != runtime.CodeCanceled || len(events) > 0 {
		t.Errorf("Run() = %q, %v, want %s and no event", events, err, runtime.CodeCanceled)
	}
	if events, err := a.runTurn(t.Context(), "sixth", nil); err != nil {
		t.Fatalf("Run() = %q, %v", events, err)
	}
	for _, text := range []string{"first", "one", "second", "third", "fourth", "fifth", "sixth"} {
		if !strings.Contains(w.lastRequest(t), text) {
			t.Errorf("the last request lacks %q: %s", text, w.lastRequest(t))
		}
	}
	want := []string{
		"user: first", "clerk: one", "user: second", "clerk failed", "user: third", "clerk failed", "user: fourth", "clerk failed",
		"user: fifth", "user: sixth", "clerk: three",
	}
	if diff := cmp.Diff(want, a.storedEvents(t, s.key(), w.base)); diff != "" {
		t.Errorf("stored events (-want +got):\n%s", diff)
	}
}

// storedEvents returns the session in outline. Events with an error have a code, and a message
// without the key and the address.
func (a *suiteApp) storedEvents(t *testing.T, key, address string) []string {
	t.Helper()
	sess, err := a.store.Sessions.Get(t.Context(), a.key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var stored []string
	for _, ev := range sess.Events() {
		if ev.ErrorCode == "" {
			stored = append(stored, eventOutline(ev))
			continue
		}
		stored = append(stored, ev.Author+" failed")
		if ev.ErrorMessage == "" || ev.Content != nil || strings.Contains(ev.ErrorMessage, key) || strings.Contains(ev.ErrorMessage, address) {
			t.Errorf("event = %v, %q, want only a message without the key and the address", ev.Content, ev.ErrorMessage)
		}
	}
	return stored
}
