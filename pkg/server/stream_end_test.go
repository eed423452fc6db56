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
func TestEndedStreamIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := &Server{opts: Options{KeepAlive: time.Second, WriteTimeout: time.Second}}
		st := s.newStream(w, true)
		end := st.keepAlive(func() {})
		<-time.After(1500 * time.Millisecond)
		end()
		if err := st.begin(); err != nil {
			t.Fatal(err)
		}
		if st.silence.Stop() {
			t.Error("the timer of a stream that ended runs")
		}
		<-time.After(3 * time.Second)
		if got, want := w.Body.String(), ": keep-alive\n\n"; got != want {
			t.Errorf("the stream is %q, want %q", got, want)
		}
	})
}

// A sent writer keeps what is sent off together.
type sent struct {
	*httptest.ResponseRecorder
	all []string
}

func (w *sent) Flush() {
	w.all = append(w.all, w.Body.String())
	w.Body.Reset()
}

// Whatever follows an event that is held, a piece of an answer, a comment or what
// ended the run, does not go with it.
func TestFramesAreSentOffOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no moment passes
		w := &sent{ResponseRecorder: httptest.NewRecorder()}
		s := &Server{opts: Options{KeepAlive: time.Hour, WriteTimeout: time.Second}}
		st := s.newStream(w, true)
		end := st.keepAlive(func() {})
		whole, piece := &session.Event{ID: "whole"}, &session.Event{ID: "piece"}
		piece.Partial = true
		for _, ev := range []*session.Event{whole, piece, whole} {
			if err := st.event(ev, false, false); err != nil {
				t.Fatal(err)
			}
		}
		end()
		if err := st.fail(failure{detail: "no"}, ""); err != nil {
			t.Fatal(err)
		}
		var frames []int
		for _, text := range append(w.all, w.Body.String()) {
			frames = append(frames, strings.Count(text, "data: "))
		}
		if want := []int{1, 1, 1, 1}; !slices.Equal(frames, want) {
			t.Errorf("%v frames were sent off at once, want %v", frames, want)
		}
	})
}
