package rollout_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// A reader counts the sessions that a controller reads.
type reader struct {
	store.OutcomeBackend
	read atomic.Int64
}

func (r *reader) ListOutcomes(ctx context.Context, q store.OutcomeQuery) ([]*store.SessionOutcomes, error) {
	all, err := r.OutcomeBackend.ListOutcomes(ctx, q)
	r.read.Add(int64(len(all)))
	return all, err
}

// A check costs what is new: sessions that were counted, and those whose wait is not over, are not read again. With
// by: user the first session of each user counts.
func TestCheckReadsNewSessions(t *testing.T) {
	d := newDesk(t)
	d.stop()
	backends := memstore.NewBackends()
	counter := &reader{OutcomeBackend: backends.Outcomes}
	backends.Outcomes = counter
	d.store = store.New(backends, &store.Options{Clock: d.clock.read})
	plan := strings.NewReplacer("wait: 1m", "wait: 1h\n  by: user", "for: 1h", "for: 9h", "above(failed, 0.3)", "above(failed, 0.9)").Replace(appYAML)
	d.write("app.yaml", plan)
	d.start()
	d.save(fine)
	d.check(0)
	for i := range 300 {
		d.talk(fmt.Sprint("user", i%100), fmt.Sprint("early", i))
	}
	for i := range 5000 { // they are never used
		if _, err := d.store.Sessions.Create(t.Context(), session.Key{App: "desk", User: "idle", ID: fmt.Sprint(i)}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3 { // each check counts at most 2000
		counter.read.Store(0)
		d.check(61 * time.Minute)
		if n := counter.read.Load(); n > 5000 {
			t.Errorf("check %d read %d sessions", i, n)
		}
	}
	if v := d.view(); v.Counted.Stable+v.Counted.Draft != 100 || v.Counted.Draft < 20 {
		t.Errorf("counted %+v of 100 users with 3 sessions each", v.Counted)
	}
	for i := range 300 {
		d.talk("later", fmt.Sprint("late", i))
	}
	for range 3 {
		counter.read.Store(0)
		d.check(time.Second)
		if n := counter.read.Load(); n > 60 {
			t.Errorf("a check without a session whose wait is over read %d sessions", n)
		}
	}
}

// A revision that cannot be loaded takes no new sessions for a while, and is taken back after three attempts. Failures
// of the database do not count.
func TestCannotBeBuilt(t *testing.T) {
	d := newDesk(t)
	d.save(fine)
	draft := d.status().PendingRevision
	for range 9 {
		d.staged.RecordFailure("desk", draft, fmt.Errorf("reading the revision: %w", session.ErrUnavailable))
		d.check(time.Minute)
	}
	if v := d.view(); v.Status != "running" {
		t.Errorf("the rollout is %s after failures of the database: %s", v.Status, v.Reason)
	}
	d.staged.RecordFailure("desk", "another", errors.New("no matter"))
	for attempt := range 3 {
		d.clock.advance(time.Minute)
		for range 5 { // sessions at the same moment
			d.staged.RecordFailure("desk", draft, errors.New("tool find_order: variable SHOP_KEY is not set"))
		}
		if got := d.serve(10); got["good"] != 10 {
			t.Errorf("answers after failure %d: %v, want the stable revision", attempt, got)
		}
		if v := d.view(); v.Status != "running" {
			t.Fatalf("the rollout is %s after failure %d", v.Status, attempt)
		}
		if attempt < 2 {
			d.check(10 * time.Second)
		}
	}
	d.check(0)
	const want = "the revision could not be loaded in 3 attempts: tool find_order: variable SHOP_KEY is not set"
	if v := d.view(); v.Status != "aborted" || v.Reason != want {
		t.Errorf("the rollout is %s: %s, want aborted: %s", v.Status, v.Reason, want)
	}
	if s := d.status(); !strings.Contains(s.Held, want) {
		t.Errorf("status: %+v", s)
	}
}

// A host that cannot load the new revision aborts the rollout by itself.
func TestHostCannotBuild(t *testing.T) {
	t.Setenv("DESK_GREETING", "hello")
	d := newDesk(t)
	d.write("root_agent.yaml", "name: desk\nmodel: m\ninstruction: Answer with ${env:DESK_GREETING}.\n")
	d.reload()
	if d.status().PendingRevision == "" {
		t.Fatalf("no rollout: %+v", d.status())
	}
	if err := os.Unsetenv("DESK_GREETING"); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		d.serve(20)
		d.check(20 * time.Second)
	}
	if v := d.view(); v.Status != "aborted" || !strings.Contains(v.Reason, "could not be loaded in 3 attempts") || !strings.Contains(v.Reason, "DESK_GREETING") {
		t.Errorf("the rollout is %s: %s", v.Status, v.Reason)
	}
}
