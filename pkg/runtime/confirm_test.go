package runtime_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// confirmingTool is a tool that requests confirmation and records its calls.
type confirmingTool struct{ calls []tool.Call }

func (a *confirmingTool) withName(name string) *testTool {
	return &testTool{name: name, run: func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		a.calls = append(a.calls, *c)
		if c.Confirmation == nil {
			c.RequestConfirmation("Really?", map[string]int{"days": 3})
			return nil, nil
		}
		return &tool.Result{Response: map[string]any{"payload": c.Confirmation.Payload}}, nil
	}}
}

func alwaysConfirm() tool.Confirmer {
	return tool.ConfirmFunc(func(context.Context, *tool.Call) (bool, error) { return true, nil })
}

// confirmationIDs returns the IDs of a session's confirmation requests.
func confirmationIDs(t *testing.T, e *testenv.Env, key session.Key) []string {
	t.Helper()
	return e.CallIDs(t, key, runtime.RequestConfirmation)
}

func decisionRequest(key session.Key, response map[string]any, ids ...string) *runtime.RunRequest {
	req := userMessage(key, "")
	req.Message = &genai.Content{}
	for _, id := range ids {
		req.Message.Parts = append(req.Message.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{
			ID: id, Name: runtime.RequestConfirmation, Response: response,
		}})
	}
	return req
}

// TestConfirmAfterRestart: confirmation requests live only in stored events. Another process
// resumes the call, with the answer's payload and the first attempt's user text and idempotency
// key.
func TestConfirmAfterRestart(t *testing.T) {
	url := "sqlite:///" + filepath.Join(t.TempDir(), "s.db")
	var before, after confirmingTool
	e := testenv.New(t, &testenv.Options{URL: url})
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{before.withName("f")}}), nil)
	want := "a: call f\na: call adk_request_confirmation\n" +
		"a: f map[error:This tool call requires confirmation, please approve or reject.]\n"
	if diff := cmp.Diff(want, formatRun(e.Host.Run(t.Context(), userMessage(key, "a week")))); diff != "" {
		t.Fatalf("run that asks (-want +got):\n%s", diff)
	}
	e.Host.Close()
	if err := e.Store.Close(); err != nil {
		t.Fatal(err)
	}

	e = testenv.New(t, &testenv.Options{URL: url})
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{after.withName("f")}}), nil)
	// IDs start over in this process: a run in another session uses the first ones.
	formatRun(e.Host.Run(t.Context(), userMessage(e.Session(t, "app", "other", nil), "go")))
	after.calls = nil
	approval := map[string]any{"confirmed": true, "payload": map[string]any{"days": 2}}
	got := formatRun(e.Host.Run(t.Context(), decisionRequest(key, approval, confirmationIDs(t, e, key)...)))
	if diff := cmp.Diff("a: f map[payload:map[days:2]]\na: done\n", got); diff != "" {
		t.Fatalf("run that answers (-want +got):\n%s", diff)
	}
	first, second := before.calls[0], after.calls[0]
	if first.IdempotencyKey == "" || first.IdempotencyKey != second.IdempotencyKey {
		t.Errorf("idempotency keys %q, then %q, want the same", first.IdempotencyKey, second.IdempotencyKey)
	}
	if second.Origin.UserText != "a week" {
		t.Errorf("the approved call sees the user's words %q, want those of the call", second.Origin.UserText)
	}
	if first.Origin.InvocationID == second.Origin.InvocationID {
		t.Errorf("both runs are invocation %s", first.Origin.InvocationID)
	}
}

// TestConfirmRejected: a rejected call is not executed, even if the tool itself
// requested the confirmation.
func TestConfirmRejected(t *testing.T) {
	var asking confirmingTool
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{asking.withName("f")}}), nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	got := formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": false}, confirmationIDs(t, e, key)...)))
	if diff := cmp.Diff("a: f map[error:This tool call is rejected.]\na: done\n", got); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
	if len(asking.calls) != 1 {
		t.Errorf("the tool ran %d times, want 1", len(asking.calls))
	}
}

