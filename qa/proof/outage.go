package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/storeurl"
)

// longestCall is a call's maximum time.
const longestCall = time.Minute

// An outageProof appends to a store while its database becomes unavailable and
// available again. Each session retries an event until it is acknowledged.
type outageProof struct {
	*crashProof
	store *store.Store
	fault faultInjector
	// ackFirst counts an event as acknowledged before it is.
	ackFirst bool

	mu              sync.Mutex
	down            bool
	repairedAt      time.Time
	longestRecovery time.Duration // longest time from the repair to the next acknowledgment
	failed          int
	longest         time.Duration
	errorTexts      []string // distinct errors
}

// outageRows is M19.
func outageRows(ctx context.Context, s *sandbox) ([]row, error) {
	o, err := s.runOutages(ctx, s.outagePauses(), false)
	if err != nil {
		return nil, err
	}
	control, err := s.runOnOther(ctx, func(ctx context.Context, s *sandbox) (int, error) {
		o, err := s.runOutages(ctx, s.outagePauses()[:1], true)
		if err != nil {
			return 0, err
		}
		return o.lost, nil
	})
	condition := "unavailable"
	if s.file != "" {
		condition = "out of disk space"
	}
	return []row{{
		fmt.Sprintf("M19 %s: while %s, the store loses nothing and reports why, and it recovers by itself", s.name, condition),
		fmt.Sprintf("%d outages of up to %s: %d events acknowledged, %d lost, %d duplicated, %d torn, %d times corrupted; %d calls failed (%s), longest call %s, recovered after %s; control, acknowledged before the append: %d lost",
			len(s.outagePauses()), slices.Max(s.outagePauses()), o.total, o.lost, o.duplicated, o.torn, o.corrupted, o.failed, o.shortestError(), roundMillis(o.longest), roundMillis(o.longestRecovery), control),
		o.countViolations() == 0 && o.failed > 0 && o.longest < longestCall && o.longestRecovery < longestCall && control > 0,
	}}, err
}

// outagePauses returns the outages' lengths.
func (s *sandbox) outagePauses() []time.Duration {
	pauses := []time.Duration{10 * time.Second}
	for i := range s.choose(2, 100) {
		pauses = append(pauses, time.Duration(1+(i*37+int(s.seed))%20)*100*time.Millisecond)
	}
	return pauses
}

// runOutages appends during all outages and verifies the store.
func (s *sandbox) runOutages(ctx context.Context, pauses []time.Duration, ackFirst bool) (*outageProof, error) {
	o := &outageProof{crashProof: newCrash(s, childNormal), ackFirst: ackFirst}
	if err := o.runRounds(ctx, 0); err != nil {
		return nil, err
	}
	var err error
	if o.fault, err = newFaultInjector(s); err != nil {
		return nil, err
	}
	if o.store, err = storeurl.Open(ctx, o.fault.url(), &storeurl.Options{Schemes: databaseSchemes(), Artifacts: "memory:"}); err != nil {
		return nil, errors.Join(err, o.fault.close())
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for i := range crashSessions {
		wg.Go(func() { o.appendUntilQuit(ctx, i, quit) })
	}
	err = o.injectAll(ctx, pauses)
	close(quit)
	wg.Wait()
	if err := o.store.Close(); err != nil {
		// Closing an interrupted connection may fail.
		fmt.Fprintln(o.progress, err)
	}
	err = errors.Join(err, o.fault.close())
	for _, n := range o.acked {
		o.total += n
	}
	if err == nil {
		err = o.verifyStore(ctx)
	}
	return o, err
}

func (o *outageProof) injectAll(ctx context.Context, pauses []time.Duration) error {
	for _, pause := range pauses {
		if err := waitFor(ctx, time.Second); err != nil {
			return err
		}
		if err := o.injectOnce(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// injectOnce makes the database unavailable for a while and waits until the store has
// recovered.
func (o *outageProof) injectOnce(ctx context.Context, pause time.Duration) error {
	o.setDown(true)
	if err := o.fault.startFault(); err != nil {
		return err
	}
	waitErr := waitFor(ctx, pause)
	if err := errors.Join(waitErr, o.fault.endFault()); err != nil {
		return err
	}
	o.setDown(false)
	ctx, cancel := context.WithTimeout(ctx, longestCall)
	defer cancel()
	for !o.hasRecovered() {
		if err := waitFor(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for the store to recover (%s): %w", o.shortestError(), err)
		}
	}
	return nil
}

func (o *outageProof) setDown(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down, o.repairedAt = down, time.Now()
}

func (o *outageProof) hasRecovered() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.repairedAt.IsZero()
}

// appendUntilQuit appends one event after the other. After an error it reads the
// session again, like a host whose client retries.
func (o *outageProof) appendUntilQuit(ctx context.Context, i int, quit <-chan struct{}) {
	var sess *session.Session
	for n := 1; ; {
		began := time.Now()
		err := o.tryAppend(ctx, i, n, &sess)
		o.recordAttempt(err, time.Since(began))
		if err == nil || o.ackFirst {
			o.acked[i] = n
			n++
		}
		if err != nil {
			sess = nil
			if waitFor(ctx, 20*time.Millisecond) != nil {
				return
			}
		}
		select {
		case <-quit:
			return
		default:
		}
	}
}

func (o *outageProof) tryAppend(ctx context.Context, i, n int, sess **session.Session) (err error) {
	if *sess == nil {
		if *sess, err = o.store.Sessions.Get(ctx, sessionKey(i, i), nil); err != nil {
			*sess = nil
			return err
		}
	}
	ev := stateEvent(map[string]any{"n": n, fmt.Sprint("app:n", i): n, "user:n": n})
	ev.ID = eventID(i, n)
	return o.store.Sessions.Append(ctx, *sess, ev)
}

func (o *outageProof) recordAttempt(err error, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.longest = max(o.longest, took)
	if err == nil {
		if !o.down && !o.repairedAt.IsZero() {
			o.longestRecovery = max(o.longestRecovery, time.Since(o.repairedAt))
			o.repairedAt = time.Time{}
		}
		return
	}
	o.failed++
	if text := strings.ReplaceAll(err.Error(), "\n", "; "); len(o.errorTexts) < 20 && !slices.Contains(o.errorTexts, text) {
		o.errorTexts = append(o.errorTexts, text)
	}
}

// shortestError returns the shortest distinct error.
func (o *outageProof) shortestError() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.errorTexts) == 0 {
		return "no error"
	}
	return slices.MinFunc(o.errorTexts, func(a, b string) int { return len(a) - len(b) })
}

// waitFor waits for a duration or until the context ends.
func waitFor(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
