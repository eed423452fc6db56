package live_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/wing/live"
)

// TestIsRecoverable: a conversation continues after the ends that do not blame what was sent.
func TestIsRecoverable(t *testing.T) {
	for code, want := range map[int]bool{1000: true, 1001: true, 1006: true, 1007: false, 1008: false, 1011: true, 1012: true, 1013: true, 4000: false} {
		err := fmt.Errorf("receiving: %w", &model.LiveCloseError{Code: code})
		if got := live.IsRecoverable(err); got != want {
			t.Errorf("IsRecoverable(%d) = %v, want %v", code, got, want)
		}
	}
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false},
		{context.Canceled, false},
		{errors.New("connection reset by peer"), true},
		{&model.Error{Code: 401}, false},
		{&model.Error{Code: 429}, true},
		{&model.Error{Code: 503}, true},
	} {
		if got := live.IsRecoverable(c.err); got != c.want {
			t.Errorf("IsRecoverable(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}

// TestReconnects: the delay doubles from 0.1 seconds, five failures in a row end the run, and a
// connection that lived five seconds or completed a turn starts over.
func TestReconnects(t *testing.T) {
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	r := &live.Reconnects{Random: func() float64 { return 1 }}
	for i, want := range []time.Duration{100, 200, 400, 800} {
		r.Opened(now)
		r.Ended(time.Second, false)
		if delay, ok := r.Next(now); !ok || delay != want*time.Millisecond {
			t.Errorf("delay %d = %v, %v; want %v", i, delay, ok, want*time.Millisecond)
		}
	}
	r.Ended(0, false)
	if _, ok := r.Next(now); ok {
		t.Error("five failures did not end the run")
	}
	r.Ended(0, true)
	if _, ok := r.Next(now); !ok {
		t.Error("a complete turn did not start over")
	}
}

// TestReconnectsPerMinute: a run opens at most twelve connections a minute, also useful ones.
func TestReconnectsPerMinute(t *testing.T) {
	now := time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC)
	r := &live.Reconnects{}
	for range live.MaxConnectsPerMinute {
		r.Opened(now)
		r.Ended(0, true)
	}
	if _, ok := r.Next(now); ok {
		t.Error("the thirteenth connection of a minute was allowed")
	}
	if _, ok := r.Next(now.Add(time.Minute)); !ok {
		t.Error("a minute later, no connection was allowed")
	}
}

func textFrame(text string) *model.LiveFrame {
	return &model.LiveFrame{Turns: []*genai.Content{model.UserText(text)}, TurnComplete: true}
}

func audioFrame(size int) *model.LiveFrame {
	return &model.LiveFrame{Blob: &genai.Blob{MIMEType: "audio/pcm", Data: make([]byte, size)}}
}

// sendAll sends every frame that waits, and returns texts and sizes.
func sendAll(o *live.Outbox, now time.Time) string {
	text := ""
	for f := o.Next(now); f != nil; f = o.Next(now) {
		if f.Blob != nil {
			text += fmt.Sprint(len(f.Blob.Data), " ")
		} else {
			text += f.Turns[0].Parts[0].Text + " "
		}
		o.Sent()
	}
	return text
}

// TestOutboxAudio: audio that waits for a slow model is dropped, oldest first; texts are not.
func TestOutboxAudio(t *testing.T) {
	now := time.Now()
	o := live.NewOutbox()
	o.Push(textFrame("a"), true, now)
	for i := range 3 {
		o.Push(audioFrame(500_000+i), false, now)
	}
	o.Push(textFrame("b"), true, now)
	if got, want := sendAll(o, now), "a 500001 500002 b "; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	if o.Dropped() != 1 {
		t.Errorf("dropped %d, want 1", o.Dropped())
	}
}

// TestOutboxResume: without counting, the next connection gets the texts that no complete
// turn answers, and audio that is younger than two seconds and was not sent.
func TestOutboxResume(t *testing.T) {
	now := time.Now()
	o := live.NewOutbox()
	o.Push(textFrame("answered"), true, now)
	sendAll(o, now)
	o.BeginTurn()
	o.Push(textFrame("during"), true, now)
	o.Push(audioFrame(1), false, now)
	sendAll(o, now)
	o.CompleteTurn()
	o.Push(audioFrame(2), false, now.Add(-3*time.Second))
	o.Push(audioFrame(3), false, now)
	o.Resume(false, now)
	if got, want := sendAll(o, now), "during 3 "; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// TestOutboxReplay: a model that counts frames gets every frame after those it has consumed.
func TestOutboxReplay(t *testing.T) {
	now := time.Now()
	o := live.NewOutbox()
	o.Restart(true, now)
	for i := range 4 {
		o.Push(audioFrame(i+1), false, now)
	}
	sendAll(o, now)
	o.Confirm(2)
	o.Resume(true, now)
	if got, want := sendAll(o, now), "3 4 "; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// TestOutboxRestart: a new conversation begins with the history, which contains the frames that the
// session has stored.
func TestOutboxRestart(t *testing.T) {
	now := time.Now()
	o := live.NewOutbox()
	o.Push(textFrame("stored"), true, now)
	o.Push(textFrame("partial"), false, now)
	o.Restart(false, now)
	o.Seed(textFrame("history"), textFrame("continue"), now)
	if got, want := sendAll(o, now), "history continue partial "; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// The texts and responses that wait for a model are bounded by their size.
func TestOutboxBytes(t *testing.T) {
	for name, frame := range map[string]*model.LiveFrame{
		"text":     {Turns: []*genai.Content{model.UserText(strings.Repeat("a", 2<<20))}},
		"response": {Responses: []*genai.FunctionResponse{{ID: "1", Response: map[string]any{"a": []any{strings.Repeat("a", 2<<20)}}}}},
	} {
		o := live.NewOutbox()
		o.Push(frame, true, time.Now())
		if !o.HasSpace() {
			t.Errorf("%s: no space for a second frame", name)
		}
		o.Push(frame, true, time.Now())
		if o.HasSpace() {
			t.Errorf("%s: space for a third frame", name)
		}
		o.Next(time.Now())
		if !o.HasSpace() {
			t.Errorf("%s: no space after sending", name)
		}
	}
}

// A connection fits into the limit per minute again when the oldest is a minute old.
func TestReconnectsBudget(t *testing.T) {
	var r live.Reconnects
	start := time.Unix(0, 0)
	for i := range live.MaxConnectsPerMinute {
		if !r.HasBudget(start) {
			t.Fatalf("no budget after %d connections", i)
		}
		r.Opened(start)
	}
	if r.HasBudget(start.Add(59*time.Second)) || !r.HasBudget(start.Add(time.Minute)) {
		t.Error("the limit is not that of a minute")
	}
}
