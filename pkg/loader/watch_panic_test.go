package loader

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
)

// TestWatchLoadPanics expects a panic during a load to be only that app's problem. Its last good
// revision keeps serving, and other apps load.
func TestWatchLoadPanics(t *testing.T) {
	s := newWatchEnv(t)
	var log bytes.Buffer
	l := New(listKinds(), &Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), WrapModel: func(m model.LLM) model.LLM {
		if m.Name() == "gemini-panics" {
			panic("nil map")
		}
		return m
	}})
	s.watch = NewWatch(l, s.host, []string{s.top}, &WatchOptions{Clock: s.clock})
	s.writeFile("x/root_agent.yaml", agentYAML("one"))
	s.must(s.watch.Sync(t.Context()))
	before, _ := s.watch.Status("x")
	s.writeFile("x/root_agent.yaml", agentYAML("two")+"model: gemini-panics\n")
	s.writeFile("y/root_agent.yaml", agentYAML("new"))
	s.pollAndExpect(3, "y new")
	st, _ := s.watch.Status("x")
	if want := "loading the app panicked, which is a bug in agenthost: panic: nil map"; st.OK || st.Revision != before.Revision || !strings.Contains(st.Diagnostics.Error(), want) {
		t.Errorf("Status = OK %v, revision %s, %s; want the revision %s and %q", st.OK, st.Revision, st.Diagnostics.Error(), before.Revision, want)
	}
	if !strings.Contains(log.String(), "watch_panic_test.go") {
		t.Errorf("log %s\nlacks the stack of the panic", log.String())
	}
	s.writeFile("x/root_agent.yaml", agentYAML("three"))
	s.pollAndExpect(2, "x three")
}

// A panickingHost panics at the first swap.
type panickingHost struct {
	*recorder
	given int
}

func (h *panickingHost) Swap(app *runtime.App) {
	if h.given++; h.given == 1 {
		panic("nil map")
	}
	h.recorder.Swap(app)
}

// TestWatchRunPanics expects the watch to survive a panic during a poll, and to load
// the next change.
func TestWatchRunPanics(t *testing.T) {
	s := newWatchEnv(t)
	s.writeFile("x/root_agent.yaml", agentYAML("one"))
	s.host.eventChannel = make(chan string)
	s.watch = NewWatch(New(listKinds(), nil), &panickingHost{recorder: s.host}, []string{s.top}, &WatchOptions{Settle: time.Millisecond, Poll: 5 * time.Millisecond})
	ctx, stop := withDeadline(t)
	ended := make(chan error)
	go func() { ended <- s.watch.Run(ctx) }()
	for n, got := 0, ""; got == ""; n++ {
		s.writeFile("x/root_agent.yaml", agentYAML(fmt.Sprint("again ", n)))
		select {
		case got = <-s.host.eventChannel:
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the watch ended after the panic")
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}
