package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A taskServer answers each call with the task t-1, whose states are in reports: the last one repeats.
type taskServer struct {
	*rawServer
	created string

	mu      sync.Mutex
	reports []string
	// requests are the extension's requests, and the headers Mcp-Name; capabilities those of the call.
	requests     []string
	names        []string
	capabilities string
	canceled     chan string
}

func serveTasks(t *testing.T, created string, reports ...string) *taskServer {
	s := &taskServer{rawServer: serveRaw(t), created: created, reports: reports, canceled: make(chan string, 10)}
	s.answer(discoverMethod, `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`)
	s.answer("tools/list", anyTool)
	s.answers["tools/call"] = func(id, params json.RawMessage) string {
		var p struct {
			Meta map[string]json.RawMessage `json:"_meta"`
		}
		_ = json.Unmarshal(params, &p)
		s.capabilities = string(p.Meta["io.modelcontextprotocol/clientCapabilities"])
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, s.created)
	}
	for _, method := range taskMethods() {
		s.answers[method] = func(id, params json.RawMessage) string { return s.answerTask(method, id, params) }
	}
	inner := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Header.Get("Mcp-Method"), "tasks/") {
			s.mu.Lock()
			s.names = append(s.names, r.Header.Get("Mcp-Name"))
			s.mu.Unlock()
		}
		inner.ServeHTTP(w, r)
	})
	return s
}

