package modeltest_test

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agenthost/internal/modeltest"
	"agenthost/pkg/session"
)

// A hostileAnswer is what a service sends to exhaust the host.
type hostileAnswer struct {
	name string
	// write writes the answer until it is complete or an error shows that the client has
	// closed the connection.
	write func(w io.Writer, form *streamForm) error
	// want is in the error.
	want string
	// maxAllocated limits the allocations by the call and by the service, which is in this process,
	// and maxSent what the service can send.
	maxAllocated, maxSent int64
}

// A streamForm is how a service writes a stream.
type streamForm struct {
	contentType, event, comment string
	// call is the chunk for a call to tool f with the arguments %s and the index %d.
	call string
}

func formOf(name string) *streamForm {
	sse := streamForm{contentType: "text/event-stream", event: "data: %s\n\n", comment: ": ping\n\n"}
	switch name {
	case "gemini", "vertex":
		sse.call = `{"candidates":[{"content":{"role":"model","parts":[{"functionCall":{"name":"f%[2]d","args":%[1]s}}]}}]}`
	case "anthropic", "anthropic_vertex":
		sse.call = `{"type":"content_block_start","index":%[2]d,"content_block":{"type":"tool_use","id":"c%[2]d","name":"f","input":%[1]s}}` + "\n\n" +
			`data: {"type":"content_block_stop","index":%[2]d}`
	case "ollama":
		sse = streamForm{contentType: "application/x-ndjson", event: "%s\n", comment: "\n\n\n\n"}
		sse.call = `{"model":"m","message":{"role":"assistant","tool_calls":[{"id":"c%[2]d","function":{"name":"f","arguments":%[1]s}}]}}`
	case "openai_responses":
		sse.call = `{"type":"response.output_item.done","item":{"type":"function_call","call_id":"c%[2]d","name":"f","arguments":%[1]q}}`
	default:
		sse.call = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%[2]d,"id":"c%[2]d","function":{"name":"f","arguments":%[1]q}}]}}]}`
	}
	return &sse
}

func (f *streamForm) writeCall(w io.Writer, args string, index int) error {
	_, err := fmt.Fprintf(w, f.event, fmt.Sprintf(f.call, args, index))
	return err
}

func hostileAnswers() []hostileAnswer {
	const mib = 1 << 20
	return []hostileAnswer{
		{"values", writeValues, "exceeds the limit of 250000 values", 400 * mib, 64 * mib},
		{"chunks", writeManyValues, "exceeds the limit of 250000 values", 400 * mib, 64 * mib},
		{"line", writeLine, "exceeds the limit of 32 MiB", 256 * mib, 64 * mib},
		{"gzip", writeZippedLine, "exceeds the limit of 32 MiB", 256 * mib, 64 * mib},
		{"comments", writeComments, "exceeds the limit of 64 MiB", 64 * mib, 80 * mib},
		{"calls", writeCalls, "function calls in one answer exceed the limit of 128", 64 * mib, 8 * mib},
	}
}

// writeValues sends one call whose arguments have 2 000 000 empty objects.
func writeValues(w io.Writer, f *streamForm) error {
	if err := f.writeCall(w, `{"k":[`+strings.Repeat("{},", 2_000_000)+`{}]}`, 0); err != nil {
		return err
	}
	return f.finish(w)
}

// writeManyValues sends 100 calls that together have 2 000 000 values.
func writeManyValues(w io.Writer, f *streamForm) error {
	for i := range 100 {
		if err := f.writeCall(w, `{"k":[`+strings.Repeat("{},", 10_000)+`{}]}`, i); err != nil {
			return err
		}
	}
	return f.finish(w)
}

// finish completes a stream with calls, for services whose calls are read at its end.
func (f *streamForm) finish(w io.Writer) error {
	if !strings.Contains(f.call, "choices") {
		return nil
	}
	_, err := fmt.Fprintf(w, f.event, `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`)
	return err
}

// writeLine sends a 256 MiB line.
func writeLine(w io.Writer, f *streamForm) error {
	if err := f.beginLine(w); err != nil {
		return err
	}
	return repeat(w, bytes.Repeat([]byte("x"), 1<<20), 256)
}

func (f *streamForm) beginLine(w io.Writer) error {
	_, err := io.WriteString(w, strings.Split(f.event, "%s")[0]+`{"k":"`)
	return err
}

