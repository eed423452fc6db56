package runtime_test

import (
	"context"
	"fmt"
	"iter"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace/noop"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
	"agenthost/pkg/tool"
)

// instantModel answers at once.
type instantModel struct{ answer *model.Response }

func (instantModel) Name() string { return "instant" }

func (m instantModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) { yield(m.answer, nil) }
}

// BenchmarkTurn is one turn, user message in, answer out, in sessions with several lengths.
func BenchmarkTurn(b *testing.B) {
	for _, url := range []string{"memory:", "sqlite:///" + b.TempDir() + "/bench.db"} {
		for _, history := range []int{0, 1000, 5000} {
			b.Run(fmt.Sprintf("%.6s/history=%d", url, history), func(b *testing.B) {
				benchTurn(b, url, history, &runtime.Options{})
			})
		}
	}
}

// BenchmarkToolTurn is one turn whose tool returns twenty rows.
func BenchmarkToolTurn(b *testing.B) {
	ctx := b.Context()
	st, err := storeurl.Open(ctx, "memory:", nil)
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	list := &testTool{name: "list", run: func(context.Context, *tool.Call) (*tool.Result, error) {
		var rows []any
		for i := range 20 {
			rows = append(rows, map[string]any{"id": int64(i), "name": "a row of the table", "price": 9.75, "tags": []any{"new", "red"}})
		}
		return &tool.Result{Response: map[string]any{"rows": rows}}, nil
	}}
	app, err := runtime.NewApp("bench", runtime.NewLLM("bench", &runtime.LLMOptions{Model: toolCallModel("list"), Tools: []tool.Tool{list}}), nil)
	if err != nil {
		b.Fatal(err)
	}
	host := runtime.NewHost(st, nil)
	host.Swap(app)
	b.ReportAllocs()
	for b.Loop() {
		key := fillSession(b, st, 0)
		for _, err := range host.Run(ctx, &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: model.UserText("go")}) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkTurnObserved measures a turn with measurements, an OpenTelemetry provider that records
// nothing, and its SDK.
func BenchmarkTurnObserved(b *testing.B) {
	for name, opts := range map[string]*runtime.Options{
		"noop":         {TracerProvider: noop.NewTracerProvider()},
		"measurements": {Observe: func(runtime.Measurement) {}},
		"spans":        {TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(discardSpans{}))},
	} {
		b.Run(name, func(b *testing.B) { benchTurn(b, "memory:", 0, opts) })
	}
}

// discardSpans is a span processor that keeps nothing.
type discardSpans struct{}

func (discardSpans) OnStart(context.Context, sdktrace.ReadWriteSpan) {}
func (discardSpans) OnEnd(sdktrace.ReadOnlySpan)                     {}
func (discardSpans) Shutdown(context.Context) error                  { return nil }
func (discardSpans) ForceFlush(context.Context) error                { return nil }

func benchTurn(b *testing.B, url string, history int, opts *runtime.Options) {
	ctx := b.Context()
	st, err := storeurl.Open(ctx, url, &storeurl.Options{Schemes: testenv.Schemes()})
	if err != nil {
		b.Fatal(err)
	}
	defer st.Close()
	host := runtime.NewHost(st, opts)
	llm := instantModel{&model.Response{Content: model.ModelText("ok"), FinishReason: genai.FinishReasonStop}}
	app, err := runtime.NewApp("bench", runtime.NewLLM("bench", &runtime.LLMOptions{Model: llm, Instruction: runtime.NewInstruction("Answer.", nil)}), nil)
	if err != nil {
		b.Fatal(err)
	}
	host.Swap(app)
	key := fillSession(b, st, history)
	req := &runtime.RunRequest{App: key.App, UserID: key.User, SessionID: key.ID, Message: model.UserText("hello")}
	b.ReportAllocs()
	b.ResetTimer()
	for range b.N {
		for _, err := range host.Run(ctx, req) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

func fillSession(b *testing.B, st *store.Store, n int) session.Key {
	ctx := context.Background()
	sess, err := st.Sessions.Create(ctx, session.Key{App: "bench", User: "u"}, nil)
	if err != nil {
		b.Fatal(err)
	}
	for i := range n {
		ev := &session.Event{Author: session.UserAuthor, InvocationID: fmt.Sprint(i / 2)}
		ev.Content = model.UserText("hello")
		if i%2 == 1 {
			ev.Author, ev.Content = "bench", model.ModelText("ok")
		}
		if err := st.Sessions.Append(ctx, sess, ev); err != nil {
			b.Fatal(err)
		}
	}
	return sess.Key
}
