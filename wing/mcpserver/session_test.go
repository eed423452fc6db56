package mcpserver_test

import (
	"fmt"
	"net/http/httptest"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/wing/mcpserver"
)

// A rawSession sends messages in a session, as a client's bytes.
type rawSession struct {
	e         *servertest.Env
	id, token string
}

// openSession opens a session in which a tool has been called.
func openSession(t *testing.T, e *servertest.Env, token string) *rawSession {
	t.Helper()
	s := &rawSession{e: e, token: token}
	s.id = s.post(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`).Header().Get("Mcp-Session-Id")
	s.post(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	if w := s.call("hello", ""); w.Code != 200 || w.Header().Get("Content-Type") != "text/event-stream" {
		t.Fatalf("the first call: %d %s", w.Code, w.Body)
	}
	return s
}

func (s *rawSession) post(body string) *httptest.ResponseRecorder {
	return send(s.e, "POST", "/apps/desk/mcp", body, "Authorization: Bearer "+s.token, "Mcp-Session-Id: "+s.id,
		"Content-Type: application/json", "Accept: application/json, text/event-stream", "MCP-Protocol-Version: 2025-11-25")
}

// call calls the desk with a message, and further parameters in JSON.
func (s *rawSession) call(message, rest string) *httptest.ResponseRecorder {
	return s.post(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"desk","arguments":{"request":"` + message + `"}` + rest + `}}`)
}

// waitForMessages waits until the session's conversation has a message a number of times.
func (s *rawSession) waitForMessages(t *testing.T, text string, count int) {
	t.Helper()
	for attempt := 0; ; attempt++ {
		listed := send(s.e, "GET", "/apps/desk/users/u/sessions", "", "Authorization: Bearer "+s.token).Body.String()
		var found int
		for _, id := range regexp.MustCompile(`"id":"(mcp-[^"]+)"`).FindAllStringSubmatch(listed, -1) {
			found += strings.Count(send(s.e, "GET", "/apps/desk/users/u/sessions/"+id[1], "", "Authorization: Bearer "+s.token).Body.String(), `"text":"`+text+`"`)
		}
		if found == count {
			return
		}
		if attempt > 100_000 {
			t.Fatalf("%q is there %d times, want %d", text, found, count)
		}
		runtime.Gosched()
	}
}

// The first call in a session is the SDK's, and later ones have the same response in JSON, without it. A
// call that is not usual stays the SDK's.
func TestCallInSession(t *testing.T) {
	e, _ := newEnv(t, readDesk(t), nil, nil)
	s := openSession(t, e, "")
	usual := s.call("again", "")
	unusual := s.call("again", `,"_meta":{"progressToken":1}`)
	if got := usual.Header().Get("Content-Type"); usual.Code != 200 || got != "application/json" {
		t.Errorf("the second call is %d %s", usual.Code, got)
	}
	if got := unusual.Header().Get("Content-Type"); unusual.Code != 200 || got != "text/event-stream" {
		t.Errorf("a call with a token is %d %s", unusual.Code, got)
	}
	frames := strings.Split(strings.TrimSpace(unusual.Body.String()), "\n")
	last := strings.Replace(strings.TrimPrefix(frames[len(frames)-1], "data: "), "Turn 3", "Turn 2", 2)
	servertest.ExpectResponse(t, usual, 200, strings.TrimSpace(last))
	servertest.ExpectResponse(t, s.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"desk","arguments":{}}}`), 200,
		`{"jsonrpc":"2.0","id":3,"result":{"content":[{"type":"text","text":"request is required: the message to the agent, as a string"}],"isError":true}}`)
	if w := s.post(`{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"nope","arguments":{}}}`); !strings.Contains(w.Body.String(), `unknown tool \"nope\"`) {
		t.Errorf("an unknown tool: %s", w.Body)
	}
	s.post(`{"jsonrpc":"2.0","id":4,"method":"logging/setLevel","params":{"level":"info"}}`)
	if w := s.call("logged", ""); !strings.Contains(w.Body.String(), "notifications/message") {
		t.Errorf("a call with a log level: %s", w.Body)
	}
}

// The SDK handles a call now and then, so that it does not close a session that is in use. The calls after it
// are direct again.
func TestSessionInUse(t *testing.T) {
	now := time.Now()
	e, _ := servertest.NewExchangeEnv(t, txtar.Parse([]byte(readDesk(t))), &servertest.Folders{}, &servertest.Options{Server: &server.Options{
		Clock: func() time.Time { return now }, Extensions: []func(*server.Services) *server.Extension{mcpserver.Extend(nil)},
	}})
	t.Cleanup(e.Server.Drain)
	s := openSession(t, e, "")
	for i, want := range []string{"application/json", "text/event-stream", "application/json", "text/event-stream", "application/json"} {
		if i%2 == 1 {
			now = now.Add(10 * time.Minute)
		}
		if w := s.call("hello", ""); w.Code != 200 || w.Header().Get("Content-Type") != want {
			t.Errorf("call %d is %d %s, want %s", i, w.Code, w.Header().Get("Content-Type"), want)
		}
	}
}

