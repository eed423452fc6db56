package devui

import (
	"net/http"
	"slices"
	"time"

	"go.opentelemetry.io/otel/trace"

	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// maxWaterfall limits the spans in one response.
const maxWaterfall = 1000

// A turnTrace is where an invocation's time went. It has no contents: events have those that its
// user may see.
type turnTrace struct {
	// Spans are a tree, each after its parent.
	Spans []turnSpan `json:"spans"`
	// Omitted counts the spans above maxWaterfall.
	Omitted int `json:"omitted,omitempty"`
}

// A turnSpan is a run of an invocation, an agent, a model call or a tool call. Times are in
// microseconds since the first span began.
type turnSpan struct {
	// Parent is the parent's index in the list; nil has none.
	Parent *int `json:"parent,omitempty"`
	// Kind is run, agent, model or tool.
	Kind  string `json:"kind"`
	Name  string `json:"name"`
	Agent string `json:"agent,omitempty"`
	// Event is the resulting event, Call the tool call's ID.
	Event string `json:"event,omitempty"`
	Call  string `json:"call,omitempty"`
	Start int64  `json:"start"`
	End   int64  `json:"end"`
	// Queued is how long the run waited for its session, in microseconds.
	Queued    int64   `json:"queued,omitempty"`
	TokensIn  int64   `json:"tokensIn,omitempty"`
	TokensOut int64   `json:"tokensOut,omitempty"`
	Cost      float64 `json:"cost,omitempty"`
	Error     string  `json:"error,omitempty"`
	// Callback is the callback that answered instead of the model.
	Callback string     `json:"callback,omitempty"`
	Waits    []turnWait `json:"waits,omitempty"`
}

// A turnWait is a model call's wait, such as for a retry.
type turnWait struct {
	At   int64  `json:"at"`
	Text string `json:"text"`
}

// handleTurnTrace describes an invocation's spans for its user. The invocation must be in the user's
// session: spans do not name users, and session IDs are unique only within one.
func (s *handlers) handleTurnTrace(w http.ResponseWriter, r *http.Request) error {
	key, invocation := server.PathKey(r), r.PathValue("invocation")
	sess, err := s.Host().Store().Sessions.Get(r.Context(), key, nil)
	if err != nil {
		return server.WithSessionKey(key, err)
	}
	if !slices.ContainsFunc(sess.Events(), func(ev *session.Event) bool {
		return ev.InvocationID == invocation && !ev.Provenance.Imported // a client chooses the IDs that it imports
	}) {
		return server.NewError(http.StatusNotFound, "Invocation ID not found: "+invocation)
	}
	found := s.opts.Traces.findSpans(func(k *keptSpan) bool {
		return k.invocation == invocation && k.session == key.ID && k.app == key.App
	})
	return server.WriteJSON(w, newTurnTrace(found))
}

// newTurnTrace orders spans, which ended in their order, as a tree: each after its parent, and siblings
// by the time when they began.
func newTurnTrace(found []keptSpan) turnTrace {
	t := turnTrace{Spans: []turnSpan{}}
	if len(found) == 0 {
		return t
	}
	slices.SortStableFunc(found, func(a, b keptSpan) int { return a.began.Compare(b.began) })
	known, children := map[trace.SpanID]bool{}, map[trace.SpanID][]int{}
	for _, k := range found {
		known[k.span] = true
	}
	var next []int // a stack: the first root is on top
	for i, k := range slices.Backward(found) {
		if known[k.parent] && k.parent != k.span {
			children[k.parent] = append(children[k.parent], i)
		} else {
			next = append(next, i)
		}
	}
	position, began := map[trace.SpanID]int{}, found[0].began
	for len(next) > 0 && len(t.Spans) < maxWaterfall {
		k := &found[next[len(next)-1]]
		next = append(next[:len(next)-1], children[k.span]...)
		position[k.span] = len(t.Spans)
		span := k.describeSpan(began)
		if at, ok := position[k.parent]; ok && k.parent != k.span {
			span.Parent = &at
		}
		t.Spans = append(t.Spans, span)
	}
	t.Omitted = len(found) - len(t.Spans)
	return t
}

// describeSpan describes a span with its times since began.
func (k *keptSpan) describeSpan(began time.Time) turnSpan {
	since := func(at time.Time) int64 { return at.Sub(began).Microseconds() }
	span := turnSpan{
		Kind: "run", Name: "run", Agent: k.agent, Event: k.event, Call: k.call, Start: since(k.began), End: since(k.ended),
		Queued: int64(k.queued * 1e6), TokensIn: k.tokensIn, TokensOut: k.tokensOut, Cost: k.cost, Error: k.failure, Callback: k.callback,
	}
	switch k.operation {
	case runtime.OperationAgent:
		span.Kind, span.Name = "agent", k.agent
	case runtime.OperationModel:
		span.Kind, span.Name = "model", k.model
	case runtime.OperationTool:
		span.Kind, span.Name = "tool", k.tool
	}
	for _, wait := range k.waits {
		span.Waits = append(span.Waits, turnWait{since(wait.at), wait.text})
	}
	return span
}
