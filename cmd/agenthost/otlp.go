package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdk "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"agenthost/pkg/runtime"
)

// An exporter sends the spans of runs to a collector in the background. It drops spans
// that the collector does not accept in time, so that no run waits for it.
type exporter struct {
	provider *sdk.TracerProvider
	tracer   trace.Tracer
	// contents includes messages, tool arguments and tool results.
	contents bool
}

// newExporter returns an exporter to the base URL of a collector that accepts OTLP over HTTP.
func newExporter(ctx context.Context, base string, contents bool) (*exporter, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--otlp must be the base URL of a collector, such as http://localhost:4318, got %q", base)
	}
	client, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.JoinPath("v1/traces").String()))
	if err != nil {
		return nil, failWithf("--otlp: %w", err)
	}
	attributes := resource.NewSchemaless(attribute.String("service.name", "agenthost"), attribute.String("service.version", buildVersion()))
	p := sdk.NewTracerProvider(sdk.WithBatcher(client), sdk.WithResource(attributes), sdk.WithIDGenerator(recordedIDs{}))
	return &exporter{p, p.Tracer("agenthost"), contents}, nil
}

// flushTimeout limits how long the host waits for the collector when it shuts down.
const flushTimeout = 5 * time.Second

// close flushes the remaining spans.
func (e *exporter) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	return e.provider.Shutdown(ctx)
}

type spanIDs struct{}

// recordedIDs is an ID generator that keeps the IDs that a span already has in logs and
// in the Dev UI.
type recordedIDs struct{}

// NewIDs returns the IDs of the span in ctx.
func (recordedIDs) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	ids, _ := ctx.Value(spanIDs{}).(trace.SpanContext)
	return ids.TraceID(), ids.SpanID()
}

// NewSpanID returns the ID of the span in ctx.
func (g recordedIDs) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	_, id := g.NewIDs(ctx)
	return id
}

// Observe sends a span.
func (e *exporter) Observe(s *runtime.Span) {
	ctx := context.WithValue(context.Background(), spanIDs{}, s.IDs)
	if s.Parent.IsValid() {
		ctx = trace.ContextWithSpanContext(ctx, s.Parent)
	}
	kind := trace.SpanKindInternal
	if s.Kind == runtime.SpanModel {
		kind = trace.SpanKindClient
	}
	_, span := e.tracer.Start(ctx, spanName(s), trace.WithTimestamp(s.Start), trace.WithSpanKind(kind))
	if span.IsRecording() {
		span.SetAttributes(e.spanAttributes(s)...)
		if code := s.Code(); code != "" {
			span.SetAttributes(attribute.String("error.type", code))
			span.SetStatus(codes.Error, code)
		}
	}
	span.End(trace.WithTimestamp(s.End))
}

// spanName returns the name of a span in the GenAI semantic conventions.
func spanName(s *runtime.Span) string {
	switch s.Kind {
	case runtime.SpanAgent:
		return "invoke_agent " + s.Name
	case runtime.SpanModel:
		return "generate_content " + s.Name
	case runtime.SpanTool:
		return "execute_tool " + s.Name
	}
	return "invocation"
}

// spanAttributes returns the attributes of OpenTelemetry's GenAI semantic conventions
// (1.41) and agenthost's own. They exclude the user ID, because many people can read a
// collector.
func (e *exporter) spanAttributes(s *runtime.Span) []attribute.KeyValue {
	all := []attribute.KeyValue{}
	add := func(key, value string) {
		if value != "" {
			all = append(all, attribute.String(key, value))
		}
	}
	if r := s.Run; r != nil {
		add("agenthost.app", r.App)
		add("agenthost.revision", r.Revision)
		add("agenthost.invocation", r.Invocation)
		add("gen_ai.conversation.id", r.SessionID)
	}
	add("agenthost.event", s.Event)
	switch s.Kind {
	case runtime.SpanRun:
		all = append(all, attribute.Float64("agenthost.session_wait", s.Run.Wait.Seconds()))
	case runtime.SpanAgent:
		add("gen_ai.operation.name", "invoke_agent")
		add("gen_ai.agent.name", s.Name)
	case runtime.SpanModel:
		add("gen_ai.operation.name", "generate_content")
		add("gen_ai.agent.name", s.Agent)
		add("gen_ai.request.model", s.Name)
		all = append(all, e.modelAttributes(s.Model)...)
	case runtime.SpanTool:
		add("gen_ai.operation.name", "execute_tool")
		add("gen_ai.agent.name", s.Agent)
		add("gen_ai.tool.name", s.Name)
		add("gen_ai.tool.call.id", s.Tool.Call.ID)
		if e.contents {
			add("gen_ai.tool.call.arguments", encodeJSON(s.Tool.Call.Args))
			if s.Tool.Result != nil {
				add("gen_ai.tool.call.result", encodeJSON(s.Tool.Result.Response))
			}
		}
	}
	return all
}

func (e *exporter) modelAttributes(m *runtime.TracedModel) []attribute.KeyValue {
	var all []attribute.KeyValue
	if e.contents {
		all = append(all, attribute.String("gen_ai.input.messages", encodeJSON(m.Request.Contents)),
			attribute.String("gen_ai.system_instructions", m.Request.Instruction()))
	}
	r := m.Response
	if r == nil {
		return all
	}
	if r.ModelVersion != "" {
		all = append(all, attribute.String("gen_ai.response.model", r.ModelVersion))
	}
	if r.FinishReason != "" {
		all = append(all, attribute.StringSlice("gen_ai.response.finish_reasons", []string{string(r.FinishReason)}))
	}
	if u := r.UsageMetadata; u != nil {
		all = append(all, attribute.Int("gen_ai.usage.input_tokens", int(u.PromptTokenCount)),
			attribute.Int("gen_ai.usage.output_tokens", int(u.CandidatesTokenCount)))
	}
	if e.contents && r.Content != nil {
		all = append(all, attribute.String("gen_ai.output.messages", encodeJSON(r.Content)))
	}
	return all
}

// encodeJSON returns a value as JSON, or an empty string if it cannot be encoded.
func encodeJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(text)
}
