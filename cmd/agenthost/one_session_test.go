package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/servertest"
	"agenthost/internal/testdb"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/wing/a2aserver"
	"agenthost/wing/acpserver"
	"agenthost/wing/aguiserver"
	"agenthost/wing/mcpserver"
	"agenthost/wing/openaiserver"
	"agenthost/wing/outcomes"
)

const sharedDesk = `
-- apps/desk/app.yaml --
models: {demo: {provider: scripted, script: demo.script.yaml}}
a2a_server: {}
agui_server: {}
mcp_server: {}
openai_server: {}
-- apps/desk/root_agent.yaml --
name: desk
model: demo
instruction: Answer.
tools:
  - expr: {name: refund, description: Pays money back., params: {amount: number}, value: '{"paid": args.amount}', confirm: true}
-- apps/desk/demo.script.yaml --
- {when: responses.refund.error != nil, text: "Not paid."}
- {when: responses.refund != nil, text: "Paid {responses.refund.paid}."}
- {when: user contains "refund", calls: [{name: refund, args: {amount: 500}}]}
- {text: "You wrote: {user}"}
`

// A sharedSession is one session that clients of all protocols use in turn.
type sharedSession struct {
	*testing.T
	e  *servertest.Env
	id string
	// sent counts the messages, and turns the ones by protocol.
	sent  int
	turns map[string]int
	// want is what the session must have, in order.
	want []string
	// isWaiting is set while an approval is open.
	isWaiting bool
}

// A conversation goes from protocol to protocol in one session, and an approval that one requests is given
// over another one: nothing is lost or doubled, and each turn's outcome names its protocol.
func TestOneSession(t *testing.T) {
	stores := map[string]string{"memory": ""}
	for _, engine := range testdb.Engines() {
		url, drop, err := engine.Fresh(t.Context(), t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := drop(); err != nil {
				t.Error(err)
			}
		}()
		stores[engine.Name] = url
	}
	for name, url := range stores {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			random := rand.New(rand.NewPCG(seed, 1))
			e, _ := servertest.NewExchangeEnv(t, txtar.Parse([]byte(sharedDesk)), &servertest.Folders{}, &servertest.Options{URL: url, Wait: time.Minute, Server: &server.Options{
				AutoCreateSession: true,
				Extensions: []func(*server.Services) *server.Extension{
					a2aserver.Extend(nil), aguiserver.Extend(nil), mcpserver.Extend(&mcpserver.Options{User: "user"}), openaiserver.Extend(nil), outcomes.Extend(),
				},
			}})
			s := &sharedSession{T: t, e: e, id: "shared", turns: map[string]int{}}
			for _, protocol := range slices.Sorted(maps.Keys(sends)) { // each one at least once
				s.send(protocol, "hello")
			}
			for range 40 {
				s.step(random)
			}
			s.check()
		})
	}
}

// sends send a message, and answers give an approval, by protocol.
var sends = map[string]func(s *sharedSession, text string) string{
	"run": func(s *sharedSession, text string) string {
		return s.post("/run", fmt.Sprintf(`{"appName":"desk","userId":"user","sessionId":%q,"newMessage":{"role":"user","parts":[{"text":%q}]}}`, s.id, text))
	},
	"openai": func(s *sharedSession, text string) string {
		return s.post("/v1/chat/completions", fmt.Sprintf(`{"model":"desk","messages":[{"role":"user","content":%q}]}`, text), "X-Conversation-Id", s.id)
	},
	"a2a": func(s *sharedSession, text string) string {
		return s.post("/a2a/desk", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","contextId":%q,"role":"ROLE_USER","parts":[{"text":%q}]}}}`, s.id, text))
	},
	"ag-ui": func(s *sharedSession, text string) string {
		return s.post("/apps/desk/ag-ui", fmt.Sprintf(`{"threadId":%q,"runId":"r%d","messages":[{"id":"m%d","role":"user","content":%q}]}`, s.id, s.sent, s.sent, text))
	},
	"mcp": func(s *sharedSession, text string) string {
		return s.post("/apps/desk/mcp", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"desk","arguments":{"request":%q,"session":%q},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}}`, text, s.id),
			"MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "desk", "Accept", "application/json, text/event-stream")
	},
	"acp": (*sharedSession).prompt,
}

var answers = map[string]func(s *sharedSession, call string, yes bool) string{
	"run": func(s *sharedSession, call string, yes bool) string {
		return s.post("/run", fmt.Sprintf(`{"appName":"desk","userId":"user","sessionId":%q,"newMessage":{"role":"user","parts":[{"functionResponse":{"id":%q,"name":"adk_request_confirmation","response":{"confirmed":%v}}}]}}`, s.id, call, yes))
	},
	"openai": func(s *sharedSession, _ string, yes bool) string {
		return sends["openai"](s, map[bool]string{true: "yes", false: "no"}[yes])
	},
	"acp": func(s *sharedSession, _ string, yes bool) string {
		return s.prompt(map[bool]string{true: "yes", false: "no"}[yes])
	},
	"a2a": func(s *sharedSession, _ string, yes bool) string {
		var list struct {
			Result struct{ Tasks []struct{ ID string } }
		}
		text := s.post("/a2a/desk", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"contextId":%q,"status":"TASK_STATE_INPUT_REQUIRED"}}`, s.id))
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list.Result.Tasks) != 1 {
			s.Fatalf("%v: %s", err, text)
		}
		return s.post("/a2a/desk", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","taskId":%q,"role":"ROLE_USER","parts":[{"data":{"confirmed":%v}}]}}}`, list.Result.Tasks[0].ID, yes))
	},
	"ag-ui": func(s *sharedSession, call string, yes bool) string {
		return s.post("/apps/desk/ag-ui", fmt.Sprintf(`{"threadId":%q,"runId":"r%d","messages":[],"resume":[{"interruptId":%q,"status":"resolved","payload":{"approved":%v}}]}`, s.id, s.sent, call, yes))
	},
}

