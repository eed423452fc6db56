package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"agenthost/internal/command"
	"agenthost/pkg/runtime"
	"agenthost/wing/devui"
)

// newTracing returns the provider for run spans: for the Dev UI if traces is not nil, and for a
// collector with --otlp. Without both it is nil. flush sends spans that are not sent yet.
func (f *observeFlags) newTracing(ctx context.Context, logger *slog.Logger, traces *devui.Traces) (_ trace.TracerProvider, flush func(), err error) {
	if traces == nil && f.otlp == "" {
		return nil, func() {}, nil
	}
	sampler := newSampler(os.Getenv("OTEL_TRACES_SAMPLER"), os.Getenv("OTEL_TRACES_SAMPLER_ARG"))
	opts := []sdktrace.TracerProviderOption{
		sdktrace.WithResource(resource.NewSchemaless(attribute.String("service.name", "agenthost"), attribute.String("service.version", buildVersion()))),
	}
	if traces != nil {
		// The Dev UI shows all spans; the sampler decides which the collector receives.
		sampler = sdktrace.AlwaysRecord(sampler)
		opts = append(opts, sdktrace.WithSpanProcessor(traces))
	}
	if f.otlp != "" {
		otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { logger.Warn("sending traces failed", "error", err) }))
		export, err := newExportProcessor(ctx, f.otlp, f.traceContents)
		if err != nil {
			return nil, nil, err
		}
		opts = append(opts, sdktrace.WithSpanProcessor(export))
	}
	p := sdktrace.NewTracerProvider(append(opts, sdktrace.WithSampler(sampler))...)
	return p, func() {
		if err := flushTraces(p); err != nil {
			logger.Warn("sending the last traces failed", "error", err)
		}
	}, nil
}

// flushTimeout limits how long the host waits for the collector when it shuts down.
const flushTimeout = 5 * time.Second

// flushTraces sends the remaining spans, and shuts the provider down.
func flushTraces(p *sdktrace.TracerProvider) error {
	ctx, cancel := context.WithTimeout(context.Background(), flushTimeout)
	defer cancel()
	return p.Shutdown(ctx)
}

// newSampler returns the sampler that the SDK's variables describe. The SDK reads them itself only
// without a sampler from us, and reports invalid ones in any case; they are then ignored.
func newSampler(name, arg string) sdktrace.Sampler {
	ratio := sdktrace.AlwaysSample()
	if r, err := strconv.ParseFloat(strings.TrimSpace(arg), 64); err == nil && r >= 0 && r <= 1 {
		ratio = sdktrace.TraceIDRatioBased(r)
	}
	switch strings.ToLower(strings.TrimSpace(name)) {
	case "always_on":
		return sdktrace.AlwaysSample()
	case "always_off":
		return sdktrace.NeverSample()
	case "traceidratio":
		return ratio
	case "parentbased_always_off":
		return sdktrace.ParentBased(sdktrace.NeverSample())
	case "parentbased_traceidratio":
		return sdktrace.ParentBased(ratio)
	}
	return sdktrace.ParentBased(sdktrace.AlwaysSample())
}

// newExportProcessor returns a processor that sends sampled spans in the background to a
// collector's base URL, with OTLP over HTTP. It drops spans that the collector does not accept in
// time, so that no run waits for it.
func newExportProcessor(ctx context.Context, base string, contents bool) (sdktrace.SpanProcessor, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("--otlp must be a collector's base URL, such as http://localhost:4318, got %q", base)
	}
	client, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(u.JoinPath("v1/traces").String()))
	if err != nil {
		return nil, command.FailWithf("--otlp: %w", err)
	}
	return contentFilter{sdktrace.NewBatchSpanProcessor(client), contents}, nil
}

// A contentFilter removes contents that only the Dev UI may have from spans, and passes
// them on.
type contentFilter struct {
	sdktrace.SpanProcessor
	// contents keeps messages, tool arguments and tool results.
	contents bool
}

// OnEnd passes a span on. A span without contents is a copy, so that the span queue does not hold
// them.
func (f contentFilter) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.SpanContext().IsSampled() && slices.ContainsFunc(s.Attributes(), f.isRemoved) {
		stub := tracetest.SpanStubFromReadOnlySpan(s)
		stub.Attributes = slices.DeleteFunc(slices.Clone(stub.Attributes), f.isRemoved)
		s = stub.Snapshot()
	}
	f.SpanProcessor.OnEnd(s)
}

// isRemoved reports whether a collector does not receive an attribute. Only the Dev UI gets the
// form for ADK's clients.
func (f contentFilter) isRemoved(a attribute.KeyValue) bool {
	if f.contents {
		return a.Key == runtime.AttrModelRequest || a.Key == runtime.AttrModelResponse
	}
	return runtime.IsContentAttribute(a.Key)
}