// TestConfirmTwice: the other decision after the call's end is an error, and is not stored; the same one is
// taken again.
func TestConfirmTwice(t *testing.T) {
	for _, first := range []bool{true, false} {
		e := testenv.New(t, nil)
		key := e.Session(t, "app", "s", nil)
		pay := &testTool{name: "f", capabilities: tool.Capabilities{Confirm: alwaysConfirm()}, run: func(context.Context, *tool.Call) (*tool.Result, error) { return nil, nil }}
		deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{pay}}), nil)
		formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
		ids := confirmationIDs(t, e, key)
		formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": first}, ids...)))
		decision := map[bool]string{true: "approved", false: "rejected"}[first]
		want := fmt.Sprintf("error INVALID_REQUEST: the confirmation %s was answered before: its call was %s, and does not run again\n", ids[0], decision)
		if got := formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": !first}, ids...))); got != want {
			t.Errorf("the other decision: got %q, want %q", got, want)
		}
		if got := formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": first}, ids...))); got != "" {
			t.Errorf("the same decision: %q", got)
		}
	}
}

// TestConfirmAfterCrash: an approval is sent again because its run ended before
// the model responded. The tool has already run, so only the model is called.
func TestConfirmAfterCrash(t *testing.T) {
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	runs := 0
	pay := &testTool{name: "f", capabilities: tool.Capabilities{Confirm: alwaysConfirm()}, run: func(context.Context, *tool.Call) (*tool.Result, error) {
		runs++
		return nil, nil
	}}
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{pay}}), nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	approve := decisionRequest(key, map[string]any{"confirmed": true}, confirmationIDs(t, e, key)...)
	for range e.Host.Run(t.Context(), approve) {
		break
	}
	if diff := cmp.Diff("a: done\n", formatRun(e.Host.Run(t.Context(), approve))); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
	if runs != 1 {
		t.Errorf("the tool ran %d times, want 1", runs)
	}
}

// TestConfirmInvalidAnswer: forged requests in stored events and contradictory
// answers are rejected.
func TestConfirmInvalidAnswer(t *testing.T) {
	request := func(author, id, original string, args map[string]any, longRunning bool) *session.Event {
		ev := &session.Event{ID: author + id + original, InvocationID: "e-0", Author: author}
		ev.Content = &genai.Content{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{
			ID: id, Name: runtime.RequestConfirmation,
			Args: map[string]any{"originalFunctionCall": map[string]any{"id": original, "name": "f", "args": args}},
		}}}}
		if longRunning {
			ev.LongRunningToolIDs = []string{id}
		}
		return ev
	}
	call := func(author, id string) *session.Event {
		ev := &session.Event{ID: author + id, InvocationID: "e-0", Author: author}
		ev.Content = &genai.Content{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: id, Name: "f", Args: map[string]any{"n": 1.5}}}}}
		return ev
	}
	n := map[string]any{"n": 1.5}
	tests := []struct {
		name   string
		stored []*session.Event
		ids    []string
		want   string
	}{
		{
			"asked by a model",
			[]*session.Event{call("a", "c"), request("a", "r", "c", n, false)},
			[]string{"r"},
			`no request for confirmation "r" in this session`,
		},
		{
			"other arguments",
			[]*session.Event{call("a", "c"), request("a", "r", "c", map[string]any{"n": 2}, true)},
			[]string{"r"},
			"the confirmation r does not match call c",
		},
		{
			"another agent's call",
			[]*session.Event{call("b", "c"), request("a", "r", "c", n, true)},
			[]string{"r"},
			`the confirmation r refers to call "c", which agent a never made`,
		},
		{
			"two calls under one id",
			[]*session.Event{call("a", "c"), call("a", "d"), request("a", "r", "c", n, true), request("a", "r", "d", n, true)},
			[]string{"r"},
			"the confirmation r was requested for different calls",
		},
		{
			"two agents",
			[]*session.Event{call("a", "c"), request("a", "r", "c", n, true), call("b", "d"), request("b", "q", "d", n, true)},
			[]string{"r", "q"},
			"the message answers agent a and agent b: send a separate message to each",
		},
		{
			"an agent that is gone",
			[]*session.Event{call("gone", "c"), request("gone", "r", "c", n, true)},
			[]string{"r"},
			"agent gone, which made the request, is no longer part of the app",
		},
		{
			"twice in one message",
			[]*session.Event{call("a", "c"), request("a", "r", "c", n, true)},
			[]string{"r", "r"},
			"the message contains two answers to call c",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, ev := range tt.stored {
				if err := e.Store.Sessions.Append(t.Context(), sess, ev); err != nil {
					t.Fatal(err)
				}
			}
			b := runtime.NewLLM("b", &runtime.LLMOptions{Model: textModel("b")})
			deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: textModel("a"), SubAgents: []runtime.Agent{b}}), nil)
			got := formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": true}, tt.ids...)))
			if diff := cmp.Diff("error INVALID_REQUEST: "+tt.want+"\n", got); diff != "" {
				t.Errorf("Run() (-want +got):\n%s", diff)
			}
			if sess, err = e.Store.Sessions.Get(t.Context(), key, nil); err != nil || len(sess.Events()) != len(tt.stored) {
				t.Errorf("the refused message left a trace: %d events, %v", len(sess.Events()), err)
			}
		})
	}
}

