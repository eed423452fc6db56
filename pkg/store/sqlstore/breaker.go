package sqlstore

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"gorm.io/gorm"

	"agenthost/internal/limit"
	"agenthost/internal/safe"
	"agenthost/pkg/store"
	"agenthost/pkg/store/sqlstore/internal/engine"
)

// The circuit breaker of a database server that may stop answering while its connections stay
// open, as in a failover that swallows packets.
//
//   - A request has one deadline for all its waits, statements and retries. The calls of an HTTP
//     request have one deadline together, unless it is a run.
//   - When a request has waited for suspectAfter, a prober begins: every probeInterval it
//     executes a statement on a new connection, and on an idle one if there is one, until one is
//     answered. A server may be unable to accept connections while those that it has work.
//   - When neither a probe nor a request is answered for silenceLimit, and no bytes arrive, the
//     breaker opens: new requests and those in a queue fail at once, and readiness with them. When
//     the timeout has passed as well, all connections are cut, which ends everything that still
//     waits.
//   - The first answered probe closes the breaker. That on a new connection cuts the old ones.
//   - When only probes are answered, the old connections are dead, as after a failover. They are
//     cut, and their statements are executed again on new ones.
//
// Long work, such as a migration, has no deadline. It ends if the server does not answer probes
// for the timeout.
const (
	suspectAfter  = time.Second
	probeInterval = 500 * time.Millisecond
	silenceLimit  = 3 * time.Second
)

// A breaker is safe for concurrent use.
type breaker struct {
	timeout time.Duration
	// probe executes a statement on a new connection; nil for a file, which has deadlines only.
	probe      func(ctx context.Context) error
	closeProbe func() error
	// probeIdle executes a statement on an idle connection, and returns errNoneIdle if there is
	// none; nil probes only new ones.
	probeIdle func(ctx context.Context) error
	// isAnswer reports whether the server returned an error, as opposed to the network.
	isAnswer func(error) bool
	logger   *slog.Logger
	conns    *connSet

	// pending counts the requests and the long work in progress, long the latter.
	pending, long atomic.Int64
	// answered is when the last request was answered, in nanoseconds.
	answered atomic.Int64

	mu      sync.Mutex
	opened  chan struct{} // closed while the breaker is open
	isOpen  bool
	cutTime time.Time
	stop    context.CancelFunc // stops the prober; nil if there is none
	// suspected is since when a request has waited that was suspected while the prober ran; zero without one.
	suspected time.Time
	closed    bool
	prober    sync.WaitGroup
}

// newBreaker creates the breaker for a server, or with nil connections for a file.
func newBreaker(d dialect, timeout time.Duration, conns *connSet, logger *slog.Logger) *breaker {
	return &breaker{timeout: timeout, isAnswer: d.isAnswer, conns: conns, logger: logger, opened: make(chan struct{})}
}

// setProbes makes the breaker probe with a pool's new connections, and the readers' idle ones.
func (k *breaker) setProbes(pool, readers *gorm.DB) {
	k.probe = func(ctx context.Context) error {
		db, err := pool.DB()
		if err != nil {
			return err
		}
		db.SetMaxIdleConns(-1)
		var one int
		return db.QueryRowContext(ctx, "SELECT 1").Scan(&one)
	}
	k.probeIdle = func(ctx context.Context) error {
		db, err := readers.DB()
		if err != nil {
			return err
		}
		if db.Stats().Idle == 0 {
			return errNoneIdle
		}
		var one int
		return db.QueryRowContext(ctx, "SELECT 1").Scan(&one)
	}
	k.closeProbe = func() error { return closePool(pool) }
}

// errNoneIdle reports that no connection is idle.
var errNoneIdle = errors.New("no connection is idle")

