package runtime

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"agenthost/pkg/model"
)

// OperationLive is the operation of the span of a live connection.
const OperationLive = "live"

// A liveSpan is the span of one live connection, and the measurement of its turns.
type liveSpan struct {
	// span is nil if the run is not traced.
	span  trace.Span
	start time.Time
	// turn and first are when the current turn began, and when the model began to answer.
	turn, first time.Time
}

// beginConnSpan starts the span of a connection.
func (a *liveAgent) beginConnSpan(ctx context.Context) {
	a.connSpan = liveSpan{start: a.host.now()}
	a.connSpan.turn = a.connSpan.start
	if a.host.tracer == nil {
		return
	}
	_, a.connSpan.span = a.host.startSpan(ctx, OperationLive+" "+a.modelName(), trace.SpanKindClient, a.connSpan.start,
		a.spanAttributes(AttrOperation.String(OperationLive), AttrAgent.String(a.inv.node.agent.Name()), AttrModel.String(a.modelName())))
	if isRecording(a.connSpan.span) {
		a.connSpan.span.SetAttributes(attribute.Bool("agenthost.live.resumed", a.attempt.handle != ""), attribute.Int("agenthost.live.connection", a.connections))
	}
}

// endConnSpan ends the span of a connection; err is nil if the host has ended it.
func (a *liveAgent) endConnSpan(err error) {
	if a.connSpan.start.IsZero() {
		return
	}
	code, end := "", a.host.now()
	if err != nil {
		code = modelFailure(a.modelName(), err).Code
		a.host.setSpanError(a.connSpan.span, code, err.Error())
	}
	a.host.endSpan(a.connSpan.span, end)
	dropped := a.out.Dropped() + a.req.Requests.Dropped() - a.dropped
	if a.dropped += dropped; dropped > 0 {
		a.logger().Warn("media of a live conversation was dropped", "app", a.app.name, "session", a.sess.Key.ID, "chunks", dropped)
	}
	if a.host.observe != nil {
		a.host.observe(Measurement{Kind: MeasuredLive, App: a.app.name, Name: a.modelName(), Code: code, Start: a.connSpan.start, End: end, Dropped: dropped})
	}
	a.connSpan = liveSpan{}
}

// measureTurn reports the tokens and the cost of a turn like those of a model call.
func (a *liveAgent) measureTurn(response *model.Response) {
	if a.host.observe == nil {
		return
	}
	end := a.host.now()
	m := Measurement{
		Kind: MeasuredModel, App: a.app.name, Agent: a.inv.node.agent.Name(), Name: a.modelName(), Start: a.connSpan.turn, End: end,
		FirstChunk: a.connSpan.first, Usage: response.UsageMetadata,
	}
	m.Cost, _ = model.CostOf(response)
	a.connSpan.turn, a.connSpan.first = end, time.Time{}
	a.host.observe(m)
}
