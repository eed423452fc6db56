package rollout

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/loader"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/store/memstore"
)

// The proof runs the test with -full: 200 kills instead of 20.
var (
	full = flag.Bool("full", false, "kill the decider 200 times")
	seed = flag.Uint64("seed", 1, "shifts the saves that kill")
)

// A hall has an app's sessions of two hours, one a minute, on the revisions of their shares.
type hall struct {
	t   *testing.T
	now time.Time
	// backends have the sessions; their rollouts are new for each run.
	backends *store.Backends
	plan     *Plan
}

// newHall creates the sessions of a rollout with three steps. Those on the new revision fail if it is faulty.
func newHall(t *testing.T, faulty bool) *hall {
	t.Helper()
	h := &hall{t: t, now: start, backends: memstore.NewBackends()}
	h.plan = newPlan(t, []step{{0.3, 30 * time.Minute, 3}, {0.6, 30 * time.Minute, 3}, {1, 0, 1}}, "above(failed, 0.3)")
	st := store.New(h.backends, &store.Options{Clock: h.read})
	for i := range 120 {
		h.now = start.Add(time.Duration(i)*time.Minute + time.Second)
		id, share := fmt.Sprint("s", i), 0.3
		if i >= 30 {
			share = 0.6
		}
		o := session.Outcome{Revision: "old"}
		if computeBucket("app", "salt", "u\x00"+id) < share {
			o.Revision = "new"
		}
		o.BeginTurn()
		o.Code = ""
		if faulty && o.Revision == "new" {
			o.Code = "BROKEN"
		}
		o.CloseTurn()
		sess, err := st.Sessions.Create(t.Context(), session.Key{App: "app", User: "u", ID: id}, nil)
		if err == nil {
			sess.Outcome = o.Append(nil)
			err = st.Sessions.Append(t.Context(), sess, &session.Event{ID: id, InvocationID: id, Author: "user", Timestamp: h.now, Response: model.Response{Content: genai.NewContentFromText("hi", genai.RoleUser)}})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return h
}

func (h *hall) read() time.Time { return h.now }

// errKilled is what a killed host sees.
var errKilled = errors.New("killed")

// A deadly backend kills a host at one of its saves, before or after the row is stored.
type deadly struct {
	store.RolloutBackend
	saves int
	// at is the save that kills, 0 for none; after reports that the row is stored.
	at    int
	after bool
	// between runs before a save, once; reckless stores rows without a comparison.
	between  func()
	reckless bool
}

func (d *deadly) SaveRollout(ctx context.Context, r *store.RolloutRecord) error {
	d.saves++
	if d.saves == d.at && !d.after {
		return errKilled
	}
	if f := d.between; f != nil {
		d.between = nil
		f()
	}
	if stored, err := d.GetRollout(ctx, r.App); d.reckless && err == nil {
		r.Version = stored.Version + 1
	}
	err := d.RolloutBackend.SaveRollout(ctx, r)
	if d.saves == d.at {
		return errKilled
	}
	return err
}

// startRun stores a rollout that begins at start, and returns its backend and the function that starts a host.
func (h *hall) startRun() (*deadly, func(owner string) (*Controller, *[]string)) {
	backends := *h.backends
	d := &deadly{RolloutBackend: memstore.NewBackends().Rollouts}
	backends.Rollouts = d
	st := store.New(&backends, &store.Options{Clock: h.read})
	s := &state{Status: StatusNone, Stable: "old"}
	h.now = start
	s.beginRollout(candidate{revision: "new"}, h.plan, "salt", start)
	data, err := s.encodeState()
	if err == nil {
		err = st.Rollouts.Save(h.t.Context(), &store.Rollout{App: "app", Data: data})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	d.saves = 0
	return d, func(owner string) (*Controller, *[]string) {
		c := NewController(&Options{Rollouts: st.Rollouts, Outcomes: st.Outcomes, Owner: owner, Clock: h.read, Logger: slog.New(slog.DiscardHandler)})
		reports := &[]string{}
		c.Attach(&Host{
			Serving: func(string) *runtime.App { return nil }, Reconsider: func(string) {},
			Report: func(r loader.Report) { *reports = append(*reports, fmt.Sprint(r.Kind, " ", r.By)) },
		})
		if _, err := c.ReadView(h.t.Context(), "app"); err != nil {
			h.t.Fatal(err)
		}
		return c, reports
	}
}

// run runs the rollout to its end with two hosts, and returns its events, without times and deciders, and the saves. The host
// that is killed starts again as another one.
func (h *hall) run(at int, after bool) (events string, saves int) {
	d, open := h.startRun()
	d.at, d.after = at, after
	hosts := []*Controller{nil, nil}
	for i := range hosts {
		hosts[i], _ = open(fmt.Sprint("host", i))
	}
	for h.now = start; h.now.Before(start.Add(2 * time.Hour)); h.now = h.now.Add(5 * time.Second) {
		for i, c := range hosts {
			before := d.saves
			if c.Check(h.t.Context()); before < at && d.saves >= at {
				hosts[i], _ = open(fmt.Sprint("again", i))
			}
		}
	}
	v, err := hosts[0].ReadView(h.t.Context(), "app")
	if err != nil {
		h.t.Fatal(err)
	}
	lines := []string{string(v.Status)}
	for i, e := range v.Events {
		if e.Number != i+1 || e.By == "" {
			h.t.Errorf("event %d: %+v", i, e)
		}
		lines = append(lines, e.Kind)
	}
	return strings.Join(lines, " "), d.saves
}

// A decider that is killed at any of its saves, before or after the row is stored, has decided all or nothing: the
// rollouts with one kill each end as they would have, each step once.
func TestKilledDecider(t *testing.T) {
	kills := 0
	for _, tt := range []struct {
		faulty bool
		want   string
	}{{false, "promoted started step promoted"}, {true, "aborted started aborted"}} {
		h := newHall(t, tt.faulty)
		got, saves := h.run(0, false)
		if got != tt.want {
			t.Fatalf("without a kill: %s, want %s", got, tt.want)
		}
		most := 5
		if *full {
			most = 50
		}
		for n := range most {
			at := 1 + int((*seed+uint64(n*saves/most))%uint64(saves))
			for _, after := range []bool{false, true} {
				if got, _ := h.run(at, after); got != tt.want {
					t.Errorf("killed at save %d of %d, after it %v: %s, want %s", at, saves, after, got, tt.want)
				}
				kills++
			}
		}
	}
	t.Logf("shown: %d kills at the saves of 2 rollouts, before and after the row is stored: each ended as without a kill", kills)
}

// Two hosts that decide at the same moment decide once: each event has one decider. Control: with rows that are stored
// without a comparison of their version, both decide.
func TestTwoDeciders(t *testing.T) {
	deciders := func(reckless bool) int {
		h := newHall(t, false)
		d, open := h.startRun()
		one, oneReports := open("one")
		two, twoReports := open("two")
		h.now = start.Add(31 * time.Minute)
		d.reckless, d.between = reckless, func() { two.Check(t.Context()) }
		one.Check(t.Context())
		all := append(slices.Clone(*oneReports), *twoReports...)
		slices.Sort(all)
		return len(slices.DeleteFunc(slices.Compact(all), func(line string) bool { return !strings.HasPrefix(line, "rollout_step ") }))
	}
	if n := deciders(false); n != 1 {
		t.Errorf("a step has %d deciders, want 1", n)
	}
	n := deciders(true)
	if n != 2 {
		t.Errorf("control: without a comparison a step has %d deciders, want 2", n)
	}
	t.Logf("shown: 2 hosts in the same moment, 1 decider; control, without a comparison of versions: %d deciders", n)
}
