package aguiserver

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

func textEvent(id, author, text string) *session.Event {
	ev := &session.Event{ID: id, Author: author, InvocationID: "i-" + id}
	ev.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{Text: text}}}
	return ev
}

// userEvent is a message of the user, which has the client's ID.
func userEvent(id, text string) *session.Event {
	ev := textEvent("e-"+id, session.UserAuthor, text)
	ev.Content.Role = genai.RoleUser
	ev.CustomMetadata = newMetadata("r", map[string]any{textKey: id})
	return ev
}

// callEvent has a call that waits.
func callEvent(id, call, name string, args map[string]any) *session.Event {
	ev := textEvent(id, "root", "")
	ev.Content.Parts = []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: call, Name: name, Args: args}}}
	ev.LongRunningToolIDs = []string{call}
	return ev
}

func responseEvent(id, call, name string, response map[string]any) *session.Event {
	ev := textEvent(id, "root", "")
	ev.Content.Parts = []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: call, Name: name, Response: response}}}
	return ev
}

// A request becomes the messages that run, and what they undo.
func TestWireToRequest(t *testing.T) {
	talk := []*session.Event{userEvent("u1", "one"), textEvent("a1", "root", "1"), userEvent("u2", "two"), textEvent("a2", "root", "2")}
	calls := append(talk[:4:4], userEvent("u3", "go"), callEvent("a3", "c1", "get_weather", nil))
	asks := append(talk[:4:4], userEvent("u3", "go"), callEvent("a3", "c1", tool.UserChoice, map[string]any{"options": []any{"Green", "Black"}}))
	user := func(id string) string { return fmt.Sprintf(`{"id":"%s","role":"user","content":"%s!"}`, id, id) }
	answer := func(id string) string { return fmt.Sprintf(`{"id":"%s","role":"assistant","content":"x"}`, id) }
	result := func(id, call string) string {
		return fmt.Sprintf(`{"id":"%s","role":"tool","toolCallId":"%s","content":"sunny"}`, id, call)
	}
	many, texts := []string{}, "" // new messages
	for i := range 50 {
		many, texts = append(many, user(fmt.Sprint("n", i))), texts+fmt.Sprintf(" n%d!", i)
	}
	for _, c := range []struct {
		name     string
		events   []*session.Event
		messages []string
		resume   string
		want     string
	}{
		{"new", nil, []string{user("u1")}, "", "u1!"},
		{"new, with more than one", nil, []string{user("u1"), user("u2")}, "", "u1! u2!"},
		{"next", talk, []string{user("u1"), answer("a1"), user("u2"), answer("a2"), user("u3")}, "", "u3!"},
		{"next alone", talk, []string{user("u3")}, "", "u3!"},
		{"next after a message of the client's framework", talk, []string{answer("f"), user("u3")}, "", "u3!"},
		{"next after an answer that was not stored", talk, []string{user("u2"), answer("lost"), user("u3")}, "", "u3!"},
		{"next without the latest answer", talk, []string{user("u1"), answer("a1"), user("u2"), user("u3")}, "", "u3!"},
		{"edit", talk, []string{user("u1"), answer("a1"), user("u3")}, "", "undo after a1: u3!"},
		{"edit with many messages", talk, slices.Concat([]string{user("u1"), answer("a1")}, many), "", "undo after a1:" + texts},
		{"many messages after an answer that was not stored", talk, slices.Concat([]string{user("u3"), answer("lost")}, many), "", strings.TrimSpace(texts)},
		{"many messages between known ones", talk, slices.Concat([]string{user("u1")}, many, []string{user("u2"), answer("a2"), user("u3")}), "", "u3!"},
		{"again", talk, []string{user("u1"), answer("a1"), user("u2")}, "", "undo i-e-u2: u2!"},
		{"the first again", talk, []string{user("u1")}, "", "undo i-e-u1: u1!"},
		{"nothing new", talk, []string{user("u1"), answer("a1"), user("u2"), answer("a2")}, "", "nothing"},
		{"nothing", talk, nil, "", "nothing"},
		{"empty text", talk, []string{`{"id":"u3","role":"user","content":"  "}`}, "", "nothing"},
		{"result", calls, []string{user("u3"), answer("a3"), result("t1", "c1")}, "", "c1=sunny"},
		{"result and text", calls, []string{user("u3"), answer("a3"), result("t1", "c1"), user("u4")}, "", "c1=sunny u4!"},
		{"a result before a newer message", calls, []string{answer("a3"), result("t1", "c1"), answer("f"), user("u4")}, "", "c1=sunny u4!"},
		{"a result for another call", calls, []string{user("u3"), answer("a3"), result("t1", "c2")}, "", `error: toolCallId "c2" is not that of an open call`},
		{"two results", calls, []string{answer("a3"), result("t1", "c1"), result("t2", "c1")}, "", `error: toolCallId "c1" is not that of an open call`},
		{"text instead of a result", calls, []string{user("u4")}, "", "u4!"},
		{"choice", asks, []string{user("u3")}, `[{"interruptId":"c1","status":"resolved","payload":"Black"}]`, "c1=Black"},
		{"choice and text", asks, []string{user("u3"), answer("a3"), user("u4")}, `[{"interruptId":"c1","status":"cancelled"}]`, "c1=cancelled by the user, u4!"},
		{"no choice", asks, []string{user("u4")}, "", "error: the thread has open interrupts, which resume must answer: c1"},
		{"a choice as a tool's result", asks, []string{answer("a3"), result("t1", "c1")}, "", "error: the thread has open interrupts, which resume must answer: c1"},
		{"load a choice", asks, nil, "", "nothing"},
	} {
		body := `{"messages":[` + strings.Join(c.messages, ",") + `]`
		if c.resume != "" {
			body += `,"resume":` + c.resume
		}
		in := &runInput{}
		if err := json.Unmarshal([]byte(body+"}"), in); err != nil {
			t.Fatal(err)
		}
		th := &thread{events: c.events}
		th.forms, th.calls = protocol.ListOpen(c.events)
		if got := describeRequest(t, th, in); got != c.want {
			t.Errorf("%s: got %s, want %s", c.name, got, c.want)
		}
	}
}

