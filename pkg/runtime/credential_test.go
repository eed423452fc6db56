package runtime_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/genai"

	"agenthost/internal/testenv"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

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

// answerRequest answers the last request of a session.
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

// TestCredential: the run ends with the event that asks, then the answer that
// waits. The call is carried out again, under the same idempotency key, with
// the credential in temp:, of which the state keeps nothing (semantics 6.9).
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
