package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
)

// liveText returns a stored event from the user or the model.
func liveText(id, author, text string) liveEvent {
	ev := liveEvent{ID: id, Author: author}
	if author == "user" {
		ev.Content.Parts = append(ev.Content.Parts, struct {
			Text             string
			InlineData       *struct{}
			FunctionCall     *struct{ ID string }
			FunctionResponse *struct{ ID string }
		}{Text: text})
		return ev
	}
	ev.OutputTranscription.Text = text
	return ev
}

func liveCall(id string, call, response bool) liveEvent {
	ev := liveText(id, "user", "")
	ev.Author = "agent"
	name := &struct{ ID string }{callID("k1c1-t1.1")}
	if call {
		ev.Content.Parts[0].FunctionCall = name
	}
	if response {
		ev.Content.Parts[0].FunctionResponse = name
	}
	return ev
}

// TestLiveHistory: the check finds each alteration in a correct history.
func TestLiveHistory(t *testing.T) {
	interrupted := liveText("4", "agent", "Answer k1c1-t1.1: first half,")
	interrupted.Interrupted = true
	events := []liveEvent{
		liveText("1", "user", "wait k1c1-t0.1"),
		liveText("2", "user", "call k1c1-t1.1"), liveCall("3", true, false), interrupted, liveCall("5", false, true),
		liveText("6", "agent", fullAnswer("k1c1-t1.1")),
		liveText("7", "user", "text k1c1-t2.1"), liveText("8", "agent", fullAnswer("k1c1-t2.1")),
	}
	turns := []*liveTurn{{turnWait, "k1c1-t0", 1}, {turnCall, "k1c1-t1", 1}, {turnText, "k1c1-t2", 2}}
	received := []string{"3", "5", "8"}
	if v := checkLiveHistory(turns, events, received); v.countAll() > 0 {
		t.Fatalf("a correct history: %q", v.details)
	}
	again := func(i int) []liveEvent {
		ev := events[i]
		ev.ID += "-again"
		return append(slices.Clone(events), ev)
	}
	without := func(i int) []liveEvent { return slices.Delete(slices.Clone(events), i, i+1) }
	swapped := func(i, j int) []liveEvent {
		all := slices.Clone(events)
		all[i], all[j] = all[j], all[i]
		return all
	}
	for _, c := range []struct {
		name   string
		events []liveEvent
		want   [4]int // lost, doubled, misplaced, unanswered
	}{
		{"input twice", again(1), [4]int{0, 1, 0, 0}},
		{"answer twice", again(5), [4]int{0, 1, 0, 0}},
		{"call twice", again(2), [4]int{0, 1, 0, 0}},
		{"response twice", again(4), [4]int{0, 1, 0, 0}},
		{"event twice", append(slices.Clone(events), events[3]), [4]int{0, 1, 0, 0}},
		{"response missing", without(4), [4]int{1, 0, 0, 1}},
		{"answer missing", without(5), [4]int{0, 0, 0, 1}},
		{"answer before its input", swapped(6, 7), [4]int{0, 0, 1, 0}},
		{"call after its response", swapped(2, 4), [4]int{1, 0, 1, 0}},
		{"turns in another order", swapped(0, 1), [4]int{0, 0, 1, 0}},
	} {
		v := checkLiveHistory(turns, c.events, received)
		if got := [4]int{v.lost, v.doubled, v.misplaced, v.unanswered}; got != c.want {
			t.Errorf("%s: %v, want %v\n%s", c.name, got, c.want, strings.Join(v.details, "\n"))
		}
	}
	names := slices.Sorted(maps.Keys(alterHistory(turns, events, received)))
	for _, name := range names {
		if v := checkLiveHistory(turns, alterHistory(turns, events, received)[name], received); v.countAll() == 0 {
			t.Errorf("%s: not detected", name)
		}
	}
	if len(names) != 4 {
		t.Errorf("alterations %q, want 4", names)
	}
}

