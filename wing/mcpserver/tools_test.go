package mcpserver_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"google.golang.org/genai"

	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
	"agenthost/wing/mcpserver"
)

// toolDesk is a desk with tools for clients. Its model would fail each run.
const toolDesk = `
-- apps/desk/app.yaml --
models: {demo: {provider: scripted, script: demo.script.yaml}}
mcp_server:
  expose:
    - agent: desk
    - tool: find_order
    - {tool: refund, description: Pays.}
    - tool: note_order
    - tool: save_note
    - tool: get_user_choice
    - tool: clock
    - tool: move
-- apps/desk/root_agent.yaml --
name: desk
model: demo
instruction: You are the desk of a shop.
tools:
  - expr: {name: find_order, description: Finds an order., params: {id: string, copies: 'integer?'}, value: '{"id": args.id, "state": args.copies == nil ? "sent" : "copied"}'}
  - expr: {name: refund, description: Pays money back., params: {amount: number}, value: '{"paid": args.amount}', confirm: args.amount > 50}
  - expr: {name: note_order, params: {id: string}, value: 'state.last == nil ? "none" : state.last', set: {last: args.id}}
  - expr: {name: save_note, params: {text: string}, value: '"saved"', save_artifact: {note.txt: args.text}}
  - expr: {name: clock, value: 'int("7")'}
  - expr: {name: hidden, value: '"a secret"'}
  - name: get_user_choice
sub_agents:
  - name: mover
    model: demo
    instruction: Move.
    description: Moves.
    before_tool_callbacks: [{when: 'args.to == "home"', deny: "not home"}]
    tools:
      - expr: {name: move, params: {to: string, session: string}, value: 'args.to + args.session + string(1 / int(args.session))'}
-- apps/desk/demo.script.yaml --
- {when: user contains "what", text: "It is {user}."}
- {error: {code: 400, message: the model is broken}}
`

// Clients of either era list tools with their own schemas, and call them without a model.
func TestCallTool(t *testing.T) {
	e, url := newEnv(t, toolDesk, nil, nil)
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			s := connect(t, url+"/apps/desk/mcp", era, "", nil)
			if got, want := listTool(t, s, "find_order"), `Finds an order. {"properties":{"copies":{"type":"integer"},"id":{"type":"string"},"session":{"description":"The session of an earlier result, to continue that conversation.","type":"string"}},"required":["id"],"type":"object"}`; got != want {
				t.Errorf("find_order is\n%s, want\n%s", got, want)
			}
			if got := listTool(t, s, "refund"); !strings.HasPrefix(got, "Pays. ") {
				t.Errorf("refund is %s", got)
			}
			result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "find_order", Arguments: map[string]any{"id": "A1"}})
			if err != nil || result.IsError || textOf(result) != `{"id":"A1","state":"sent"}` {
				t.Fatalf("%v %v", result, err)
			}
			structured := result.StructuredContent.(map[string]any)
			handle, _ := structured["session"].(string)
			if got := fmt.Sprint(structured["answer"]); got != "map[id:A1 state:sent]" || handle == "" {
				t.Errorf("the structured result is %v", structured)
			}
			args := map[string]any{"id": "B2", "session": handle}
			for _, want := range []string{"none", "B2"} { // the state is the session's
				text, structured := call(t, s, "note_order", args)
				if text != want || structured["answer"] != want || structured["session"] != handle {
					t.Errorf("note_order: %q %v, want %s", text, structured, want)
				}
			}
			if text, structured := call(t, s, "clock", nil); text != "7" || structured["answer"] != 7.0 {
				t.Errorf("clock: %q %v", text, structured)
			}
			if text, _ := call(t, s, "desk", map[string]any{"request": "what", "session": handle}); text != "It is what." {
				t.Errorf("the agent after a tool: %q", text)
			}
			sess, err := e.Store.Sessions.Get(t.Context(), session.Key{App: "desk", User: "mcp_user", ID: handle}, nil)
			if err != nil {
				t.Fatal(err)
			}
			var history []string
			for _, ev := range sess.Events() {
				history = append(history, ev.Author)
			}
			if got := strings.Join(history[:3], " "); got != "user tool:find_order tool:find_order" {
				t.Errorf("the events are by %s", got)
			}
		})
	}
}

