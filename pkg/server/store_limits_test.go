package server_test

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

// A request that exceeds a limit of the store gets 413, stores nothing and leaves the
// session usable. An agent that exceeds a limit ends its run with an error event.
func TestStoreLimits(t *testing.T) {
	e := newEnvWith(t, "memory:", &store.Options{MaxStateBytes: 1 << 10, MaxEventBytes: 4 << 10, MaxSessionBytes: 16 << 10}, nil)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: lengthModel{}})
	const path = "/apps/hello/users/u/sessions"
	long := func(n int) string { return strings.Repeat("x", n) }
	tooLarge := func(what string) string { return fmt.Sprintf(`{"detail":"%s"}`, what) }
	state := func(scope string) string { return tooLarge("state of the " + scope + " exceeds the limit of 1 KiB") }
	userEvent := func(text string) string {
		return fmt.Sprintf(`{"author":"user","content":{"role":"user","parts":[{"text":%q}]}}`, text)
	}

	expectResponse(t, e.serve("POST", path, `{"sessionId":"s","state":{"k":"`+long(2000)+`"}}`), 413, state("session"))
	expectResponse(t, e.serve("POST", path+"/s", `{"user:k":"`+long(2000)+`"}`), 413, state("user"))
	expectResponse(t, e.serve("POST", path, `{"sessionId":"s","events":[`+userEvent("hi")+`,`+userEvent(long(5000))+`]}`), 413, tooLarge("event exceeds the limit of 4 KiB"))
	if w := e.serve("GET", path+"/s", ""); w.Code != 404 {
		t.Errorf("GET = %d %s, want no session", w.Code, w.Body)
	}
	if w := e.serve("POST", path+"/s", `{"k":1}`); w.Code != 200 {
		t.Errorf("POST = %d %s", w.Code, w.Body)
	}
	before := e.serve("GET", path+"/s", "").Body.String()
	expectResponse(t, e.serve("PATCH", path+"/s", `{"stateDelta":{"app:k":"`+long(2000)+`"}}`), 413, state("app"))
	expectResponse(t, e.serve("POST", "/run", strings.TrimSuffix(runBody("hello", "s", "hi"), "}")+`,"stateDelta":{"k":"`+long(2000)+`"}}`), 413, state("session"))
	expectResponse(t, e.serve("POST", "/run", runBody("hello", "s", long(5000))), 413, tooLarge("event exceeds the limit of 4 KiB"))
	if after := e.serve("GET", path+"/s", "").Body.String(); after != before {
		t.Errorf("the session is %s\nwant %s", after, before)
	}

	// The model responds with the requested number of characters.
	w := e.serve("POST", "/run_sse", runBody("hello", "s", "repeat 5000"))
	if !strings.Contains(w.Body.String(), `"errorCode":"EVENT_REFUSED"`) || !strings.Contains(w.Body.String(), "event exceeds the limit of 4 KiB") {
		t.Errorf("run = %d %.500s", w.Code, w.Body)
	}
	for range 10 {
		w = e.serve("POST", "/run", runBody("hello", "s", "repeat 3000"))
		if w.Code != 200 {
			break
		}
	}
	expectResponse(t, e.serve("POST", "/run", runBody("hello", "s", long(3000))), 413, tooLarge("session exceeds the limit of 16 KiB: start a new session"))
	e.createSession(t, "hello", "new")
	if w := e.serve("POST", "/run", runBody("hello", "new", "repeat 10")); w.Code != 200 {
		t.Errorf("run in a new session = %d %s", w.Code, w.Body)
	}
}

// lengthModel responds to "repeat N" with N+1 characters.
type lengthModel struct{}

func (lengthModel) Name() string { return "length" }

func (lengthModel) Generate(_ context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		last := req.Contents[len(req.Contents)-1]
		var n int
		fmt.Sscanf(last.Parts[0].Text, "repeat %d", &n)
		yield(&model.Response{Content: model.ModelText(strings.Repeat("x", n+1))}, nil)
	}
}
