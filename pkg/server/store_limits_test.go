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

// A request whose state, event or session would exceed a limit of the store is
// 413, nothing of it is stored, and the session stays usable. What an agent writes
// too much of ends its run with an error event.
func TestStoreLimits(t *testing.T) {
	e := newEnvWith(t, "memory:", &store.Options{MaxStateBytes: 1 << 10, MaxEventBytes: 4 << 10, MaxSessionBytes: 16 << 10}, nil)
	e.addLLMApp(t, "hello", &runtime.LLMOptions{Model: lengthModel{}})
	const path = "/apps/hello/users/u/sessions"
	long := func(n int) string { return strings.Repeat("x", n) }
	refused := func(what string) string { return fmt.Sprintf(`{"detail":"%s"}`, what) }
	state := func(scope string) string { return refused("state of the " + scope + " exceeds the limit of 1 KiB") }
	said := func(text string) string {
		return fmt.Sprintf(`{"author":"user","content":{"role":"user","parts":[{"text":%q}]}}`, text)
	}

	expectResponse(t, e.serve("POST", path, `{"sessionId":"s","state":{"k":"`+long(2000)+`"}}`), 413, state("session"))
	expectResponse(t, e.serve("POST", path+"/s", `{"user:k":"`+long(2000)+`"}`), 413, state("user"))
	expectResponse(t, e.serve("POST", path, `{"sessionId":"s","events":[`+said("hi")+`,`+said(long(5000))+`]}`), 413, refused("event exceeds the limit of 4 KiB"))
	if w := e.serve("GET", path+"/s", ""); w.Code != 404 {
		t.Errorf("GET = %d %s, want no session", w.Code, w.Body)
	}
	if w := e.serve("POST", path+"/s", `{"k":1}`); w.Code != 200 {
		t.Errorf("POST = %d %s", w.Code, w.Body)
	}
	before := e.serve("GET", path+"/s", "").Body.String()
	expectResponse(t, e.serve("PATCH", path+"/s", `{"stateDelta":{"app:k":"`+long(2000)+`"}}`), 413, state("app"))
	expectResponse(t, e.serve("POST", "/run", strings.TrimSuffix(runBody("hello", "s", "hi"), "}")+`,"stateDelta":{"k":"`+long(2000)+`"}}`), 413, state("session"))
	expectResponse(t, e.serve("POST", "/run", runBody("hello", "s", long(5000))), 413, refused("event exceeds the limit of 4 KiB"))
	if after := e.serve("GET", path+"/s", "").Body.String(); after != before {
		t.Errorf("the session is %s\nwant %s", after, before)
	}

	// The model's answer is as long as it is asked to be.
	w := e.serve("POST", "/run_sse", runBody("hello", "s", "say 5000"))
	if !strings.Contains(w.Body.String(), `"errorCode":"EVENT_REFUSED"`) || !strings.Contains(w.Body.String(), "event exceeds the limit of 4 KiB") {
		t.Errorf("run = %d %.500s", w.Code, w.Body)
	}
	for range 10 {
		w = e.serve("POST", "/run", runBody("hello", "s", "say 3000"))
		if w.Code != 200 {
			break
		}
	}
	expectResponse(t, e.serve("POST", "/run", runBody("hello", "s", long(3000))), 413, refused("session exceeds the limit of 16 KiB: start a new session"))
	e.createSession(t, "hello", "new")
	if w := e.serve("POST", "/run", runBody("hello", "new", "say 10")); w.Code != 200 {
		t.Errorf("run in a new session = %d %s", w.Code, w.Body)
	}
}

// lengthModel answers "say N" with N characters.
type lengthModel struct{}

func (lengthModel) Name() string { return "talkative" }

func (lengthModel) Generate(_ context.Context, req *model.Request) iter.Seq2[*model.Response, error] {
	return func(yield func(*model.Response, error) bool) {
		last := req.Contents[len(req.Contents)-1]
		var n int
		fmt.Sscanf(last.Parts[0].Text, "say %d", &n)
		yield(&model.Response{Content: model.ModelText(strings.Repeat("x", n+1))}, nil)
	}
}
