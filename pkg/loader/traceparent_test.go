package loader_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"google.golang.org/genai"

	"agenthost/internal/fake/fakegemini"
	"agenthost/internal/fake/fakeopenai"
	"agenthost/internal/testenv"
	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// TestTraceparentPropagation expects HTTP requests from models and tools to carry the current span
// in the caller's trace, except for a tool with its own header. Baggage is not forwarded.
func TestTraceparentPropagation(t *testing.T) {
	var mu sync.Mutex
	received := map[string]string{}
	shop := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		received[r.URL.Path] = r.Header.Get("Traceparent") + r.Header.Get("Tracestate")
	}))
	defer shop.Close()
	gemini, openai := fakegemini.New(), fakeopenai.New()
	defer gemini.Close()
	defer openai.Close()
	gemini.Enqueue(fakegemini.Parts(newFunctionCall("price"), newFunctionCall("stock"), newFunctionCall("helper")))
	variables := map[string]string{"GOOGLE_API_KEY": "key", "GOOGLE_GEMINI_BASE_URL": gemini.URL(), "OPENAI_API_KEY": "key", "OPENAI_BASE_URL": openai.URL()}
	ended := tracetest.NewSpanRecorder()
	opts := testenv.NewTracing(ended)
	opts.Loader = &loader.Options{Env: func(name string) (string, bool) { v, ok := variables[name]; return v, ok }}
	env := testenv.New(t, opts)
	env.Load(t, testenv.Files(t, "shop", map[string][]byte{"root_agent.yaml": fmt.Appendf(nil, `name: desk
model: gemini-x
instruction: Help.
tools:
  - http: {name: price, url: "%[1]s/price"}
  - http: {name: stock, url: "%[1]s/stock", headers: {traceparent: mine}}
  - agent: {agent: {name: helper, description: Helps., model: openai_compatible/gpt-x, instruction: Help.}}
`, shop.URL)}))

	id, err := trace.TraceIDFromHex("0af7651916cd43dd8448eb211c80319c")
	if err != nil {
		t.Fatal(err)
	}
	state, err := trace.ParseTraceState("vendor=secret")
	if err != nil {
		t.Fatal(err)
	}
	ctx := trace.ContextWithRemoteSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: id, SpanID: trace.SpanID{7}, TraceFlags: trace.FlagsSampled, TraceState: state,
	}))
	for _, err := range env.Host.Run(ctx, &runtime.RunRequest{App: "shop", UserID: "u", SessionID: "s", CreateSession: true, Message: model.UserText("hi")}) {
		if err != nil {
			t.Fatal(err)
		}
	}
	first := gemini.Requests()[0].Header
	received["gemini"] = first.Get("Traceparent") + first.Get("Tracestate")
	received["openai"] = openai.Requests()[0].Header.Get("Traceparent")
	of := func(name string) string {
		for _, s := range ended.Ended() { // the first, which calls
			if s.Name() == name {
				return "00-" + id.String() + "-" + s.SpanContext().SpanID().String() + "-01"
			}
		}
		t.Fatalf("no span %s of %v", name, ended.Ended())
		return ""
	}
	want := map[string]string{
		"gemini": of("generate_content gemini-x"), "/price": of("execute_tool price"), "/stock": "mine", "openai": of("generate_content gpt-x"),
	}
	if diff := cmp.Diff(want, received); diff != "" {
		t.Errorf("traceparent (-want +got):\n%s", diff)
	}
}

func newFunctionCall(name string) *genai.Part {
	args := map[string]any{}
	if name == "helper" {
		args["request"] = "help"
	}
	return &genai.Part{FunctionCall: &genai.FunctionCall{Name: name, Args: args}}
}
