package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"agenthost/pkg/session"
)

// maxAnswerMemory is by how much a hostile answer may raise the program's peak memory above an
// ordinary one's.
const maxAnswerMemory = 250 << 20

// answerSizeMode is the child that decodes an answer without a limit.
const answerSizeMode = "decode-answer"

// A hostileAnswer is an answer from a model or a tool.
type hostileAnswer struct {
	name string
	// model writes the first call's stream, tool its tool's answer. An error means that the client
	// has ended.
	model, tool func(w http.ResponseWriter) error
	// want is in the output.
	want string
}

const (
	manyValues = 6_000_000 // 18 MB
	wholeText  = `{"choices":[{"index":0,"delta":{"content":"done"},"finish_reason":"stop"}]}`
	callTool   = `{"choices":[{"index":0,"delta":{"tool_calls":[{"index":%d,"id":"c%[1]d","function":{"name":"get","arguments":%q}}]}}]}`
	endCalls   = `{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`
)

func hostileAnswers() []hostileAnswer {
	values := `{"k":[` + strings.Repeat("{},", manyValues) + `{}]}`
	return []hostileAnswer{
		{"ordinary answer", writeEvents(wholeText), nil, "done"},
		{"values", writeEvents(fmt.Sprintf(callTool, 0, values), endCalls), nil, "exceeds the limit of 250000 values"},
		{"line", writeLongLine, nil, "exceeds the limit of 32 MiB"},
		{"gzip", writeZipped, nil, "exceeds the limit of 32 MiB"},
		{"comments", writeComments, nil, "exceeds the limit of 64 MiB"},
		{"calls", writeManyCalls, nil, "exceed the limit of 128"},
		{"values of a tool", writeEvents(fmt.Sprintf(callTool, 0, "{}"), endCalls), func(w http.ResponseWriter) error {
			w.Header().Set("Content-Type", "application/json")
			_, err := io.WriteString(w, values)
			return err
		}, "done"},
	}
}

func writeEvents(events ...string) func(http.ResponseWriter) error {
	return func(w http.ResponseWriter) error {
		for _, ev := range events {
			if _, err := fmt.Fprintf(w, "data: %s\n\n", ev); err != nil {
				return err
			}
		}
		return nil
	}
}

func writeLongLine(w http.ResponseWriter) error {
	if _, err := io.WriteString(w, `data: {"k":"`); err != nil {
		return err
	}
	return writeRepeated(w, "x", 512<<20)
}

// writeZipped sends a line of 512 MiB in half a megabyte.
func writeZipped(w http.ResponseWriter) error {
	w.Header().Set("Content-Encoding", "gzip")
	_, err := w.Write(zippedLine())
	return err
}

var zippedLine = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	zip := gzip.NewWriter(&b)
	_, _ = io.WriteString(zip, `data: {"k":"`) // a buffer has no error
	_ = writeRepeated(zip, "x", 512<<20)
	_ = zip.Close()
	return b.Bytes()
})

func writeComments(w http.ResponseWriter) error { return writeRepeated(w, ": ping\n\n", 512<<20) }

func writeManyCalls(w http.ResponseWriter) error {
	for i := range 200_000 {
		if _, err := fmt.Fprintf(w, "data: "+callTool+"\n\n", i, "{}"); err != nil {
			return err
		}
	}
	return nil
}

func writeRepeated(w io.Writer, text string, size int) error {
	chunk := bytes.Repeat([]byte(text), (1<<20)/len(text))
	for range size / len(chunk) {
		if _, err := w.Write(chunk); err != nil {
			return err
		}
	}
	return nil
}

// answerSizeRows runs the program with a model and a tool that try to exhaust it.
func answerSizeRows(ctx context.Context, l *lab) ([]row, error) {
	var shown []string
	ok, ordinary := true, int64(0)
	for _, a := range hostileAnswers() {
		out, peak, err := l.runHostileAnswer(ctx, a)
		if err != nil {
			return nil, err
		}
		if ordinary == 0 {
			ordinary = peak
		}
		text := fmt.Sprintf("%s %d MiB", a.name, peak>>20)
		if !strings.Contains(out, a.want) {
			text += fmt.Sprintf(" without %q: %.300s", a.want, out)
		}
		ok = ok && strings.Contains(out, a.want) && peak <= ordinary+maxAnswerMemory
		shown = append(shown, text)
	}
	control, err := l.runMeasured(ctx, io.Discard, l.self, "child", answerSizeMode)
	if err != nil {
		return nil, err
	}
	return []row{{
		"no answer of a model or a tool raises the peak memory of the program by more than 250 MiB, whatever it contains",
		fmt.Sprintf("peak memory with %s; control, 18 MB of values decoded without the limit: %d MiB", strings.Join(shown, ", "), control>>20),
		ok && control > ordinary+maxAnswerMemory,
	}}, nil
}

// runHostileAnswer runs one turn. It returns the output and the peak memory.
func (l *lab) runHostileAnswer(ctx context.Context, a hostileAnswer) (out string, peak int64, err error) {
	var calls atomic.Int64
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/tool":
			_ = a.tool(w) // an error: the client has ended
		case calls.Add(1) > 1:
			w.Header().Set("Content-Type", "text/event-stream")
			_ = writeEvents(wholeText)(w)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			_ = a.model(w)
		}
	}))
	defer service.Close()
	app := filepath.Join(l.dir, "answers", strings.ReplaceAll(a.name, " ", "_"))
	err = files{"root_agent.yaml": fmt.Sprintf(hostileAnswerAgent, service.URL), "app.yaml": fmt.Sprintf(hostileAnswerApp, service.URL)}.writeTo(app)
	if err != nil {
		return "", 0, err
	}
	var text bytes.Buffer
	peak, err = l.runMeasured(ctx, &text, l.bin, "run", app, "go", "--session-db", "memory:")
	if failed := (*exec.ExitError)(nil); errors.As(err, &failed) {
		err = nil // a rejected answer ends the run
	}
	return text.String(), peak, err
}

const hostileAnswerApp = `models:
  m: {provider: openai_compatible, model: m, base_url: "%s/v1", api_key: k, retry: {attempts: 2}}
run_config: {streaming_mode: SSE}
`

const hostileAnswerAgent = `name: a
model: m
instruction: x
tools:
- http: {name: get, description: d, url: "%s/tool", max_response: 32MiB}
`

// decodeAnswerNaively is the control: the hostile answer's values without the limit.
func decodeAnswerNaively() error {
	_, err := session.DecodeMap([]byte(`{"k":[` + strings.Repeat("{},", manyValues) + `{}]}`))
	return err
}
