package mcpserver_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/servertest"
	"agenthost/pkg/runtime"
	"agenthost/wing/mcpserver"
)

// A client of either era lists what app.yaml exposes, calls an agent, and continues the conversation
// with the handle in the result.
func TestCallAgent(t *testing.T) {
	_, url := newEnv(t, readDesk(t), nil, nil)
	for _, era := range eras {
		t.Run(era, func(t *testing.T) {
			s := connect(t, url+"/apps/desk/mcp", era, "", nil)
			list, err := s.ListTools(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, tool := range list.Tools {
				names = append(names, tool.Name+": "+tool.Description)
			}
			if got := strings.Join(names, "\n"); got != "desk: Answers questions about orders.\nwrite_note: Writes a note." {
				t.Errorf("the tools are %s", got)
			}
			text, structured := call(t, s, "desk", map[string]any{"request": "hello"})
			handle, _ := structured["session"].(string)
			if text != "Turn 1: hello" || structured["answer"] != text || handle == "" {
				t.Errorf("the answer is %q %v", text, structured)
			}
			if text, structured = call(t, s, "desk", map[string]any{"request": "again", "session": handle}); text != "Turn 2: again" || structured["session"] != handle {
				t.Errorf("the second answer is %q %v", text, structured)
			}
			want := "Turn 1: new" // no connection
			if era == eras[0] {
				want = "Turn 3: new"
			}
			if text, _ = call(t, s, "desk", map[string]any{"request": "new"}); text != want {
				t.Errorf("without a handle the answer is %q, want %q", text, want)
			}
			prompt, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "greet", Arguments: map[string]string{"name": "{language}", "language": "French"}})
			if err != nil || prompt.Messages[0].Content.(*mcp.TextContent).Text != "Greet {language} in French." {
				t.Errorf("the prompt is %v, %v", prompt, err)
			}
			if _, err := s.GetPrompt(t.Context(), &mcp.GetPromptParams{Name: "greet"}); err == nil || !strings.Contains(err.Error(), `argument "name" is required`) {
				t.Errorf("a prompt without its argument: %v", err)
			}
		})
	}
}

// A tool's agent answers, also after another tool's agent has answered in the conversation.
func TestCallAgentsInOneConversation(t *testing.T) {
	_, url := newEnv(t, readDesk(t), nil, nil)
	for _, era := range eras {
		opts, _ := answering(&mcp.ElicitResult{Action: "accept", Content: map[string]any{"confirmed": true}})
		s := connect(t, url+"/apps/desk/mcp", era, "", opts)
		text, structured := call(t, s, "write_note", map[string]any{"request": "save it"})
		if text != "It is saved." {
			t.Fatalf("%s: %q", era, text)
		}
		args := map[string]any{"request": "I want a refund", "session": structured["session"]}
		if text, _ = call(t, s, "desk", args); text != "You have 500 back." { // only the desk has the tool
			t.Errorf("%s: the answer after another tool is %q", era, text)
		}
	}
}

// Problems of a call are results that the client's model can read.
func TestFailedCalls(t *testing.T) {
	_, url := newEnv(t, readDesk(t), nil, nil)
	for _, era := range eras {
		s := connect(t, url+"/apps/desk/mcp", era, "", nil)
		for _, tt := range []struct {
			args map[string]any
			want string
		}{
			{map[string]any{}, "request is required: the message to the agent, as a string"},
			{map[string]any{"request": 7}, "request is required: the message to the agent, as a string"},
			{map[string]any{"request": "x", "session": 7}, "session must be a string"},
			{map[string]any{"request": "x", "session": "nope"}, `unknown session "nope": omit session to start a new conversation`},
			{map[string]any{"request": "fail"}, "the model is broken"},
		} {
			result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "desk", Arguments: tt.args})
			if err != nil || !result.IsError || !strings.Contains(textOf(result), tt.want) {
				t.Errorf("%s %v: %v %v, want %q", era, tt.args, result, err, tt.want)
			}
		}
	}
}