// listTool returns a tool's description and its input schema.
func listTool(t *testing.T, s *mcp.ClientSession, name string) string {
	t.Helper()
	list, err := s.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range list.Tools {
		if one.Name == name {
			text, err := json.Marshal(one.InputSchema)
			if err != nil {
				t.Fatal(err)
			}
			return one.Description + " " + string(text)
		}
	}
	return ""
}

// Invalid arguments, failures and denials are results that the client's model can read. A tool that is
// not exposed is unknown, whatever its form.
func TestFailedTools(t *testing.T) {
	_, url := newEnv(t, toolDesk, nil, nil)
	for _, era := range eras {
		s := connect(t, url+"/apps/desk/mcp", era, "", nil)
		for _, tt := range []struct {
			name string
			args map[string]any
			want string
		}{
			{"find_order", map[string]any{}, "invalid arguments: missing property 'id'"},
			{"find_order", map[string]any{"id": "A1", "copies": "x"}, "invalid arguments: copies: got string, want integer"},
			{"find_order", map[string]any{"id": "A1", "session": 7}, "session must be a string"},
			{"find_order", map[string]any{"id": "A1", "session": "nope"}, `unknown session "nope": omit session to start a new conversation`},
			{"move", map[string]any{"to": "home", "session": "1"}, "not home"}, // a callback of the agent with the tool
			{"move", map[string]any{"to": "x", "session": "none"}, "int"},
		} {
			result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: tt.name, Arguments: tt.args})
			if err != nil || !result.IsError || !strings.Contains(textOf(result), tt.want) {
				t.Errorf("%s %s %v: %q %v, want %q", era, tt.name, tt.args, textOf(result), err, tt.want)
			}
		}
		if text, structured := call(t, s, "move", map[string]any{"to": "x", "session": "1"}); !strings.HasPrefix(text, "x1") || structured["session"] != nil {
			t.Errorf("%s control: %q %v", era, text, structured)
		}
		for _, name := range []string{"hidden", "tool:hidden", "tool:find_order", "mover"} {
			if result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: name, Arguments: map[string]any{"request": "x"}}); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("unknown tool %q", name)) {
				t.Errorf("%s %s: %v %v", era, name, result, err)
			}
		}
	}
}

// A tool's confirmation and its choice are questions to the client's person, in apps that are resumable
// and in those that are not.
func TestToolQuestions(t *testing.T) {
	accept := func(content map[string]any) *mcp.ElicitResult {
		return &mcp.ElicitResult{Action: "accept", Content: content}
	}
	amount := func(n int) map[string]any { return map[string]any{"amount": n} }
	for _, desk := range []string{toolDesk, strings.Replace(toolDesk, "models:", "resumability_config: {is_resumable: true}\nmodels:", 1)} {
		_, url := newEnv(t, desk, nil, nil)
		for _, era := range eras {
			for _, tt := range []struct {
				name   string
				args   map[string]any
				answer *mcp.ElicitResult
				want   string
				asked  int
			}{
				{"refund", amount(5), nil, `{"paid":5}`, 0},
				{"refund", amount(500), accept(map[string]any{"confirmed": true}), `{"paid":500}`, 1},
				{"refund", amount(500), accept(map[string]any{"confirmed": false}), "This tool call is rejected.", 1},
				{"refund", amount(500), &mcp.ElicitResult{Action: "decline"}, "This tool call is rejected.", 1},
				{"refund", amount(500), &mcp.ElicitResult{Action: "cancel"}, "The agent waits for a person, and this client cannot ask or has no answer.", 1},
				{"get_user_choice", map[string]any{"options": []string{"green", "black"}}, accept(map[string]any{"answer": "green"}), "green", 1},
			} {
				opts, asked := answering(tt.answer)
				s := connect(t, url+"/apps/desk/mcp", era, "", opts)
				text, _ := call(t, s, tt.name, tt.args)
				if first, _, _ := strings.Cut(text, "\n"); first != tt.want || len(*asked) != tt.asked {
					t.Errorf("%s %s %v answered %v: %q after %q, want %q", era, tt.name, tt.args, tt.answer, text, *asked, tt.want)
				}
			}
			s := connect(t, url+"/apps/desk/mcp", era, "", nil)
			if text, _ := call(t, s, "refund", amount(500)); !strings.Contains(text, "Approve the call of refund?") {
				t.Errorf("%s without elicitation: %q", era, text)
			}
		}
	}
}

