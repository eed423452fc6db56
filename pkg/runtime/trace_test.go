package runtime_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// tracedFiles is an app whose root agent calls a tool, and whose second agent fails.
var tracedFiles = map[string]string{
	"root_agent.yaml": `agent_class: SequentialAgent
name: line
sub_agents:
  - {name: first, model: demo, instruction: F., tools: [{name: test.look_up}]}
  - {name: second, model: demo, instruction: S.}
`,
	"app.yaml": "models:\n  demo: {provider: scripted, script: demo.script.yaml}\n",
	"demo.script.yaml": `- when: agent == "second"
  error: {code: 503, message: gone}
- when: responses.look_up != nil
  text: a secret answer
- calls: [{name: look_up, args: {q: secret}}]
  usage: {prompt: 12, candidates: 3}
`,
}

// newTracedEnv loads the traced app. Its tool starts its own span.
func newTracedEnv(t *testing.T, opts *testenv.Options) *testenv.Env {
	t.Helper()
	lookUp := &testTool{name: "look_up", run: func(ctx context.Context, _ *tool.Call) (*tool.Result, error) {
		if opts.TracerProvider != nil {
			_, own := opts.TracerProvider.Tracer("database").Start(ctx, "query")
			own.End()
		}
		return &tool.Result{Response: map[string]any{"found": "secret"}}, nil
	}}
	opts.Loader = &loader.Options{Functions: loader.Functions{Tools: map[string]tool.Tool{"test.look_up": lookUp}}}
	e := testenv.New(t, opts)
	files := map[string][]byte{}
	for name, text := range tracedFiles {
		files[name] = []byte(text)
	}
	e.Load(t, testenv.Files(t, "app", files))
	return e
}

