package devui

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/instrumentation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"agenthost/pkg/runtime"
)

// modelSpan returns a model call's span.
func modelSpan(event, text string) sdktrace.ReadOnlySpan {
	return newSpan(runtime.TracerName,
		runtime.AttrOperation.String(runtime.OperationModel), runtime.AttrApp.String("a"), runtime.AttrSession.String("s"),
		runtime.AttrEvent.String(event), runtime.AttrModel.String("m"),
		runtime.AttrInstructions.String("Be kind."), runtime.AttrInputMessages.String(`[{"parts":[{"text":"`+text+`"}],"role":"user"}]`),
		runtime.AttrModelRequest.String(`{"model":"m","config":{"systemInstruction":"Be kind."}}`),
		runtime.AttrModelResponse.String(`{"finishReason":"STOP"}`), runtime.AttrOutputMessages.String(`{"role":"model"}`),
		runtime.AttrFinishReasons.StringSlice([]string{"STOP"}), runtime.AttrInputTokens.Int(3), runtime.AttrOutputTokens.Int(4),
	)
}

func newSpan(scope string, attributes ...attribute.KeyValue) sdktrace.ReadOnlySpan {
	return tracetest.SpanStub{
		SpanContext: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}),
		StartTime:   time.Unix(1, 0), EndTime: time.Unix(2, 0), Attributes: attributes,
		InstrumentationScope: instrumentation.Scope{Name: scope},
	}.Snapshot()
}

func (t *Traces) allSpans() []keptSpan { return t.findSpans(func(*keptSpan) bool { return true }) }

// A model's request and response include their messages.
func TestTracesShowMessages(t *testing.T) {
	traces := NewTraces(true)
	traces.OnEnd(modelSpan("e", "hello"))
	k := traces.allSpans()[0]
	got := k.wireAttributes()
	for key, want := range map[string]any{
		"gcp.vertex.agent.llm_request":  `{"model":"m","config":{"systemInstruction":"Be kind."},"contents":[{"parts":[{"text":"hello"}],"role":"user"}]}`,
		"gcp.vertex.agent.llm_response": `{"content":{"role":"model"},"finishReason":"STOP"}`,
		"gen_ai.usage.input_tokens":     int64(3), "gen_ai.usage.output_tokens": int64(4),
	} {
		if got[key] != want {
			t.Errorf("%s = %v, want %v", key, got[key], want)
		}
	}
	for response, want := range map[[2]string]string{
		{`{}`, `{"role":"model"}`}: `{"content":{"role":"model"}}`, {`{"errorCode":"E"}`, ""}: `{"errorCode":"E"}`, {"", ""}: "",
	} {
		if got := (&keptContents{response: response[0], output: response[1]}).wireResponse(); got != want {
			t.Errorf("the response of %s with message %s = %s, want %s", response[0], response[1], got, want)
		}
	}
}

// Without contents, traces retain no input or output, even if spans have them.
func TestTracesWithoutContents(t *testing.T) {
	traces := NewTraces(false)
	traces.OnEnd(modelSpan("e", "secret words"))
	traces.OnEnd(newSpan(runtime.TracerName, runtime.AttrOperation.String(runtime.OperationTool), runtime.AttrTool.String("look_up"),
		runtime.AttrArguments.String("secret words"), runtime.AttrResult.String("secret words"), runtime.AttrErrorMessage.String("secret words")))
	kept := traces.allSpans()
	if len(kept) != 2 {
		t.Fatalf("%d spans, want 2", len(kept))
	}
	for _, k := range kept {
		if text := fmt.Sprintf("%+v", k); strings.Contains(text, "secret words") || strings.Contains(text, "Be kind") {
			t.Errorf("a span without contents has %s", text)
		}
	}
}

// Spans from other instrumentation on the same provider are ignored.
func TestTracesOfRunsOnly(t *testing.T) {
	traces := NewTraces(true)
	traces.OnEnd(newSpan("net/http", runtime.AttrSession.String("s")))
	if kept := traces.allSpans(); len(kept) != 0 {
		t.Errorf("kept %+v, want no span", kept)
	}
}

