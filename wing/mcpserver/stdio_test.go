package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/servertest"
	"agenthost/wing/mcpserver"
)

// A stdioClient has the ends of a server's streams.
type stdioClient struct {
	in    *io.PipeWriter
	out   *io.PipeReader
	ended chan error
}

// serveStdio serves the app desk on pipes.
func serveStdio(ctx context.Context, t *testing.T, opts *mcpserver.StdioOptions) *stdioClient {
	t.Helper()
	e, _ := newEnv(t, readDesk(t), nil, nil)
	return serveHost(ctx, t, e, opts)
}

func serveHost(ctx context.Context, t *testing.T, e *servertest.Env, opts *mcpserver.StdioOptions) *stdioClient {
	t.Helper()
	c := &stdioClient{ended: make(chan error, 1)}
	opts.App = "desk"
	opts.In, c.in = io.Pipe()
	c.out, opts.Out = io.Pipe()
	if opts.Drain == 0 {
		opts.Drain = time.Minute
	}
	go func() { c.ended <- mcpserver.ServeStdio(ctx, e.Host, opts) }()
	t.Cleanup(func() {
		c.in.Close()
		c.out.Close()
	})
	return c
}

// connectStdio opens the SDK's client.
func (c *stdioClient) connect(t *testing.T, era string, opts *mcp.ClientOptions) *mcp.ClientSession {
	t.Helper()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, opts)
	s, err := client.Connect(t.Context(), &mcp.IOTransport{Reader: c.out, Writer: c.in}, &mcp.ClientSessionOptions{ProtocolVersion: era})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// send writes lines.
func (c *stdioClient) send(t *testing.T, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if _, err := io.WriteString(c.in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
}

const (
	opening = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"t","version":"1"}}}`
	opened  = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

func callLine(id int, request string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"desk","arguments":{"request":%q}}}`, id, request)
}

// Both eras work on one pipe: calls in one conversation, questions to the person, and the end.
func TestStdioEras(t *testing.T) {
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			c := serveStdio(t.Context(), t, &mcpserver.StdioOptions{})
			opts, asked := answering(&mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirmed": true}})
			s := c.connect(t, era, opts)
			for i, want := range []string{"Turn 1: hello", "Turn 2: hello"} {
				if text, _ := call(t, s, "desk", map[string]any{"request": "hello"}); text != want {
					t.Errorf("answer %d is %q, want %q", i, text, want)
				}
			}
			if text, _ := call(t, s, "desk", map[string]any{"request": "refund"}); text != "You have 500 back." || len(*asked) != 1 {
				t.Errorf("the answer is %q after %q", text, *asked)
			}
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := <-c.ended; err != nil {
				t.Errorf("the server ended with %v", err)
			}
		})
	}
}

// Calls that have started are answered after the end of the input. A question that the
// client cannot answer anymore stays open, and its call reports it.
func TestStdioDrain(t *testing.T) {
	c := serveStdio(t.Context(), t, &mcpserver.StdioOptions{})
	text := make(chan string, 1)
	go func() {
		all, _ := io.ReadAll(c.out)
		text <- string(all)
	}()
	c.send(t, opening, opened, callLine(2, "story"), callLine(3, "I want a refund"))
	c.in.Close()
	if err := <-c.ended; err != nil {
		t.Errorf("the server ended with %v", err)
	}
	c.out.Close()
	all := <-text
	for _, want := range []string{`"id":2,`, "one two three", `"id":3,`, "The agent waits for a person"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %s in %s", want, all)
		}
	}
}

// A call that takes longer than the grace period is canceled, after the end of the input and of the
// context.
func TestStdioDrainExpires(t *testing.T) {
	for _, bySignal := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		c := serveStdio(ctx, t, &mcpserver.StdioOptions{Drain: time.Millisecond})
		out := bufio.NewReader(c.out)
		c.send(t, opening, opened)
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		c.send(t, callLine(2, "wait"), `{"jsonrpc":"2.0","id":3,"method":"ping"}`)
		if line, err := out.ReadString('\n'); err != nil || !strings.Contains(line, `"id":3`) {
			t.Fatalf("the ping's response is %s, %v", line, err)
		}
		go func() { _, _ = io.Copy(io.Discard, out) }()
		if bySignal {
			cancel()
		} else {
			c.in.Close()
		}
		if err := <-c.ended; err != nil {
			t.Errorf("by signal %t: the server ended with %v", bySignal, err)
		}
	}
}

// A client that does not read its responses does not keep the server from ending.
func TestStdioClientDoesNotRead(t *testing.T) {
	c := serveStdio(t.Context(), t, &mcpserver.StdioOptions{Drain: time.Millisecond, Flush: time.Millisecond})
	c.send(t, opening)
	c.in.Close()
	if err := <-c.ended; err == nil || err.Error() != "the client does not read its responses" {
		t.Errorf("the server ended with %v", err)
	}
}

// A line that is not a message has an error as its response, and the next line counts.
func TestStdioBadLines(t *testing.T) {
	e, _ := newEnv(t, readDesk(t), nil, nil)
	c := serveHost(t.Context(), t, e, &mcpserver.StdioOptions{})
	out := bufio.NewReader(c.out)
	for _, tt := range []struct{ line, want string }{
		{"hello", "message is not valid JSON-RPC"},
		{"{", "message is not valid JSON-RPC"},
		{"[" + opening + "]", "batches are not supported: send one message in each line"},
		{strings.Repeat("[", 5), "batches are not supported"},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, "message is not valid JSON-RPC"},
		{`{"a":` + strings.Repeat("[", 100_000) + "}", "exceeded maximum nesting depth"},
		{strings.Repeat("x", 33<<20), "message exceeds the limit of 33554432 bytes"},
	} {
		c.send(t, "", tt.line)
		line, err := out.ReadString('\n')
		var response struct {
			ID    any
			Error struct{ Message string }
		}
		if err != nil || json.Unmarshal([]byte(line), &response) != nil || response.ID != nil || !strings.Contains(response.Error.Message, tt.want) {
			t.Errorf("%.40s is answered with %s, %v; want %s", tt.line, line, err, tt.want)
		}
	}
	c.send(t, opening)
	if line, err := out.ReadString('\n'); err != nil || !strings.Contains(line, "serverInfo") {
		t.Errorf("the server answers %s, %v", line, err)
	}
}

// Calls in progress are bounded.
func TestStdioTooManyCalls(t *testing.T) {
	e, _ := newEnv(t, strings.Replace(readDesk(t), "mcp_server:", "mcp_server:\n  session: call", 1), nil, nil)
	c := serveHost(t.Context(), t, e, &mcpserver.StdioOptions{Drain: time.Millisecond})
	out := bufio.NewReader(c.out)
	c.send(t, opening, opened)
	if _, err := out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	for id := 2; id < 2+257; id++ {
		c.send(t, callLine(id, "wait"))
	}
	if line, err := out.ReadString('\n'); err != nil || !strings.Contains(line, `"id":258`) || !strings.Contains(line, "calls in progress exceed the limit of 256") {
		t.Errorf("the last call is answered with %s, %v", line, err)
	}
	go func() { _, _ = io.Copy(io.Discard, out) }()
	c.in.Close()
	<-c.ended
}
