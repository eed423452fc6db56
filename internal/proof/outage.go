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
)

// hangs is what no call may take.
const hangs = time.Minute

// An outage is a load on a store whose database goes away and comes back. Each
// session tries an event until it is acknowledged.
type outage struct {
	*crash
	store *store.Store
	cut   cut
	// early counts an event as acknowledged before it is.
	early bool

	mu      sync.Mutex
	down    bool
	mended  time.Time
	back    time.Duration // longest from a mending to the first acknowledgment
	failed  int
	longest time.Duration
	said    []string // the different errors
}

// outageRows is M19.
func outageRows(ctx context.Context, s *site) ([]row, error) {
	o, err := s.suffer(ctx, s.pauses(), false)
	if err != nil {
		return nil, err
	}
	control, err := s.elsewhere(ctx, func(ctx context.Context, s *site) (int, error) {
		o, err := s.suffer(ctx, s.pauses()[:1], true)
		if err != nil {
			return 0, err
		}
		return o.lost, nil
	})
	what := "gone"
	if s.file != "" {
		what = "full"
	}
	return []row{{
		fmt.Sprintf("M19 %s: %s for a while, it loses nothing, says why, and recovers by itself", s.name, what),
		fmt.Sprintf("%d times for up to %s: %d events acknowledged, %d lost, %d doubled, %d torn, %d times broken; %d calls failed (%s), longest call %s, back after %s; control, acknowledged early: %d lost",
			len(s.pauses()), slices.Max(s.pauses()), o.total, o.lost, o.doubled, o.torn, o.spoil, o.failed, o.clearest(), round(o.longest), round(o.back), control),
		o.bad() == 0 && o.failed > 0 && o.longest < hangs && o.back < hangs && control > 0,
	}}, err
}

// pauses are how long the database is away, each time.
func (s *site) pauses() []time.Duration {
	pauses := []time.Duration{10 * time.Second}
	for i := range s.of(2, 100) {
		pauses = append(pauses, time.Duration(1+(i*37+int(s.seed))%20)*100*time.Millisecond)
	}
	return pauses
}

// suffer lets sessions write through all outages, and compares what is there.
func (s *site) suffer(ctx context.Context, pauses []time.Duration, early bool) (*outage, error) {
	o := &outage{crash: newCrash(s, childNormal), early: early}
	if err := o.rounds(ctx, 0); err != nil {
		return nil, err
	}
	var err error
	if o.cut, err = newCut(s); err != nil {
		return nil, err
	}
	if o.store, err = store.Open(ctx, o.cut.url(), &store.Options{Artifacts: "memory:"}); err != nil {
		return nil, errors.Join(err, o.cut.close())
	}
	quit := make(chan struct{})
	var wg sync.WaitGroup
	for i := range crashSessions {
		wg.Go(func() { o.write(ctx, i, quit) })
	}
	err = o.all(ctx, pauses)
	close(quit)
	wg.Wait()
	if err := o.store.Close(); err != nil {
		// Connections that were cut cannot say farewell.
		fmt.Fprintln(o.progress, err)
	}
	err = errors.Join(err, o.cut.close())
	for _, n := range o.acked {
		o.total += n
	}
	if err == nil {
		err = o.look(ctx)
	}
	return o, err
}

func (o *outage) all(ctx context.Context, pauses []time.Duration) error {
	for _, pause := range pauses {
		if err := wait(ctx, time.Second); err != nil {
			return err
		}
		if err := o.once(ctx, pause); err != nil {
			return err
		}
	}
	return nil
}

// once takes the database away for a while, and waits until it is in use again.
func (o *outage) once(ctx context.Context, pause time.Duration) error {
	o.state(true)
	if err := o.cut.begin(); err != nil {
		return err
	}
	waited := wait(ctx, pause)
	if err := errors.Join(waited, o.cut.end()); err != nil {
		return err
	}
	o.state(false)
	ctx, cancel := context.WithTimeout(ctx, hangs)
	defer cancel()
	for !o.isBack() {
		if err := wait(ctx, 10*time.Millisecond); err != nil {
			return fmt.Errorf("waiting for the store to recover (%s): %w", o.clearest(), err)
		}
	}
	return nil
}

func (o *outage) state(down bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.down, o.mended = down, time.Now()
}

func (o *outage) isBack() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.mended.IsZero()
}

// write tries event after event. After an error it reads the session again, as
// a host does whose client tries once more.
func (o *outage) write(ctx context.Context, i int, quit <-chan struct{}) {
	var sess *session.Session
	for n := 1; ; {
		began := time.Now()
		err := o.try(ctx, i, n, &sess)
		o.note(err, time.Since(began))
		if err == nil || o.early {
			o.acked[i] = n
			n++
		}
		if err != nil {
			sess = nil
			if wait(ctx, 20*time.Millisecond) != nil {
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

func (o *outage) try(ctx context.Context, i, n int, sess **session.Session) (err error) {
	if *sess == nil {
		if *sess, err = o.store.Sessions.Get(ctx, keyOf(i, i), nil); err != nil {
			*sess = nil
			return err
		}
	}
	ev := changed(map[string]any{"n": n, fmt.Sprint("app:n", i): n, "user:n": n})
	ev.ID = eventID(i, n)
	return o.store.Sessions.Append(ctx, *sess, ev)
}

func (o *outage) note(err error, took time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.longest = max(o.longest, took)
	if err == nil {
		if !o.down && !o.mended.IsZero() {
			o.back = max(o.back, time.Since(o.mended))
			o.mended = time.Time{}
		}
		return
	}
	o.failed++
	if text := strings.ReplaceAll(err.Error(), "\n", "; "); len(o.said) < 20 && !slices.Contains(o.said, text) {
		o.said = append(o.said, text)
	}
}

// clearest is the shortest of the errors.
func (o *outage) clearest() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.said) == 0 {
		return "no error"
	}
	return slices.MinFunc(o.said, func(a, b string) int { return len(a) - len(b) })
}

// wait lets time pass.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
