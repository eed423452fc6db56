package loader

import (
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
)

// startWatch runs a watch over app x until the test ends. next waits for the host's next event.
func startWatch(t *testing.T, opts *WatchOptions) (s *watchEnv, next func(want string)) {
	s = newWatchEnv(t)
	write("one")(s)
	s.host.eventChannel = make(chan string)
	opts.Settle = time.Millisecond
	s.watch = NewWatch(New(listKinds(), nil), s.host, []string{s.top}, opts)
	ctx, stop := withDeadline(t)
	ended := make(chan error, 1)
	go func() { ended <- s.watch.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	next = func(want string) {
		t.Helper()
		select {
		case got := <-s.host.eventChannel:
			if got != want {
				t.Errorf("host event = %q, want %q", got, want)
			}
		case <-ctx.Done():
			t.Fatalf("no host event, want %q", want)
		}
	}
	next("x one")
	return s, next
}

// TestWatcherClosed expects a failed watcher to be replaced, and changes in the
// meantime to be found without a poll interval.
func TestWatcherClosed(t *testing.T) {
	made := make(chan *fsnotify.Watcher, 100)
	s, next := startWatch(t, &WatchOptions{Poll: time.Hour, Watcher: func() (*fsnotify.Watcher, error) {
		w, err := fsnotify.NewWatcher()
		made <- w
		return w, err
	}})
	for range 20 {
		for _, description := range []string{"two", "one"} {
			s.must((<-made).Close())
			write(description)(s)
			next("x " + description)
		}
	}
}

// logBuffer is a log for concurrent writers.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write appends to the log.
func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logBuffer) countOccurrences(what string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), what)
}

// TestWatcherUnavailable expects the watch to poll if inotify is exhausted, and to log
// the fallback and its end once.
func TestWatcherUnavailable(t *testing.T) {
	log := &logBuffer{}
	available := make(chan bool, 1)
	s, next := startWatch(t, &WatchOptions{
		Poll: 5 * time.Millisecond, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Watcher: func() (*fsnotify.Watcher, error) {
			select {
			case <-available:
				return fsnotify.NewWatcher()
			default:
				return nil, errors.New("too many open files")
			}
		},
	})
	for _, description := range []string{"two", "one", "three"} {
		write(description)(s)
		next("x " + description)
	}
	if n := log.countOccurrences("falling back to polling"); n != 1 {
		t.Errorf("logged the fallback to polling %d times, want once", n)
	}
	available <- true
	write("four")(s)
	next("x four")
	write("five")(s)
	next("x five")
	if n := log.countOccurrences("file notifications available again"); n != 1 {
		t.Errorf("logged the end of the fallback %d times, want once", n)
	}
}

// TestWatchPollOnly expects no file watcher.
func TestWatchPollOnly(t *testing.T) {
	s, next := startWatch(t, &WatchOptions{Poll: 5 * time.Millisecond, PollOnly: true, Watcher: func() (*fsnotify.Watcher, error) {
		t.Error("unexpected file watcher")
		return nil, errors.New("unexpected file watcher")
	}})
	write("two")(s)
	next("x two")
}
