package mcpserver_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"agenthost/internal/servertest"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/wing/mcpserver"
)

// A taskClient is a client of 2026-07-28 that offers tasks and elicitation.
type taskClient struct {
	*testing.T
	e     *servertest.Env
	token string
	// capabilities replace those of the client.
	capabilities string
}

// send sends a request, with the header Mcp-Name, and returns its result or its error.
func (c *taskClient) send(method, name, params string) (result map[string]any, failure string) {
	c.Helper()
	return c.sendMeta(method, name, params, "")
}

// sendMeta is send with more metadata.
func (c *taskClient) sendMeta(method, name, params, meta string) (result map[string]any, failure string) {
	c.Helper()
	capabilities := c.capabilities
	if capabilities == "" {
		capabilities = `{"elicitation":{},"extensions":{"io.modelcontextprotocol/tasks":{}}}`
	}
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":{%s,"_meta":{%s"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"c","version":"1"},"io.modelcontextprotocol/clientCapabilities":%s}}}`, method, params, meta, capabilities)
	w := send(c.e, "POST", "/apps/desk/mcp", body, "Content-Type: application/json", "Accept: application/json, text/event-stream",
		"MCP-Protocol-Version: 2026-07-28", "Mcp-Method: "+method, "Mcp-Name: "+name, "Authorization: Bearer "+c.token)
	text := w.Body.String()
	for line := range strings.Lines(text) {
		if data, ok := strings.CutPrefix(line, "data: "); ok && strings.Contains(data, `"id":1`) {
			text = data
		}
	}
	var answer struct {
		Result map[string]any
		Error  *struct {
			Code    int
			Message string
			Data    any
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		c.Fatalf("%s: %v: %d %s", method, err, w.Code, w.Body)
	}
	if answer.Error != nil {
		failure = fmt.Sprint(answer.Error.Code, " ", answer.Error.Message)
	}
	return answer.Result, failure
}

// call calls the agent desk, and returns the task's ID.
func (c *taskClient) call(request string) string {
	c.Helper()
	result, failure := c.send("tools/call", "desk", fmt.Sprintf(`"name":"desk","arguments":{"request":%q}`, request))
	id, _ := result["taskId"].(string)
	if failure != "" || result["resultType"] != "task" || result["status"] != "working" || id == "" || result["result"] != nil {
		c.Fatalf("the call of desk: %v %s", result, failure)
	}
	return id
}

// about sends a request about a task.
func (c *taskClient) about(method, id, params string) (map[string]any, string) {
	c.Helper()
	return c.send(method, id, fmt.Sprintf(`"taskId":%q%s`, id, params))
}

// wait asks for the task's state until it is not working.
func (c *taskClient) wait(id string) map[string]any {
	c.Helper()
	for {
		state, failure := c.about("tasks/get", id, "")
		if failure != "" || state["taskId"] != id || state["resultType"] != "complete" {
			c.Fatalf("tasks/get %s: %v %s", id, state, failure)
		}
		if state["status"] != "working" {
			return state
		}
	}
}

// newTaskClient returns a client of an app whose calls are all tasks.
func newTaskClient(t *testing.T) *taskClient { return newReplicaClient(t, "", "") }

// newReplicaClient returns a client of a replica on a session store; more is added to app.yaml.
func newReplicaClient(t *testing.T, store, more string) *taskClient {
	return newClientOf(t, store, strings.Replace(readDesk(t), "mcp_server:\n", more+"mcp_server:\n", 1))
}

// newClientOf returns a client of a replica with the apps in an archive.
func newClientOf(t *testing.T, store, apps string) *taskClient {
	t.Helper()
	e, _ := servertest.NewExchangeEnv(t, txtar.Parse([]byte(apps)), &servertest.Folders{}, &servertest.Options{URL: store, Wait: time.Minute, Server: &server.Options{
		Auth: newAuth(t), Extensions: []func(*server.Services) *server.Extension{mcpserver.Extend(&mcpserver.Options{TaskDelay: -1})},
	}})
	t.Cleanup(func() { // a run that another replica has canceled ends with the lease
		e.Server.Drain()
		e.Server.Abort()
		_ = e.Server.Wait(context.Background())
	})
	return &taskClient{T: t, e: e, token: tokenU}
}

// A call by a client that offers tasks becomes one, with the invocation's ID. Its end has the call's
// result: an answer, or an error of the run as a result with isError. The times have the protocol's form.
func TestTask(t *testing.T) {
	c := newTaskClient(t)
	id := c.call("hello")
	state := c.wait(id)
	result, _ := state["result"].(map[string]any)
	structured, _ := result["structuredContent"].(map[string]any)
	if state["status"] != "completed" || structured["answer"] != "Turn 1: hello" || structured["session"] == "" || state["ttlMs"] != nil || state["error"] != nil {
		t.Errorf("the state: %v", state)
	}
	sess, err := c.e.Store.Sessions.Get(t.Context(), session.Key{App: "desk", User: "u", ID: fmt.Sprint(structured["session"])}, nil)
	if err != nil || !strings.HasPrefix(id, sess.Events()[0].InvocationID+".desk.") {
		t.Errorf("the ID %s does not begin with the invocation: %v", id, err)
	}
	for range 20 { // also when the run fails before the call looks at it
		state = c.wait(c.call("fail"))
		if result, _ := state["result"].(map[string]any); state["status"] != "completed" || result["isError"] != true {
			t.Errorf("a failed run: %v", state)
		}
	}
}

// A task that asks requires input. Answers that do not fit, and those to other questions, leave it open;
// the answer continues it. A canceled task is canceled, also while it waits, and a second time.
func TestTaskQuestions(t *testing.T) {
	c := newTaskClient(t)
	id := c.call("refund")
	state := c.wait(id)
	requests, _ := state["inputRequests"].(map[string]any)
	if state["status"] != "input_required" || len(requests) != 1 {
		t.Fatalf("the state: %v", state)
	}
	question := ""
	for key, request := range requests {
		if question = key; request.(map[string]any)["method"] != "elicitation/create" {
			t.Errorf("the request: %v", request)
		}
	}
	for _, answers := range []string{`{}`, `{"other":{"ignored":true}}`, fmt.Sprintf(`{%q:7}`, question), fmt.Sprintf(`{%q:{"action":"accept","content":{"confirmed":"yes"}}}`, question), fmt.Sprintf(`{%q:{"action":"cancel"}}`, question)} {
		ack, failure := c.about("tasks/update", id, `,"inputResponses":`+answers)
		if failure != "" || ack["resultType"] != "complete" || ack["taskId"] != nil || c.wait(id)["status"] != "input_required" {
			t.Errorf("the answers %s: %v %s", answers, ack, failure)
		}
	}
	if _, failure := c.about("tasks/update", id, fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"confirmed":true}}}`, question)); failure != "" {
		t.Fatal(failure)
	}
	if state := c.wait(id); state["status"] != "completed" || !strings.Contains(fmt.Sprint(state["result"]), "You have 500 back.") {
		t.Errorf("after the answer: %v", state)
	}
	waiting, running := c.call("refund"), c.call("wait")
	c.wait(waiting)
	for _, id := range []string{waiting, running, waiting, running} {
		ack, failure := c.about("tasks/cancel", id, "")
		if state := c.wait(id); failure != "" || ack["resultType"] != "complete" || ack["status"] != nil || state["status"] != "cancelled" {
			t.Errorf("canceled: %v %s, then %v", ack, failure, state)
		}
	}
	if ack, failure := c.about("tasks/cancel", id, ""); failure != "" || ack["resultType"] != "complete" || c.wait(id)["status"] != "completed" {
		t.Errorf("a completed task is canceled: %v %s", ack, failure)
	}
}

