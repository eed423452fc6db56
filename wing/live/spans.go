package live

import (
	"context"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// OperationLive is the span operation of a live connection.
const OperationLive = "live"

// A liveSpan is a live connection's span, and measures its turns.
type liveSpan struct {
	// span is nil if the run is not traced.
	span  trace.Span
	start time.Time
	// turn and first are when the current turn began, and when the model began to answer.
	turn, first time.Time
}

// beginConnSpan starts a connection's span.
func (a *liveAgent) beginConnSpan(ctx context.Context) {
	a.connSpan = liveSpan{start: a.ReadClock()}
	a.connSpan.turn = a.connSpan.start
	a.connSpan.span = a.StartSpan(ctx, OperationLive+" "+a.modelName(), a.connSpan.start,
		runtime.AttrOperation.String(OperationLive), runtime.AttrAgent.String(a.Agent().Name()), runtime.AttrModel.String(a.modelName()))
	if span := a.connSpan.span; span != nil && span.IsRecording() {
		span.SetAttributes(attribute.Bool("agenthost.live.resumed", a.attempt.handle != ""), attribute.Int("agenthost.live.connection", a.connections))
	}
}

// endConnSpan ends a connection's span; err is nil if the host has ended it.
func (a *liveAgent) endConnSpan(err error) {
	if a.connSpan.start.IsZero() {
		return
	}
	code, message, end := "", "", a.ReadClock()
	if err != nil {
		code, message = runtime.NewModelError(a.modelName(), err).Code, err.Error()
	}
	a.EndSpan(a.connSpan.span, end, code, message)
	dropped := a.out.Dropped() + a.req.Requests.Dropped() - a.dropped
	if a.dropped += dropped; dropped > 0 {
		a.RunLogger().Warn("live conversation media was dropped", "app", a.App().Name(), "session", a.Session().Key.ID, "chunks", dropped)
	}
	a.ReportMeasurement(runtime.Measurement{Kind: runtime.MeasuredLive, Name: a.modelName(), Code: code, Start: a.connSpan.start, End: end, Dropped: dropped})
	a.connSpan = liveSpan{}
}

// measureTurn reports a turn's tokens and cost as for a model call.
func (a *liveAgent) measureTurn(response *model.Response) {
	end := a.ReadClock()
	m := runtime.Measurement{
		Kind: runtime.MeasuredModel, Agent: a.Agent().Name(), Name: a.modelName(), Start: a.connSpan.turn, End: end,
		FirstChunk: a.connSpan.first, Usage: response.UsageMetadata,
	}
	m.Cost, _ = model.CostOf(response)
	a.connSpan.turn, a.connSpan.first = end, time.Time{}
	a.ReportMeasurement(m)
}
