package server_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/http/httptest"
	goruntime "runtime"
	"sync"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
	"agenthost/wing/devui"
)

// instantModel responds immediately. gatedModel sends a first chunk and waits for the
// gate before the rest.
type (
	instantModel struct{}
	gatedModel   struct{ open chan struct{} }
)

func (instantModel) Name() string { return "instant" }

func (instantModel) Generate(context.Context, *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		yield(&model.Response{Content: model.ModelText("ok"), FinishReason: genai.FinishReasonStop}, nil)
	}
}

func (gatedModel) Name() string { return "gated" }

func (g gatedModel) Generate(ctx context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		if !yield(&model.Response{Content: model.ModelText("o"), Partial: true}, nil) {
			return
		}
		<-g.open
		instantModel{}.Generate(ctx, req)(yield)
	}
}

// newBenchServer starts a server configured like the serve command.
func newBenchServer(b *testing.B, m model.LLM) (*store.Store, *httptest.Server) {
	st, err := storeurl.Open(b.Context(), "memory:", nil)
	if err != nil {
		b.Fatal(err)
	}
	metrics, traces := server.NewMetrics("bench"), devui.NewTraces(false)
	provider := sdktrace.NewTracerProvider(sdktrace.WithSpanProcessor(traces))
	host := runtime.NewHost(st, &runtime.Options{TracerProvider: provider, Observe: metrics.Observe})
	app, err := runtime.NewApp("bench", runtime.NewLLM("bench", &runtime.LLMOptions{Model: m, Instruction: runtime.NewInstruction("Answer.", nil)}), nil)
	if err != nil {
		b.Fatal(err)
	}
	host.Swap(app)
	web := httptest.NewServer(server.New(host, &server.Options{Metrics: metrics}))
	b.Cleanup(func() {
		web.Close()
		host.Close()
		if err := st.Close(); err != nil {
			b.Error(err)
		}
	})
	return st, web
}

func benchSession(b *testing.B, st *store.Store, n int) (id string) {
	id = fmt.Sprintf("s%d", n)
	if _, err := st.Sessions.Create(b.Context(), session.Key{App: "bench", User: "u", ID: id}, nil); err != nil {
		b.Fatal(err)
	}
	return id
}

func benchRequest(path, id string) []byte {
	body := `{"appName":"bench","userId":"u","sessionId":"` + id + `","streaming":true,"newMessage":{"role":"user","parts":[{"text":"hello"}]}}`
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

// BenchmarkRequest measures a turn over a keep-alive connection, in sessions with five turns.
// The result includes the client's cost.
func BenchmarkRequest(b *testing.B) {
	for _, path := range []string{"/run", "/run_sse"} {
		b.Run(path[1:], func(b *testing.B) {
			st, web := newBenchServer(b, instantModel{})
			conn, err := net.Dial("tcp", web.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			defer conn.Close()
			responses := bufio.NewReader(conn)
			var request []byte
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				if n%5 == 0 {
					request = benchRequest(path, benchSession(b, st, n))
				}
				if _, err := conn.Write(request); err != nil {
					b.Fatal(err)
				}
				resp, err := http.ReadResponse(responses, nil)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					b.Fatal(resp.Status, err)
				}
			}
		})
	}
}

// BenchmarkOpenStreams measures the heap and stack memory for streams that have sent their
// first chunk. The result includes the small cost of their clients.
func BenchmarkOpenStreams(b *testing.B) {
	const streams = 1000
	for b.Loop() {
		open := make(chan struct{})
		st, web := newBenchServer(b, gatedModel{open})
		requests := make([][]byte, streams)
		for i := range requests {
			requests[i] = benchRequest("/run_sse", benchSession(b, st, i))
		}
		before := readMemStats()
		conns := make([]net.Conn, streams)
		for i := range conns {
			conn, err := net.Dial("tcp", web.Listener.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			conns[i] = conn
			if _, err := conn.Write(requests[i]); err != nil {
				b.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 64)); err != nil {
				b.Fatal(err)
			}
		}
		after := readMemStats()
		b.ReportMetric(float64(after.HeapInuse-before.HeapInuse)/streams, "heap-B/stream")
		b.ReportMetric(float64(after.StackInuse-before.StackInuse)/streams, "stack-B/stream")
		b.ReportMetric(float64(goruntime.NumGoroutine())/streams, "goroutines/stream")
		close(open)
		var ended sync.WaitGroup
		for _, conn := range conns {
			ended.Go(func() {
				defer conn.Close()
				_, _ = io.ReadFull(conn, make([]byte, 700)) // until after its last event
			})
		}
		ended.Wait()
	}
}

// readMemStats returns the memory statistics after a garbage collection.
func readMemStats() (m goruntime.MemStats) {
	goruntime.GC()
	goruntime.GC()
	goruntime.ReadMemStats(&m)
	return m
}