// Another replica, or the same one after a restart, reads the same states, answers a task's questions, and
// cancels a run of the first replica.
func TestTaskOnAnotherReplica(t *testing.T) {
	url := "sqlite:///" + t.TempDir() + "/tasks.db"
	one, two := newReplicaClient(t, url, ""), newReplicaClient(t, url, "")
	done := one.call("hello")
	first, second := one.wait(done), two.wait(done)
	if diff := cmp.Diff(first["result"], second["result"]); diff != "" || second["status"] != "completed" {
		t.Errorf("the second replica: %v (-first +second):\n%s", second, diff)
	}
	for range 3 { // at once, when the lease of the run that asks is idle at the first replica
		asking := one.call("refund")
		requests, _ := one.wait(asking)["inputRequests"].(map[string]any)
		for question := range requests {
			if _, failure := two.about("tasks/update", asking, fmt.Sprintf(`,"inputResponses":{%q:{"action":"accept","content":{"confirmed":true}}}`, question)); failure != "" {
				t.Fatal(failure)
			}
		}
		if state := one.wait(asking); state["status"] != "completed" || !strings.Contains(fmt.Sprint(state["result"]), "You have 500 back.") {
			t.Errorf("answered at the second replica: %v", state)
		}
	}
	running := one.call("wait")
	if state, failure := two.about("tasks/get", running, ""); failure != "" || state["status"] != "working" {
		t.Errorf("a run of the first replica: %v %s", state, failure)
	}
	if _, failure := two.about("tasks/cancel", running, ""); failure != "" {
		t.Fatal(failure)
	}
	if state := two.wait(running); state["status"] != "cancelled" {
		t.Errorf("canceled by the second replica: %v", state)
	}
}

