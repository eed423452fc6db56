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

// A SpanKind is the kind of a [Span].
type SpanKind string

// The kinds of spans.
const (
	SpanRun   SpanKind = "run"   // a whole invocation, starting with the request
	SpanAgent SpanKind = "agent" // a run of an agent, including its sub-agents
	SpanModel SpanKind = "model" // a model call
	SpanTool  SpanKind = "tool"  // a tool call
)

// A Span is a traced part of a run. The host reports each span when it ends
// ([Options.Observe]); after that neither the span nor what it refers to
// changes.
type Span struct {
	Kind SpanKind
	// Name is the name of the app, agent, model or tool.
	Name string
	// IDs are the span and trace IDs. Parent is the enclosing span, or that of
	// the caller; it is invalid if there is none.
	IDs, Parent trace.SpanContext
	Start, End  time.Time
	// Run identifies the run.
	Run *TracedRun
	// Agent is the agent that called the model or tool; empty if there is
	// none.
	Agent string
	// Event is the ID of the resulting event; empty if there is none.
	Event string
	// Err is the error of the span, or nil.
	Err error
	// Model and Tool are set for spans of these kinds.
	Model *TracedModel
	Tool  *TracedTool

	carrier spanCarrier
	observe func(*Span)
}

// spanCarrier carries a span in a context, where OpenTelemetry instrumentation
// finds its IDs.
type spanCarrier struct {
	noop.Span
	span *Span
}

// SpanContext returns the IDs of the span and its trace.
func (t *spanCarrier) SpanContext() trace.SpanContext { return t.span.IDs }

// A TracedRun is shared by all spans of a run. An agent that is called as a
// tool belongs to the run of its caller.
type TracedRun struct {
	App, UserID, SessionID string
	// Revision and Invocation are empty if the run failed before they were
	// known.
	Revision, Invocation string
	// Wait is how long the run waited for the session.
	Wait time.Duration
}

// A TracedModel has the request to a model and its response.
type TracedModel struct {
	Request *model.Request
	// Response is the whole response; nil if there is none.
	Response *model.Response
	// First is the time of the first response, partial or whole; zero if there
	// is none.
	First time.Time
}

// A TracedTool has a tool call and its result.
type TracedTool struct {
	Call *tool.Call
	// Result is nil if the tool failed or answers later.
	Result *tool.Result
}

// App returns the name of the app.
func (s *Span) App() string {
	if s.Run == nil {
		return ""
	}
	return s.Run.App
}

// Code returns the code of the error; empty without an error.
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

// beginSpan starts a span inside that of the context, or inside the caller's.
// It returns nil when spans are not observed; all methods of a nil span do
// nothing.
func (h *Host) beginSpan(ctx context.Context, kind SpanKind, name string) (context.Context, *Span) {
	if h.observe == nil {
		return ctx, nil
	}
	s := &Span{Kind: kind, Name: name, Start: h.now(), observe: h.observe}
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

// newTraceID returns a random trace ID. It does not use the host's ID source,
// so that tracing does not change the IDs of a run.
func newTraceID() (id trace.TraceID) {
	binary.NativeEndian.PutUint64(id[:8], rand.Uint64())
	binary.NativeEndian.PutUint64(id[8:], rand.Uint64()|1)
	return id
}

func newSpanID() (id trace.SpanID) {
	binary.NativeEndian.PutUint64(id[:], rand.Uint64()|1)
	return id
}

// beginRunSpan starts the span of a run.
func (h *Host) beginRunSpan(ctx context.Context, req *RunRequest) (context.Context, *Span) {
	ctx, s := h.beginSpan(ctx, SpanRun, req.App)
	if s != nil {
		s.Run = &TracedRun{App: req.App, UserID: req.UserID, SessionID: req.SessionID}
	}
	return ctx, s
}

// spanFromContext returns the innermost span of a context, or nil.
func spanFromContext(ctx context.Context) *Span {
	if t, ok := trace.SpanFromContext(ctx).(*spanCarrier); ok {
		return t.span
	}
	return nil
}

// recordSessionWait records how long the run waited for the session.
func (s *Span) recordSessionWait(now func() time.Time) {
	if s != nil {
		s.Run.Wait = now().Sub(s.Start)
	}
}

// setRevision records the revision and the invocation, once they are known.
func (s *Span) setRevision(r *run) {
	if s != nil {
		s.Run.Revision, s.Run.Invocation = r.app.revision, r.id
	}
}

// recordErrors wraps yield to record the error of the span.
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

// end ends the span and reports it.
func (s *Span) end(now func() time.Time) {
	if s != nil {
		s.End = now()
		s.observe(s)
	}
}

// recordResponse records a response of the model. A whole response ends the
// span, because its processing is not the model's time.
func (s *Span) recordResponse(now func() time.Time, resp *model.Response, err error) {
	if !s.End.IsZero() {
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

// traceModelCall calls a model in a span, if spans are observed, and returns
// whether the whole stream was consumed. event points to the ID of the
// response's event, which is set when the model is called; it may be nil.
func (h *Host) traceModelCall(ctx context.Context, req *model.Request, event *string, call func(context.Context, *model.Request, responseFunc) bool, yield responseFunc) (whole bool) {
	if h.observe == nil {
		return call(ctx, req, yield)
	}
	ctx, span := h.beginSpan(ctx, SpanModel, req.Model)
	span.Agent, span.Model = req.Origin.Agent, &TracedModel{Request: req}
	if event != nil {
		span.Event = *event
	}
	defer func() {
		if span.End.IsZero() {
			span.Err = ctx.Err()
			span.end(h.now)
		}
	}()
	return call(ctx, req, func(resp *model.Response, err error) bool {
		span.recordResponse(h.now, resp, err)
		return yield(resp, err)
	})
}

// runToolTraced runs a tool in a span, which is reported once the event with
// the result is known.
func (s *step) runToolTraced(ctx context.Context, t tool.Tool, call *tool.Call, a *callResult) (*tool.Result, error) {
	h, traits := s.inv.run.host, tool.CapabilitiesOf(t)
	if h.observe == nil {
		return s.runToolWithCallbacks(ctx, t, call, traits)
	}
	ctx, span := h.beginSpan(ctx, SpanTool, call.Name)
	result, err := s.runToolWithCallbacks(ctx, t, call, traits)
	span.Agent, span.Tool, span.Err = call.Origin.Agent, &TracedTool{call, result}, err
	span.End = h.now()
	a.span = span
	return result, err
}

// reportCallSpans reports the spans of the calls of one event; merged is the
// event with the results, or nil.
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
