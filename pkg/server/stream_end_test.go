package server

import (
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"
)

// What a stream says after its end, such as its header, does not wake the
// ticker again: a host would carry one for each stream, for ever.
func TestEndedStreamIsSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := newStream(httptest.NewRecorder(), &Options{KeepAlive: time.Second, WriteTimeout: time.Second})
		end := st.keepAlive(func() {})
		synctest.Wait() // for the one who waits for the ticker
		end()
		if err := st.begin(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-st.silence.C:
			t.Error("the ticker of a stream that ended ticks")
		case <-time.After(3 * time.Second):
		}
	})
}