// A run that was interrupted fails its task; in a resumable app the next request for its state resumes it.
func TestInterruptedTask(t *testing.T) {
	for _, resumable := range []bool{false, true} {
		more := fmt.Sprintf("resumability_config: {is_resumable: %v}\n", resumable)
		c := newReplicaClient(t, "", more)
		id := c.call("hello")
		c.wait(id)
		key := session.Key{App: "desk", User: "u", ID: "cut"}
		sess, err := c.e.Store.Sessions.Create(t.Context(), key, nil)
		if err != nil {
			t.Fatal(err)
		}
		parts := strings.SplitN(id, ".", 3)
		whole, err := c.e.Store.Sessions.Get(t.Context(), session.Key{App: "desk", User: "u", ID: parts[2]}, nil)
		if err != nil {
			t.Fatal(err)
		}
		events := whole.Events()
		stored := []*session.Event{events[0]}
		if resumable { // an agent has begun
			begun := *events[1]
			begun.Content = nil
			begun.Actions.AgentState = map[string]any{}
			stored = append(stored, &begun)
		}
		for _, ev := range stored {
			own := *ev
			own.Seq = 0
			if err := c.e.Store.Sessions.Append(t.Context(), sess, &own); err != nil {
				t.Fatal(err)
			}
		}
		state := c.wait(parts[0] + ".desk.cut")
		if failed := strings.Contains(fmt.Sprint(state["error"]), "the run was interrupted"); failed == resumable || (state["status"] == "completed") != resumable {
			t.Errorf("resumable %v: %v", resumable, state)
		}
	}
}

// An agent with tasks: required is a task at once; clients without tasks are rejected, in both eras. A run
// that fails without an event fails its task, on every replica, and is not resumed.
func TestRequiredTask(t *testing.T) {
	url := "sqlite:///" + t.TempDir() + "/tasks.db"
	apps := strings.NewReplacer("- agent: desk\n", "- {agent: desk, tasks: required}\n", "mcp_server:\n", "resumability_config: {is_resumable: true}\nmcp_server:\n",
		"model: demo\ninstruction: You", "model: demo\nafter_model_callbacks: [{when: 'response.text contains \"break\"', fail: The desk is closed.}]\ninstruction: You").Replace(readDesk(t))
	one, two := newClientOf(t, url, apps), newClientOf(t, url, apps)
	if state := one.wait(one.call("hello")); state["status"] != "completed" {
		t.Errorf("a call: %v", state)
	}
	broken := one.call("break")
	for i, c := range []*taskClient{one, two, one} {
		failure, _ := c.wait(broken)["error"].(map[string]any)
		if failure["message"] != "The desk is closed." || failure["code"] != float64(-32603) {
			t.Errorf("the failed run at request %d: %v", i, failure)
		}
	}
	without := &taskClient{T: t, e: one.e, token: tokenU, capabilities: "{}"}
	if result, failure := without.send("tools/call", "desk", `"name":"desk","arguments":{"request":"hello"}`); failure != "-32021 tool desk requires the capability io.modelcontextprotocol/tasks" {
		t.Errorf("a client without tasks: %v %s", result, failure)
	}
}

