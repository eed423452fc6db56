package openaiserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
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
		`"store":false`: "store must be true for a response in the background",
	} {
		if _, failure := readResponse(t, e, http.MethodPost, "/v1/responses", tokenOfU, `{"model":"desk","background":true,"input":"x",`+body+`}`); !strings.Contains(failure, want) {
			t.Errorf("%s: %s", body, failure)
		}
	}
}

// readStream returns the events in a stream.
func readStream(t *testing.T, e *servertest.Env, method, path, body string) []string {
	t.Helper()
	w := send(e, method, path, tokenOfU, body)
	if got := w.Header().Get("Content-Type"); w.Code != http.StatusOK || got != "text/event-stream; charset=utf-8" {
		t.Fatalf("%s %s: %d %s %s", method, path, w.Code, got, w.Body)
	}
	return slices.DeleteFunc(strings.Split(w.Body.String(), "\n\n"), func(text string) bool { return strings.TrimSpace(text) == "" })
}

// A response in the background that is streamed has the same events for every reader: a client that was cut
// off continues after the last one that it has, and one that has them all gets none. Another user's is not
// found.
func TestFollow(t *testing.T) {
	e := newEnv(t, newAuth(t))
	all := joinDeltas(t, readStream(t, e, http.MethodPost, "/v1/responses", `{"model":"desk","background":true,"stream":true,"input":"I think"}`))
	if want := []string{"created", "in_progress", "output_item.added", "completed"}; len(all) < 10 || !strings.HasPrefix(all[0], "event: response."+want[0]) ||
		!strings.HasPrefix(all[1], "event: response."+want[1]) || !strings.HasPrefix(all[2], "event: response."+want[2]) || !strings.HasPrefix(all[len(all)-1], "event: response."+want[3]) {
		t.Fatalf("the stream: %s", strings.Join(all, "\n"))
	}
	_, rest, _ := strings.Cut(all[0], `"response":{"id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	path := "/v1/responses/" + id + "?stream=true"
	if got := readStream(t, e, http.MethodGet, path, ""); !slices.Equal(got, all) {
		t.Errorf("read again:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(all, "\n"))
	}
	for i, text := range all {
		if got := readStream(t, e, http.MethodGet, fmt.Sprintf("%s&starting_after=%d", path, readSent(t, text).Number), ""); !slices.Equal(got, all[i+1:]) {
			t.Errorf("after %s: %s", text, strings.Join(got, "\n"))
		}
	}
	if got := readStream(t, e, http.MethodGet, path+"&starting_after=9999", ""); !slices.Equal(got, all[len(all)-1:]) {
		t.Errorf("after an event that does not exist: %s", strings.Join(got, "\n"))
	}
	for query, want := range map[string]string{
		"?stream=maybe":                  `400 {"error":{"message":"stream must be true or false, got \"maybe\"","type":"invalid_request_error","param":"stream","code":null}}`,
		"?stream=true&starting_after=-1": `400 {"error":{"message":"starting_after must be a sequence number, got \"-1\"","type":"invalid_request_error","param":"starting_after","code":null}}`,
		"?starting_after=1":              `400 {"error":{"message":"starting_after requires stream=true","type":"invalid_request_error","param":"starting_after","code":null}}`,
	} {
		if w := send(e, http.MethodGet, "/v1/responses/"+id+query, tokenOfU, ""); fmt.Sprintf("%d %s", w.Code, w.Body) != want {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	if w := send(e, http.MethodGet, path, tokenOfV, ""); w.Code != http.StatusNotFound {
		t.Errorf("another user follows: %d %s", w.Code, w.Body)
	}
	failed := readStream(t, e, http.MethodPost, "/v1/responses", `{"model":"desk","background":true,"stream":true,"input":"fail"}`)
	if last := failed[len(failed)-1]; !strings.HasPrefix(last, "event: response.failed") || !strings.Contains(last, "the model is broken") {
		t.Errorf("a failed response ends with %s", last)
	}
}

// A stream that follows a response ends when it is canceled, by another request and for a follower on
// another replica too, whose host reads the same store.
func TestFollowCanceled(t *testing.T) {
	url, auth := "sqlite:///"+filepath.Join(t.TempDir(), "s.db"), newAuth(t)
	e, other := newReplica(t, auth, url), newReplica(t, auth, url)
	started, failure := readResponse(t, e, http.MethodPost, "/v1/responses", tokenOfU, `{"model":"desk","background":true,"input":"wait"}`)
	if started == nil {
		t.Fatal(failure)
	}
	path := "/v1/responses/" + started.ID
	streams := make(chan string, 2)
	for _, replica := range []*servertest.Env{e, other} {
		go func() {
			streams <- send(replica, http.MethodGet, path+"?stream=true&starting_after=1", tokenOfU, "").Body.String()
		}()
	}
	if _, failure := readResponse(t, e, http.MethodPost, path+"/cancel", tokenOfU, "{}"); failure != "" {
		t.Fatal(failure)
	}
	for range 2 {
		if got := <-streams; strings.Count(got, "event: ") != 1 || !strings.HasPrefix(got, "event: response.incomplete") || !strings.Contains(got, `"status":"cancelled"`) {
			t.Errorf("the stream of a canceled response: %s", got)
		}
	}
}
