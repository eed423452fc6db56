package testenv

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"agenthost/pkg/runtime"
)

// NewTracing returns options for a host that passes spans to a processor, with contents.
func NewTracing(p sdktrace.SpanProcessor) *Options {
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithSpanProcessor(p))
	return &Options{TracerProvider: provider, TraceContents: true}
}

// renderSpans returns a line for each span, ordered by start, with child spans indented. An event
// ID is shown as its number.
func renderSpans(t testing.TB, all []sdktrace.ReadOnlySpan) string {
	t.Helper()
	slices.SortFunc(all, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	return renderChildSpans(t, all, trace.SpanID{}, "")
}

func renderChildSpans(t testing.TB, all []sdktrace.ReadOnlySpan, parent trace.SpanID, indent string) string {
	t.Helper()
	var out strings.Builder
	for _, s := range all {
		if s.Parent().SpanID() == parent {
			fmt.Fprintf(&out, "%s%s\n", indent, describeSpan(t, s))
			out.WriteString(renderChildSpans(t, all, s.SpanContext().SpanID(), indent+"  "))
		}
	}
	return out.String()
}

func describeSpan(t testing.TB, s sdktrace.ReadOnlySpan) string {
	t.Helper()
	values := map[attribute.Key]string{}
	for _, a := range s.Attributes() {
		values[a.Key] = a.Value.AsString()
	}
	var title string
	var facts []string
	switch values[runtime.AttrOperation] {
	case runtime.OperationAgent:
		title = "agent " + values[runtime.AttrAgent]
	case runtime.OperationModel:
		title, facts = "model "+values[runtime.AttrModel], describeModelCall(t, values)
	case runtime.OperationTool:
		title, facts = "tool "+values[runtime.AttrTool], describeToolCall(t, values)
	default:
		title = "run " + values[runtime.AttrApp]
	}
	if message := values[runtime.AttrErrorMessage]; message != "" {
		facts = append(facts, "fails: "+message)
	}
	if len(facts) == 0 {
		return title
	}
	return title + ": " + strings.Join(facts, ", ")
}

func describeModelCall(t testing.TB, values map[attribute.Key]string) []string {
	t.Helper()
	var contents []json.RawMessage
	decodeAttribute(t, values[runtime.AttrInputMessages], &contents)
	facts := append(describeOrigin(values), fmt.Sprintf("%d contents", len(contents)))
	if values[runtime.AttrModelResponse] == "" {
		facts = append(facts, "no answer")
	}
	return facts
}

func describeToolCall(t testing.TB, values map[attribute.Key]string) []string {
	t.Helper()
	facts := describeOrigin(values)
	if result := values[runtime.AttrResult]; result != "" {
		var answer map[string]any
		decodeAttribute(t, result, &answer)
		facts = append(facts, fmt.Sprintf("answers %v", answer))
	}
	return facts
}

// describeOrigin names the agent that called, and the resulting event.
func describeOrigin(values map[attribute.Key]string) (facts []string) {
	if agent := values[runtime.AttrAgent]; agent != "" {
		facts = append(facts, "of "+agent)
	}
	if event := values[runtime.AttrEvent]; event != "" {
		number, _, _ := strings.Cut(event, "-")
		facts = append(facts, "event "+cmp.Or(strings.TrimLeft(number, "0"), "0"))
	}
	return facts
}

func decodeAttribute(t testing.TB, text string, v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), v); err != nil {
		t.Fatalf("attribute %s: %v", text, err)
	}
}
