package modeltest_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"agenthost/internal/modeltest"
	"agenthost/pkg/model"
)

// BenchmarkChunk measures one chunk from a recorded stream of 1000, without the network. No
// provider may take more than 1.5 times as long as Gemini.
func BenchmarkChunk(b *testing.B) {
	const chunks = 1000
	for _, s := range suiteSubjects() {
		if s.local {
			continue
		}
		b.Run(s.name, func(b *testing.B) {
			llm, w := s.build(b, suiteReply{text: strings.Split(strings.Repeat("some words |", chunks), "|")[:chunks], usage: true})
			w.recordStream()
			countChunks(b, llm, chunks)
			b.ReportAllocs()
			for b.Loop() {
				countChunks(b, llm, chunks)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*chunks), "ns/chunk")
		})
	}
}

func countChunks(b *testing.B, llm model.LLM, want int) {
	n := 0
	for r, err := range llm.Generate(b.Context(), modeltest.ScriptInput("hi", true)) {
		if err != nil {
			b.Fatal(err)
		}
		if r.Partial && model.TextOf(r.Content) != "" {
			n++
		}
	}
	if n != want {
		b.Fatalf("%d chunks, want %d", n, want)
	}
}

// After 500 concurrent streams from one model, no goroutine is left, no connection (each has
// goroutines), and the heap has its earlier size.
func TestStreamsLeaveNothing(t *testing.T) {
	const streams, growth = 500, 8 << 20
	for _, s := range suiteSubjects() {
		t.Run(s.name, func(t *testing.T) {
			var answers []suiteReply // fakes have a usual one
			if s.local {
				answers = []suiteReply{{text: []string{"one"}, times: 2 * streams}}
			}
			llm, w := s.build(t, answers...)
			defer w.closeIdle()
			before := goleak.IgnoreCurrent()
			runStreams(t, llm, streams)
			start := heapSize()
			runStreams(t, llm, streams)
			if end := heapSize(); end > start+growth {
				t.Errorf("the heap grew from %d to %d bytes", start, end)
			}
			w.closeIdle()
			if err := goleak.Find(before, goleak.IgnoreAnyFunction("net/http/httptest.(*Server).goServe.func1")); err != nil {
				t.Error(err)
			}
		})
	}
}

// runStreams runs concurrent streams. None ends before all have their first chunk.
func runStreams(t *testing.T, llm model.LLM, n int) {
	t.Helper()
	var all, begun sync.WaitGroup
	begun.Add(n)
	errs := make(chan error, n)
	for range n {
		all.Go(func() { errs <- runStream(t, llm, &begun) })
	}
	all.Wait()
	for range n {
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
	}
}

func runStream(t *testing.T, llm model.LLM, begun *sync.WaitGroup) error {
	first := sync.OnceFunc(begun.Done)
	defer first()
	whole := false
	for r, err := range llm.Generate(t.Context(), modeltest.ScriptInput("hi", true)) {
		if err != nil {
			return err
		}
		first()
		begun.Wait()
		whole = !r.Partial
	}
	if !whole {
		return fmt.Errorf("a stream has no complete response")
	}
	return nil
}

func heapSize() uint64 {
	var stats runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one only clears the pools' victims
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
