package acpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/servertest"
	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/wing/acpserver"
)

const (
	opening    = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`
	newSession = `{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`
)

func promptLine(id int, session, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}}`, id, session, text)
}

func cancelLine(session string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":%q}}`, session)
}

// open initializes the connection, and creates the session new-0001.
func (c *client) open() {
	c.t.Helper()
	c.send(opening)
	c.receive()
	c.send(newSession)
	c.receiveUntil(`"id":1`)
}

// A line that is too long or too deep has an error as its response, and the next line counts.
func TestLargeLines(t *testing.T) {
	c := serve(t.Context(), t, newEnv(t, nil), &acpserver.Options{})
	for _, tt := range []struct{ line, want string }{
		{strings.Repeat("x", 33<<20), "message exceeds the limit of 33554432 bytes"},
		{`{"a":` + strings.Repeat("[", 100_000) + "}", "exceeds the nesting limit of 1024"},
		{`{"a":[` + strings.Repeat("0,", 3_000_000) + "0]}", "exceeds the limit of"},
	} {
		c.send("", tt.line)
		if line := c.receive(); !strings.Contains(line, `"id":null`) || !strings.Contains(line, tt.want) {
			t.Errorf("%.20s is answered with %.300s, want %s", tt.line, line, tt.want)
		}
	}
	c.open()
	c.end()
}

// A client that does not read its responses does not keep the agent from ending.
func TestClientDoesNotRead(t *testing.T) {
	c := serve(t.Context(), t, newEnv(t, nil), &acpserver.Options{Drain: time.Millisecond, Flush: time.Millisecond})
	c.send(opening)
	c.in.Close()
	if err := <-c.ended; err == nil || err.Error() != "the client does not read its responses" {
		t.Errorf("the agent ended with %v", err)
	}
}

// A client that stops to read during an answer ends with its input, and the answer so far is stored.
func TestClientStopsReading(t *testing.T) {
	e := newEnv(t, nil)
	c := serve(t.Context(), t, e, &acpserver.Options{Drain: time.Millisecond, Flush: time.Second})
	c.open()
	c.send(promptLine(2, "new-0001", "a story"))
	c.receive()
	for len(readEvents(t, e, "new-0001")) == 0 { // a run that has stored nothing leaves nothing
	}
	c.in.Close()
	if err := <-c.ended; err == nil {
		t.Error("the agent ended without an error")
	}
	if events := readEvents(t, e, "new-0001"); len(events) == 0 || !events[0].IsFromUser() {
		t.Errorf("the session has %d events", len(events))
	}
}

func readEvents(t *testing.T, e *servertest.Env, id string) []*session.Event {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), session.Key{App: "desk", User: "u", ID: id}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sess.Events()
}

// A prompt that waits for a permission ends with the input. The call stays open, and another protocol
// answers it.
func TestInputEndsDuringPermission(t *testing.T) {
	e := newEnv(t, nil)
	c := serve(t.Context(), t, e, &acpserver.Options{})
	c.open()
	c.send(promptLine(2, "new-0001", "a refund"))
	c.receiveUntil("session/request_permission")
	c.in.Close()
	if line := c.receive(); !strings.Contains(line, `"id":2,"result":{"stopReason":"cancelled"}`) {
		t.Errorf("the prompt is answered with %s", line)
	}
	if err := <-c.ended; err != nil {
		t.Errorf("the agent ended with %v", err)
	}
	pending := runtime.Pending(session.Recorded(readEvents(t, e, "new-0001")))
	if len(pending) != 1 {
		t.Fatalf("%d events have open calls, want 1", len(pending))
	}
	answer := fmt.Sprintf(`{"appName":"desk","userId":"u","sessionId":"new-0001","newMessage":{"role":"user","parts":[{"functionResponse":{"id":%q,"name":"adk_request_confirmation","response":{"confirmed":true}}}]}}`, pending[0].Calls[0].ID)
	w := e.Serve(http.MethodPost, "/run", answer)
	if !strings.Contains(w.Body.String(), "You have 500 back.") {
		t.Errorf("the answer over REST is %s", w.Body)
	}
}

// Prompts that have started are answered after the end of the input.
func TestInputEndsDuringPrompt(t *testing.T) {
	c := serve(t.Context(), t, newEnv(t, nil), &acpserver.Options{})
	c.open()
	c.send(promptLine(2, "new-0001", "a story"))
	c.in.Close()
	if line := c.receiveUntil(`"id":2`); !strings.Contains(line, "end_turn") {
		t.Errorf("the prompt is answered with %s", line)
	}
	if err := <-c.ended; err != nil {
		t.Errorf("the agent ended with %v", err)
	}
}

