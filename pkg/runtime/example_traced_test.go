package runtime_test

import (
	"context"
	"fmt"
	"log"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store/memstore"
)

// A turn's spans, on the program's provider.
func Example_traced() {
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	host := runtime.NewHost(memstore.New(nil), &runtime.Options{TracerProvider: provider})
	defer host.Close()

	llm := instantModel{&model.Response{Content: model.ModelText("Hello."), FinishReason: genai.FinishReasonStop}}
	app, err := runtime.NewApp("greeter", runtime.NewLLM("greeter", &runtime.LLMOptions{Model: llm}), nil)
	if err != nil {
		log.Fatal(err)
	}
	host.Swap(app)
	ask := &runtime.RunRequest{App: "greeter", UserID: "ana", SessionID: "s1", CreateSession: true, Message: model.UserText("Hi")}
	for ev, err := range host.Run(context.Background(), ask) {
		fmt.Println(ev.Text(), err)
	}
	for _, s := range spans.GetSpans() {
		fmt.Println(s.Name)
	}
	// Output:
	// Hello. <nil>
	// generate_content instant
	// invoke_agent greeter
	// invocation
}
