package acpserver_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/wing/acpserver"
)

// waitingSession has a call that waits for the user's authorization of the connection crm.
const waitingSession = `{"appName": "desk", "id": "s", "events": [
	{"id": "e1", "invocationId": "i", "author": "user", "timestamp": 1, "content": {"role": "user", "parts": [{"text": "find"}]}},
	{"id": "e2", "invocationId": "i", "author": "desk", "timestamp": 2, "longRunningToolIds": ["q"], "content": {"role": "model", "parts": [
		{"functionCall": {"id": "q", "name": "adk_request_credential", "args": {"functionCallId": "c", "authConfig": {"credentialKey": "connection:crm",
			"exchangedAuthCredential": {"oauth2": {"authUri": "https://login.example/authorize?state=x"}}}}}}]}}]}`

// A client reads the address of an authorization by an elicitation, or in words if it has none or rejects it.
// Without an authorization the prompt ends, and the next one shows the address again.
func TestAuthorization(t *testing.T) {
	const byAddress = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{"elicitation":{"url":{}}}}}`
	refused := errors.New("connection crm is not authorized: access_denied")
	for _, tt := range []struct {
		name, opening, answer string
		outcome               error
		shown, want           string
	}{
		{"in words", opening, "", refused, "Authorize the connection at https://login.example/. Enter the code AB-CD there. The answer continues then.", "access_denied."},
		{"declined", byAddress, `{"action":"decline"}`, nil, `"mode":"url"`, ""},
		{"canceled", byAddress, `{"action":"cancel"}`, nil, `"url":"https://login.example/"`, ""},
		{"accepted, then refused", byAddress, `{"action":"accept"}`, refused, `"message":"Authorize the connection. Enter the code AB-CD there."`, "access_denied."},
		{"rejected", byAddress, "", refused, `"elicitationId":"q"`, "Authorize the connection at https://login.example/."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEnv(t, nil)
			e.StoreSession(t, []byte(waitingSession))
			calls := 0
			c := serve(t.Context(), t, e, &acpserver.Options{Authorize: func(ctx context.Context, call *genai.FunctionCall, key session.Key, show acpserver.ShowAddress) (map[string]any, error) {
				if calls++; key.ID != "s" || call.ID != "q" {
					t.Errorf("authorizing %s of %s", call.ID, key)
				}
				shown := make(chan error)
				go func() { shown <- show(ctx, "https://login.example/", "AB-CD") }()
				if err := <-shown; err != nil {
					return nil, err
				}
				return nil, tt.outcome
			}})
			c.send(tt.opening)
			c.receive()
			c.send(`{"jsonrpc":"2.0","id":1,"method":"session/resume","params":{"sessionId":"s","cwd":"/"}}`)
			c.receiveUntil(`"id":1`)
			for _, id := range []string{"2", "3"} {
				c.send(`{"jsonrpc":"2.0","id":` + id + `,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"hello"}]}}`)
				line := c.receiveUntil(tt.shown)
				switch {
				case tt.answer != "":
					c.send(`{"jsonrpc":"2.0","id":` + requestID(line) + `,"result":` + tt.answer + `}`)
				case strings.Contains(line, `"elicitation/create"`):
					c.send(`{"jsonrpc":"2.0","id":` + requestID(line) + `,"error":{"code":-32601,"message":"unknown"}}`)
				}
				if tt.want != "" {
					c.receiveUntil(tt.want)
				}
				if line := c.receiveUntil(`"id":` + id); !strings.Contains(line, "end_turn") {
					t.Errorf("prompt %s is answered with %s", id, line)
				}
			}
			c.end()
			if calls != 2 {
				t.Errorf("%d authorizations, want one for each prompt", calls)
			}
		})
	}
}

// requestID returns the ID in an agent's request.
func requestID(line string) string {
	_, rest, _ := strings.Cut(line, `"id":`)
	return rest[:strings.IndexAny(rest, ",}")]
}