// prompt sends a prompt over ACP, as an editor that opens the session and cancels each permission.
func (s *sharedSession) prompt(text string) string {
	s.Helper()
	in, toAgent := io.Pipe()
	fromAgent, out := io.Pipe()
	defer fromAgent.Close()
	ended := make(chan error, 1)
	go func() {
		err := acpserver.Serve(s.Context(), s.e.Host, &acpserver.Options{App: "desk", User: "user", In: in, Out: out, Host: &server.Options{Clock: servertest.FixedTime}, Drain: time.Minute})
		out.Close()
		ended <- err
	}()
	write := func(format string, args ...any) {
		if _, err := fmt.Fprintf(toAgent, format+"\n", args...); err != nil {
			s.Fatal(err)
		}
	}
	write(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`)
	write(`{"jsonrpc":"2.0","id":2,"method":"session/resume","params":{"sessionId":%q,"cwd":"/","mcpServers":[]}}`, s.id)
	lines, last := bufio.NewScanner(fromAgent), ""
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage
			Method string
			Error  json.RawMessage
		}
		last = lines.Text()
		if err := json.Unmarshal([]byte(last), &m); err != nil || m.Error != nil {
			s.Fatalf("ACP: %v: %s", err, last)
		}
		switch {
		case m.Method == "session/request_permission":
			write(`{"jsonrpc":"2.0","id":%s,"result":{"outcome":{"outcome":"cancelled"}}}`, m.ID)
		case m.Method == "" && string(m.ID) == "2":
			write(`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":%q}]}}`, s.id, text)
		case m.Method == "" && string(m.ID) == "3":
			toAgent.Close()
		}
	}
	if err := errors.Join(lines.Err(), <-ended); err != nil {
		s.Fatal(err)
	}
	return last
}

func (s *sharedSession) step(random *rand.Rand) {
	s.Helper()
	if s.isWaiting {
		s.answer(pick(random, answers), random.IntN(2) == 0)
		return
	}
	text := "hello"
	if random.IntN(3) == 0 {
		text = "a refund"
	}
	s.send(pick(random, sends), text)
}

func pick[V any](random *rand.Rand, all map[string]V) string {
	names := slices.Sorted(maps.Keys(all))
	return names[random.IntN(len(names))]
}

// send sends a message that no other one equals.
func (s *sharedSession) send(protocol, text string) {
	s.Helper()
	text = fmt.Sprintf("%s %d", text, s.sent)
	sends[protocol](s, text)
	s.sent++
	s.turns[protocol]++
	s.want = append(s.want, text)
	if s.isWaiting = strings.Contains(text, "refund"); !s.isWaiting {
		s.want = append(s.want, "You wrote: "+text)
	}
}

// answer gives or rejects the open approval.
func (s *sharedSession) answer(protocol string, yes bool) {
	s.Helper()
	pending := runtime.Pending(session.Recorded(s.read().Events()))
	if len(pending) != 1 || len(pending[0].Calls) != 1 {
		s.Fatalf("%s: %d calls wait", protocol, len(pending))
	}
	answers[protocol](s, pending[0].Calls[0].ID, yes)
	s.sent++
	s.turns[protocol]++
	s.want, s.isWaiting = append(s.want, map[bool]string{true: "Paid 500.", false: "Not paid."}[yes]), false
}

func (s *sharedSession) read() *session.Session {
	s.Helper()
	sess, err := s.e.Store.Sessions.Get(s.Context(), session.Key{App: "desk", User: "user", ID: s.id}, nil)
	if err != nil {
		s.Fatal(err)
	}
	return sess
}

// check compares the session's texts, and its outcomes, with what was sent.
func (s *sharedSession) check() {
	s.Helper()
	var got []string
	for _, ev := range s.read().Events() {
		if text := ev.Text(); text != "" {
			got = append(got, text)
		}
	}
	if !slices.Equal(got, s.want) {
		s.Errorf("the session has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(s.want, "\n"))
	}
	text := s.get("/apps/desk/outcomes?by=protocol")
	for protocol := range s.turns {
		if !strings.Contains(text, `"protocol":"`+protocol+`"`) {
			s.Errorf("the outcomes have no %s: %s", protocol, text)
		}
	}
}

func (s *sharedSession) post(path, body string, headers ...string) string {
	s.Helper()
	r := httptest.NewRequest(http.MethodPost, path, bytes.NewReader([]byte(body)))
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	return s.do(r)
}

func (s *sharedSession) get(path string) string {
	s.Helper()
	return s.do(httptest.NewRequest(http.MethodGet, path, nil))
}

func (s *sharedSession) do(r *http.Request) string {
	s.Helper()
	w := httptest.NewRecorder()
	if s.e.Server.ServeHTTP(w, r); w.Code != http.StatusOK || strings.Contains(w.Body.String(), `"error":{`) || strings.Contains(w.Body.String(), "RUN_ERROR") {
		s.Fatalf("%s %s: %d %s", r.Method, r.URL, w.Code, w.Body)
	}
	return w.Body.String()
}
