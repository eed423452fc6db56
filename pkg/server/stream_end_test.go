package server

import (
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/pkg/session"
)

// Writing to an ended stream, such as its header, does not restart the keep-alive
// timer.
func TestEndedStreamKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := &Server{opts: Options{KeepAlive: time.Second, WriteTimeout: time.Second}}
		st := s.newStream(w, true)
		end := st.startKeepAlive(func() {})
		<-time.After(1500 * time.Millisecond)
		end()
		if err := st.start(); err != nil {
			t.Fatal(err)
		}
		if st.keepAliveTimer.Stop() {
			t.Error("the timer of an ended stream is running")
		}
		<-time.After(3 * time.Second)
		if got, want := w.Body.String(), ": keep-alive\n\n"; got != want {
			t.Errorf("the stream is %q, want %q", got, want)
		}
	})
}

// A flushRecorder records what is flushed together.
type flushRecorder struct {
	*httptest.ResponseRecorder
	flushes []string
}

func (w *flushRecorder) Flush() {
	w.flushes = append(w.flushes, w.Body.String())
	w.Body.Reset()
}

// A buffered event is flushed before any later frame: a partial event, a comment or an
// error.
func TestFramesFlushSeparately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes
		w := &flushRecorder{ResponseRecorder: httptest.NewRecorder()}
		s := &Server{opts: Options{KeepAlive: time.Hour, WriteTimeout: time.Second}}
		st := s.newStream(w, true)
		end := st.startKeepAlive(func() {})
		whole, partial := &session.Event{ID: "whole"}, &session.Event{ID: "partial"}
		partial.Partial = true
		for _, ev := range []*session.Event{whole, partial, whole} {
			if err := st.writeEvent(ev, false, false); err != nil {
				t.Fatal(err)
			}
		}
		end()
		if err := st.writeFailure(failure{detail: "no"}, ""); err != nil {
			t.Fatal(err)
		}
		var frames []int
		for _, text := range append(w.flushes, w.Body.String()) {
			frames = append(frames, strings.Count(text, "data: "))
		}
		if want := []int{1, 1, 1, 1}; !slices.Equal(frames, want) {
			t.Errorf("frames per flush = %v, want %v", frames, want)
		}
	})
}