// A tool's files are links to resources of the caller, and another user's handle is unknown.
func TestToolSessions(t *testing.T) {
	desk := strings.Replace(toolDesk, "  expose:\n", "  expose:\n    - artifacts: true\n", 1)
	_, url := newEnv(t, desk, nil, newAuth(t))
	for _, era := range eras {
		u, v := connect(t, url+"/apps/desk/mcp", era, tokenU, nil), connect(t, url+"/apps/desk/mcp", era, tokenV, nil)
		result, err := u.CallTool(t.Context(), &mcp.CallToolParams{Name: "save_note", Arguments: map[string]any{"text": "hello"}})
		if err != nil || textOf(result) != "saved" {
			t.Fatalf("%s: %v %v", era, result, err)
		}
		handle := result.StructuredContent.(map[string]any)["session"].(string)
		link, _ := result.Content[0].(*mcp.ResourceLink)
		if link == nil || !strings.HasPrefix(link.URI, "artifact://"+handle+"/note.txt") {
			t.Errorf("%s: the content is %v", era, result.Content)
		}
		for s, want := range map[*mcp.ClientSession]string{u: "none", v: fmt.Sprintf("unknown session %q: omit session to start a new conversation", handle)} {
			if text, _ := call(t, s, "note_order", map[string]any{"id": "x", "session": handle}); text != want {
				t.Errorf("%s: %q, want %q", era, text, want)
			}
		}
	}
}

// A tool's call is a task for clients that offer tasks, also with a question.
func TestToolTasks(t *testing.T) {
	for _, desk := range []string{toolDesk, strings.Replace(toolDesk, "models:", "resumability_config: {is_resumable: true}\nmodels:", 1)} {
		e, _ := newEnv(t, desk, &mcpserver.Options{TaskDelay: -1}, nil)
		c := &taskClient{T: t, e: e}
		for _, tt := range []struct {
			name, args, want string
			asks, isError    bool
		}{
			{"find_order", `{"id":"A1"}`, "map[id:A1 state:sent]", false, false},
			{"move", `{"to":"x","session":"none"}`, "", false, true},
			{"refund", `{"amount":500}`, "map[paid:500]", true, false},
		} {
			created, failure := c.send("tools/call", tt.name, fmt.Sprintf(`"name":%q,"arguments":%s`, tt.name, tt.args))
			id, _ := created["taskId"].(string)
			if failure != "" || id == "" {
				t.Fatalf("%s: %v %s", tt.name, created, failure)
			}
			state := waitForTask(c, id)
			if tt.asks {
				requests, _ := state["inputRequests"].(map[string]any)
				if state["status"] != "input_required" || len(requests) != 1 {
					t.Fatalf("%s: %v", tt.name, state)
				}
				for question := range requests {
					if _, failure := c.send("tasks/update", id, fmt.Sprintf(`"taskId":%q,"inputResponses":{%q:{"action":"accept","content":{"confirmed":true}}}`, id, question)); failure != "" {
						t.Fatal(failure)
					}
				}
				state = waitForTask(c, id)
			}
			result, _ := state["result"].(map[string]any)
			structured, _ := result["structuredContent"].(map[string]any)
			if state["status"] != "completed" || (result["isError"] == true) != tt.isError || !tt.isError && fmt.Sprint(structured["answer"]) != tt.want {
				t.Errorf("%s: %v", tt.name, state)
			}
		}
	}
}