// describeRequest describes what a request undoes and runs.
func describeRequest(t *testing.T, th *thread, in *runInput) string {
	undo := ""
	if req := th.findEdit(in); req != nil {
		undo = "undo " + req.BeforeInvocationID + ": "
		if req.AfterEventID != "" {
			undo = "undo after " + req.AfterEventID + ": "
		}
	}
	steps, err := th.listSteps(t.Context(), in)
	if err != nil {
		return "error: " + err.Error()
	}
	var all []string
	for _, s := range steps {
		var parts []string
		for _, p := range s.parts {
			if f := p.FunctionResponse; f != nil {
				value := f.Response["result"]
				if value == nil {
					value = f.Response["error"]
				}
				parts = append(parts, fmt.Sprintf("%s=%v", f.ID, value))
			} else {
				parts = append(parts, p.Text)
			}
		}
		all = append(all, strings.Join(parts, " "))
	}
	if len(all) == 0 {
		return undo + "nothing"
	}
	return undo + strings.Join(all, ", ")
}

// Events of a turn become those of the protocol.
func TestEventsToWire(t *testing.T) {
	partial := func(ev *session.Event) *session.Event { ev.Partial = true; return ev }
	thought := func(ev *session.Event) *session.Event { ev.Content.Parts[0].Thought = true; return ev }
	with := func(ev *session.Event, change func(*session.Event)) *session.Event { change(ev); return ev }
	below := func(id, author, branch, path string) *session.Event {
		return with(textEvent(id, author, id), func(ev *session.Event) { ev.InvocationID, ev.Branch, ev.NodePath = "i", branch, path })
	}
	approval := callEvent("e2", "q", runtime.RequestConfirmation, nil)
	open := responseEvent("e3", "c", "refund", map[string]any{"error": "wait"})
	open.Actions.RequestedToolConfirmations = map[string]*session.Confirmation{"c": {}}
	call := callEvent("e1", "c", "refund", map[string]any{"n": 1})
	call.LongRunningToolIDs = nil
	const begin = "RUN_STARTED t STATE_SNAPSHOT {} "
	text := func(id, text string) string {
		return "TEXT_MESSAGE_START " + id + " TEXT_MESSAGE_CONTENT " + id + " " + text + " TEXT_MESSAGE_END " + id
	}
	for _, c := range []struct {
		name   string
		events []*session.Event
		want   string
	}{
		{"text", []*session.Event{textEvent("e", "root", "hi")}, text("e", "hi")},
		{"chunks", []*session.Event{partial(textEvent("e", "root", "h")), partial(textEvent("e", "root", "i")), textEvent("e", "root", "hi")}, "TEXT_MESSAGE_START e TEXT_MESSAGE_CONTENT e h TEXT_MESSAGE_CONTENT e i TEXT_MESSAGE_END e"},
		{"an end that chunks lack", []*session.Event{partial(textEvent("e", "root", "h")), textEvent("e", "root", "hi")}, "TEXT_MESSAGE_START e TEXT_MESSAGE_CONTENT e h TEXT_MESSAGE_CONTENT e i TEXT_MESSAGE_END e"},
		{"chunks without an end", []*session.Event{partial(textEvent("e", "root", "h"))}, "TEXT_MESSAGE_START e TEXT_MESSAGE_CONTENT e h TEXT_MESSAGE_END e"},
		{"chunks of two agents", []*session.Event{partial(textEvent("e", "root", "h")), partial(textEvent("f", "root", "x")), textEvent("e", "root", "h"), textEvent("f", "root", "x")}, "TEXT_MESSAGE_START e TEXT_MESSAGE_CONTENT e h TEXT_MESSAGE_START f TEXT_MESSAGE_CONTENT f x TEXT_MESSAGE_END e TEXT_MESSAGE_END f"},
		{"thoughts", []*session.Event{partial(thought(textEvent("e", "root", "t"))), partial(textEvent("e", "root", "h"))}, "REASONING_START e-reasoning REASONING_MESSAGE_START e-reasoning REASONING_MESSAGE_CONTENT e-reasoning t REASONING_MESSAGE_END e-reasoning REASONING_END e-reasoning TEXT_MESSAGE_START e TEXT_MESSAGE_CONTENT e h TEXT_MESSAGE_END e"},
		{"nothing to read", []*session.Event{textEvent("e", "root", ""), userEvent("u", "x")}, ""},
		{"steps", []*session.Event{textEvent("e", "a", "1"), textEvent("f", "b", "2"), textEvent("g", "root", "3")}, "SUBAGENT_STARTED a i-e/a STEP_STARTED a " + text("e", "1") + " STEP_FINISHED a SUBAGENT_FINISHED i-e/a SUBAGENT_STARTED b i-f/b STEP_STARTED b " + text("f", "2") + " STEP_FINISHED b SUBAGENT_FINISHED i-f/b " + text("g", "3")},
		{"subagents in parallel", []*session.Event{below("e", "a", "p.a", "root@1/p@1/a@1"), below("f", "b", "p.b", "root@1/p@1/b@1"), below("g", "a", "p.a", "root@1/p@1/a@1"), below("h", "root", "", "root@1")}, "SUBAGENT_STARTED p i/root@1/p@1 SUBAGENT_STARTED a i/root@1/p@1/a@1 i/root@1/p@1 STEP_STARTED a " + text("e", "e") + " STEP_FINISHED a SUBAGENT_STARTED b i/root@1/p@1/b@1 i/root@1/p@1 STEP_STARTED b " + text("f", "f") + " STEP_FINISHED b STEP_STARTED a " + text("g", "g") + " STEP_FINISHED a SUBAGENT_FINISHED i/root@1/p@1/b@1 SUBAGENT_FINISHED i/root@1/p@1/a@1 SUBAGENT_FINISHED i/root@1/p@1 " + text("h", "h")},
		{"a subagent's runs", []*session.Event{below("e", "a", "", "root@1/a@1"), below("f", "a", "", "root@1/a@2")}, "SUBAGENT_STARTED a i/root@1/a@1 STEP_STARTED a " + text("e", "e") + " STEP_FINISHED a SUBAGENT_FINISHED i/root@1/a@1 SUBAGENT_STARTED a i/root@1/a@2 STEP_STARTED a " + text("f", "f") + " STEP_FINISHED a SUBAGENT_FINISHED i/root@1/a@2"},
		{"a run that returns", []*session.Event{below("e", "a", "", "root@1/a@1"), below("f", "root", "", "root@1"), below("g", "a", "", "root@1/a@1")}, "SUBAGENT_STARTED a i/root@1/a@1 STEP_STARTED a " + text("e", "e") + " STEP_FINISHED a SUBAGENT_FINISHED i/root@1/a@1 " + text("f", "f") + " STEP_STARTED a " + text("g", "g") + " STEP_FINISHED a"},
		{"chunks of a subagent that has ended", []*session.Event{partial(below("e", "a", "", "root@1/a@1")), below("f", "root", "", "root@1")}, "SUBAGENT_STARTED a i/root@1/a@1 STEP_STARTED a TEXT_MESSAGE_START e TEXT_MESSAGE_CONTENT e e STEP_FINISHED a TEXT_MESSAGE_END e SUBAGENT_FINISHED i/root@1/a@1 " + text("f", "f")},
		{"signatures", []*session.Event{with(thought(textEvent("e", "root", "t")), func(ev *session.Event) {
			ev.Content.Parts[0].ThoughtSignature = []byte{1}
			ev.Content.Parts = append(ev.Content.Parts, &genai.Part{Text: "h", ThoughtSignature: []byte{2}}, &genai.Part{FunctionCall: &genai.FunctionCall{ID: "c", Name: "refund"}, ThoughtSignature: []byte{3}})
		}), with(textEvent("f", "root", ""), func(ev *session.Event) { ev.Content.Parts[0].ThoughtSignature = []byte{4} })}, "REASONING_START e-reasoning REASONING_MESSAGE_START e-reasoning REASONING_MESSAGE_CONTENT e-reasoning t REASONING_MESSAGE_END e-reasoning REASONING_END e-reasoning " + text("e", "h") + " TOOL_CALL_START c refund e TOOL_CALL_ARGS c {} TOOL_CALL_END c REASONING_ENCRYPTED_VALUE message e-reasoning AQ== REASONING_ENCRYPTED_VALUE message e Ag== REASONING_ENCRYPTED_VALUE tool-call c Aw=="},
		{"call and result", []*session.Event{call, responseEvent("e2", "c", "refund", map[string]any{"result": "ok"})}, `TOOL_CALL_START c refund e1 TOOL_CALL_ARGS c {"n":1} TOOL_CALL_END c TOOL_CALL_RESULT result-c c ok`},
		{"approval", []*session.Event{call, approval, open}, `TOOL_CALL_START c refund e1 TOOL_CALL_ARGS c {"n":1} TOOL_CALL_END c`},
		{"client tool", []*session.Event{callEvent("e1", "c", "get_weather", nil), responseEvent("e2", "c", "get_weather", map[string]any{"status": "pending"})}, "TOOL_CALL_START c get_weather e1 TOOL_CALL_ARGS c {} TOOL_CALL_END c"},
		{"state", []*session.Event{with(textEvent("e", "root", ""), func(ev *session.Event) {
			ev.Actions.StateDelta = map[string]any{"a~b/c": 1, "temp:x": 2, "adk_token": 3, "user:adk_token": 4, "user:n": nil, "gone": nil}
		}), with(textEvent("f", "root", ""), func(ev *session.Event) { ev.Actions.StateDelta = map[string]any{"a~b/c": nil} })}, `STATE_DELTA [{"op":"add","path":"/a~0b~1c","value":1}] STATE_DELTA [{"op":"remove","path":"/a~0b~1c"}]`},
		{"failure", []*session.Event{partial(textEvent("e", "root", "h")), with(textEvent("f", "root", ""), func(ev *session.Event) { ev.ErrorCode = "X" })}, "TEXT_MESSAGE_START e TEXT_MESSAGE_CONTENT e h TEXT_MESSAGE_END e"},
	} {
		var got []string
		tn := &turn{endpoint: &endpoint{settings: &Settings{Reasoning: true}}, thread: &thread{}, in: &runInput{ThreadID: "t"}, lineage: lineage{root: "root"}, state: clientState{}}
		tn.write = func(frames []byte, _ bool) error {
			for frame := range strings.SplitSeq(strings.TrimSuffix(string(frames), "\n\n"), "\n\n") {
				ev := &event{}
				if err := json.Unmarshal([]byte(strings.TrimPrefix(frame, "data: ")), ev); err != nil {
					return err
				}
				got = append(got, describeEvent(ev)...)
			}
			return nil
		}
		tn.beginRun(nil)
		for _, ev := range c.events {
			if err := tn.readEvent(ev); err != nil {
				break
			}
		}
		tn.endOpen()
		tn.endSubagents()
		if err := tn.flushEvents(false); err != nil {
			t.Fatal(err)
		}
		if text := strings.Join(got, " "); text != strings.TrimSpace(begin+c.want) {
			t.Errorf("%s:\ngot  %s\nwant %s", c.name, text, begin+c.want)
		}
	}
}

