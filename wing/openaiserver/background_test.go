package openaiserver_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"agenthost/internal/servertest"
)

// A sentResponse is a response on the wire.
type sentResponse struct {
	ID, Status string
	Background bool
	Output     []struct {
		Type    string
		Content []struct{ Text string }
	}
	Error *struct{ Message string }
}

func readResponse(t *testing.T, e *servertest.Env, method, path, token, body string) (*sentResponse, string) {
	t.Helper()
	w := send(e, method, path, token, body)
	answer := &sentResponse{}
	if w.Code != http.StatusOK {
		return nil, w.Body.String()
	}
	if err := json.Unmarshal(w.Body.Bytes(), answer); err != nil {
		t.Fatal(err)
	}
	return answer, ""
}

// A response in the background is read by its ID until it is complete or failed, or asks; a canceled one
// stays canceled. Another user's response is not found, and a complete one cannot be canceled.
func TestBackground(t *testing.T) {
	e := newEnv(t, newAuth(t))
	t.Cleanup(func() {
		e.Server.Drain()
		e.Server.Abort()
		_ = e.Server.Wait(context.Background())
	})
	start := func(input string) *sentResponse {
		t.Helper()
		r, failure := readResponse(t, e, http.MethodPost, "/v1/responses", tokenOfU, `{"model":"desk","background":true,"input":"`+input+`"}`)
		if r == nil || r.Status != "in_progress" || !r.Background || len(r.Output) > 0 {
			t.Fatalf("%s: %+v %s", input, r, failure)
		}
		return r
	}
	wait := func(id string) *sentResponse {
		t.Helper()
		for {
			r, failure := readResponse(t, e, http.MethodGet, "/v1/responses/"+id, tokenOfU, "")
			if r == nil {
				t.Fatal(failure)
			}
			if r.Status != "in_progress" {
				return r
			}
		}
	}
	done := wait(start("hello").ID)
	if done.Status != "completed" || done.Output[0].Content[0].Text != "You wrote: hello" {
		t.Errorf("a complete response: %+v", done)
	}
	if failed := wait(start("fail").ID); failed.Status != "failed" || failed.Error.Message != "model scripted failed: the model is broken" {
		t.Errorf("a failed response: %+v", failed)
	}
	if asks := wait(start("refund").ID); asks.Status != "completed" || asks.Output[len(asks.Output)-1].Type != "mcp_approval_request" {
		t.Errorf("a response that asks: %+v", asks)
	}
	running := start("wait")
	if r, failure := readResponse(t, e, http.MethodPost, "/v1/responses/"+running.ID+"/cancel", tokenOfV, "{}"); r != nil || !strings.Contains(failure, "not found") {
		t.Errorf("another user cancels: %+v %s", r, failure)
	}
	if r, failure := readResponse(t, e, http.MethodPost, "/v1/responses/"+running.ID+"/cancel", tokenOfU, "{}"); r == nil || r.Status != "cancelled" {
		t.Errorf("a canceled response: %+v %s", r, failure)
	}
	if r := wait(running.ID); r.Status != "cancelled" {
		t.Errorf("read again: %+v", r)
	}
	if _, failure := readResponse(t, e, http.MethodPost, "/v1/responses/"+done.ID+"/cancel", tokenOfU, "{}"); !strings.Contains(failure, "Only a response in progress can be canceled") {
		t.Errorf("a complete response is canceled: %s", failure)
	}
	asks, _ := readResponse(t, e, http.MethodPost, "/v1/responses", tokenOfU, `{"model":"desk","conversation":"c1","input":"refund"}`)
	run := `{"appName":"desk","userId":"u","sessionId":"c1","newMessage":{"role":"user","parts":[{"text":"hello"}]}}`
	if w := send(e, http.MethodPost, "/run", tokenOfU, run); w.Code != http.StatusOK {
		t.Fatal(w.Code, w.Body)
	}
	if _, failure := readResponse(t, e, http.MethodPost, "/v1/responses/"+asks.ID+"/cancel", tokenOfU, "{}"); !strings.Contains(failure, "The response cannot be canceled: a later one has begun in its conversation") {
		t.Errorf("an earlier response is canceled: %s", failure)
	}
	for body, want := range map[string]string{
		`"stream":true`: "stream must be false for a response in the background: read it by its ID",
		`"store":false`: "store must be true for a response in the background",
	} {
		if _, failure := readResponse(t, e, http.MethodPost, "/v1/responses", tokenOfU, `{"model":"desk","background":true,"input":"x",`+body+`}`); !strings.Contains(failure, want) {
			t.Errorf("%s: %s", body, failure)
		}
	}
}
