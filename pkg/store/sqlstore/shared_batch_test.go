package sqlstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"agenthost/internal/testdb"
	"agenthost/pkg/session"
)

// holdWriter keeps an idle writer busy until it is released.
func holdWriter(t *testing.T, w *writer) (release func()) {
	t.Helper()
	held, free, done := make(chan struct{}), make(chan struct{}), make(chan bool)
	go func() {
		done <- w.borrowConn(func() {
			close(held)
			<-free
		})
	}()
	<-held
	return func() {
		close(free)
		<-done
	}
}

// awaitQueue waits until a number of jobs are queued.
func awaitQueue(t *testing.T, w *writer, n int64) {
	t.Helper()
	again := time.NewTicker(time.Millisecond)
	defer again.Stop()
	for w.queueLength() < n {
		select {
		case <-again.C:
		case <-t.Context().Done():
			t.Fatal("the jobs are not queued")
		}
	}
}

// neighborOf returns the number of another session that the same writer writes.
func neighborOf(s *hangStore, i int) int {
	n := i + 1
	for s.db.writerFor(hangKey(n)) != s.db.writerFor(hangKey(i)) {
		n++
	}
	return n
}

// A write that is executed in one batch with a blocked one has its own deadline: it is executed
// again when the other's has passed.
func TestDeadlineOfBatch(t *testing.T) {
	eachHanging(t, func(t *testing.T, _ *proxy, s *hangStore) {
		blocked := getSession(t, s.testStore, hangKey(0), nil)
		free := getSession(t, s.testStore, hangKey(neighborOf(s, 0)), nil)
		defer lockSession(t, s, hangKey(0))()
		w := s.db.writerFor(hangKey(0))
		release := holdWriter(t, w)
		errs := map[*session.Session]chan error{blocked: make(chan error, 1), free: make(chan error, 1)}
		for i, sess := range []*session.Session{blocked, free} {
			go func() { errs[sess] <- s.Sessions.Append(t.Context(), sess, textEvent("user", "hi")) }()
			awaitQueue(t, w, int64(i+1))
			if i == 0 {
				<-time.After(hangTimeout / 4)
			}
		}
		release()
		wantErr(t, "the blocked Append", <-errs[blocked], session.ErrUnavailable, "session store: database did not answer within 4s")
		if err := <-errs[free]; err != nil {
			t.Errorf("the other Append = %v", err)
		}
		s.dropCache()
		if n := getSession(t, s.testStore, free.Key, nil).History.Len(); n != 1 {
			t.Errorf("%d events, want 1", n)
		}
	})
}

// The deadline of a caller ends its wait in the queue, and no batch: a run that is almost at its
// end, or a tool with a short timeout, takes no time from the writes of others.
func TestCallerDeadlineInBatch(t *testing.T) {
	eachHanging(t, func(t *testing.T, _ *proxy, s *hangStore) {
		unlock := lockSession(t, s, hangKey(0))
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		w := s.db.writerFor(hangKey(0))
		conn := w.conn
		sess := getSession(t, s.testStore, hangKey(0), nil)
		done := make(chan error, 1)
		go func() { done <- s.Sessions.Append(ctx, sess, textEvent("user", "hi")) }()
		<-ctx.Done()
		unlock()
		if err := <-done; err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Append() = %v", err)
		}
		if holdWriter(t, w)(); w.conn != conn {
			t.Error("the deadline of a caller cost a connection")
		}
	})
}

// Each write of a session that another process has locked ends at its deadline, and leaves the
// writer to the next.
func TestBlockedWrites(t *testing.T) {
	eachHanging(t, func(t *testing.T, _ *proxy, s *hangStore) {
		sess := getSession(t, s.testStore, hangKey(0), nil)
		neighbor := getSession(t, s.testStore, hangKey(neighborOf(s, 0)), nil)
		unlock := lockSession(t, s, hangKey(0))
		for name, write := range map[string]func() error{
			"AppendAll": func() error {
				return s.Sessions.AppendAll(t.Context(), sess, []*session.Event{textEvent("user", "hi"), textEvent("user", "ho")})
			},
			"an Append of shared state": func() error {
				return s.Sessions.Append(t.Context(), sess, stateEvent(map[string]any{"app:k": 1}))
			},
			"Acquire": func() error {
				_, _, err := s.Sessions.Acquire(t.Context(), sess.Key, time.Minute)
				return err
			},
		} {
			began := time.Now()
			wantErr(t, name, write(), session.ErrUnavailable, "session store: database did not answer within 4s")
			if held := time.Since(began); held > muchLater {
				t.Errorf("%s took %s", name, held)
			}
			appendEvent(t, s.testStore, neighbor, textEvent("user", "hi"))
		}
		awaitNoneBlocked(t, s) // else the server may execute a write that has failed
		unlock()
		if err := s.Sessions.AppendAll(t.Context(), sess, []*session.Event{textEvent("user", "hi")}); err != nil {
			t.Errorf("AppendAll() = %v", err)
		}
	})
}

// A write to a locked file has its own deadline, whatever the others of its batch have.
func TestDeadlineOfBatchOnFile(t *testing.T) {
	url := sqliteFile(t)
	s := openStore(t, url, nil)
	db, err := testdb.Open(url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	lock, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lock.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	w := s.db.writers[0]
	release := holdWriter(t, w)
	short, long := make(chan error, 1), make(chan error, 1)
	for i, j := range []*job{{deadline: time.Now().Add(time.Second / 2)}, {}} {
		j.run = func(*writer) error { return nil }
		go func() { []chan error{short, long}[i] <- w.executeJob(t.Context(), j) }()
		awaitQueue(t, w, int64(i+1))
	}
	release()
	if err := <-short; !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("the write with the early deadline = %v", err)
	}
	if _, err := lock.ExecContext(t.Context(), "ROLLBACK"); err != nil {
		t.Fatal(err)
	}
	if err := <-long; err != nil {
		t.Errorf("the other write = %v", err)
	}
}