// TestConfirmHidden: models see neither the confirmation request nor its answer.
func TestConfirmHidden(t *testing.T) {
	var seen []*genai.Content
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	answer := toolCallModel("f")
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{
		Model: modelFunc(func(ctx context.Context, req *model.Request) (*genai.Content, error) {
			seen = req.Contents
			return answer(ctx, req)
		}),
		Tools: []tool.Tool{new(confirmingTool).withName("f")},
	}), nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	formatRun(e.Host.Run(t.Context(), decisionRequest(key, map[string]any{"confirmed": true, "payload": "p"}, confirmationIDs(t, e, key)...)))
	want := []*genai.Content{
		model.UserText("go"),
		{Role: genai.RoleModel, Parts: []*genai.Part{{FunctionCall: &genai.FunctionCall{ID: "c0", Name: "f"}}}},
		{Role: genai.RoleUser, Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{ID: "c0", Name: "f", Response: map[string]any{"payload": "p"}}}}},
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("contents of the last request (-want +got):\n%s", diff)
	}
}

// credentialTool is a tool that needs a credential.
func credentialTool(traits tool.Capabilities, keys *[]string) *testTool {
	config := map[string]any{"credentialKey": "crm", "authScheme": map[string]any{"type": "apiKey"}}
	return &testTool{name: "f", capabilities: traits, run: func(_ context.Context, c *tool.Call) (*tool.Result, error) {
		*keys = append(*keys, c.IdempotencyKey)
		credential, ok := c.Credential(config)
		if !ok {
			c.RequestCredential(config)
			return nil, nil
		}
		return &tool.Result{Response: map[string]any{"with": credential["apiKey"]}}, nil
	}}
}

// answerRequest answers a session's last request.
func answerRequest(t *testing.T, e *testenv.Env, key session.Key, response map[string]any) *runtime.RunRequest {
	t.Helper()
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil {
		t.Fatal(err)
	}
	var last *genai.FunctionCall
	for _, ev := range sess.Events() {
		for _, c := range ev.Calls() {
			if len(ev.LongRunningToolIDs) > 0 {
				last = c
			}
		}
	}
	req := userMessage(key, "")
	req.Message = &genai.Content{Parts: []*genai.Part{{FunctionResponse: &genai.FunctionResponse{
		ID: last.ID, Name: last.Name, Response: response,
	}}}}
	return req
}