// TestSpans: a run is a span tree below its caller's span, with the names and attributes in the
// GenAI conventions, and without contents and users. A tool library's span is below the tool
// call's.
func TestSpans(t *testing.T) {
	ended := tracetest.NewSpanRecorder()
	opts := testenv.NewTracing(ended)
	opts.TraceContents = false
	e := newTracedEnv(t, opts)
	caller := trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{7}, TraceFlags: trace.FlagsSampled, Remote: true})
	key := e.Session(t, "app", "s", nil)
	formatRun(e.Host.Run(trace.ContextWithRemoteSpanContext(t.Context(), caller), userMessage(key, "a secret question")))
	var out strings.Builder
	spans := ended.Ended()
	slices.SortFunc(spans, func(a, b sdktrace.ReadOnlySpan) int { return a.StartTime().Compare(b.StartTime()) })
	writeSpans(&out, spans, caller.SpanID(), "")
	want := `invocation, internal: Error UNAVAILABLE
  agenthost.app=app agenthost.invocation agenthost.revision agenthost.session_wait error.type=UNAVAILABLE gen_ai.conversation.id=s gen_ai.main_agent.id=line
  invoke_agent line, internal: Error UNAVAILABLE
    agenthost.app=app agenthost.invocation agenthost.revision error.type=UNAVAILABLE gen_ai.agent.name=line gen_ai.conversation.id=s gen_ai.main_agent.id=line gen_ai.operation.name=invoke_agent
    invoke_agent first, internal
      agenthost.app=app agenthost.invocation agenthost.revision gen_ai.agent.name=first gen_ai.conversation.id=s gen_ai.main_agent.id=line gen_ai.operation.name=invoke_agent
      generate_content scripted, client
        agenthost.app=app agenthost.event agenthost.invocation agenthost.revision gen_ai.agent.name=first gen_ai.conversation.id=s gen_ai.main_agent.id=line gen_ai.operation.name=generate_content gen_ai.request.model=scripted gen_ai.response.finish_reasons=[STOP] gen_ai.response.model=scripted gen_ai.usage.input_tokens=12 gen_ai.usage.output_tokens=3
      execute_tool look_up, internal
        agenthost.app=app agenthost.event agenthost.invocation agenthost.revision gen_ai.agent.name=first gen_ai.conversation.id=s gen_ai.main_agent.id=line gen_ai.operation.name=execute_tool gen_ai.tool.call.id gen_ai.tool.name=look_up
        query, internal
          
      generate_content scripted, client
        agenthost.app=app agenthost.event agenthost.invocation agenthost.revision gen_ai.agent.name=first gen_ai.conversation.id=s gen_ai.main_agent.id=line gen_ai.operation.name=generate_content gen_ai.request.model=scripted gen_ai.response.finish_reasons=[STOP] gen_ai.response.model=scripted
    invoke_agent second, internal: Error UNAVAILABLE
      agenthost.app=app agenthost.invocation agenthost.revision error.type=UNAVAILABLE gen_ai.agent.name=second gen_ai.conversation.id=s gen_ai.main_agent.id=line gen_ai.operation.name=invoke_agent
      generate_content scripted, client: Error UNAVAILABLE
        agenthost.app=app agenthost.event agenthost.invocation agenthost.revision error.type=503 gen_ai.agent.name=second gen_ai.conversation.id=s gen_ai.main_agent.id=line gen_ai.operation.name=generate_content gen_ai.request.model=scripted
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("spans (-want +got):\n%s", diff)
	}
	for _, s := range spans {
		if s.SpanContext().TraceID() != caller.TraceID() {
			t.Errorf("span %s is in trace %s, want that of the caller", s.Name(), s.SpanContext().TraceID())
		}
		if text := fmt.Sprint(s.Attributes(), s.Status(), s.Events()); strings.Contains(text, "secret") || strings.Contains(text, "gone") {
			t.Errorf("span %s without contents has %s", s.Name(), text)
		}
	}
}

// writeSpans writes the spans below a parent. It omits random IDs' values.
func writeSpans(out *strings.Builder, all []sdktrace.ReadOnlySpan, parent trace.SpanID, indent string) {
	for _, s := range all {
		if s.Parent().SpanID() != parent {
			continue
		}
		status := ""
		if s.Status().Code != codes.Unset {
			status = ": " + s.Status().Code.String() + " " + s.Status().Description
		}
		var facts []string
		for _, a := range s.Attributes() {
			switch a.Key {
			case runtime.AttrInvocation, runtime.AttrRevision, runtime.AttrEvent, runtime.AttrCall, runtime.AttrSessionWait:
				facts = append(facts, string(a.Key))
			case runtime.AttrFinishReasons:
				facts = append(facts, fmt.Sprintf("%s=%v", a.Key, a.Value.AsStringSlice()))
			default:
				facts = append(facts, fmt.Sprintf("%s=%v", a.Key, a.Value.AsInterface()))
			}
		}
		slices.Sort(facts)
		fmt.Fprintf(out, "%s%s, %s%s\n%s  %s\n", indent, s.Name(), s.SpanKind(), status, indent, strings.Join(facts, " "))
		writeSpans(out, all, s.SpanContext().SpanID(), indent+"  ")
	}
}

// TestSpanContents: with contents, spans have messages, tool arguments, tool results and error
// texts.
func TestSpanContents(t *testing.T) {
	ended := tracetest.NewSpanRecorder()
	e := newTracedEnv(t, testenv.NewTracing(ended))
	formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "a secret question")))
	got := map[attribute.Key]string{}
	for _, s := range ended.Ended() {
		for _, a := range s.Attributes() {
			if _, ok := got[a.Key]; !ok && runtime.IsContentAttribute(a.Key) {
				got[a.Key] = a.Value.AsString()
			}
		}
	}
	for key, want := range map[attribute.Key]string{
		runtime.AttrInputMessages:  `[{"parts":[{"text":"a secret question"}],"role":"user"}]`,
		runtime.AttrOutputMessages: `{"parts":[{"functionCall":{"args":{"q":"secret"},"name":"look_up"}}],"role":"model"}`,
		runtime.AttrArguments:      `{"q":"secret"}`,
		runtime.AttrResult:         `{"found":"secret"}`,
		runtime.AttrErrorMessage:   "model: 503 UNAVAILABLE: gone",
		runtime.AttrModelResponse:  `{"finishReason":"STOP","modelVersion":"scripted","usageMetadata":{"candidatesTokenCount":3,"promptTokenCount":12,"totalTokenCount":15}}`,
	} {
		if got[key] != want {
			t.Errorf("%s = %s, want %s", key, got[key], want)
		}
	}
	if !strings.HasPrefix(got[runtime.AttrInstructions], "F.") || !strings.HasPrefix(got[runtime.AttrModelRequest], `{"model":"scripted","config":{`) {
		t.Errorf("the first request is %s with instructions %q", got[runtime.AttrModelRequest], got[runtime.AttrInstructions])
	}
}

// TestPanickingSpanProcessor: a span processor that panics loses spans, but changes no
// run. The panic is logged.
func TestPanickingSpanProcessor(t *testing.T) {
	var plain string
	for _, p := range []sdktrace.SpanProcessor{nil, panicsOnStart{}, panicsOnEnd{}} {
		var log bytes.Buffer
		opts := &testenv.Options{}
		if p != nil {
			opts = testenv.NewTracing(p)
		}
		opts.Logger = slog.New(slog.NewTextHandler(&log, nil))
		e := newTracedEnv(t, opts)
		got := formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "ask")))
		if p == nil {
			plain = got
			continue
		}
		if diff := cmp.Diff(plain, got); diff != "" {
			t.Errorf("%T changes the run (-want +got):\n%s", p, diff)
		}
		if !strings.Contains(log.String(), "a span panicked") || !strings.Contains(log.String(), "panic=broken") {
			t.Errorf("%T: log %s\nhas no panic", p, log.String())
		}
	}
}

type (
	panicsOnStart struct{ discardSpans }
	panicsOnEnd   struct{ discardSpans }
)

func (panicsOnStart) OnStart(_ context.Context, s sdktrace.ReadWriteSpan) {
	if s.InstrumentationScope().Name == runtime.TracerName {
		panic("broken")
	}
}

func (panicsOnEnd) OnEnd(s sdktrace.ReadOnlySpan) {
	if s.InstrumentationScope().Name == runtime.TracerName {
		panic("broken")
	}
}

// A model call that a callback answers has a span with the callback's name.
func TestSpanOfCallbackAnswer(t *testing.T) {
	ended := tracetest.NewSpanRecorder()
	e := testenv.New(t, testenv.NewTracing(ended))
	e.Load(t, testenv.Files(t, "app", map[string][]byte{
		"root_agent.yaml":  []byte("name: clerk\nmodel: demo\ninstruction: A.\nbefore_model_callbacks:\n  - {deny: closed}\n"),
		"app.yaml":         []byte("models:\n  demo: {provider: scripted, script: demo.script.yaml}\n"),
		"demo.script.yaml": []byte("- text: open\n"),
	}))
	formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "s", nil), "Hello")))
	for _, span := range ended.Ended() {
		for _, a := range span.Attributes() {
			if a.Key == runtime.AttrCallback && a.Value.AsString() == "before_model" && span.Name() == "generate_content scripted" {
				return
			}
		}
	}
	t.Errorf("no span of the answer: %v", ended.Ended())
}
