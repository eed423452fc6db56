package a2aagent_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agenthost/pkg/model"
)

// serveQuestion serves an agent that wrote something before its question. Each stream for the answer is
// what continued has; it may begin with the task as the question left it.
func serveQuestion(t *testing.T, continued ...string) *httptest.Server {
	const before = `"artifacts":[{"artifactId":"a","parts":[{"text":"Two "},{"text":"orders."}]}]`
	const task = `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":{"messageId":"q","role":"ROLE_AGENT","parts":[{"text":"Which order?"}]}},` + before + `}`
	return serveCalls(t, func(w http.ResponseWriter, call rpcCall) {
		if call.Method == "GetTask" {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":%s}`, call.ID, task)
			return
		}
		events := []string{`{"task":` + task + `}`}
		if call.Params.Message.TaskID != "" {
			events = continued
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, ev := range events {
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", call.ID, strings.ReplaceAll(ev, "BEFORE", task))
		}
	})
}

// A rpcCall is a request over JSON-RPC.
type rpcCall struct {
	ID     json.RawMessage
	Method string
	Params struct {
		Message struct {
			TaskID string `json:"taskId"`
		}
	}
}

func serveCalls(t *testing.T, answer func(http.ResponseWriter, rpcCall)) *httptest.Server {
	var s *httptest.Server
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/card.json" {
			_, _ = fmt.Fprint(w, plainCard(s.URL))
			return
		}
		var call rpcCall
		_ = json.NewDecoder(r.Body).Decode(&call)
		answer(w, call)
	}))
	t.Cleanup(s.Close)
	return s
}

// The stream for an answer may begin with the task that still waits: the answer is what follows, without
// what the agent wrote before its question. A task that still waits at the end repeats the question.
func TestContinuedTask(t *testing.T) {
	const done = `{"statusUpdate":{"taskId":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}}`
	for _, tt := range []struct {
		name, want string
		continued  []string
	}{
		{"the task, and the answer", "It comes on Monday.", []string{
			`{"task":BEFORE}`, `{"artifactUpdate":{"taskId":"t","contextId":"c","artifact":{"artifactId":"b","parts":[{"text":"It comes on Monday."}]}}}`, done,
		}},
		{"more of the same artifact", " It comes on Monday.", []string{
			`{"task":BEFORE}`, `{"artifactUpdate":{"taskId":"t","contextId":"c","append":true,"artifact":{"artifactId":"a","parts":[{"text":" It comes on Monday."}]}}}`, done,
		}},
		{"the whole task", "It comes on Monday.", []string{
			`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"Two orders."}]},{"artifactId":"b","parts":[{"text":"It comes on Monday."}]}]}}`,
		}},
		{"the task only", `adk_request_input{"message":"Which order?"}`, []string{`{"task":BEFORE}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := newEnv(t, serveQuestion(t, tt.continued...).URL+"/card.json", "")
			const asked = `Two orders. + adk_request_input{"message":"Which order?"}`
			if got := e.send(t.Context(), model.UserText("hi"), false); got != asked {
				t.Fatalf("question: %s\nwant %s", got, asked)
			}
			if got := e.send(t.Context(), e.answerOpenCall(t, map[string]any{"result": "the blue one"}), false); got != tt.want {
				t.Errorf("answer: %s\nwant %s", got, tt.want)
			}
		})
	}
}

// A server that has a card for each version sends the one of 1.0.
func TestCardVersion(t *testing.T) {
	var versions []string
	s := serveRaw(t, plainCard, func(w http.ResponseWriter, id string) {
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"message":{"messageId":"m","role":"ROLE_AGENT","parts":[{"text":"Hello."}]}}}`, id)
	})
	next := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		versions = append(versions, r.URL.Path+" "+r.Header.Get("A2A-Version"))
		next.ServeHTTP(w, r)
	})
	newEnv(t, s.URL+"/card.json", "").send(t.Context(), model.UserText("hi"), false)
	if want := []string{"/card.json 1.0", "/rpc 1.0"}; !cmp.Equal(versions, want) {
		t.Errorf("versions %q, want %q", versions, want)
	}
}
