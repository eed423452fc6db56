package runtime

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// A SpanKind says what a [Span] is a stretch of.
type SpanKind string

// What spans there are.
const (
	SpanRun   SpanKind = "run"   // a whole invocation, from the request on
	SpanAgent SpanKind = "agent" // an agent's run, with those of the agents below it
	SpanModel SpanKind = "model" // one call of a model
	SpanTool  SpanKind = "tool"  // one call of a tool
)

// A Span is a stretch of a run: what it was, how long it took, what came of it.
// The host tells of each when it has ended ([Options.Observe]); from then on it
// does not change, and what it points to is only read.
type Span struct {
	Kind SpanKind
	// Name is that of the app, agent, model or tool.
	Name string
	// IDs are its own, and those of its trace. Parent has those of the span that
	// this one is inside, or of the caller's; it is not valid if there is none.
	IDs, Parent  trace.SpanContext
	Began, Ended time.Time
	// Run says which run it is.
	Run *TracedRun
	// Agent is the agent that called the model or tool; empty if it was none.
	Agent string
	// Event is the id of the event that came of it, the model's answer or the
	// tool's; empty if there is none.
	Event string
	// Err is how it failed; nil if it did not.
	Err error
	// Model and Tool are set in spans of these kinds.
	Model *TracedModel
	Tool  *TracedTool

	carrier spanCarrier
	observe func(*Span)
}

// spanCarrier is a span in the context of what runs inside it, where others find
// its ids by OpenTelemetry's rules.
type spanCarrier struct {
	noop.Span
	span *Span
}

// SpanContext has the ids of the span and of its trace.
func (t *spanCarrier) SpanContext() trace.SpanContext { return t.span.IDs }

// A TracedRun is what all spans of a run share. An agent that is called as a tool
// belongs to its caller's run.
type TracedRun struct {
	App, UserID, SessionID string
	// Revision and Invocation are empty when the run failed before they were
	// known.
	Revision, Invocation string
	// Wait is how long the run waited for the session.
	Wait time.Duration
}

// A TracedModel is what a model was asked, and what it answered.
type TracedModel struct {
	Request *model.Request
	// Response is the whole answer; nil if there was none.
	Response *model.Response
	// First is when the first piece came, or the whole answer; zero if none did.
	First time.Time
}

// A TracedTool is the call of a tool, and its answer.
type TracedTool struct {
	Call *tool.Call
	// Result is nil if the tool failed, or answers later.
	Result *tool.Result
}

// App is the name of the app that runs.
func (s *Span) App() string {
	if s.Run == nil {
		return ""
	}
	return s.Run.App
}

// Code is the code of the error that ended it; empty if none did.
func (s *Span) Code() string {
	switch {
	case s.Err == nil && s.Model != nil && s.Model.Response != nil:
		return s.Model.Response.ErrorCode
	case s.Err == nil:
		return ""
	case s.Kind == SpanModel:
		return modelFailure(s.Name, s.Err).Code
	case s.Kind == SpanTool:
		return CodeToolFailed
	}
	return AsRunError(s.Err).Code
}

// beginSpan makes a span inside that of the context, or inside the caller's; nil
// if nobody observes. All methods of a nil span do nothing.
func (h *Host) beginSpan(ctx context.Context, kind SpanKind, name string) (context.Context, *Span) {
	if h.observe == nil {
		return ctx, nil
	}
	s := &Span{Kind: kind, Name: name, Began: h.now(), observe: h.observe}
	s.carrier.span = s
	s.Parent = trace.SpanContextFromContext(ctx)
	if o := spanFromContext(ctx); o != nil {
		s.Run = o.Run
	}
	s.IDs = s.Parent.WithSpanID(newSpanID()).WithRemote(false)
	if !s.Parent.IsValid() {
		s.IDs = s.IDs.WithTraceID(newTraceID()).WithTraceFlags(trace.FlagsSampled)
	}
	return trace.ContextWithSpan(ctx, &s.carrier), s
}

// Trace ids are no ids of the domain: nothing depends on them, and runs must not
// take numbers of the host's source only because somebody observes.
func newTraceID() (id trace.TraceID) {
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64()|1)
	return id
}