// A confirmation, a choice and a form are questions to the client's person in either era, and the
// answers continue the run. A declined approval is a rejection.
func TestQuestions(t *testing.T) {
	_, url := newEnv(t, readDesk(t), nil, nil)
	accept := func(content map[string]any) *mcp.ElicitResult {
		return &mcp.ElicitResult{Action: "accept", Content: content}
	}
	for _, era := range eras {
		for _, tt := range []struct {
			request, want string
			answer        *mcp.ElicitResult
		}{
			{"I want a refund", "You have 500 back.", accept(map[string]any{"confirmed": true})},
			{"I want a refund", "No refund.", accept(map[string]any{"confirmed": false})},
			{"I want a refund", "No refund.", &mcp.ElicitResult{Action: "decline"}},
			{"let me choose", "You chose green.", accept(map[string]any{"answer": "green"})},
			{"my address", "Noted Main.", accept(map[string]any{"street": "Main", "number": 3})},
			{"I want a refund", "The agent waits for a person, and this client cannot ask or has no answer.", &mcp.ElicitResult{Action: "cancel"}},
		} {
			opts, asked := answering(tt.answer)
			s := connect(t, url+"/apps/desk/mcp", era, "", opts)
			text, _ := call(t, s, "desk", map[string]any{"request": tt.request})
			if first, _, _ := strings.Cut(text, "\n"); first != tt.want || len(*asked) != 1 {
				t.Errorf("%s %q answered %v: %q after %q, want %q", era, tt.request, tt.answer, text, *asked, tt.want)
			}
		}
		s := connect(t, url+"/apps/desk/mcp", era, "", nil) // without elicitation
		if text, _ := call(t, s, "desk", map[string]any{"request": "I want a refund"}); !strings.Contains(text, "Session: mcp-") || !strings.Contains(text, "Approve the call of refund?") {
			t.Errorf("%s without elicitation: %q", era, text)
		}
	}
}

// A file that an answer has saved is a link, and its resource can be read by its user.
func TestArtifacts(t *testing.T) {
	_, url := newEnv(t, readDesk(t), nil, nil)
	for _, era := range eras {
		s := connect(t, url+"/apps/desk/mcp", era, "", nil)
		result, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "write_note", Arguments: map[string]any{"request": "save it"}})
		if err != nil || textOf(result) != "It is saved." {
			t.Fatalf("%s: %v %v", era, result, err)
		}
		i := slices.IndexFunc(result.Content, func(c mcp.Content) bool { _, ok := c.(*mcp.ResourceLink); return ok })
		if i < 0 {
			t.Fatalf("%s: no link in %v", era, result.Content)
		}
		uri := result.Content[i].(*mcp.ResourceLink).URI
		read, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri})
		if err != nil || read.Contents[0].Text+string(read.Contents[0].Blob) != "hello" {
			t.Errorf("%s %s: %v %v", era, uri, read, err)
		}
		for _, bad := range []string{strings.Replace(uri, "version=0", "version=7", 1), strings.Replace(uri, "mcp-", "mcp-x", 1), "artifact://x", strings.Replace(uri, "note.txt", "_adk.txt", 1)} {
			if _, err := s.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: bad}); err == nil {
				t.Errorf("%s: %s was read", era, bad)
			}
		}
	}
}

// Progress grows with each event, also for a token that is a number.
func TestProgress(t *testing.T) {
	_, url := newEnv(t, readDesk(t), nil, nil)
	for _, era := range eras {
		seen := make(chan float64, 100)
		s := connect(t, url+"/apps/desk/mcp", era, "", &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, req *mcp.ProgressNotificationClientRequest) {
			seen <- req.Params.Progress
		}})
		params := &mcp.CallToolParams{Name: "write_note", Arguments: map[string]any{"request": "save"}}
		params.SetProgressToken(7)
		if _, err := s.CallTool(t.Context(), params); err != nil {
			t.Fatal(err)
		}
		_ = s.Close()
		close(seen)
		last := 0.0
		for n := range seen {
			if n <= last {
				t.Errorf("%s: progress %v after %v", era, n, last)
			}
			last = n
		}
		if last < 2 {
			t.Errorf("%s: progress ended at %v", era, last)
		}
	}
}

// Without mcp_server in app.yaml there is no MCP server.
func TestAppWithoutSection(t *testing.T) {
	e, _ := newEnv(t, readDesk(t), nil, nil)
	for _, app := range []string{"hello", "missing"} {
		servertest.ExpectResponse(t, send(e, "POST", "/apps/"+app+"/mcp", "{}"), 404, `{"detail":"Not Found"}`)
	}
}

// Clients of either era are notified of a reload, and the list then has the new revision's tools.
func TestListFollowsReload(t *testing.T) {
	e, url := newEnv(t, readDesk(t), &mcpserver.Options{All: true}, nil)
	for _, era := range eras {
		e.AddLLMApp(t, "hello", &runtime.LLMOptions{Model: servertest.ScriptedModel(t), Description: "Greets."})
		changed := make(chan struct{}, 10)
		s := connect(t, url+"/apps/hello/mcp", era, "", &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			changed <- struct{}{}
		}})
		if _, err := s.ListTools(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		app, err := runtime.NewApp("hello", runtime.NewLLM("renamed", &runtime.LLMOptions{Model: servertest.ScriptedModel(t)}), nil)
		if err != nil {
			t.Fatal(err)
		}
		e.Host.Swap(app)
		if era == eras[0] { // the SDK's client of the other era subscribes only when it is called
			<-changed
		}
		list, err := connect(t, url+"/apps/hello/mcp", era, "", nil).ListTools(t.Context(), nil)
		if err != nil || len(list.Tools) != 1 || list.Tools[0].Name != "renamed" {
			t.Errorf("%s: %v %v", era, list, err)
		}
	}
}