// TestCredential: the run ends with the event that asks, then the answer that waits. The call is
// carried out again, under the same idempotency key, with the credential in temp:, which the state
// does not keep (semantics 6.9).
func TestCredential(t *testing.T) {
	var keys []string
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{credentialTool(tool.Capabilities{}, &keys)}}), nil)
	const wantRequest = `{"author":"a","content":{"parts":[{"functionCall":{"args":{"authConfig":{"authScheme":{"type":"apiKey"},"credentialKey":"crm"},` +
		`"functionCallId":"c0"},"id":"adk-00000006-0000-4000-8000-000000000000","name":"adk_request_credential"}}],"role":"user"},` +
		`"longRunningToolIds":["adk-00000006-0000-4000-8000-000000000000"]}`
	var lines []string
	for ev, err := range e.Host.Run(t.Context(), userMessage(key, "go")) {
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, testenv.Stable(t, ev))
	}
	if len(lines) != 3 || lines[1] != wantRequest {
		t.Fatalf("run that asks:\n%q\nwant as the second of three:\n%q", lines, wantRequest)
	}
	got := formatRun(e.Host.Run(t.Context(), answerRequest(t, e, key, map[string]any{})))
	want := "error INVALID_REQUEST: the answer to the credential adk-00000006-0000-4000-8000-000000000000 has no exchangedAuthCredential\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answer without a credential (-want +got):\n%s", diff)
	}
	given := map[string]any{"exchangedAuthCredential": map[string]any{"apiKey": "k"}, "credentialKey": "other"}
	got = formatRun(e.Host.Run(t.Context(), answerRequest(t, e, key, given)))
	if diff := cmp.Diff("a: f map[with:k]\na: done\n", got); diff != "" {
		t.Errorf("answer (-want +got):\n%s", diff)
	}
	if len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("idempotency keys %q, want the same twice", keys)
	}
	sess, err := e.Store.Sessions.Get(t.Context(), key, nil)
	if err != nil || len(sess.State.All()) != 0 {
		t.Errorf("the state keeps %v, %v, want nothing", sess.State.All(), err)
	}
}

// TestCredentialAfterApproval: a call that was approved, and then needs a
// credential, is not put to a person again.
func TestCredentialAfterApproval(t *testing.T) {
	var keys []string
	e := testenv.New(t, nil)
	key := e.Session(t, "app", "s", nil)
	confirmed := credentialTool(tool.Capabilities{Confirm: alwaysConfirm()}, &keys)
	deployApp(t, e, runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("f"), Tools: []tool.Tool{confirmed}}), nil)
	formatRun(e.Host.Run(t.Context(), userMessage(key, "go")))
	got := formatRun(e.Host.Run(t.Context(), answerRequest(t, e, key, map[string]any{"confirmed": true})))
	got += formatRun(e.Host.Run(t.Context(), answerRequest(t, e, key, map[string]any{"exchangedAuthCredential": map[string]any{"apiKey": "k"}})))
	want := "a: call adk_request_credential\na: f map[error:This tool call requires a credential, which was requested from the user.]\n" +
		"a: f map[with:k]\na: done\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Run() (-want +got):\n%s", diff)
	}
	if len(keys) != 2 || keys[0] != keys[1] {
		t.Errorf("idempotency keys %q, want the same twice", keys)
	}
}

