package liveweb

import (
	"sync"
	"testing"
	"time"
)

// TestLimiterOfTwoReaders: the reader of a conversation and its end, which reads the rest of the connection, are
// charged together. Each byte counts once.
func TestLimiterOfTwoReaders(t *testing.T) {
	start := time.Unix(0, 0)
	l := &liveLimiter{clock: func() time.Time { return start }}
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			for range 1000 {
				if err := l.waitAfter(nil, 1); err != nil {
					t.Error(err)
				}
			}
		})
	}
	readers.Wait()
	if got, want := l.emptyAt.Sub(start), 2000*(time.Second/liveBytesPerSecond); got != want {
		t.Errorf("2000 bytes are charged as %s, want %s", got, want)
	}
}