// The number of spans and the size of their contents are limited. The oldest are dropped first.
func TestTraceLimits(t *testing.T) {
	traces := NewTraces(true)
	long := strings.Repeat("x", 1<<20)
	for i := range 40 {
		traces.OnEnd(modelSpan(fmt.Sprintf("long-%d", i), long))
	}
	kept := traces.allSpans()
	if kept[0].input != "" || kept[39].input == "" || traces.contentBytes > maxContentBytes || len(kept) != 40 {
		t.Errorf("%d spans keep %d bytes, the first one %d, the last one %d", len(kept), traces.contentBytes, len(kept[0].input), len(kept[39].input))
	}
	for i := range maxSpans + 10 {
		traces.OnEnd(modelSpan(fmt.Sprintf("short-%d", i), "hello"))
	}
	kept = traces.allSpans()
	if len(kept) != maxSpans || kept[0].event != "short-10" {
		t.Errorf("%d spans starting at %s, want %d starting at short-10", len(kept), kept[0].event, maxSpans)
	}
	sum := 0
	for _, k := range kept {
		sum += k.contentSize()
	}
	if sum != traces.contentBytes || traces.stripped != 0 {
		t.Errorf("the spans keep %d bytes, %d are counted, %d are stripped", sum, traces.contentBytes, traces.stripped)
	}
}

// The number of drafts and their size are limited. The oldest draft is dropped first.
func TestDraftLimits(t *testing.T) {
	var d draftStore
	for i := range maxDrafts + 1 {
		if !d.put(fmt.Sprintf("app%d", i), map[string][]byte{"a.yaml": nil}) {
			t.Fatalf("draft %d was rejected", i)
		}
	}
	if d.get("app0") != nil || d.get("app1") == nil {
		t.Error("got the oldest draft, or not the second one")
	}
	if d.put("app1", map[string][]byte{"b.yaml": make([]byte, maxDraftBytes+1)}) {
		t.Error("a draft above the limit was accepted")
	}
	if len(d.get("app1")) != 1 {
		t.Error("a rejected draft changed the previous one")
	}
}

// BenchmarkTraces measures what a span costs without contents.
func BenchmarkTraces(b *testing.B) {
	traces, span := NewTraces(false), modelSpan("e", "hello")
	b.ReportAllocs()
	for b.Loop() {
		traces.OnEnd(span)
	}
}

// A turn's trace is a tree with the first span's time as zero. It has waits, costs and errors, and
// counts the spans above its limit.
func TestTurnTrace(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(10, 0).Add(time.Duration(ms) * time.Millisecond) }
	id := func(n int) trace.SpanID { return trace.SpanID{1, byte(n >> 8), byte(n)} }
	found := []keptSpan{ // in the order of their ends
		{operation: runtime.OperationModel, span: id(3), parent: id(2), model: "m", began: at(20), ended: at(60), cost: 0.5, waits: []keptWait{{at(30), "waiting 1 s: m answered 429"}}},
		{operation: runtime.OperationTool, span: id(4), parent: id(2), tool: "refund", began: at(60), ended: at(70), failure: "TOOL_FAILED"},
		{operation: runtime.OperationAgent, span: id(2), parent: id(1), agent: "desk", began: at(10), ended: at(80)},
		{span: id(1), parent: id(99), began: at(0), ended: at(90), queued: 0.01},
	}
	var got []string
	for _, s := range newTurnTrace(found).Spans {
		parent := -1
		if s.Parent != nil {
			parent = *s.Parent
		}
		got = append(got, fmt.Sprint(parent, " ", s.Kind, " ", s.Name, " ", s.Start/1000, "-", s.End/1000, " ", s.Queued, s.Cost, s.Error, s.Waits))
	}
	want := []string{"-1 run run 0-90 10000 0[]", "0 agent desk 10-80 0 0[]", "1 model m 20-60 0 0.5[{30000 waiting 1 s: m answered 429}]", "1 tool refund 60-70 0 0TOOL_FAILED[]"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the spans are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	many := make([]keptSpan, maxWaterfall+2)
	for i := range many {
		many[i] = keptSpan{span: id(i + 1), parent: id(i), began: at(i)}
	}
	if got := newTurnTrace(many); len(got.Spans) != maxWaterfall || got.Omitted != 2 {
		t.Errorf("%d spans and %d omitted, want %d and 2", len(got.Spans), got.Omitted, maxWaterfall)
	}
}
