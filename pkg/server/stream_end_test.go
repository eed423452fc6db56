package server

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// What a stream says after its end, such as its header, does not wake its timer
// again: a host would carry one for each stream, and write where nothing is to be
// written any more.
func TestEndedStreamIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		s := &Server{opts: Options{KeepAlive: time.Second, WriteTimeout: time.Second}}
		st := s.newStream(w)
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