// Questions that a later call in a session has reach the client: the agent runs once for the message, and
// once for the answer.
func TestQuestionInSession(t *testing.T) {
	_, url := newEnv(t, readDesk(t), nil, nil)
	opts, asked := answering(&mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirmed": true}})
	s := connect(t, url+"/apps/desk/mcp", eras[0], "", opts)
	for _, tt := range []struct{ request, want string }{
		{"hello", "Turn 1: hello"}, {"I want a refund", "You have 500 back."}, {"thanks", "Turn 3: thanks"},
	} {
		if text, _ := call(t, s, "desk", map[string]any{"request": tt.request}); text != tt.want {
			t.Errorf("%s: %q, want %q", tt.request, text, tt.want)
		}
	}
	if len(*asked) != 1 {
		t.Errorf("the questions are %q", *asked)
	}
}

// A direct call belongs to the session's user. A cancel by another user, of another request and in another
// session has no effect; that of the user ends it, as the end of the session does.
func TestCancelInSession(t *testing.T) {
	e, _ := newEnv(t, readDesk(t), nil, newAuth(t))
	own, other := openSession(t, e, tokenU), openSession(t, e, tokenU)
	foreign := &rawSession{e: e, id: own.id, token: tokenV}
	if w := foreign.call("hello", ""); w.Code != 404 || w.Body.String() != "session not found\n" {
		t.Errorf("a foreign session is %d %s", w.Code, w.Body)
	}
	const canceled = `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`
	for i, end := range []func(){
		func() { own.post(canceled) },
		func() {
			send(e, "DELETE", "/apps/desk/mcp", "", "Authorization: Bearer "+tokenU, "Mcp-Session-Id: "+own.id, "MCP-Protocol-Version: 2025-11-25")
		},
	} {
		ended := make(chan *httptest.ResponseRecorder, 1)
		go func() { ended <- own.call("wait", "") }()
		own.waitForMessages(t, "wait", i+1)
		foreign.post(canceled)
		other.post(canceled)
		own.post(strings.Replace(canceled, "2}}", "7}}", 1))
		select {
		case w := <-ended:
			t.Fatalf("the call ended: %s", w.Body)
		default:
		}
		end()
		if w := <-ended; w.Code != 200 || !strings.Contains(w.Body.String(), `"isError":true`) {
			t.Errorf("the canceled call is %d %s", w.Code, w.Body)
		}
	}
	if w := own.call("hello", ""); w.Code != 404 {
		t.Errorf("a closed session is %d %s", w.Code, w.Body)
	}
}

// A cancel that overtakes its call ends it: they are two requests over HTTP. Those of other users and sessions do not.
func TestCancelBeforeCall(t *testing.T) {
	e, _ := newEnv(t, readDesk(t), nil, newAuth(t))
	own, other := openSession(t, e, tokenU), openSession(t, e, tokenU)
	foreign := &rawSession{e: e, id: own.id, token: tokenV}
	cancelCall := func(s *rawSession, id int) {
		s.post(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, id))
	}
	sendCall := func(id int, text string) string {
		return own.post(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"desk","arguments":{"request":%q}}}`, id, text)).Body.String()
	}
	cancelCall(own, 9)
	if got := sendCall(9, "wait"); !strings.Contains(got, `"isError":true`) {
		t.Errorf("the canceled call: %s", got)
	}
	cancelCall(foreign, 10)
	cancelCall(other, 10)
	if got := sendCall(10, "hello"); strings.Contains(got, `"isError":true`) {
		t.Errorf("a call that others cancel: %s", got)
	}
}

// Two agents that run in parallel both ask for an approval. The person answers both, each agent continues,
// and the result has the answers of both.
func TestQuestionsOfTwoEvents(t *testing.T) {
	const agent = `
  - name: NAME
    model: demo
    instruction: Pay.
    tools: [{expr: {name: refund, description: Pays., params: {amount: number}, value: '{"paid": args.amount}', confirm: "true"}}]`
	_, url := newEnv(t, `
-- apps/desk/app.yaml --
models: {demo: {provider: scripted, script: demo.script.yaml}}
mcp_server: {}
-- apps/desk/demo.script.yaml --
- {when: responses.refund != nil, text: "{agent} paid {responses.refund.paid}."}
- calls: [{name: refund, args: {amount: 7}}]
-- apps/desk/root_agent.yaml --
agent_class: ParallelAgent
name: desk
sub_agents:`+strings.Replace(agent, "NAME", "first", 1)+strings.Replace(agent, "NAME", "second", 1)+"\n", nil, nil)
	for _, era := range eras {
		opts, asked := answering(&mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirmed": true}})
		s := connect(t, url+"/apps/desk/mcp", era, "", opts)
		for range 2 { // in a session, the second call is not the SDK's
			text, _ := call(t, s, "desk", map[string]any{"request": "pay"})
			if !strings.Contains(text, "first paid 7.") || !strings.Contains(text, "second paid 7.") {
				t.Errorf("%s: the answer is %q", era, text)
			}
		}
		if len(*asked) != 4 {
			t.Errorf("%s: the questions are %q", era, *asked)
		}
	}
}
