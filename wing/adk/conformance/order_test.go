package conformance

import (
	"context"
	"iter"
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// TestEventOrder: an answer waits for the events that parallel agents stored earlier when the
// message was recorded: not for its own, those for other messages, or those from agents that run
// before or after it.
func TestEventOrder(t *testing.T) {
	recorded := decode(t, `{"events": [
		{"author": "user", "content": {"role": "user", "parts": [{"text": "go"}]}},
		{"author": "old", "branch": "duo.old"},
		{"author": "user", "actions": {"state_delta": {"k": 1}}},
		{"author": "user", "content": {"role": "user", "parts": [{"text": "again"}]}},
		{"author": "first"},
		{"author": "fast", "branch": "duo.fast"},
		{"author": "slow", "branch": "duo.slow"},
		{"author": "inner", "branch": "duo.fast.inner"},
		{"author": "slow", "branch": "duo.slow"},
		{"author": "last"},
		{"author": "user", "content": {"role": "user", "parts": [{"text": "bye"}]}},
		{"author": "late", "branch": "duo.late"}]}`)
	o := newEventOrder(recorded, 1)
	// Each step asks whether an agent waits; then an event is stored.
	for i, step := range []struct {
		agent, waitsFor string
		stored          session.Event
	}{
		{agent: "first"},
		{agent: "fast"},
		{agent: "slow", waitsFor: "fast"},
		{agent: "last"},
		{agent: "old"},
		{agent: "late"},
		{agent: "inner", waitsFor: "slow", stored: session.Event{Author: "fast", Branch: "duo.fast"}},
		{agent: "slow", stored: session.Event{Author: "slow", Branch: "duo.slow"}},
		{agent: "slow", waitsFor: "inner"},
		{agent: "inner", stored: session.Event{Author: "inner", Branch: "duo.fast.inner", Response: model.Response{Partial: true}}},
		{agent: "slow", waitsFor: "inner, which has stored a chunk"},
		{agent: "inner", stored: session.Event{Author: "inner", Branch: "duo.fast.inner"}},
		{agent: "slow"},
	} {
		if _, ready := o.isTurn(step.agent); ready != (step.waitsFor == "") {
			t.Errorf("step %d: the turn of %s: %v, want it to wait for %q", i, step.agent, ready, step.waitsFor)
		}
		if step.stored.Author != "" {
			o.markStored(&step.stored)
		}
	}
}

// TestEventOrderWithoutSession: without a session that can be read, no answer waits.
func TestEventOrderWithoutSession(t *testing.T) {
	for _, recorded := range []map[string]any{nil, decode(t, `{"events": [3]}`), decode(t, `{"events": {}}`)} {
		newEventOrder(recorded, 0).waitForTurn(t.Context(), "any")
	}
}

// answers is a model that answers at once; the test ends its calls.
type answers struct{ model.LLM }

func (answers) Name() string { return "answers" }

func (answers) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		yield(&model.Response{Content: model.ModelText("done")}, nil)
	}
}

// TestRecordOrder: recordings have the order in which the requests began, whichever answer comes first.
func TestRecordOrder(t *testing.T) {
	r := &Recorder{}
	ctx := context.WithValue(t.Context(), recordKey{}, &recordedTurn{dir: "d"})
	begin := func(agent string) (end func()) {
		next, stop := iter.Pull2(r.CallModel(ctx, &runtime.ModelCall{Model: answers{}, Request: &model.Request{
			Origin: model.Origin{Agent: agent}, Contents: []*genai.Content{model.UserText("go")},
		}}))
		next()
		return stop
	}
	endSlow := begin("slow")
	begin("fast")()
	endSlow()
	var agents []string
	for _, e := range r.entries["d"] {
		if agents = append(agents, e.agent); !e.done {
			t.Errorf("the call of %s is not done", e.agent)
		}
	}
	if len(agents) != 2 || agents[0] != "slow" || agents[1] != "fast" {
		t.Errorf("recorded %v, want slow and fast", agents)
	}
}