// TestLiveUse: a goroutine, a file handle or memory beyond the bounds is growth.
func TestLiveUse(t *testing.T) {
	warm := liveUse{20, 12, 30}
	for _, c := range []struct {
		use  liveUse
		want bool
	}{
		{warm, false},
		{liveUse{20 + moreLiveGoroutines, 12 + moreHandles, 30 + moreLiveMB}, false},
		{liveUse{21 + moreLiveGoroutines, 12, 30}, true},
		{liveUse{20, 13 + moreHandles, 30}, true},
		{liveUse{20, 12, 31 + moreLiveMB}, true},
	} {
		if got := c.use.hasGrown(warm); got != c.want {
			t.Errorf("%v after %v: growth %v", c.use, warm, got)
		}
	}
}

// TestReadFrame: frames with all lengths are forwarded as they came, and unmasked for the hook.
func TestReadFrame(t *testing.T) {
	for _, size := range []int{0, 5, 125, 126, 70000} {
		ours, theirs := net.Pipe()
		payload := strings.Repeat("x", size)
		go func() {
			defer ours.Close()
			head := []byte{0x82, 0xff, 0, 0, 0, 0, 0, byte(size >> 16), byte(size >> 8), byte(size), 1, 2, 3, 4}
			switch {
			case size < 126:
				head = []byte{0x82, 0x80 | byte(size), 1, 2, 3, 4}
			case size < 1<<16:
				head = []byte{0x82, 0xfe, byte(size >> 8), byte(size), 1, 2, 3, 4}
			}
			masked := []byte(payload)
			for i := range masked {
				masked[i] ^= byte(i%4 + 1)
			}
			ours.Write(append(head, masked...))
		}()
		f, err := readFrame(theirs)
		if err != nil || !f.hasData() || string(f.unmaskPayload()) != payload {
			t.Errorf("%d bytes: %v, %d bytes of payload", size, err, len(f.unmaskPayload()))
		}
		theirs.Close()
	}
	if _, err := readFrame(bytes.NewReader([]byte{0x82, 0x7f, 1, 0, 0, 0, 0, 0, 0, 0})); err == nil {
		t.Error("a frame of 2^56 bytes was read")
	}
	if _, err := readFrame(bytes.NewReader([]byte{0x82})); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a truncated frame: %v", err)
	}
}

// TestFrameProxy: the proxy finds the conversation, counts its messages, and cuts it.
func TestFrameProxy(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		socket, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		for err == nil {
			var text []byte
			if _, text, err = socket.Read(r.Context()); err == nil {
				err = socket.Write(r.Context(), websocket.MessageText, text)
			}
		}
	}))
	defer server.Close()
	seen := make(chan string, 10)
	p, err := newFrameProxy(func(conversation string) bool {
		seen <- conversation
		return len(seen) < 4
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.closeAll()
	p.setServer(server.URL)
	socket, _, err := websocket.Dial(t.Context(), p.url+"/run_live?session_id=k1c2", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.CloseNow()
	if err := socket.Write(t.Context(), websocket.MessageText, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	if _, text, err := socket.Read(t.Context()); err != nil || string(text) != "hello" {
		t.Fatalf("read %q: %v", text, err)
	}
	_ = socket.Write(t.Context(), websocket.MessageText, []byte("third"))
	if _, _, err := socket.Read(t.Context()); err == nil {
		t.Error("the fourth message was not cut")
	}
	var names []string
	for range 4 {
		names = append(names, <-seen)
	}
	if diff := cmp.Diff([]string{"k1c2", "k1c2", "k1c2", "k1c2"}, names); diff != "" {
		t.Error(diff)
	}
	if n := p.countOpened("k1c2"); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// TestToolServer: a call with two idempotency keys is executed twice, one with a repeated key
// is not.
func TestToolServer(t *testing.T) {
	s := &toolServer{keys: map[string]map[string]int{}}
	for _, call := range [][2]string{{"a", "1"}, {"a", "1"}, {"b", "2"}, {"b", "3"}} {
		s.recordCall(call[0], call[1])
	}
	calls, requests, doubled := s.countCalls()
	if got := fmt.Sprint(calls, requests, doubled); got != "2 4 1" {
		t.Errorf("calls, requests, doubled: %s, want 2 4 1", got)
	}
}