// A call that the server reads itself has the same result as one that the SDK reads because it has a token
// for progress: an answer, questions, errors in the result and of the protocol. A name can be encoded.
func TestDirectCall(t *testing.T) {
	c := newReplicaClient(t, "", "")
	c.capabilities = `{"elicitation":{}}`
	for _, name := range []string{"desk", "other"} {
		for _, args := range []string{`{"request":"hello"}`, `{"request":"refund"}`, `{"request":"fail"}`, `{"request":""}`, `{"request":"hello","session":"strange"}`, `{"session":7}`} {
			params := fmt.Sprintf(`"name":%q,"arguments":%s`, name, args)
			direct, failure := c.send("tools/call", name, params)
			sdk, sdkFailure := c.sendMeta("tools/call", "=?base64?"+base64.StdEncoding.EncodeToString([]byte(name))+"?=", params, `"progressToken":1,`)
			if diff := cmp.Diff(hideIDs(sdk), hideIDs(direct)); diff != "" || failure != sdkFailure || (failure == "") != (name == "desk") {
				t.Errorf("%s %s: %q and %q (-SDK +direct):\n%s", name, args, sdkFailure, failure, diff)
			}
		}
	}
}

// hideIDs returns a result as JSON whose generated IDs are the same in each result.
func hideIDs(result map[string]any) string {
	delete(result, "requestState")
	text, err := json.Marshal(result)
	if err != nil {
		return err.Error()
	}
	return regexp.MustCompile(`new-\d+|mcp-[0-9a-f-]{36}|[0-9a-f]{8}-[0-9a-f-]{27}`).ReplaceAllString(string(text), "ID")
}

// Another user's task, an unknown one and an ID of another form are unknown. A client that does not
// offer tasks has none, and a header that names another task is refused.
func TestForeignTasks(t *testing.T) {
	c := newTaskClient(t)
	id := c.call("hello")
	c.wait(id)
	foreign := &taskClient{T: t, e: c.e, token: tokenV}
	for _, method := range []string{"tasks/get", "tasks/update", "tasks/cancel"} {
		for who, unknown := range map[*taskClient][]string{foreign: {id}, c: {"x", "x.desk.y", "..", id + "x", "e-1" + id, strings.Replace(id, ".desk.", ".other.", 1), strings.Repeat("x", 3000)}} {
			for _, one := range unknown {
				if result, failure := who.about(method, one, ""); failure != "-32602 unknown task" {
					t.Errorf("%s of %.80s: %v %s", method, one, result, failure)
				}
			}
		}
		if _, failure := c.send(method, "other", fmt.Sprintf(`"taskId":%q`, id)); failure != "-32020 the header Mcp-Name must be the taskId" {
			t.Errorf("%s with another name: %s", method, failure)
		}
		without := &taskClient{T: t, e: c.e, token: tokenU, capabilities: "{}"}
		if _, failure := without.about(method, id, ""); failure != "-32021 "+method+" requires the capability io.modelcontextprotocol/tasks" {
			t.Errorf("%s without the capability: %s", method, failure)
		}
		if result, failure := without.send("tools/call", "desk", `"name":"desk","arguments":{"request":"hello"}`); failure != "" || result["resultType"] != "complete" || result["content"] == nil {
			t.Errorf("a call without the capability: %v %s", result, failure)
		}
	}
}