// waitForTask polls a task until it does not work anymore.
func waitForTask(c *taskClient, id string) map[string]any {
	c.Helper()
	for range 5000 {
		state, failure := c.send("tasks/get", id, fmt.Sprintf(`"taskId":%q`, id))
		if failure != "" {
			c.Fatal(failure)
		}
		if state["status"] != "working" {
			return state
		}
	}
	c.Fatal("the task does not end")
	return nil
}

// A server on stdio has the tools, and a reload lists a tool's new parameters.
func TestToolReload(t *testing.T) {
	e, _ := newEnv(t, toolDesk, nil, nil)
	changed := make(chan struct{}, 10)
	reloads := make(chan struct{})
	c := serveHost(t.Context(), t, e, &mcpserver.StdioOptions{Reloads: reloads})
	s := c.connect(t, eras[0], &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
		changed <- struct{}{}
	}})
	if text, _ := call(t, s, "find_order", map[string]any{"id": "A1"}); text != `{"id":"A1","state":"sent"}` {
		t.Errorf("the first revision: %q", text)
	}
	next, problems := buildDesk(t, strings.Replace(toolDesk, "copies: 'integer?'", "copies: integer", 1))
	if err := problems.Err(); err != nil {
		t.Fatal(err)
	}
	e.Host.Swap(next)
	reloads <- struct{}{}
	<-changed
	if got := listTool(t, s, "find_order"); !strings.Contains(got, `"required":["id","copies"]`) {
		t.Errorf("the second revision lists %s", got)
	}
	_ = s.Close()
}

