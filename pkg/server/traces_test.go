package server

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// modelSpan returns the span of a model call.
func modelSpan(event, text string) *runtime.Span {
	return &runtime.Span{
		Kind: runtime.SpanModel, Event: event, Start: time.Unix(1, 0), End: time.Unix(2, 0),
		IDs: trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}),
		Run: &runtime.TracedRun{App: "a", SessionID: "s"},
		Model: &runtime.TracedModel{
			Request: &model.Request{Model: "m", Contents: []*genai.Content{{Role: "user", Parts: []*genai.Part{
				{Text: text}, {InlineData: &genai.Blob{MIMEType: "image/png", Data: []byte("png")}},
			}}}, Config: &genai.GenerateContentConfig{
				SystemInstruction: &genai.Content{Parts: []*genai.Part{{Text: "Be kind."}}},
				HTTPOptions:       &genai.HTTPOptions{Headers: map[string][]string{"Authorization": {"key-1234"}}},
			}},
			Response: &model.Response{FinishReason: genai.FinishReasonStop, UsageMetadata: &genai.GenerateContentResponseUsageMetadata{PromptTokenCount: 3, CandidatesTokenCount: 4}},
		},
	}
}

func (t *Traces) allSpans() []keptSpan { return t.findSpans(func(*keptSpan) bool { return true }) }

// Traced requests omit files and headers, which may contain keys.
func TestTracesShowRequests(t *testing.T) {
	traces := NewTraces(true)
	traces.Observe(modelSpan("e", "hello"))
	got := traces.allSpans()[0].wireAttributes()
	want := `{"model":"m","config":{"systemInstruction":"Be kind."},"contents":[{"parts":[{"text":"hello"}],"role":"user"}]}`
	if got["gcp.vertex.agent.llm_request"] != want {
		t.Errorf("llm_request = %s\nwant %s", got["gcp.vertex.agent.llm_request"], want)
	}
	if got["gen_ai.usage.input_tokens"] != int32(3) || got["gen_ai.usage.output_tokens"] != int32(4) {
		t.Errorf("tokens = %v and %v, want 3 and 4", got["gen_ai.usage.input_tokens"], got["gen_ai.usage.output_tokens"])
	}
}

// Without contents, traces retain no input or output.
func TestTracesWithoutContents(t *testing.T) {
	traces := NewTraces(false)
	traces.Observe(modelSpan("e", "secret words"))
	traces.Observe(&runtime.Span{Kind: runtime.SpanTool, Name: "look_up", Tool: &runtime.TracedTool{
		Call: &tool.Call{ID: "c", Args: map[string]any{"q": "secret words"}}, Result: &tool.Result{Response: map[string]any{"a": "secret words"}},
	}})
	for _, k := range traces.allSpans() {
		if text := fmt.Sprintf("%+v", k); strings.Contains(text, "secret words") || strings.Contains(text, "Be kind") {
			t.Errorf("a span without contents has %s", text)
		}
	}
}

// The number of spans and the size of their contents are limited. The oldest are
// dropped first.
func TestTraceLimits(t *testing.T) {
	traces := NewTraces(true)
	long := strings.Repeat("x", 1<<20)
	for i := range 40 {
		traces.Observe(modelSpan(fmt.Sprintf("long-%d", i), long))
	}
	kept := traces.allSpans()
	if kept[0].input != "" || kept[39].input == "" || traces.contentBytes > maxContentBytes || len(kept) != 40 {
		t.Errorf("%d spans keep %d bytes, the first one %d, the last one %d", len(kept), traces.contentBytes, len(kept[0].input), len(kept[39].input))
	}
	for i := range maxSpans + 10 {
		traces.Observe(modelSpan(fmt.Sprintf("short-%d", i), "hello"))
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

// The number and the size of drafts are limited. The oldest draft is dropped first.
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

// BenchmarkTraces measures the cost of a span without contents.
func BenchmarkTraces(b *testing.B) {
	traces, span := NewTraces(false), modelSpan("e", "hello")
	b.ReportAllocs()
	for b.Loop() {
		traces.Observe(span)
	}
}