// A prompt that takes longer than the grace period is canceled, after the end of the input and of the
// context.
func TestDrainExpires(t *testing.T) {
	for _, bySignal := range []bool{false, true} {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		e := newEnv(t, nil)
		c := serve(ctx, t, e, &acpserver.Options{Drain: time.Millisecond})
		c.open()
		c.send(promptLine(2, "new-0001", "wait"))
		c.receive()
		waitForRun(t, e) // a prompt that has not started is rejected
		if bySignal {
			cancel()
		} else {
			c.in.Close()
		}
		if line := c.receiveUntil(`"id":2`); !strings.Contains(line, "cancelled") {
			t.Errorf("by signal %t: the prompt is answered with %s", bySignal, line)
		}
		if err := <-c.ended; err != nil {
			t.Errorf("by signal %t: the agent ended with %v", bySignal, err)
		}
	}
}

// session/cancel ends a run, and nothing stays open: the next prompt is answered. Closing and deleting
// a session cancel its prompt first.
func TestCancelRun(t *testing.T) {
	e := newEnv(t, nil)
	c := serve(t.Context(), t, e, &acpserver.Options{})
	c.open()
	c.send(promptLine(2, "new-0001", "wait"))
	c.receive()
	c.send(cancelLine("new-0001"))
	if line := c.receive(); !strings.Contains(line, `"id":2,"result":{"stopReason":"cancelled"}`) {
		t.Errorf("the prompt is answered with %s", line)
	}
	c.send(promptLine(3, "new-0001", "hello"))
	if line := c.receiveUntil(`"id":3`); !strings.Contains(line, "end_turn") {
		t.Errorf("the next prompt is answered with %s", line)
	}
	for i, method := range []string{"session/close", "session/delete"} {
		c.send(`{"jsonrpc":"2.0","id":4,"method":"session/resume","params":{"sessionId":"new-0001","cwd":"/"}}`)
		c.receiveUntil(`"id":4`)
		started := len(readEvents(t, e, "new-0001"))
		c.send(promptLine(5, "new-0001", "wait"))
		waitForRun(t, e)
		if n := len(readEvents(t, e, "new-0001")); n < started {
			t.Errorf("%s: the session has %d events", method, n)
		}
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{"sessionId":"new-0001"}}`, 10+i, method))
		both := c.receive() + c.receive() // in any order
		if !strings.Contains(both, `"id":5,"result":{"stopReason":"cancelled"`) {
			t.Errorf("%s: the prompt is answered with %s", method, both)
		}
		if !strings.Contains(both, fmt.Sprintf(`"id":%d,"result":{}`, 10+i)) {
			t.Errorf("%s is answered with %s", method, both)
		}
	}
	c.end()
	if _, err := e.Store.Sessions.Get(t.Context(), session.Key{App: "desk", User: "u", ID: "new-0001"}, nil); !errors.Is(err, session.ErrNotFound) {
		t.Errorf("the deleted session is read with %v", err)
	}
}

// waitForRun waits until a run has the session.
func waitForRun(t *testing.T, e *servertest.Env) {
	t.Helper()
	for {
		running, err := e.Store.Sessions.IsRunning(t.Context(), session.Key{App: "desk", User: "u", ID: "new-0001"})
		if err != nil {
			t.Fatal(err)
		}
		if running {
			return
		}
	}
}

// Sessions of other users and apps are not found, and stay.
func TestForeignSessions(t *testing.T) {
	e := newEnv(t, nil)
	for _, key := range []session.Key{{App: "desk", User: "v", ID: "s1"}, {App: "hello", User: "u", ID: "s2"}} {
		if _, err := e.Store.Sessions.Create(t.Context(), key, nil); err != nil {
			t.Fatal(err)
		}
		c := serve(t.Context(), t, e, &acpserver.Options{})
		c.open()
		for _, method := range []string{"session/load", "session/resume", "session/delete", "session/close"} {
			c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":2,"method":%q,"params":{"sessionId":%q,"cwd":"/","mcpServers":[]}}`, method, key.ID))
			if line := c.receive(); !strings.Contains(line, fmt.Sprintf(`"error":{"code":-32002,"message":"session \"%s\" not found"}`, key.ID)) {
				t.Errorf("%s of %s is answered with %s", method, key, line)
			}
		}
		c.end()
		if _, err := e.Store.Sessions.Get(t.Context(), key, nil); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

// Requests in progress are bounded, and their IDs are unique.
func TestTooManyRequests(t *testing.T) {
	c := serve(t.Context(), t, newEnv(t, nil), &acpserver.Options{Drain: time.Millisecond})
	c.send(opening)
	c.receive()
	for i := range 257 {
		c.send(newSession)
		var response struct{ Result struct{ SessionID string } }
		if err := json.Unmarshal([]byte(c.receiveUntil(`"id":1`)), &response); err != nil {
			t.Fatal(err)
		}
		c.send(promptLine(100+i, response.Result.SessionID, "wait"))
		if i < 256 {
			c.receive()
			continue
		}
		break
	}
	if line := c.receive(); !strings.Contains(line, "requests in progress exceed the limit of 256") {
		t.Errorf("the last request is answered with %s", line)
	}
	c.send(strings.Replace(newSession, `"id":1`, `"id":100`, 1))
	if line := c.receive(); !strings.Contains(line, "a request with the id 100 is in progress") {
		t.Errorf("the repeated ID is answered with %s", line)
	}
	c.end()
}