// describeEvent returns an event's type and fields.
func describeEvent(ev *event) []string {
	all := []string{ev.Type}
	if ev.Type == subagentStarted || ev.Type == subagentFinished {
		for _, text := range []string{ev.Name, ev.SubagentRunID, ev.ParentSubagentRunID} {
			if text != "" {
				all = append(all, text)
			}
		}
	}
	for _, text := range []string{ev.ThreadID, ev.StepName, ev.MessageID, ev.ToolCallID, ev.ToolCallName, ev.ParentMessageID, ev.Subtype, ev.EntityID, ev.EncryptedValue} {
		if text != "" {
			all = append(all, text)
		}
	}
	for _, v := range []any{ev.Delta, ev.Content, ev.Snapshot} {
		if text, ok := v.(string); ok {
			all = append(all, text)
		} else if v != nil {
			encoded, _ := server.EncodeJSON(v)
			all = append(all, string(encoded))
		}
	}
	return all
}

// A call that waits becomes an interrupt.
func TestInterrupts(t *testing.T) {
	approval := func(original map[string]any, payload any) *genai.FunctionCall {
		return &genai.FunctionCall{ID: "q", Name: runtime.RequestConfirmation, Args: map[string]any{
			"originalFunctionCall": original, "toolConfirmation": map[string]any{"hint": "Pay?", "payload": payload},
		}}
	}
	original := map[string]any{"id": "c", "name": "pay", "args": map[string]any{"n": 1}}
	credential := &genai.FunctionCall{ID: "q", Name: runtime.RequestCredential, Args: map[string]any{"authConfig": map[string]any{
		"exchangedAuthCredential": map[string]any{"oauth2": map[string]any{"authUri": "https://id.example/authorize", "userCode": "AB-CD", "clientSecret": "secret"}},
	}}}
	const approved = `"responseSchema":{"properties":{"approved":{"type":"boolean"}},"required":["approved"],"type":"object"}`
	for _, c := range []struct {
		call *genai.FunctionCall
		want string
	}{
		{approval(original, nil), `{"id":"q","reason":"tool_call","message":"Pay?","toolCallId":"c",` + approved + `,"metadata":{"args":{"n":1},"tool":"pay"}}`},
		{approval(map[string]any{"name": "pay"}, nil), `{"id":"q","reason":"confirmation","message":"Pay?",` + approved + `,"metadata":{"args":null,"tool":"pay"}}`},
		{approval(original, "low"), `{"id":"q","reason":"tool_call","message":"Pay?","toolCallId":"c","responseSchema":{"properties":{"approved":{"type":"boolean"},"payload":{}},"required":["approved"],"type":"object"},"metadata":{"args":{"n":1},"payload":"low","tool":"pay"}}`},
		{credential, `{"id":"q","reason":"agenthost:authorization","message":"Authorize the connection","metadata":{"code":"AB-CD","url":"https://id.example/authorize"}}`},
		{&genai.FunctionCall{ID: "q", Name: tool.UserChoice, Args: map[string]any{"options": []any{"Green"}}}, `{"id":"q","reason":"input_required","message":"Choose one","toolCallId":"q","responseSchema":{"enum":["Green"],"type":"string"}}`},
		{&genai.FunctionCall{ID: "q", Name: tool.RequestInput, Args: map[string]any{"message": "Where to?"}}, `{"id":"q","reason":"input_required","message":"Where to?","toolCallId":"q","responseSchema":{"type":"string"}}`},
	} {
		got, err := server.EncodeJSON(newInterrupt(protocol.NewForm(c.call)))
		if err != nil || string(got) != c.want {
			t.Errorf("%s:\ngot  %s %v\nwant %s", c.call.Name, got, err, c.want)
		}
	}
}

// A thread's messages have its files up to a limit, because clients bound an event.
func TestFilesInMessages(t *testing.T) {
	file := func(id string, size int) *session.Event {
		ev := userEvent(id, "look")
		ev.Content.Parts = append(ev.Content.Parts, &genai.Part{InlineData: &genai.Blob{Data: make([]byte, size), MIMEType: "image/png"}})
		return ev
	}
	got, err := server.EncodeJSON(listMessages([]*session.Event{file("u1", 3), file("u2", 4<<20)}, true, &lineage{root: "root"}))
	want := `[{"id":"u1","role":"user","content":[{"type":"text","text":"look"},{"type":"image","source":{"type":"data","value":"AAAA","mimeType":"image/png"}}]},` +
		`{"id":"u2","role":"user","content":[{"type":"text","text":"look"},{"type":"text","text":"[image/png]"}]}]`
	if err != nil || string(got) != want {
		t.Errorf("got %.500s %v, want %s", got, err, want)
	}
}