// A tool that is not one of the app's, or not one tool, is an error that names the choice.
func TestToolProblems(t *testing.T) {
	const server = "  - mcp: {url: 'https://tools.example/mcp'}\n"
	for _, tt := range []struct{ name, expose, tools, want string }{
		{"control", "{tool: clock, from: desk}", "", ""},
		{"unknown", "{tool: clok}", "", `unknown tool "clok", did you mean clock?: the tools are find_order, refund, note_order, save_note, clock, hidden, get_user_choice, move`},
		{"not the agent's", "{tool: clock, from: mover}", "", `unknown tool "clock": the tools are move`},
		{"unknown agent", "{tool: clock, from: nope}", "", `agent "nope" is not in the agent tree, or has no tools`},
		{"a server's without agent", "{tool: add}", server, `get_user_choice, move; for a server's tool, set from to its agent: desk`},
		{"a server's", "{tool: add, from: desk}", server, ""},
		{"a loop's", "{tool: exit_loop}", "  - name: exit_loop\n", `tool "exit_loop" controls the run of its agent, and has no result: only models can use it`},
		{"a transfer", "{tool: transfer_to_agent}", "", `unknown tool "transfer_to_agent"`},
		{"a model's", "{tool: preload_memory}", "  - name: preload_memory\n", `tool "preload_memory" runs in a model's service, and cannot be called without a model`},
		{"two tools", "{tool: move}", "  - expr: {name: move, params: {to: string}, value: args.to}\n", `agents desk and mover have different tools "move", or callbacks for them: set from to one of the agents`},
		{"one of two tools", "{tool: move, from: desk}", "  - expr: {name: move, params: {to: string}, value: args.to}\n", ""},
	} {
		desk := strings.Replace(toolDesk, "    - tool: clock\n    - tool: move\n", "    - "+tt.expose+"\n", 1)
		desk = strings.Replace(desk, "  - name: get_user_choice\n", "  - name: get_user_choice\n"+tt.tools, 1)
		if got := loadDesk(t, desk); tt.want == "" && strings.Contains(got, "mcp_server") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Agents that use one declared tool have one tool for clients.
func TestSharedTool(t *testing.T) {
	desk := strings.Replace(toolDesk, "models:", "tools: {clock: {expr: {name: clock, value: 'int(\"7\")'}}}\nmodels:", 1)
	desk = strings.Replace(desk, "  - expr: {name: clock, value: 'int(\"7\")'}\n", "  - use: clock\n", 1)
	mover := "    tools:\n      - use: clock\n"
	guard := "    before_tool_callbacks: [{when: 'args.to == \"home\"', deny: \"not home\"}]\n"
	if got := loadDesk(t, strings.Replace(desk, "    tools:\n", mover, 1)); !strings.Contains(got, `different tools "clock", or callbacks for them`) {
		t.Errorf("with the callbacks of one agent: %q", got)
	}
	_, url := newEnv(t, strings.Replace(strings.Replace(desk, guard, "", 1), "    tools:\n", mover, 1), nil, nil)
	for _, era := range eras {
		if text, _ := call(t, connect(t, url+"/apps/desk/mcp", era, "", nil), "clock", nil); text != "7" {
			t.Errorf("%s: %q", era, text)
		}
	}
}

// A fixedTool has a response.
type fixedTool struct {
	response map[string]any
	err      error
}

func (t *fixedTool) Declaration() *genai.FunctionDeclaration {
	return &genai.FunctionDeclaration{Name: "fixed"}
}

func (t *fixedTool) Run(context.Context, *tool.Call) (*tool.Result, error) {
	return &tool.Result{Response: t.response}, t.err
}

// The answer is the value in a response with only a result, the whole response if the tool declares it,
// and any other response. An error is one for the client, in each form that tools have for it.
func TestToolResponses(t *testing.T) {
	e, url := newEnv(t, readDesk(t), nil, nil)
	schema, err := declare.Schema(map[string]any{"type": "object"})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		tool    fixedTool
		output  *tool.Schema
		want    string
		isError bool
	}{
		{fixedTool{response: map[string]any{"result": "x"}}, nil, `x {"answer":"x"}`, false},
		{fixedTool{response: map[string]any{"result": "x"}}, schema, `{"result":"x"} {"answer":{"result":"x"}}`, false},
		{fixedTool{response: map[string]any{"result": "x", "more": true}}, nil, `{"more":true,"result":"x"} {"answer":{"more":true,"result":"x"}}`, false},
		{fixedTool{}, nil, `null {"answer":null}`, false},
		{fixedTool{err: errors.New("it is broken")}, nil, "it is broken null", true},
		{fixedTool{err: &tool.AnswerError{Err: errors.New("x"), Response: map[string]any{"error": "late", "code": 9}}}, nil, `{"code":9,"error":"late"} null`, true},
		{fixedTool{response: map[string]any{"isError": true, "content": []any{}}}, nil, `{"content":[],"isError":true} null`, true},
		{fixedTool{err: &tool.EndError{Err: errors.New("it is over")}}, nil, "tool fixed of agent tool:fixed failed: it is over null", true},
	} {
		root := runtime.NewLLM("desk", &runtime.LLMOptions{Model: servertest.ScriptedModel(t), Tools: []tool.Tool{&tt.tool}})
		entry, err := runtime.NewToolEntry(root, "fixed", "")
		if err != nil {
			t.Fatal(err)
		}
		settings := &mcpserver.Settings{Session: "call", Tools: []mcpserver.AgentTool{{Name: "fixed", Agent: entry.Name(), Entry: entry, Output: tt.output}}}
		app, err := runtime.NewApp("desk", root, &runtime.AppOptions{Entries: []*runtime.ToolNode{entry}, Sections: map[string]any{"mcp_server": settings}})
		if err != nil {
			t.Fatal(err)
		}
		e.Host.Swap(app)
		for _, era := range eras {
			result, err := connect(t, url+"/apps/desk/mcp", era, "", nil).CallTool(t.Context(), &mcp.CallToolParams{Name: "fixed"})
			if err != nil {
				t.Fatal(err)
			}
			structured, err := json.Marshal(result.StructuredContent)
			if got := textOf(result) + " " + string(structured); err != nil || got != tt.want || result.IsError != tt.isError {
				t.Errorf("%s %v: %s, want %s", era, tt.tool, got, tt.want)
			}
		}
	}
}