// runRequest runs a request with its deadline. A request in a request has the outer one's deadline,
// and those with a [store.ShareTimeout] context have one timeout together.
func (k *breaker) runRequest(ctx context.Context, run func(ctx context.Context) error) error {
	defer store.BeginCall(ctx)()
	rest := store.RemainingTimeout(ctx, k.timeout)
	if rest <= 0 {
		return k.newTimeoutError()
	}
	limited := ctx
	if end, ok := ctx.Deadline(); !ok || time.Until(end) > rest {
		// Statements on a file do not watch the context: their lock timeout has the deadline.
		late := new(limit.LazyContext)
		late.Init(ctx, time.Now().Add(rest))
		defer late.Cancel(nil)
		limited = late
	}
	began := time.Now()
	err := k.runSuspecting(limited, run)
	if err == nil || ctx.Err() != nil || limited.Err() == nil && !errors.Is(err, errTimeout) {
		return err
	}
	switch {
	case k.probe == nil: // a file
	case k.checkClosed() != nil:
		k.conns.cutAll()
	default:
		k.conns.cutIdle()
		k.startProber(began)
	}
	return k.newTimeoutError()
}

func (k *breaker) newTimeoutError() error {
	return fmt.Errorf("%w within %s", errTimeout, k.timeout)
}

// runLong runs work that is long by nature.
func (k *breaker) runLong(ctx context.Context, run func(ctx context.Context) error) error {
	k.long.Add(1)
	defer k.long.Add(-1)
	return k.runSuspecting(ctx, run)
}

// runSuspecting runs a request or long work. It starts the prober when there is no answer.
func (k *breaker) runSuspecting(ctx context.Context, run func(ctx context.Context) error) error {
	if k.probe == nil {
		return run(ctx)
	}
	if err := k.checkClosed(); err != nil {
		return err
	}
	k.pending.Add(1)
	defer k.pending.Add(-1)
	suspicion := k.suspectLater(suspectAfter)
	defer suspicion()
	err := run(ctx)
	if err == nil || k.isAnswer(err) {
		k.answered.Store(time.Now().UnixNano())
	}
	return err
}

// suspectLater starts the prober after a while, and again after each timeout until the request
// ends.
func (k *breaker) suspectLater(after time.Duration) (end func()) {
	var mu sync.Mutex
	var t *time.Timer
	ended, since := false, time.Now() // the timer of a busy machine may be late
	mu.Lock()
	defer mu.Unlock()
	t = time.AfterFunc(after, func() {
		defer safe.Recover(k.logPanic)
		k.startProber(since)
		mu.Lock()
		defer mu.Unlock()
		if since = time.Now().Add(k.timeout - after); !ended {
			t.Reset(k.timeout)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		ended = true
		t.Stop()
	}
}

// checkClosed fails if the breaker is open.
func (k *breaker) checkClosed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.isOpen {
		return errSilent
	}
	return nil
}

// openChannel returns a channel that is closed while the breaker is open.
func (k *breaker) openChannel() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.opened
}

// startProber starts the prober: nothing may have been answered since a time. If it runs, it probes again afterwards,
// because what it found by then may be older than the request.
func (k *breaker) startProber(since time.Time) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return
	}
	if k.stop != nil {
		k.suspected = since
		return
	}
	k.runProber(since)
}

// runProber runs the prober. The caller holds the lock.
func (k *breaker) runProber(since time.Time) {
	ctx, cancel := context.WithCancel(context.Background())
	k.stop, k.suspected = cancel, time.Time{}
	k.prober.Go(func() {
		defer safe.Recover(k.logPanic)
		defer func() {
			k.mu.Lock()
			defer k.mu.Unlock()
			k.stop()
			if k.stop = nil; !k.closed && !k.suspected.IsZero() {
				k.runProber(k.suspected)
			}
		}()
		if k.awaitAnswer(ctx, since) {
			k.replaceDead(ctx, since)
		}
	})
}

// awaitAnswer probes until the server answers, and opens the breaker meanwhile. It returns true
// if the breaker did not open.
func (k *breaker) awaitAnswer(ctx context.Context, since time.Time) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	answered := make(chan bool, 1)
	again := time.NewTicker(probeInterval)
	defer again.Stop()
	for {
		k.beginProbes(ctx, answered)
		select {
		case isNew := <-answered:
			return !k.closeAgain(isNew)
		case <-ctx.Done():
			return false
		case <-again.C:
		}
		if k.pending.Load() == 0 && k.checkClosed() == nil {
			since = time.Now() // nothing waits for an answer
		}
		// Silence lasts since a request was answered, or a part of an answer arrived on a connection
		// that is older than the suspicion: a long answer takes its time.
		last := since
		for _, at := range []time.Time{time.Unix(0, k.answered.Load()), k.conns.lastAnswer(since)} {
			if at.After(last) {
				last = at
			}
		}
		k.recordSilence(time.Since(last))
	}
}

