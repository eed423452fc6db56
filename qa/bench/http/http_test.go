package main

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// The test binary is also the server process, like the program.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == serveVerb {
		os.Exit(runCommand(context.Background(), os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// Both sides, in every configuration on memory and SQLite, answer and store every turn for a few
// clients and report their resource usage.
func TestSides(t *testing.T) {
	memory, lite := allStorages()[0], allStorages()[1]
	works := []*work{
		{sessionStorage: memory, load: load{path: pathRun, clients: 2, turns: 14, limit: time.Minute}},
		{sessionStorage: memory, load: load{path: pathStream, clients: 2, turns: 14, script: script{Chunks: 3}, limit: time.Minute}},
		{sessionStorage: memory, load: load{path: pathStream, clients: 3, turns: 3, script: script{Chunks: 1, Every: time.Millisecond}, startSpread: time.Millisecond, limit: time.Minute}},
		{sessionStorage: memory, load: load{path: pathMessage, clients: 2, turns: 14, limit: time.Minute}},
		{sessionStorage: memory, load: load{path: pathMessageStream, clients: 2, turns: 14, limit: time.Minute}},
		{sessionStorage: lite, load: load{path: pathRun, clients: 2, turns: 6, limit: time.Minute}},
		{sessionStorage: lite, load: load{path: pathStream, clients: 2, turns: 6, limit: time.Minute}},
	}
	for _, w := range works {
		t.Run(w.name(), func(t *testing.T) {
			b := &bench{dir: t.TempDir(), rounds: 1, progress: t.Output()}
			l := b.compareSides(t.Context(), w)
			for _, r := range append([]*result{l.ours}, l.theirs...) {
				if r.err != nil || r.failures > 0 || r.answered != w.turns || r.cpu <= 0 || r.peakMemory <= 0 || len(r.event) != w.turns {
					t.Errorf("%q: %+v, %v, %v", r.setup, r.outcome, r.lastErr, r.err)
				}
			}
		})
	}
}

// A server process reports why it cannot start.
func TestServeRejectsInvalidConfig(t *testing.T) {
	tests := []struct{ text, want string }{
		{`{"side":"unknown"}`, "http: opening unknown: unknown side \"unknown\"\n"},
		{`{"side":"adk-go","url":"sqlite:////tmp/x.db","setup":"none"}`, "http: opening adk-go: unknown setup \"none\"\n"},
		{`{`, "http: unexpected end of JSON input\n"},
	}
	for _, tt := range tests {
		var out, progress strings.Builder
		if code := runCommand(t.Context(), []string{serveVerb, tt.text}, &out, &progress); code != 3 || progress.String() != tt.want {
			t.Errorf("serve %s = %d, %q, want %q", tt.text, code, progress.String(), tt.want)
		}
	}
}

// A client finds a response's end by its length or its last chunk, wherever the response is split.
func TestClient(t *testing.T) {
	tests := []struct {
		name   string
		chunks []string
		status int
		end    string // suffix of the text
		err    error
	}{
		{"length", []string{"HTTP/1.1 200 OK\r\nContent-Len", "gth: 4\r\n\r\nab", "cd"}, 200, "abcd", nil},
		{"chunks", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", "4\r\nabcd\r\n", "0\r\n", "\r\n"}, 200, "abcd\r\n0\r\n\r\n", nil},
		{"no body in chunks", []string{"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"}, 200, "\r\n0\r\n\r\n", nil},
		{"status 404", []string{"HTTP/1.1 404 Not Found\r\nContent-Length: 2\r\n\r\n{}"}, 404, "{}", nil},
		{"closed early", []string{"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nab"}, 0, "", errConnBroken},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := &client{addr: startFakeServer(t, tt.chunks)}
			defer c.close()
			r, err := c.sendRequest(buildGet("/"))
			if r.status != tt.status || !strings.HasSuffix(string(r.text), tt.end) || !errors.Is(err, tt.err) {
				t.Errorf("sendRequest() = %d, %q, %v, want %d, %q, %v", r.status, r.text, err, tt.status, tt.end, tt.err)
			}
		})
	}
}

// startFakeServer sends the given chunks in response to one request and closes the
// connection.
func startFakeServer(t *testing.T, chunks []string) (addr string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			return
		}
		for _, p := range chunks {
			if _, err := conn.Write([]byte(p)); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { l.Close(); <-done })
	return l.Addr().String()
}

// A response counts only if it is the model's answer with all events.
func TestCheckReply(t *testing.T) {
	event := `data: {"content":{"parts":[{"text":"sunny all day"}]}}` + "\n\n"
	tests := []struct {
		name, path, text string
		status, chunks   int
		want             string
	}{
		{"complete", pathRun, `[{"text":"sunny all day"}]`, 200, 0, ""},
		{"error status", pathRun, "stale session", 500, 0, "status 500: stale session"},
		{"stream", pathStream, event, 200, 0, ""},
		{"chunk lost", pathStream, event, 200, 1, "got 1 events, want 2"},
		{"error at the end", pathStream, event + `data: {"error":"locked"}`, 200, 0, `status 200: data: {"content":{"parts":[{"text":"sunny all day"}]}} data: {"error":"locked"}`},
	}
	for _, tt := range tests {
		got := ""
		if err := (script{Chunks: tt.chunks}).checkReply(reply{status: tt.status, text: []byte(tt.text)}, tt.path); err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s: checkReply() = %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestRunUsage(t *testing.T) {
	tests := []struct {
		args, want string
		code       int
	}{
		{"-fast", "flag provided but not defined: -fast", 2},
		{"-run (", "missing closing )", 2},
		{"memory", `unexpected argument "memory"`, 2},
		{"-run nothing", `nothing matches "nothing"`, 2},
	}
	for _, tt := range tests {
		var out, progress strings.Builder
		if code := runCommand(t.Context(), strings.Fields(tt.args), &out, &progress); code != tt.code || !strings.Contains(progress.String(), tt.want) {
			t.Errorf("runCommand(%s) = %d, %q, want %d, %q", tt.args, code, progress.String(), tt.code, tt.want)
		}
	}
}

// The floor answers every turn with agenthost's bytes, except for the date.
func TestFloorAnswersTheSame(t *testing.T) {
	b := &bench{dir: t.TempDir(), rounds: 1, progress: t.Output()}
	w := newTurnWork(allStorages()[0], pathRun, 2, script{})
	w.turns = 14
	want, err := b.recordAnswer(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	p, err := startProcess(t.Context(), &serverConfig{Side: floorName, Answer: want})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{addr: p.addr}
	defer c.close()
	r, err := c.sendRequest(turnRequest(pathRun, userOf(0), sessionOf(0, 0)))
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseAnswer(r.text)
	if err != nil {
		t.Fatal(err)
	}
	got.Header.Del("Date")
	want.Header.Del("Date")
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer (-agenthost +floor):\n%s", diff)
	}
	if err := p.stop(); err != nil {
		t.Error(err)
	}
	l := b.compareSides(t.Context(), w)
	if l.floor.err != nil || l.floor.failures > 0 || l.floor.answered != w.turns || l.distance() <= 0 {
		t.Errorf("floor: %+v, %v, distance %v", l.floor.outcome, l.floor.err, l.distance())
	}
}