func (s *taskServer) answerTask(method string, id, params json.RawMessage) string {
	var p struct {
		TaskID         string          `json:"taskId"`
		InputResponses json.RawMessage `json:"inputResponses"`
	}
	_ = json.Unmarshal(params, &p)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, strings.TrimSpace(method+" "+p.TaskID+" "+string(p.InputResponses)))
	result := `{"resultType":"complete"}`
	switch method {
	case cancelTaskMethod:
		s.canceled <- p.TaskID
	case getTaskMethod:
		result = s.reports[0]
		if len(s.reports) > 1 {
			s.reports = s.reports[1:]
		}
	}
	if strings.HasPrefix(result, "error ") {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"error":%s}`, id, strings.TrimPrefix(result, "error "))
	}
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, id, result)
}

// report returns a state of the task t-1.
func report(status, members string) string {
	return fmt.Sprintf(`{"resultType":"complete","taskId":"t-1","status":%q,"createdAt":"2026-11-27T10:00:00Z","lastUpdatedAt":"2026-11-27T10:00:00Z","ttlMs":null%s}`, status, members)
}

const createdTask = `{"resultType":"task","taskId":"t-1","status":"working","createdAt":"2026-11-27T10:00:00Z","lastUpdatedAt":"2026-11-27T10:00:00Z","ttlMs":60000,"pollIntervalMs":2000}`

// A taskClock is the clock of a set: a wait moves it.
type taskClock struct {
	now   time.Time
	waits []time.Duration
}

// buildTaskSet returns a set with tasks, whose clock is c.
func buildTaskSet(t *testing.T, s *taskServer, yaml string, c *taskClock) *serverSet {
	set := buildSet(t, "mcp", "url: "+s.URL+"\n"+yaml).(*serverSet)
	if c.now.IsZero() {
		c.now = time.Unix(1_000_000, 0)
	}
	set.now = func() time.Time { return c.now }
	set.wait = func(ctx context.Context, d time.Duration) error {
		c.waits = append(c.waits, d)
		c.now = c.now.Add(d)
		return ctx.Err()
	}
	return set
}

// newTaskCall returns a call that stores its interim responses in stored.
func newTaskCall(stored *[]map[string]any) *tool.Call {
	call := &tool.Call{State: emptyState{}, Actions: &session.Actions{}, ID: "1", Args: map[string]any{}}
	call.Origin.App, call.Origin.UserID, call.Origin.SessionID = "x", "u", "s"
	call.StoreInterim = func(_ context.Context, response map[string]any) error {
		*stored = append(*stored, response)
		return nil
	}
	call.IsAbandoned = func() bool { return true }
	return call
}

// runTask calls the tool t.
func runTask(t *testing.T, ctx context.Context, set *serverSet, call *tool.Call) (*tool.Result, error) {
	t.Helper()
	found, err := set.FindTool(t.Context(), &tool.Call{State: emptyState{}}, "t")
	if err != nil {
		t.Fatal(err)
	}
	return found.Run(ctx, call)
}

// TestTask: a call that the server answers with a task waits for its end. The extension is offered in
// the call's capabilities; each request names the task in the header Mcp-Name; the latest interval
// counts; the result is that of a call. The task is stored before the first wait.
func TestTask(t *testing.T) {
	s := serveTasks(t, createdTask, report("working", `,"pollIntervalMs":7000`), report("working", ""), report("completed", `,"result":{"content":[{"type":"text","text":"42"}],"isError":false}`))
	clock := &taskClock{}
	var stored []map[string]any
	res, err := runTask(t, t.Context(), buildTaskSet(t, s, "enable_tasks: true", clock), newTaskCall(&stored))
	want := map[string]any{"content": []any{map[string]any{"type": "text", "text": "42"}}, "isError": false}
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, res.Response); diff != "" {
		t.Errorf("response (-want +got):\n%s", diff)
	}
	if got, want := s.capabilities, `{"extensions":{"io.modelcontextprotocol/tasks":{}}}`; got != want {
		t.Errorf("capabilities %s, want %s", got, want)
	}
	if got, want := strings.Join(s.requests, ", "), "tasks/get t-1, tasks/get t-1, tasks/get t-1"; got != want || strings.Join(s.names, " ") != "t-1 t-1 t-1" {
		t.Errorf("requests %s with the names %v, want %s", got, s.names, want)
	}
	if got, want := fmt.Sprint(clock.waits), "[2s 7s 7s]"; got != want {
		t.Errorf("waits %s, want %s", got, want)
	}
	if len(stored) != 1 || stored[0]["status"] != "working" {
		t.Errorf("stored %v, want one interim response", stored)
	}
}

// TestTaskContinued: another attempt, in another process, continues with the stored task and makes no
// further call. A task that another server, tool, user or session has stored is refused, and so is one
// that cannot be read.
func TestTaskContinued(t *testing.T) {
	s := serveTasks(t, createdTask, report("working", ""), report("completed", `,"result":{"content":[]}`))
	clock := &taskClock{}
	var stored []map[string]any
	first := newTaskCall(&stored)
	first.IsAbandoned = func() bool { return false }
	ctx, crash := context.WithCancel(t.Context())
	set := buildTaskSet(t, s, "enable_tasks: true", clock)
	set.wait = func(context.Context, time.Duration) error { crash(); return ctx.Err() }
	if _, err := runTask(t, ctx, set, first); !errors.Is(err, context.Canceled) || len(s.requests) > 0 {
		t.Fatalf("the first attempt: %v, requests %v", err, s.requests)
	}
	calls := 0
	s.answers["tools/call"] = func(id, _ json.RawMessage) string { calls++; return "" }
	raw, err := json.Marshal(stored[0])
	if err != nil {
		t.Fatal(err)
	}
	again := func() *tool.Call {
		call := newTaskCall(&stored)
		if call.Interim, err = session.DecodeMap(raw); err != nil {
			t.Fatal(err)
		}
		return call
	}
	res, err := runTask(t, t.Context(), buildTaskSet(t, s, "enable_tasks: true", clock), again())
	if err != nil || res.Response["isError"] != false || calls != 0 || len(stored) != 1 {
		t.Errorf("the second attempt: %v, %v, %d calls, stored %v", res, err, calls, stored)
	}
	other := serveTasks(t, createdTask, report("completed", `,"result":{"content":[]}`))
	for name, change := range map[string]func(*tool.Call) *taskServer{
		"another server":  func(*tool.Call) *taskServer { return other },
		"another user":    func(c *tool.Call) *taskServer { c.Origin.UserID = "v"; return s },
		"another session": func(c *tool.Call) *taskServer { c.Origin.SessionID = "fork"; return s },
		"another call":    func(c *tool.Call) *taskServer { c.ID = "2"; return s },
		"another task":    func(c *tool.Call) *taskServer { c.Interim[taskKey].(map[string]any)["binding"] = "x"; return s },
	} {
		call := again()
		at := change(call)
		_, err := runTask(t, t.Context(), buildTaskSet(t, at, "enable_tasks: true", clock), call)
		if want := " (root_agent.yaml:1:6): the stored task belongs to another server, tool or session"; !strings.HasSuffix(errText(err), want) {
			t.Errorf("%s: %v\nwant %s", name, err, want)
		}
	}
	call := again()
	call.Interim[taskKey] = "x"
	if _, err := runTask(t, t.Context(), buildTaskSet(t, s, "enable_tasks: true", clock), call); !strings.HasSuffix(errText(err), "the stored task cannot be read") {
		t.Errorf("another form: %v", err)
	}
	if len(other.requests) > 0 {
		t.Errorf("the other server got %v", other.requests)
	}
}

// TestTaskEnds: a failed or canceled task is a result with isError, as in ADK, and so is a tool's
// own error in a completed task.
func TestTaskEnds(t *testing.T) {
	for _, tt := range []struct{ report, want string }{
		{report("failed", `,"error":{"code":-32603,"message":"disk full"}`), "the task failed: disk full"},
		{report("failed", `,"error":"disk full"`), `the task failed: "disk full"`},
		{report("failed", ""), "the task failed: the server sends no error"},
		{report("cancelled", ""), "the task was canceled by the server"},
		{report("completed", `,"result":{"content":[{"type":"text","text":"no paper"}],"isError":true}`), "no paper"},
	} {
		s := serveTasks(t, createdTask, tt.report)
		var stored []map[string]any
		_, err := runTask(t, t.Context(), buildTaskSet(t, s, "enable_tasks: true", &taskClock{}), newTaskCall(&stored))
		answer := (*tool.AnswerError)(nil)
		if !errors.As(err, &answer) || answer.Response["isError"] != true || !strings.Contains(fmt.Sprint(answer.Response["content"]), tt.want) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s:\n%v", tt.report, err)
		}
		if got := strings.Join(s.requests, ", "); got != "tasks/get t-1" {
			t.Errorf("%s: requests %s", tt.report, got)
		}
	}
}

// TestTaskCanceled: a canceled run cancels the task, unless another attempt will follow.
func TestTaskCanceled(t *testing.T) {
	for _, abandoned := range []bool{true, false} {
		s := serveTasks(t, createdTask, report("working", ""))
		var stored []map[string]any
		call := newTaskCall(&stored)
		call.IsAbandoned = func() bool { return abandoned }
		ctx, cancel := context.WithCancel(t.Context())
		set := buildTaskSet(t, s, "enable_tasks: true", &taskClock{})
		set.wait = func(ctx context.Context, _ time.Duration) error { cancel(); return ctx.Err() }
		if _, err := runTask(t, ctx, set, call); !errors.Is(err, context.Canceled) {
			t.Errorf("abandoned %v: %v", abandoned, err)
		}
		if abandoned {
			if id := <-s.canceled; id != "t-1" {
				t.Errorf("canceled %s", id)
			}
		}
		_ = set.Close()
		if want := map[bool]int{true: 1}[abandoned]; len(s.requests) != want {
			t.Errorf("abandoned %v: requests %v", abandoned, s.requests)
		}
	}
}

// TestHostileTasks: a server that breaks the rules for tasks gets no further request but the one that
// cancels the task. The error names the server and the rule.
func TestHostileTasks(t *testing.T) {
	created := func(old, now string) string { return strings.Replace(createdTask, old, now, 1) }
	working := []string{report("working", "")}
	huge := strings.Repeat("x", 5<<20)
	for _, tt := range []struct {
		name, yaml, created string
		reports             []string
		want                string
		keeps               bool // the task is not canceled
	}{
		{"not enabled", "", createdTask, working, "the server answers with a task, which it may only with enable_tasks: true", true},
		{"no id", "enable_tasks: true", created(`"t-1"`, `7`), working, "the server's taskId must be a string that is not empty", true},
		{"an empty id", "enable_tasks: true", created(`t-1`, ``), working, "the server's taskId must be a string that is not empty", true},
		{"a long id", "enable_tasks: true", created(`t-1`, strings.Repeat("x", maxTaskID+1)), working, "the server's taskId exceeds the limit of 1024 bytes", true},
		{"a credential", "enable_tasks: true", created(`t-1`, "a-key-of-ops"), working, "the server's taskId contains a credential", false},
		{"an unknown first status", "enable_tasks: true", created(`"working"`, `"busy"`), working, `the task's status must be working, input_required, completed, failed or cancelled, got "busy"`, false},
		{"members of other types", "enable_tasks: true", created(`"status"`, `"inputRequests":7,"status"`), working, "the server's task cannot be read: it is not an object with the protocol's members", true},
		{"an interval of 0", "enable_tasks: true", created(`:2000`, `:0`), working, "the task's pollIntervalMs must be a positive integer, got 0", false},
		{"a negative interval", "enable_tasks: true", created(`:2000`, `:-5`), working, "the task's pollIntervalMs must be a positive integer, got -5", false},
		{"a fraction as interval", "enable_tasks: true", created(`:2000`, `:0.5`), working, "the task's pollIntervalMs must be a positive integer, got 0.5", false},
		{"an interval of 10 years", "enable_tasks: true", created(`:2000`, `:315360000000`), working, "the task's pollIntervalMs exceeds the limit of 1h", false},
		{"an interval without end", "enable_tasks: true", created(`:2000`, `:1e300`), working, "the task's pollIntervalMs exceeds the limit of 1h", false},
		{"a string as ttl", "enable_tasks: true", created(`:60000`, `:"x"`), working, `the task's ttlMs must be a positive integer, got "x"`, false},
		{"another task", "enable_tasks: true", createdTask, []string{strings.Replace(working[0], "t-1", "t-2", 1)}, `the server answers about task "t-2", and the request is about task "t-1"`, false},
		{"an unknown status", "enable_tasks: true", createdTask, []string{report("done", "")}, `the task's status must be working, input_required, completed, failed or cancelled, got "done"`, false},
		{"a later interval", "enable_tasks: true", createdTask, []string{report("working", `,"pollIntervalMs":-1`)}, "the task's pollIntervalMs must be a positive integer, got -1", false},
		{"no result", "enable_tasks: true", createdTask, []string{report("completed", "")}, "the task is completed, and the server sends no result", false},
		{"not an object", "enable_tasks: true", createdTask, []string{`[1]`}, "the server's task cannot be read: it is not an object with the protocol's members", false},
		{"no longer known", "enable_tasks: true", createdTask, []string{`error {"code":-32602,"message":"unknown task"}`}, "tasks/get failed: unknown task", false},
		{"endless with a ttl", "enable_tasks: true", createdTask, []string{strings.Replace(working[0], `"ttlMs":null`, `"ttlMs":60000`, 1)}, "the task has not ended within the server's ttlMs of 1m", false},
		{"endless", "enable_tasks: true\ntask_timeout: 90s", created(`:60000`, `:315360000000`), working, "the task exceeds the limit of 1m30s (task_timeout)", false},
		{"a question", "enable_tasks: true", createdTask, []string{report("input_required", `,"inputRequests":{"a":{"method":"elicitation/create","params":{"message":"x"}}}`)}, "the server asks the user a question, which it may only with elicitation: true", false},
		{"huge", "enable_tasks: true", createdTask, []string{report("completed", `,"result":{"content":[{"type":"text","text":"`+huge+`"}]}`)}, "exceeds the limit of 4194304 (max_result)", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := serveTasks(t, tt.created, tt.reports...)
			clock := &taskClock{}
			set := buildTaskSet(t, s, tt.yaml, clock)
			set.redactor = spec.NewRedactor("a-key-of-ops")
			var stored []map[string]any
			res, err := runTask(t, t.Context(), set, newTaskCall(&stored))
			if res != nil || !strings.HasSuffix(errText(err), tt.want) {
				t.Errorf("%v, %v\nwant %s", res, err, tt.want)
			}
			if !strings.Contains(errText(err), "mcp server 127.0.0.1:") && tt.name != "huge" {
				t.Errorf("%v does not name the server", err)
			}
			if !tt.keeps {
				<-s.canceled
			}
			if len(clock.waits) > 100 {
				t.Errorf("%d requests", len(clock.waits))
			}
		})
	}
}