// beginProbes probes a new connection and an idle one, and reports the first answer with whether
// the connection is new.
func (k *breaker) beginProbes(ctx context.Context, answered chan<- bool) {
	for _, p := range []struct {
		probe func(ctx context.Context) error
		isNew bool
	}{{k.probe, true}, {k.probeIdle, false}} {
		if p.probe == nil {
			continue
		}
		k.prober.Go(func() {
			defer safe.Recover(k.logPanic)
			if !k.isAnswered(ctx, p.probe) {
				return
			}
			select {
			case answered <- p.isNew:
			default:
			}
		})
	}
}

// isAnswered makes one probe.
func (k *breaker) isAnswered(ctx context.Context, probe func(ctx context.Context) error) bool {
	ctx, cancel := context.WithTimeout(ctx, engine.ConnectTimeout)
	defer cancel()
	err := probe(ctx)
	return ctx.Err() == nil && (err == nil || !errors.Is(err, errNoneIdle) && k.isAnswer(err))
}

// recordSilence opens the breaker, and later cuts the connections.
func (k *breaker) recordSilence(silence time.Duration) {
	if silence < silenceLimit {
		return
	}
	k.mu.Lock()
	opens := !k.isOpen && !k.closed
	if opens {
		k.isOpen = true
		close(k.opened)
	}
	cuts := k.isOpen && silence >= k.timeout && time.Since(k.cutTime) >= k.timeout
	if cuts {
		k.cutTime = time.Now()
	}
	k.mu.Unlock()
	if opens {
		k.logger.Warn("database does not answer, requests fail until it does", "silent", silence.Round(time.Millisecond))
	}
	if cuts {
		k.conns.cutAll()
	}
}

// closeAgain closes the breaker if it was open. If a new connection was answered, the old ones may
// be dead.
func (k *breaker) closeAgain(isNew bool) (wasOpen bool) {
	k.mu.Lock()
	wasOpen = k.isOpen
	if wasOpen {
		k.isOpen, k.opened = false, make(chan struct{})
	}
	k.mu.Unlock()
	if wasOpen && isNew {
		k.conns.cutAll()
	}
	if wasOpen {
		k.logger.Warn("database answers again")
	}
	return wasOpen
}

// replaceDead cuts the old connections if new ones are answered and they are not. Long work keeps
// its connection, because its statement may just be slow.
func (k *breaker) replaceDead(ctx context.Context, since time.Time) {
	if !k.conns.areSilent(since) {
		return
	}
	k.conns.cutIdle()
	if sleepContext(ctx, time.Until(since.Add(silenceLimit))) != nil || !k.conns.areSilent(since) || k.long.Load() > 0 {
		return
	}
	k.mu.Lock()
	again := time.Since(k.cutTime) >= k.timeout
	if again {
		k.cutTime = time.Now()
	}
	k.mu.Unlock()
	if again {
		k.logger.Warn("database answers on new connections only, replacing the others")
		k.conns.cutConns(func(c *trackedConn) bool { return c.opened.Before(since) })
	}
}

// stopProber stops the prober, after which the breaker neither opens nor closes.
func (k *breaker) stopProber() error {
	k.mu.Lock()
	k.closed = true
	if k.stop != nil {
		k.stop()
	}
	k.mu.Unlock()
	k.prober.Wait()
	if k.closeProbe == nil {
		return nil
	}
	return k.closeProbe()
}

func (k *breaker) logPanic(p *safe.Panic) { p.Log(k.logger, "probing the database panicked") }

// isAnswer reports whether the server returned an error, as opposed to the network. A file has no
// network.
func (d dialect) isAnswer(err error) bool {
	if d.server == nil || d.isConnectionLimit(err) {
		return true
	}
	return !errors.Is(err, errUnreachable) && !errors.Is(err, errSilent) && !errors.Is(err, errTimeout) &&
		!errors.Is(err, context.Canceled) && !d.isConnectionLost(err)
}
