package sqlstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// logged is a log that many goroutines may write.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestWritePanics: a write that panics, as a batch leader or inside another's batch, fails alone.
// The writes next to it are carried out once, the panic is logged with its stack, and the database
// accepts writes afterwards.
func TestWritePanics(t *testing.T) {
	for _, be := range backends()[1:] {
		for _, place := range []string{"leader", "follower"} {
			t.Run(be.name+" "+place, func(t *testing.T) {
				log := &logged{}
				s := openStore(t, be.url(t), &store.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
				w := s.db.writerFor(alice)
				sess := createSession(t, s, alice, nil)
				ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
				defer cancel()
				began, release := make(chan struct{}), make(chan struct{})
				var all sync.WaitGroup
				all.Go(func() { // its own batch, while which the others queue
					_ = w.runWrite(ctx, func(*writer) error { close(began); <-release; return nil })
				})
				<-began
				bad := make(chan error, 1)
				panics := func() { bad <- w.runWrite(ctx, func(*writer) error { panic("nil map") }) }
				good := func() {
					if err := s.Sessions.Append(ctx, sess, &session.Event{ID: "good", Author: "a"}); err != nil {
						t.Errorf("Append() next to a panic = %v", err)
					}
				}
				jobs := []func(){panics, good}
				if place == "follower" {
					jobs = []func(){good, panics}
				}
				for i, job := range jobs {
					all.Go(job)
					for w.queueLength() <= int64(i) && ctx.Err() == nil {
						time.Sleep(time.Millisecond)
					}
				}
				close(release)
				all.Wait()
				if err := <-bad; !errors.Is(err, errPanicked) {
					t.Errorf("the write that panics = %v, want %v", err, errPanicked)
				}
				for i := range 3 {
					if err := s.Sessions.Append(ctx, sess, &session.Event{ID: fmt.Sprint("later", i), Author: "a"}); err != nil {
						t.Errorf("Append() after a panic = %v", err)
					}
				}
				if n := len(getSession(t, s, alice, nil).Events()); n != 4 {
					t.Errorf("%d events are stored, want 4", n)
				}
				if !strings.Contains(log.String(), "panic_test.go") {
					t.Errorf("log %s\nhas no stack of the panic", log)
				}
			})
		}
	}
}

// TestBorrowPanics: a reader that panics on the writer's connection gives it back.
func TestBorrowPanics(t *testing.T) {
	s := openStore(t, sqliteFile(t), nil)
	w := s.db.writers[0]
	if p := safe.Call(func() { w.borrowConn(func() { panic("nil map") }) }); p == nil {
		t.Error("the panic of the reader is gone")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := w.runWrite(ctx, func(*writer) error { return nil }); err != nil {
		t.Errorf("a write after the panic = %v", err)
	}
}

// TestHeadsPanic: those who ask for a head that panics get an error, and the next ones their answer.
func TestHeadsPanic(t *testing.T) {
	log := &logged{}
	n := 0
	h := &headReader{breaker: &breaker{}, maxReads: 1, logger: slog.New(slog.NewTextHandler(log, nil)), read: func(_ context.Context, keys []session.Key) ([]*store.Snapshot, error) {
		if n++; n == 1 {
			panic("nil map")
		}
		return make([]*store.Snapshot, len(keys)), nil
	}}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if _, err := h.readHead(ctx, alice); !errors.Is(err, errPanicked) {
		t.Errorf("head() = %v, want %v", err, errPanicked)
	}
	if _, err := h.readHead(ctx, alice); err != nil {
		t.Errorf("head() after the panic = %v", err)
	}
	if !strings.Contains(log.String(), "panic_test.go") {
		t.Errorf("log %s\nhas no stack of the panic", log)
	}
}
