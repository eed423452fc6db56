package runtime

import (
	"context"
	"errors"
	"strconv"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// isObserved reports whether runs are traced, measured, or both.
func (h *Host) isObserved() bool { return h.tracer != nil || h.observe != nil }

// startSpan starts a span inside the context's span. The span is nil if a span processor panics,
// which does not end the run.
func (h *Host) startSpan(ctx context.Context, name string, kind trace.SpanKind, start time.Time, attributes []attribute.KeyValue) (inside context.Context, s trace.Span) {
	inside = ctx
	defer safe.Recover(func(p *safe.Panic) { p.Log(h.logger, "starting a span panicked", "span", name) })
	return h.tracer.Start(ctx, name, trace.WithTimestamp(start), trace.WithSpanKind(kind), trace.WithAttributes(attributes...))
}

// endSpan ends a span, which may be nil. A span processor's panic does not end the run.
func (h *Host) endSpan(s trace.Span, end time.Time) {
	if s == nil {
		return
	}
	defer safe.Recover(func(p *safe.Panic) { p.Log(h.logger, "ending a span panicked") })
	s.End(trace.WithTimestamp(end))
}

// isRecording reports whether a span's attributes are recorded. The span may be nil.
func isRecording(s trace.Span) bool { return s != nil && s.IsRecording() }

// setSpanError marks a span as failed, unless the code is empty. The message
// may contain contents.
func (h *Host) setSpanError(s trace.Span, code, message string) {
	if code == "" || !isRecording(s) {
		return
	}
	s.SetStatus(codes.Error, code)
	s.SetAttributes(AttrErrorType.String(code))
	if h.traceContents {
		s.SetAttributes(AttrErrorMessage.String(message))
	}
}

// A runSpan is a run's or an agent's span. All methods on a nil span do nothing.
type runSpan struct {
	host *Host
	// span is nil for a run that is only measured.
	span  trace.Span
	start time.Time
	err   error
	// run marks a run's span. App and wait are empty for an agent, which is not measured.
	run        bool
	app        string
	revision   string
	session    session.Key
	protocol   string
	invocation string
	wait       time.Duration
}

// beginRunSpan starts the run's span, if runs are observed.
func (h *Host) beginRunSpan(ctx context.Context, req *RunRequest) (context.Context, *runSpan) {
	if !h.isObserved() {
		return ctx, nil
	}
	key := session.Key{App: req.App, User: req.UserID, ID: req.SessionID}
	s := &runSpan{host: h, run: true, app: req.App, session: key, protocol: req.Protocol, start: h.now()}
	if h.tracer != nil {
		ctx, s.span = h.startSpan(ctx, "invocation", trace.SpanKindInternal, s.start, []attribute.KeyValue{AttrApp.String(req.App), AttrSession.String(req.SessionID)})
	}
	return ctx, s
}

// beginAgentSpan starts the agent's span, if runs are traced.
func (inv *Invocation) beginAgentSpan(ctx context.Context) (context.Context, *runSpan) {
	h, name := inv.run.host, inv.node.agent.Name()
	if h.tracer == nil {
		return ctx, nil
	}
	s := &runSpan{host: h, start: h.now()}
	ctx, s.span = h.startSpan(ctx, OperationAgent+" "+name, trace.SpanKindInternal, s.start,
		inv.run.spanAttributes(AttrOperation.String(OperationAgent), AttrAgent.String(name)))
	return ctx, s
}

// recordSessionWait records how long the run waited for the session.
func (s *runSpan) recordSessionWait() {
	if s != nil {
		s.wait = s.host.now().Sub(s.start)
	}
}

// recordErrors wraps yield to record the span's error.
func (s *runSpan) recordErrors(yield func(*session.Event, error) bool) func(*session.Event, error) bool {
	if s == nil {
		return yield
	}
	return func(ev *session.Event, err error) bool {
		if err != nil {
			s.err = err
		}
		return yield(ev, err)
	}
}

// endSpan ends the span, and reports the run's measurement.
func (s *runSpan) endSpan() {
	if s == nil {
		return
	}
	end, code := s.host.now(), ""
	if s.err != nil {
		code = AsRunError(s.err).Code
		s.host.setSpanError(s.span, code, s.err.Error())
	}
	if s.run && isRecording(s.span) {
		s.span.SetAttributes(AttrSessionWait.Float64(s.wait.Seconds()))
	}
	s.host.endSpan(s.span, end)
	if s.run && s.host.observe != nil {
		s.host.observe(Measurement{
			Kind: MeasuredRun, App: s.app, Revision: s.revision, Session: s.session, Protocol: s.protocol, Invocation: s.invocation, Code: code, Start: s.start, End: end, Wait: s.wait,
		})
	}
}

// identifySpans adds the revision and the invocation to the run's span, once they are known, and
// prepares the attributes for the spans inside it.
func (r *run) identifySpans(ctx context.Context) {
	if r.host.tracer == nil {
		return
	}
	r.traced = []attribute.KeyValue{
		AttrApp.String(r.app.name), AttrSession.String(r.sess.ID), AttrInvocation.String(r.id), AttrMainAgent.String(r.app.root.Name()),
		AttrRevision.String(r.app.revision),
	}
	if r.app.revision == "" {
		r.traced = r.traced[:4]
	}
	trace.SpanFromContext(ctx).SetAttributes(r.traced[2:]...)
}

// spanAttributes returns a span's attributes inside the run: those that all spans have, and its own
// ones that are not empty.
func (r *run) spanAttributes(own ...attribute.KeyValue) []attribute.KeyValue {
	all := append(make([]attribute.KeyValue, 0, len(r.traced)+len(own)), r.traced...)
	for _, a := range own {
		if a.Value.AsString() != "" {
			all = append(all, a)
		}
	}
	return all
}

// A modelSpan is a model call's span.
type modelSpan struct {
	run *run
	// span is nil for a call that is only measured.
	span       trace.Span
	req        *model.Request
	start, end time.Time
	firstChunk time.Time
	retries    int
}

// recordWaits records the call's waits, and reports them to the caller.
func (s *modelSpan) recordWaits() {
	report := s.req.OnWait
	s.req.OnWait = func(w model.Wait) {
		if w.Attempt > 0 {
			s.retries++
		}
		if isRecording(s.span) {
			s.span.AddEvent("wait", trace.WithAttributes(AttrWait.String(w.String())))
		}
		if report != nil {
			report(w)
		}
	}
}

// traceModelCall calls a model in a span, if runs are observed. event is the ID of the
// response's event; empty if there is none.
func (r *run) traceModelCall(ctx context.Context, req *model.Request, event string, call func(context.Context, *model.Request, responseFunc), yield responseFunc) {
	h := r.host
	if !h.isObserved() {
		call(ctx, req, yield)
		return
	}
	s := &modelSpan{run: r, req: req, start: h.now()}
	if h.tracer != nil {
		ctx = s.startSpan(ctx, event)
	}
	s.recordWaits()
	defer s.endOpen(ctx)
	call(ctx, req, func(resp *model.Response, err error) bool {
		s.recordResponse(resp, err)
		return yield(resp, err)
	})
}

// startSpan starts the span. Its attributes are in a frame of their own, because that of the caller is
// on the stack while the model works.
func (s *modelSpan) startSpan(ctx context.Context, event string) context.Context {
	r, req := s.run, s.req
	ctx, s.span = r.host.startSpan(ctx, OperationModel+" "+req.Model, trace.SpanKindClient, s.start,
		r.spanAttributes(AttrEvent.String(event), AttrOperation.String(OperationModel), AttrAgent.String(req.Origin.Agent), AttrModel.String(req.Model)))
	return ctx
}

// endOpen ends the span of a call without a whole response.
func (s *modelSpan) endOpen(ctx context.Context) {
	if s.end.IsZero() {
		s.endSpan(nil, ctx.Err())
	}
}

// traceCallbackAnswer reports a span for a model call that a callback has answered (adk-python
// since 2.11).
func (r *run) traceCallbackAnswer(ctx context.Context, req *model.Request, callback, event string) {
	h := r.host
	if h.tracer == nil {
		return
	}
	now := h.now()
	_, span := h.startSpan(ctx, OperationModel+" "+req.Model, trace.SpanKindInternal, now,
		r.spanAttributes(AttrEvent.String(event), AttrOperation.String(OperationModel), AttrAgent.String(req.Origin.Agent), AttrModel.String(req.Model), AttrCallback.String(callback)))
	h.endSpan(span, now)
}

// recordResponse records a model response. A whole response ends the span, because its processing
// is not the model's time.
func (s *modelSpan) recordResponse(resp *model.Response, err error) {
	if !s.end.IsZero() {
		return
	}
	if err == nil && s.firstChunk.IsZero() {
		s.firstChunk = s.run.host.now()
	}
	if err != nil || !resp.Partial {
		s.endSpan(resp, err)
	}
}

// endSpan ends the span, and reports the measurement.
func (s *modelSpan) endSpan(resp *model.Response, err error) {
	h, code, message := s.run.host, "", ""
	switch {
	case err != nil:
		code, message = NewModelError(s.req.Model, err).Code, err.Error()
	case resp != nil:
		code, message = resp.ErrorCode, resp.ErrorMessage
	}
	s.end = h.now()
	if isRecording(s.span) {
		s.span.SetAttributes(h.modelCallAttributes(s.req, resp)...)
		h.setSpanError(s.span, code, message)
		if failed := (*model.Error)(nil); errors.As(err, &failed) && failed.Code > 0 { // the HTTP status
			s.span.SetAttributes(AttrErrorType.String(strconv.Itoa(failed.Code)))
		}
	}
	h.endSpan(s.span, s.end)
	if h.observe == nil {
		return
	}
	m := Measurement{Kind: MeasuredModel, App: s.run.app.name, Revision: s.run.app.revision, Agent: s.req.Origin.Agent, Name: s.req.Model, Code: code, Start: s.start, End: s.end, FirstChunk: s.firstChunk, Retries: s.retries}
	if resp != nil {
		m.Usage = resp.UsageMetadata
		m.Cost, _ = model.CostOf(resp)
	}
	h.observe(m)
}

// A callSpan is the span of a tool call that has ended. Its event is not known
// yet.
type callSpan struct {
	// span is nil if the call is not traced.
	span trace.Span
	end  time.Time
}

// runToolTraced runs a tool in a span, if runs are observed. The span is
// reported by [Host.endCallSpans].
func (s *callRunner) runToolTraced(ctx context.Context, t tool.Tool, call *tool.Call, a *callResult) (result *tool.Result, err error) {
	r, traits := s.inv.run, tool.CapabilitiesOf(t)
	h := r.host
	if !h.isObserved() {
		return s.runToolWithCallbacks(ctx, t, call, traits, a)
	}
	start := h.now()
	if h.tracer != nil {
		ctx, a.span.span = h.startSpan(ctx, OperationTool+" "+call.Name, trace.SpanKindInternal, start,
			r.spanAttributes(AttrOperation.String(OperationTool), AttrAgent.String(call.Origin.Agent), AttrTool.String(call.Name), AttrCall.String(call.ID)))
	}
	returned := false
	defer func() {
		if !returned { // a panic, after which the call has no event
			h.setSpanError(a.span.span, CodeToolFailed, errPanicked.Error())
			h.endSpan(a.span.span, h.now())
		}
	}()
	result, err = s.runToolWithCallbacks(ctx, t, call, traits, a)
	returned, a.span.end = true, h.now()
	code := ""
	if err != nil && !errors.Is(err, errSuspended) {
		code = CodeToolFailed
		h.setSpanError(a.span.span, code, err.Error())
	}
	if h.traceContents && isRecording(a.span.span) {
		a.span.span.SetAttributes(AttrArguments.String(jsonText(call.Args)))
		if result != nil { // otherwise the tool failed or answers later
			a.span.span.SetAttributes(AttrResult.String(jsonText(result.Response)))
		}
	}
	if h.observe != nil {
		h.observe(Measurement{Kind: MeasuredTool, App: r.app.name, Revision: r.app.revision, Agent: call.Origin.Agent, Name: call.Name, Code: code, Start: start, End: a.span.end})
	}
	return result, err
}

// endCallSpans reports the spans for one event's calls; merged is the event with the results, or
// nil.
func (h *Host) endCallSpans(answers []*callResult, merged *session.Event) {
	for _, a := range answers {
		if merged != nil && isRecording(a.span.span) {
			a.span.span.SetAttributes(AttrEvent.String(merged.ID))
		}
		h.endSpan(a.span.span, a.span.end)
	}
}
