package sqlstore

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
	"agenthost/pkg/store/sqlstore/postgres"
)

// newTestBreaker returns a breaker whose probes are answered while the server is not silent.
func newTestBreaker(silent *atomic.Bool, probes *atomic.Int64, log *logged) *breaker {
	k := newBreaker(postgresDialect(postgres.Engine().Classify, 1), defaultTimeout, &connSet{}, slog.New(slog.NewTextHandler(log, nil)))
	k.probe = func(ctx context.Context) error {
		probes.Add(1)
		if silent.Load() {
			<-ctx.Done()
			return ctx.Err()
		}
		return nil
	}
	return k
}

// hang is a request that is not answered.
func hang(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// The breaker opens after three seconds without any answer, and closes with the first one. A
// request that waits meanwhile fails at its deadline, and later ones at once.
func TestBreaker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		var probes atomic.Int64
		log := &logged{}
		k := newTestBreaker(&silent, &probes, log)
		defer k.stopProber()
		silent.Store(true)
		first := make(chan error, 1)
		began := time.Now()
		go func() { first <- k.runRequest(t.Context(), hang) }()
		time.Sleep(silenceLimit + probeInterval)
		synctest.Wait()
		wantErr(t, "a request while the breaker is open", k.runRequest(t.Context(), hang), session.ErrUnavailable, "session store: database does not answer")
		if waited := time.Since(began); waited != silenceLimit+probeInterval {
			t.Errorf("it waited for %s", waited-silenceLimit-probeInterval)
		}
		wantErr(t, "the first request", <-first, session.ErrUnavailable, "session store: database did not answer within 10s")
		if waited := time.Since(began); waited != defaultTimeout {
			t.Errorf("the first request waited for %s", waited)
		}
		silent.Store(false)
		time.Sleep(probeInterval)
		synctest.Wait()
		if err := k.runRequest(t.Context(), func(context.Context) error { return nil }); err != nil {
			t.Errorf("a request after the hang: %v", err)
		}
		n := probes.Load()
		time.Sleep(time.Minute)
		if probes.Load() != n {
			t.Errorf("%d probes after the hang", probes.Load()-n)
		}
		for _, text := range []string{"database does not answer, requests fail until it does", "database answers again"} {
			if strings.Count(log.String(), text) != 1 {
				t.Errorf("the log has not %q once: %s", text, log)
			}
		}
	})
}

// One request's calls have one timeout together, nested ones too. The time between them does not
// count. Without a shared timeout each call has its own.
func TestSharedTimeout(t *testing.T) {
	for _, tt := range []struct {
		name   string
		share  func(context.Context) context.Context
		failed int
	}{
		{"shared", store.ShareTimeout, 3},
		{"one each", func(ctx context.Context) context.Context { return ctx }, 0},
		{"a run", acquireRun, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var silent atomic.Bool
				var probes atomic.Int64
				k := newTestBreaker(&silent, &probes, &logged{})
				defer k.stopProber()
				slow := func(ctx context.Context) error {
					return k.runRequest(ctx, func(ctx context.Context) error { return sleepContext(ctx, 4*time.Second) })
				}
				ctx, failed, inCalls := tt.share(t.Context()), 0, time.Duration(0)
				for range 5 {
					began := time.Now()
					err := k.runRequest(ctx, slow)
					inCalls += time.Since(began)
					if err != nil {
						failed++
						wantErr(t, "a call after the timeout", err, session.ErrUnavailable, "session store: database did not answer within 10s")
					}
					time.Sleep(time.Minute)
				}
				if failed != tt.failed {
					t.Errorf("%d calls failed, want %d", failed, tt.failed)
				}
				if want := 20 * time.Second; tt.failed > 0 && inCalls != defaultTimeout || tt.failed == 0 && inCalls != want {
					t.Errorf("the calls took %s", inCalls)
				}
			})
		})
	}
}

// acquireRun returns the context for a run that a request with a shared timeout starts.
func acquireRun(ctx context.Context) context.Context {
	run, _, err := memstore.New(nil).Sessions.Acquire(store.ShareTimeout(ctx), session.Key{App: "a", User: "u", ID: "s"}, 0)
	if err != nil {
		panic(err)
	}
	return run
}