func repeat(w io.Writer, chunk []byte, times int) error {
	for range times {
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// zippedLine is the gzip member, 250 KiB long, that ends a 256 MiB line.
var zippedLine = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	_ = repeat(zip, bytes.Repeat([]byte("x"), 1<<20), 256) // a buffer has no error
	_ = zip.Close()
	return b.Bytes()
})

// writeZippedLine sends the same line as gzip, in two members.
func writeZippedLine(w io.Writer, f *streamForm) error {
	zip := gzip.NewWriter(w)
	if err := f.beginLine(zip); err != nil {
		return err
	}
	if err := zip.Close(); err != nil {
		return err
	}
	_, err := w.Write(zippedLine())
	return err
}

func writeComments(w io.Writer, f *streamForm) error {
	return repeat(w, bytes.Repeat([]byte(f.comment), (1<<20)/len(f.comment)), 256)
}

func writeCalls(w io.Writer, f *streamForm) error {
	for i := range 200_000 {
		if err := f.writeCall(w, `{}`, i); err != nil {
			return err
		}
	}
	return nil
}

// A service cannot exhaust the host with its answer: the call ends at the limit with an error that
// names it, the rest of the answer is not read, and no attempt follows. The control is how much the
// same answer costs a reader without the limit.
func TestHostileAnswers(t *testing.T) {
	count := 0
	for _, s := range suiteSubjects() {
		if s.local {
			continue
		}
		for _, a := range hostileAnswers() {
			count++
			t.Run(a.name+"/"+s.name, func(t *testing.T) { testHostileAnswer(t, s, a) })
		}
	}
	t.Logf("shown: %d hostile answers of services: each ends at its limit after one request", count)
}

func testHostileAnswer(t *testing.T, s *suiteSubject, a hostileAnswer) {
	var sent, requests atomic.Int64
	form := formOf(s.name)
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		w.Header().Set("Content-Type", form.contentType)
		if a.name == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
		}
		_ = a.write(&countingWriter{w, &sent}, form) // on an error the client has gone
	}))
	defer service.Close()
	own := *s
	own.open = func(testing.TB, []suiteReply) (string, *http.Client) { return service.URL, service.Client() }
	failed := suiteReply{raw: "three attempts"}
	llm, _ := own.build(t, failed, failed, failed)
	req := modeltest.ScriptInput("hi", true)
	req.MaxCalls = 128
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := modeltest.Collect(llm.Generate(t.Context(), req))
	runtime.ReadMemStats(&after)
	if err == nil || !strings.Contains(err.Error(), a.want) {
		t.Errorf("Generate() = %v, want an error with %q", err, a.want)
	}
	if n := int64(after.TotalAlloc - before.TotalAlloc); n > a.maxAllocated {
		t.Errorf("the call allocated %d MiB, want at most %d", n>>20, a.maxAllocated>>20)
	}
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
	if n := sent.Load(); n > a.maxSent {
		t.Errorf("the service could send %d MiB, want at most %d", n>>20, a.maxSent>>20)
	}
}

type countingWriter struct {
	io.Writer
	n *atomic.Int64
}

func (w *countingWriter) Write(p []byte) (int, error) {
	n, err := w.Writer.Write(p)
	w.n.Add(int64(n))
	return n, err
}

// Without the limit, the arguments alone cost more than a whole call may.
func TestHostileAnswersControl(t *testing.T) {
	var before, after runtime.MemStats
	args := []byte(`{"k":[` + strings.Repeat("{},", 6_000_000) + `{}]}`) // 18 MB
	runtime.ReadMemStats(&before)
	if _, err := session.DecodeMap(args); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if n := (after.TotalAlloc - before.TotalAlloc) >> 20; n < 400 {
		t.Errorf("decoding 18 MB allocated %d MiB: the limits protect from nothing", n)
	} else {
		t.Logf("shown: control, 18 MB decoded without the limit: %d MiB allocated", n)
	}
}