func newSpanID() (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// beginRunSpan makes the span of a run.
func (h *Host) beginRunSpan(ctx context.Context, req *RunRequest) (context.Context, *Span) {
	ctx, s := h.beginSpan(ctx, SpanRun, req.App)
	if s != nil {
		s.Run = &TracedRun{App: req.App, UserID: req.UserID, SessionID: req.SessionID}
	}
	return ctx, s
}

// spanFromContext is the innermost span of a context; nil if there is none.
func spanFromContext(ctx context.Context) *Span {
	if t, ok := trace.SpanFromContext(ctx).(*spanCarrier); ok {
		return t.span
	}
	return nil
}

// recordSessionWait notes that the session is the run's.
func (s *Span) recordSessionWait(now func() time.Time) {
	if s != nil {
		s.Run.Wait = now().Sub(s.Began)
	}
}

// setRevision notes whose the spans are, now that it is known.
func (s *Span) setRevision(r *run) {
	if s != nil {
		s.Run.Revision, s.Run.Invocation = r.app.Revision, r.id
	}
}

// recordErrors is a yield that notes how the span fails.
func (s *Span) recordErrors(yield func(*session.Event, error) bool) func(*session.Event, error) bool {
	if s == nil {
		return yield
	}
	return func(ev *session.Event, err error) bool {
		if err != nil {
			s.Err = err
		}
		return yield(ev, err)
	}
}

// end notes that the span has ended, and tells of it.
func (s *Span) end(now func() time.Time) {
	if s != nil {
		s.Ended = now()
		s.observe(s)
	}
}

// recordResponse notes an answer of the model. A whole one ends the span: what becomes of
// it is not the model's time.
func (s *Span) recordResponse(now func() time.Time, resp *model.Response, err error) {
	if !s.Ended.IsZero() {
		return
	}
	if err == nil && s.Model.First.IsZero() {
		s.Model.First = now()
	}
	if err == nil && resp.Partial {
		return
	}
	s.Model.Response, s.Err = resp, err
	s.end(now)
}

// traceModelCall asks a model, in a span of its own if anybody observes, and says whether
// all was heard. event has the id of the answer's event when the model is asked; nil
// if there is none.
func (h *Host) traceModelCall(ctx context.Context, req *model.Request, event *string, ask func(context.Context, *model.Request, responseFunc) bool, hear responseFunc) (whole bool) {
	if h.observe == nil {
		return ask(ctx, req, hear)
	}
	ctx, span := h.beginSpan(ctx, SpanModel, req.Model)
	span.Agent, span.Model = req.Origin.Agent, &TracedModel{Request: req}
	if event != nil {
		span.Event = *event
	}
	defer func() {
		if span.Ended.IsZero() {
			span.Err = ctx.Err()
			span.end(h.now)
		}
	}()
	return ask(ctx, req, func(resp *model.Response, err error) bool {
		span.recordResponse(h.now, resp, err)
		return hear(resp, err)
	})
}

// runToolTraced is carry in a span of its own. It is told of when the event with
// the answer is known.
func (s *step) runToolTraced(ctx context.Context, t tool.Tool, call *tool.Call, a *callResult) (*tool.Result, error) {
	h, traits := s.inv.run.host, tool.CapabilitiesOf(t)
	if h.observe == nil {
		return s.runToolWithCallbacks(ctx, t, call, traits)
	}
	ctx, span := h.beginSpan(ctx, SpanTool, call.Name)
	result, err := s.runToolWithCallbacks(ctx, t, call, traits)
	span.Agent, span.Tool, span.Err = call.Origin.Agent, &TracedTool{call, result}, err
	span.Ended = h.now()
	a.span = span
	return result, err
}

// reportCallSpans tells of the calls of one event, whose answers are in another; nil if
// none came.
func reportCallSpans(answers []*callResult, merged *session.Event) {
	for _, a := range answers {
		if a.span == nil {
			continue
		}
		if merged != nil {
			a.span.Event = merged.ID
		}
		a.span.observe(a.span)
	}
}