// TestConfirmInterrupted: other calls' results are stored before requests (adk-python since 2.11).
// An invocation that was interrupted in between requests the confirmation once, also if a build
// before 0.1.0 stored the events in the other order, and an answer runs the calls that never ran.
func TestConfirmInterrupted(t *testing.T) {
	const (
		calls = `{"id":"2","invocationId":"e-1","author":"a","nodeInfo":{"path":"a@1"},"content":{"parts":[{"functionCall":{"args":{},"id":"c0","name":"pay"}},{"functionCall":{"args":{},"id":"c1","name":"look"}}],"role":"model"}}`
		asked = `{"id":"3","invocationId":"e-1","author":"a","nodeInfo":{"path":"a@1"},"content":{"parts":[{"functionCall":{"args":{"originalFunctionCall":{"args":{},"id":"c0","name":"pay"},"toolConfirmation":{"confirmed":false,"hint":"h"}},"id":"adk-2","name":"adk_request_confirmation"}}],"role":"user"},"longRunningToolIds":["adk-2"]}`
		given = `{"id":"4","invocationId":"e-1","author":"a","nodeInfo":{"path":"a@1"},"actions":{"requestedToolConfirmations":{"c0":{"confirmed":false,"hint":"h"}},"skipSummarization":true},"content":{"parts":[{"functionResponse":{"id":"c0","name":"pay","response":{"error":"waits"}}},{"functionResponse":{"id":"c1","name":"look","response":{"result":"seen"}}}],"role":"user"}}`
	)
	for _, tt := range []struct {
		name      string
		events    []string
		resumable bool
		// resumed is what the invocation does without an answer.
		resumed, ran string
	}{
		{"calls", []string{calls}, true, "a: pay map[error:This tool call requires confirmation, please approve or reject.] look map[ok:true]\na: call adk_request_confirmation\na: \n", "look e-1/c1 pay e-1/c0"},
		{"results", []string{calls, given}, true, "a: call adk_request_confirmation\na: \n", "pay e-1/c0"},
		{"results and requests", []string{calls, given, asked}, true, "a: \n", "pay e-1/c0"},
		{"requests, as before", []string{calls, asked}, true, "a: pay map[error:This tool call requires confirmation, please approve or reject.] look map[ok:true]\na: \n", "look e-1/c1 pay e-1/c0"},
		{"requests and results, as before", []string{calls, asked, given}, true, "a: \n", "pay e-1/c0"},
		{"answer after requests", []string{calls, asked}, true, "", "pay e-1/c0 look e-1/c1"},
		{"answer after requests without resumption", []string{calls, asked}, false, "", "pay e-1/c0 look e-1/c1"},
		{"answer without resumption", []string{calls, asked, given}, false, "", "pay e-1/c0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var ran []string
			record := func(name string, confirm tool.Confirmer) tool.Tool {
				return &testTool{name: name, capabilities: tool.Capabilities{Confirm: confirm}, run: func(_ context.Context, c *tool.Call) (*tool.Result, error) {
					ran = append(ran, name+" "+c.IdempotencyKey)
					return &tool.Result{Response: map[string]any{"ok": true}}, nil
				}}
			}
			e := testenv.New(t, nil)
			key := e.Session(t, "app", "s", nil)
			config := runtime.DefaultRunConfig()
			config.ToolThreadPoolConfig = &runtime.ToolPool{MaxWorkers: 1}
			root := runtime.NewLLM("a", &runtime.LLMOptions{Model: toolCallModel("pay"), Tools: []tool.Tool{record("pay", alwaysConfirm()), record("look", nil)}})
			deployApp(t, e, root, &runtime.AppOptions{Resumable: tt.resumable, Config: &config})
			appendStored(t, e, key, `{"id":"1","invocationId":"e-1","author":"user","content":{"parts":[{"text":"go"}],"role":"user"}}`+"\n"+strings.Join(tt.events, "\n"))
			if tt.resumed != "" {
				resume := userMessage(key, "")
				resume.Message, resume.InvocationID = nil, "e-1"
				if diff := cmp.Diff(tt.resumed, formatRun(e.Host.Run(t.Context(), resume))); diff != "" {
					t.Errorf("resumed (-want +got):\n%s", diff)
				}
			}
			if ids := confirmationIDs(t, e, key); len(ids) != 1 {
				t.Errorf("%d requests, want 1", len(ids))
			}
			got := formatRun(e.Host.Run(t.Context(), answerRequest(t, e, key, map[string]any{"confirmed": true})))
			if diff := cmp.Diff(tt.ran, strings.Join(ran, " ")); diff != "" || !strings.Contains(got, "a: done") {
				t.Errorf("executed (-want +got):\n%s\nafter the answer:\n%s", diff, got)
			}
		})
	}
}