// A statement that waits for a lock opens nothing, because probes are answered. Fast requests cause
// no probe at all, and a server error is an answer.
func TestBreakerStaysClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		var probes atomic.Int64
		k := newTestBreaker(&silent, &probes, &logged{})
		defer k.stopProber()
		refused := errors.New("refused")
		if err := k.runRequest(t.Context(), func(context.Context) error { return refused }); !errors.Is(err, refused) || probes.Load() != 0 {
			t.Errorf("runRequest() = %v, %d probes", err, probes.Load())
		}
		wantErr(t, "a blocked request", k.runRequest(t.Context(), hang), session.ErrUnavailable, "did not answer within 10s")
		if err := k.checkClosed(); err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Minute, cancel)
		if err := k.runLong(ctx, hang); !errors.Is(err, context.Canceled) {
			t.Errorf("runLong() = %v, want that only the caller ends it", err)
		}
	})
}

// While probes are swallowed and requests are answered, the breaker stays closed.
func TestBreakerProbesSwallowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		var probes atomic.Int64
		k := newTestBreaker(&silent, &probes, &logged{})
		defer k.stopProber()
		silent.Store(true)
		go func() { _ = k.runRequest(t.Context(), hang) }()
		for range 9 {
			time.Sleep(time.Second)
			if err := k.runRequest(t.Context(), func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		if probes.Load() < 10 {
			t.Errorf("%d probes", probes.Load())
		}
	})
}

// A request that is suspected while the prober waits for an older one is probed afterwards: the older one was answered,
// and the server has died since then.
func TestSuspicionWhileProbing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		var probes atomic.Int64
		log := &logged{}
		k := newTestBreaker(&silent, &probes, log)
		defer k.stopProber()
		near, far := net.Pipe()
		defer far.Close()
		old := &trackedConn{Conn: near, set: k.conns, opened: time.Now()}
		k.conns.conns = map[*trackedConn]struct{}{old: {}}
		time.Sleep(time.Second)

		old.awaiting.Store(true)
		answer := 3 * suspectAfter / 2
		if err := k.runRequest(t.Context(), func(context.Context) error { time.Sleep(answer); return nil }); err != nil {
			t.Fatal(err)
		}
		old.answered.Store(time.Now().UnixNano()) // the prober waits until silenceLimit
		time.Sleep(time.Millisecond)
		dead := make(chan error, 1)
		began := time.Now()
		go func() {
			dead <- k.runRequest(t.Context(), func(ctx context.Context) error {
				old.awaiting.Store(true)
				_, err := old.Read(make([]byte, 1))
				return err
			})
		}()
		if err := <-dead; err == nil || errors.Is(err, session.ErrUnavailable) || time.Since(began) > 2*silenceLimit {
			t.Errorf("the request ended after %s: %v; log: %s", time.Since(began), err, log)
		}
	})
}

// A request that ends while the prober is started is not suspected again.
func TestSuspicionEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var silent atomic.Bool
		var probes atomic.Int64
		k := newTestBreaker(&silent, &probes, &logged{})
		defer k.stopProber()
		done := make(chan error, 1)
		go func() {
			done <- k.runRequest(t.Context(), func(context.Context) error {
				time.Sleep(suspectAfter)
				return nil
			})
		}()
		synctest.Wait()
		k.mu.Lock() // the start of the prober waits for it
		err := <-done
		k.mu.Unlock()
		time.Sleep(time.Hour)
		if n := probes.Load(); n > 1 || err != nil {
			t.Errorf("%d probes in an hour without requests, %v", n, err)
		}
	})
}

// Dropping the idle connections spares one on which nothing has arrived yet: it may be about to
// send the request that ends a statement.
func TestCutIdleSparesNewConnections(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	var set connSet
	conn, err := set.openConn(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	peer, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close()
	set.cutIdle()
	b := make([]byte, 1)
	if _, err := conn.Write([]byte("?")); err != nil {
		t.Fatalf("writing on the new connection: %v", err)
	}
	if _, err := peer.Write([]byte("!")); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(b); err != nil {
		t.Fatal(err)
	}
	set.cutIdle()
	if _, err := conn.Write([]byte("?")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing on the idle connection: %v, want it closed", err)
	}
}
