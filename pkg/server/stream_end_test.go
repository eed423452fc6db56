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

// What a stream says after its end, such as its header, does not wake its timer
// again: a host would carry one for each stream, and write where nothing is to be
// written any more.
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
			t.Error("the timer of a stream that ended runs")
		}
		<-time.After(3 * time.Second)
		if got, want := w.Body.String(), ": keep-alive\n\n"; got != want {
			t.Errorf("the stream is %q, want %q", got, want)
		}
	})
}

// A sent writer keeps what is sent off together.
type flushRecorder struct {
	*httptest.ResponseRecorder
	flushes []string
}

func (w *flushRecorder) Flush() {
	w.flushes = append(w.flushes, w.Body.String())
	w.Body.Reset()
}

// Whatever follows an event that is held, a piece of an answer, a comment or what
// ended the run, does not go with it.
func TestFramesFlushSeparately(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no moment passes
		w := &flushRecorder{ResponseRecorder: httptest.NewRecorder()}
		s := &Server{opts: Options{KeepAlive: time.Hour, WriteTimeout: time.Second}}
		st := s.newStream(w, true)
		end := st.startKeepAlive(func() {})
		whole, piece := &session.Event{ID: "whole"}, &session.Event{ID: "piece"}
		piece.Partial = true
		for _, ev := range []*session.Event{whole, piece, whole} {
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
			t.Errorf("%v frames were sent off at once, want %v", frames, want)
		}
	})
}