// TestTaskQuestions: a task that requires input asks the person in the next turn, with the task in the
// question; the answers are sent with tasks/update, in another process. Questions that the server
// repeats until it has read the answers appear once. The time in which the task waits for the
// person does not count as the task's, but as the server's ttl.
func TestTaskQuestions(t *testing.T) {
	ask := func(id, message string) string {
		return report("input_required", fmt.Sprintf(`,"inputRequests":{%q:{"method":"elicitation/create","params":{"message":%q,"requestedSchema":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}}`, id, message))
	}
	s := serveTasks(t, strings.Replace(createdTask, "60000", "null", 1),
		ask("a", "Where?"), ask("a", "Where?"), ask("b", "Really?"), report("completed", `,"result":{"content":[{"type":"text","text":"booked"}]}`))
	clock := &taskClock{now: time.Unix(1_000_000, 0)}
	yaml := "enable_tasks: true\nelicitation: true\ntask_timeout: 1m"
	var stored []map[string]any
	var asked *session.Confirmation
	for i, step := range []struct {
		answer map[string]any
		asks   string
	}{
		{nil, "Where?"},
		{map[string]any{"town": "Bern"}, "Where?"}, // it does not match the form
		{map[string]any{"city": "Bern"}, "Really?"},
		{map[string]any{"city": "Basel"}, ""},
	} {
		clock.now = clock.now.Add(time.Hour)
		call := newTaskCall(&stored)
		if asked != nil {
			raw, err := json.Marshal(asked.Payload)
			if err != nil {
				t.Fatal(err)
			}
			payload, err := session.DecodeValue(raw)
			if err != nil {
				t.Fatal(err)
			}
			call.Requested = &session.Confirmation{Hint: asked.Hint, Payload: payload}
			call.Confirmation = &session.Confirmation{Confirmed: true, Payload: step.answer}
		}
		if i > 0 {
			s.answers["tools/call"] = func(json.RawMessage, json.RawMessage) string { t.Error("the call was made again"); return "" }
		}
		res, err := runTask(t, t.Context(), buildTaskSet(t, s, yaml, clock), call)
		asked = askedOf(call)
		switch {
		case step.asks == "" && (err != nil || asked != nil || !strings.Contains(fmt.Sprint(res.Response), "booked")):
			t.Fatalf("at the end: %v, %v, asked %+v", res, err, asked)
		case step.asks != "" && (err != nil || res != nil || asked == nil || !strings.HasSuffix(asked.Hint, " asks: "+step.asks)):
			t.Fatalf("after %v: %v, %v, asked %+v, want %q", step.answer, res, err, asked, step.asks)
		}
	}
	want := []string{
		"tasks/get t-1", `tasks/update t-1 {"a":{"action":"accept","content":{"city":"Bern"}}}`, "tasks/get t-1", "tasks/get t-1",
		`tasks/update t-1 {"b":{"action":"accept","content":{"city":"Basel"}}}`, "tasks/get t-1",
	}
	if diff := cmp.Diff(want, s.requests); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
	if len(stored) != 3 {
		t.Errorf("%d interim responses, want that of the task and two after answers", len(stored))
	}
}

// TestTaskServerUnavailable: requests for a task's state that do not reach the server are repeated, and
// the fifth in a row fails the call.
func TestTaskServerUnavailable(t *testing.T) {
	for failing, want := range map[int]string{4: "", 5: "MCP tool execution failed: mcp server 127.0.0.1:"} {
		s := serveTasks(t, createdTask, report("completed", `,"result":{"content":[]}`))
		inner, failures := s.Config.Handler, 0
		s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			raw, _ := io.ReadAll(r.Body)
			r.Body = io.NopCloser(strings.NewReader(string(raw)))
			if strings.Contains(string(raw), getTaskMethod) && failures < 2*failing { // each request is sent twice
				failures++
				w.WriteHeader(http.StatusBadGateway)
				return
			}
			inner.ServeHTTP(w, r)
		})
		var stored []map[string]any
		_, err := runTask(t, t.Context(), buildTaskSet(t, s, "enable_tasks: true", &taskClock{}), newTaskCall(&stored))
		if (err == nil) != (want == "") || !strings.HasPrefix(errText(err), want) {
			t.Errorf("%d failures: %v, want %s", failing, err, want)
		}
	}
}