// A list has pages, and each session once, the latest first.
func TestListPages(t *testing.T) {
	e := newEnv(t, nil)
	for i := range 120 {
		e.CreateSession(t, "desk", fmt.Sprintf("s%03d", i))
	}
	c := serve(t.Context(), t, e, &acpserver.Options{})
	c.send(opening)
	c.receive()
	var ids []string
	cursor := "{}"
	for cursor != "" {
		c.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"session/list","params":%s}`, cursor))
		var page struct {
			Result struct {
				Sessions   []struct{ SessionID string }
				NextCursor string
			}
		}
		if err := json.Unmarshal([]byte(c.receive()), &page); err != nil {
			t.Fatal(err)
		}
		for _, s := range page.Result.Sessions {
			ids = append(ids, s.SessionID)
		}
		if cursor = ""; page.Result.NextCursor != "" {
			cursor = fmt.Sprintf(`{"cursor":%q}`, page.Result.NextCursor)
		}
	}
	if len(ids) != 120 || ids[0] != "s119" || ids[119] != "s000" {
		t.Errorf("the pages have %d sessions: %v", len(ids), ids)
	}
	c.end()
}

// A prompt uses the app that was reloaded meanwhile. A mode that it no longer has ends, and the client
// is notified.
func TestReload(t *testing.T) {
	e := newEnv(t, nil)
	c := serve(t.Context(), t, e, &acpserver.Options{})
	c.open()
	c.send(`{"jsonrpc":"2.0","id":2,"method":"session/set_mode","params":{"sessionId":"new-0001","modeId":"writer"}}`)
	c.receive()
	folders := &servertest.Folders{}
	folders.LoadApps(t, e, txtar.Parse([]byte(`
-- apps/desk/app.yaml --
models: {demo: {provider: scripted, script: demo.script.yaml}}
-- apps/desk/root_agent.yaml --
name: desk
model: demo
instruction: Answer.
-- apps/desk/demo.script.yaml --
- {text: "New.", chunks: 1}
`)), t.TempDir())
	c.send(promptLine(3, "new-0001", "hello"))
	if line := c.receive(); !strings.Contains(line, `"sessionUpdate":"current_mode_update","currentModeId":"desk"`) {
		t.Errorf("the mode is reported with %s", line)
	}
	c.receiveUntil(`"text":"New."`)
	c.receiveUntil("end_turn")
	c.send(`{"jsonrpc":"2.0","id":4,"method":"session/set_mode","params":{"sessionId":"new-0001","modeId":"writer"}}`)
	if line := c.receive(); !strings.Contains(line, `unknown mode \"writer\", the app has no modes`) {
		t.Errorf("the mode is answered with %s", line)
	}
	c.end()
}

// The rate limits of the host hold.
func TestRateLimit(t *testing.T) {
	rate, err := server.ParseRate("1/1h")
	if err != nil {
		t.Fatal(err)
	}
	c := serve(t.Context(), t, newEnv(t, nil), &acpserver.Options{Host: &server.Options{RunsPerUser: rate, Clock: servertest.FixedTime}})
	c.open()
	c.send(promptLine(2, "new-0001", "hello"))
	c.receiveUntil("end_turn")
	c.send(promptLine(3, "new-0001", "hello"))
	if line := c.receive(); !strings.Contains(line, `"code":-32603`) || !strings.Contains(line, `"retryAfterSeconds":3600`) {
		t.Errorf("the prompt is answered with %s", line)
	}
	c.end()
}

// An app that does not exist is an error.
func TestUnknownApp(t *testing.T) {
	e := newEnv(t, nil)
	err := acpserver.Serve(t.Context(), e.Host, &acpserver.Options{App: "nothing", User: "u", In: strings.NewReader(""), Out: io.Discard})
	if err == nil || err.Error() != `app "nothing" not found` {
		t.Errorf("got %v", err)
	}
}

// Each problem of acp_server is reported at its place, with the value and the limit.
func TestSectionProblems(t *testing.T) {
	for section, want := range map[string]string{
		"{agents: [stranger]}":   `agent "stranger" not found in the agent tree, or it is a workflow's node`,
		"{agents: [desk, desk]}": `duplicate agent "desk"`,
		"{agents: desk}":         "expected a list, got a string",
		"{agent: [desk]}":        `unknown field "agent"`,
		"{agents: [" + strings.Repeat("desk, ", 65) + "]}": "agents exceeds the limit of 64, got 65",
	} {
		dir := filepath.Join(t.TempDir(), "desk")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for file, text := range map[string]string{
			"root_agent.yaml": "name: desk\nmodel: demo\ninstruction: Answer.\n",
			"s.yaml":          "- text: hello\n",
			"app.yaml":        "models: {demo: {provider: scripted, script: s.yaml}}\nacp_server: " + section + "\n",
		} {
			if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		e := testenv.New(t, nil)
		if _, ds := e.Loader.Load(t.Context(), dir); !strings.Contains(ds.Error(), want) {
			t.Errorf("%.80s reports %q, want %q", section, ds.Error(), want)
		}
	}
}
