package loader

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
)

// A taskServer is an MCP server whose tool report works as a task.
type taskServer struct {
	*httptest.Server
	// asked receives a value for each request for the task's state, and canceled the IDs of canceled
	// tasks.
	asked    chan struct{}
	canceled chan string

	mu     sync.Mutex
	status string
	calls  int
}

func serveTask(t *testing.T) *taskServer {
	s := &taskServer{asked: make(chan struct{}, 100), canceled: make(chan string, 1), status: "working"}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			ID     json.RawMessage
			Method string
			Params struct{ TaskID string }
		}
		_ = json.NewDecoder(r.Body).Decode(&req)
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, req.ID, s.answer(req.Method, req.Params.TaskID))
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *taskServer) answer(method, task string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch method {
	case "server/discover":
		return `{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}}`
	case "tools/list":
		return `{"resultType":"complete","tools":[{"name":"report","inputSchema":{"type":"object"}}]}`
	case "tools/call":
		s.calls++
		return fmt.Sprintf(`{"resultType":"task","taskId":"task-%d","status":"working","ttlMs":null,"pollIntervalMs":100}`, s.calls)
	case "tasks/get":
		s.asked <- struct{}{}
		return fmt.Sprintf(`{"resultType":"complete","taskId":%q,"status":%q,"ttlMs":null,"result":{"content":[{"type":"text","text":"all healthy"}]}}`, task, s.status)
	case "tasks/cancel":
		s.canceled <- task
	}
	return `{"resultType":"complete"}`
}

func (s *taskServer) setStatus(status string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.status = status
}

// serveTaskApp returns a replica of the app x, whose model calls the task server's tool.
func serveTaskApp(t *testing.T, st *store.Store, s *taskServer, toolset string) *runtime.Host {
	e := newWatchEnv(t)
	host := runtime.NewHost(st, nil)
	t.Cleanup(host.Close)
	for name, text := range map[string]string{
		"app.yaml":        "models: {m: {provider: scripted, script: s.yaml}}\nresumability_config: {is_resumable: true}",
		"root_agent.yaml": "name: a\nmodel: m\ninstruction: x\ntools:\n  - " + strings.ReplaceAll(toolset, "URL", s.URL),
		"s.yaml":          "- {when: responses.report == nil, calls: [{name: report}]}\n- {text: '{responses.report}'}\n",
	} {
		e.writeFile("x/"+name, text)
	}
	e.must(NewWatch(New(listKinds(), nil), host, []string{e.top}, &WatchOptions{Clock: e.clock}).Sync(t.Context()))
	return host
}

// runTaskTurn runs a turn, and returns its results and texts.
func runTaskTurn(ctx context.Context, host *runtime.Host, req *runtime.RunRequest) (results []string, invocation string) {
	for ev, err := range host.Run(ctx, req) {
		if err != nil {
			return append(results, "error: "+err.Error()), invocation
		}
		invocation = ev.InvocationID
		for _, r := range ev.Responses() {
			results = append(results, fmt.Sprint(r.Response["status"], r.Response["content"], model.IsInterim(r)))
		}
		if text := ev.Text(); text != "" {
			results = append(results, text)
		}
	}
	return results, invocation
}

// TestTaskOnAnotherReplica: a replica that dies while a server works on a task leaves it: another one
// resumes the invocation, and gets the task's result without another call. ADK's args are the same.
func TestTaskOnAnotherReplica(t *testing.T) {
	for name, toolset := range map[string]string{
		"ours":  "mcp: {url: URL, enable_tasks: true}",
		"ADK's": "{name: McpToolset, args: {streamable_http_connection_params: {url: URL}, enable_tasks: true}}",
	} {
		t.Run(name, func(t *testing.T) {
			s := serveTask(t)
			st, err := storeurl.Open(t.Context(), "memory:", nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = st.Close() })
			req := &runtime.RunRequest{App: "x", UserID: "u", SessionID: "s", Message: model.UserText("go"), CreateSession: true, ClientLeft: func() bool { return false }}
			ctx, die := context.WithCancel(t.Context())
			go func() { <-s.asked; die() }()
			first, invocation := runTaskTurn(ctx, serveTaskApp(t, st, s, toolset), req)
			if len(first) != 2 || first[0] != "working<nil> true" || !strings.HasPrefix(first[1], "error: ") {
				t.Fatalf("the first replica: %q", first)
			}
			s.setStatus("completed")
			again := &runtime.RunRequest{App: "x", UserID: "u", SessionID: "s", InvocationID: invocation}
			second, _ := runTaskTurn(t.Context(), serveTaskApp(t, st, s, toolset), again)
			want := []string{"<nil> [map[text:all healthy type:text]] false", `{"content":[{"text":"all healthy","type":"text"}],"isError":false}`}
			if fmt.Sprint(second) != fmt.Sprint(want) || s.calls != 1 || len(s.canceled) > 0 {
				t.Errorf("the second replica: %q, %d calls, %d canceled\nwant %q", second, s.calls, len(s.canceled), want)
			}
		})
	}
}

// TestTaskOfCanceledRun: a client that leaves cancels the task on the server.
func TestTaskOfCanceledRun(t *testing.T) {
	s := serveTask(t)
	st, err := storeurl.Open(t.Context(), "memory:", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	req := &runtime.RunRequest{App: "x", UserID: "u", SessionID: "s", Message: model.UserText("go"), CreateSession: true, ClientLeft: func() bool { return true }}
	ctx, leave := context.WithCancel(t.Context())
	go func() { <-s.asked; leave() }()
	runTaskTurn(ctx, serveTaskApp(t, st, s, "mcp: {url: URL, enable_tasks: true}"), req)
	if task := <-s.canceled; task != "task-1" {
		t.Errorf("canceled %s", task)
	}
	sess, err := st.Sessions.Get(t.Context(), session.Key{App: "x", User: "u", ID: "s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	events := sess.Events()
	if got := fmt.Sprint(events[len(events)-1].Responses()[0].Response["error"]); got != "This call was canceled because the client left." {
		t.Errorf("the last event: %s", got)
	}
}
