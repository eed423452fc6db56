package rollout

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agenthost/internal/safe"
	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
	"agenthost/pkg/template"
)

// Options configure a [Controller].
type Options struct {
	// Rollouts and Outcomes are those of the sessions' store.
	Rollouts *store.Rollouts
	Outcomes *store.Outcomes
	// Owner names this host among those that share the store.
	Owner string
	// Clock is time.Now.
	Clock  func() time.Time
	Logger *slog.Logger
}

const (
	// interval is how often a host reads its apps' states.
	interval = 5 * time.Second
	// leaseTerm is how long a host decides a rollout without renewing its lease.
	leaseTerm = 6 * interval
	// attempts is how often a change is made again after another host's.
	attempts = 5
	// maxCounted is how many sessions a check counts at most; the next one continues.
	maxCounted = 2000
	// maxSearched is how many sessions are examined for the first one in a rollout: if more began before the
	// first check, the latest ones count.
	maxSearched = 100_000
	// maxOfUser is how many sessions of a user are examined for an earlier one that was used.
	maxOfUser = 100
	// maxBaseline is how many sessions percentiles are computed from.
	maxBaseline = 2000
)

// A Controller runs the rollouts of a host's apps. It is safe for concurrent use.
type Controller struct {
	opts Options
	// host is nil until [Controller.Attach].
	host atomic.Pointer[Host]
	// known are the latest states that this host has seen, by app; readers never wait.
	known atomic.Pointer[map[string]*knownRollout]
	// failures are those to load new revisions.
	failures buildFailures
	mu       sync.Mutex // guards writes to known, and the maps below
	// held are revisions whose files this host has and does not serve.
	held map[string]string
	// damaged are apps whose stored rollout cannot be read.
	damaged map[string]bool
	// failing are apps whose state could not be read or changed the last time.
	failing map[string]bool
}

// A knownRollout is a state with its compiled expression. It is immutable.
type knownRollout struct {
	version int64
	state   *state
	always  *template.Expr
}

// A Host is what a controller needs from a host.
type Host struct {
	// Serving returns the app that serves under a name; nil if none does.
	Serving func(app string) *runtime.App
	// Reconsider makes the loader admit an app again.
	Reconsider func(app string)
	// Report, if not nil, publishes what happened to a rollout to clients.
	Report func(loader.Report)
	// Reports, if not nil, returns this host's reports.
	Reports func() []loader.Report
}

// NewController returns a controller. Until it is attached to a host no app serves.
func NewController(opts *Options) *Controller {
	c := &Controller{opts: *opts, held: map[string]string{}, damaged: map[string]bool{}, failing: map[string]bool{}}
	c.failures.byApp = map[string]*buildFailure{}
	c.known.Store(&map[string]*knownRollout{})
	return c
}

// NewStoredController returns a controller that changes stored rollouts without a host.
func NewStoredController(st *store.Store) *Controller {
	return NewController(&Options{Rollouts: st.Rollouts, Outcomes: st.Outcomes, Clock: time.Now, Logger: slog.New(slog.DiscardHandler)})
}

// Attach sets the host, whose loader and runtime already use the controller.
func (c *Controller) Attach(h *Host) { c.host.Store(h) }

// Run reads the apps' states and decides those that this host has leased, until ctx ends.
func (c *Controller) Run(ctx context.Context) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.Check(ctx)
	}
}

// Check reads all apps' states once, and decides those that it has leased.
func (c *Controller) Check(ctx context.Context) {
	for _, app := range c.listApps() {
		err := c.checkSafely(ctx, app)
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		repeated := c.failing[app]
		c.failing[app] = err != nil
		c.mu.Unlock()
		if err != nil && !repeated {
			c.opts.Logger.Error("rollout not decided; each session stays on its revision, and the shares stay", "app", app, "error", err)
		}
	}
}

// listApps lists the apps that may have a rollout.
func (c *Controller) listApps() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := maps.Clone(c.damaged)
	for app := range *c.known.Load() {
		all[app] = true
	}
	return slices.Sorted(maps.Keys(all))
}

// checkSafely checks an app. A panic ends the check of this app only.
func (c *Controller) checkSafely(ctx context.Context, app string) (err error) {
	defer safe.Recover(func(p *safe.Panic) { err = p })
	return c.checkApp(ctx, app)
}

// checkApp reads an app's state, and decides its rollout.
func (c *Controller) checkApp(ctx context.Context, app string) error {
	decided := false
	s, err := c.changeState(ctx, app, func(s *state) (bool, error) {
		decided = false
		now := c.opts.Clock()
		if reason := c.describeFailure(app, s.Draft); reason != "" && s.isActive() { // each host decides it: others may have no fault
			s.endRollout(statusAborted, reason, now)
			decided = true
			return true, nil
		}
		if !s.isActive() || s.Decider != c.opts.Owner && now.Before(s.Until) {
			return false, nil
		}
		before, known := s.Last, s.Started
		complete, err := c.readSessions(ctx, app, s, now)
		if err != nil {
			return false, err
		}
		decided = s.decideRollout(now, complete)
		renew := s.isActive() && (s.Decider != c.opts.Owner || s.Until.Sub(now) < leaseTerm/2)
		if renew {
			s.Decider, s.Until = c.opts.Owner, now.Add(leaseTerm)
		}
		return decided || renew || s.Last != before || s.Started != known, nil
	})
	if err == nil && decided {
		c.opts.Logger.Info("rollout "+string(s.Status), "app", app, "stable", s.Stable, "revision", s.Draft, "share", s.currentShare(), "reason", s.Reason)
	}
	return err
}

// readSessions counts an app's new sessions in its state. It costs what is new, and at most maxCounted sessions:
// complete is false if there are more.
func (c *Controller) readSessions(ctx context.Context, app string, s *state, now time.Time) (complete bool, err error) {
	if s.Percentiles == nil && s.Plan.needsPercentiles() {
		var before []*store.SessionOutcomes
		_, err := c.opts.Outcomes.EachSession(ctx, &store.OutcomeRequest{App: app, MaxSessions: maxBaseline}, func(one *store.SessionOutcomes) error {
			if one.Created.Before(s.Began[0]) {
				before = append(before, one)
			}
			return ctx.Err()
		})
		if err != nil {
			return false, err
		}
		s.setPercentiles(before)
	}
	if !s.Started {
		if err := c.findStart(ctx, app, s); err != nil {
			return false, err
		}
	}
	// Sessions are in order: those after one whose wait is not over are not read, and the next check begins
	// after the last one that was counted.
	more, err := c.opts.Outcomes.EachSession(ctx, &store.OutcomeRequest{App: app, Ascending: true, Empty: true, After: s.Last, MaxSessions: maxCounted}, func(one *store.SessionOutcomes) error {
		if one.Created.Add(s.Plan.Wait).After(now) {
			return errEnough
		}
		isFirst, err := c.isFirst(ctx, s, one)
		if err == nil {
			s.addSession(app, one, isFirst)
			err = ctx.Err()
		}
		return err
	})
	if errors.Is(err, errEnough) {
		more, err = false, nil
	}
	return !more, err
}

// findStart sets the state's cursor to the latest session before the rollout, so that no check reads the
// sessions before it.
func (c *Controller) findStart(ctx context.Context, app string, s *state) error {
	oldest := int64(0)
	_, err := c.opts.Outcomes.EachSession(ctx, &store.OutcomeRequest{App: app, MaxSessions: maxSearched}, func(one *store.SessionOutcomes) error {
		if one.Created.Before(s.Began[0]) {
			oldest = one.ID + 1
			return errEnough
		}
		oldest = one.ID
		return ctx.Err()
	})
	if err != nil && !errors.Is(err, errEnough) {
		return err
	}
	if s.Last == 0 { // a row of an older agenthost has counted
		s.Last = max(0, oldest-1)
	}
	s.First, s.Started = max(0, oldest-1), true
	return nil
}

// isFirst reports whether a session is the first one of its unit in the rollout.
func (c *Controller) isFirst(ctx context.Context, s *state, one *store.SessionOutcomes) (bool, error) {
	if s.Plan.By != "user" || len(one.Outcomes) == 0 {
		return true, nil
	}
	isFirst := true
	req := &store.OutcomeRequest{App: one.Key.App, User: one.Key.User, Ascending: true, After: s.First, Before: one.ID, MaxSessions: maxOfUser}
	_, err := c.opts.Outcomes.EachSession(ctx, req, func(earlier *store.SessionOutcomes) error {
		if earlier.Created.Before(s.Began[0]) {
			return nil
		}
		isFirst = false
		return errEnough
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return isFirst, err
}

// errEnough ends reading sessions.
var errEnough = errors.New("the other sessions are counted")

// changeState reads an app's state, and saves it if the function reports a change. After another host's
// change it starts over. An app without a rollout has [StatusNone].
func (c *Controller) changeState(ctx context.Context, app string, edit func(*state) (save bool, err error)) (*state, error) {
	for range attempts {
		row, err := c.opts.Rollouts.Get(ctx, app)
		s := &state{Status: StatusNone}
		switch {
		case errors.Is(err, session.ErrNotFound):
			row, err = &store.Rollout{App: app}, nil
		case err == nil:
			s, err = decodeState(row.Data)
			c.recordDamage(app, errors.Is(err, errState))
			if err != nil {
				err = newDamagedError(row, err)
			}
		}
		if err != nil {
			return nil, err
		}
		save, err := edit(s)
		if err != nil {
			return nil, err
		}
		if save {
			s.signEvents("host " + c.opts.Owner)
			if row.Data, err = s.encodeState(); err != nil {
				return nil, err
			}
			err = c.opts.Rollouts.Save(ctx, row)
		}
		if errors.Is(err, session.ErrStale) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if row.Version > 0 {
			c.publishState(app, row.Version, s)
		}
		return s, nil
	}
	return nil, fmt.Errorf("rollout of app %s: other hosts change it at the same time", app)
}

// recordDamage records whether an app's stored rollout cannot be read. If that is new, the loader admits the
// app again, so that its status has the reason.
func (c *Controller) recordDamage(app string, damaged bool) {
	c.mu.Lock()
	changed := c.damaged[app] != damaged
	if delete(c.damaged, app); damaged {
		c.damaged[app] = true
	}
	c.mu.Unlock()
	if h := c.host.Load(); h != nil && changed {
		h.Reconsider(app)
	}
}

// publishState makes a state known to the split, and lets the loader admit the app again if another revision
// may serve, or the reason why it does not is another one.
func (c *Controller) publishState(app string, version int64, s *state) {
	c.mu.Lock()
	known := *c.known.Load()
	old := known[app]
	if old != nil && old.version >= version {
		c.mu.Unlock()
		return
	}
	fresh := &knownRollout{version: version, state: s}
	if s.Plan != nil && s.Plan.Always != "" {
		var err error
		if fresh.always, err = template.CompileBool(s.Plan.Always, alwaysEnv); err != nil {
			c.opts.Logger.Error("rollout: always is not an expression; it selects no session", "app", app, "error", err)
		}
	}
	known = maps.Clone(known)
	known[app] = fresh
	c.known.Store(&known)
	c.mu.Unlock()
	if h := c.host.Load(); h != nil && h.Report != nil && old != nil {
		for _, e := range s.eventsAfter(old.state) {
			if e.Kind != loader.ReportGatePassed { // each host reports its own gates
				h.Report(e.describeReport(app, s.Stable))
			}
		}
	}
	if old != nil && (old.state.Status != s.Status || old.state.Stable != s.Stable || old.state.Draft != s.Draft || len(old.state.Began) != len(s.Began)) {
		if h := c.host.Load(); h != nil {
			h.Reconsider(app)
		}
	}
}

// ReadView returns the view of an app's rollout, also of one that cannot be read.
func (c *Controller) ReadView(ctx context.Context, app string) (*View, error) {
	s, err := c.changeState(ctx, app, func(*state) (bool, error) { return false, nil })
	if damage := (*damagedError)(nil); errors.As(err, &damage) {
		return damage.describeDamage(), nil
	}
	if err != nil {
		return nil, err
	}
	return s.describeRollout(app), nil
}

// FindStable returns the revision that serves an app's new sessions apart from a rollout; empty for an app
// without one.
func FindStable(ctx context.Context, stored *store.Rollouts, app string) (string, error) {
	s, err := readStored(ctx, stored, app)
	if err != nil || s == nil {
		return "", err
	}
	return s.Stable, nil
}

// readStored returns an app's state without a controller; nil if none is stored.
func readStored(ctx context.Context, stored *store.Rollouts, app string) (*state, error) {
	row, err := stored.Get(ctx, app)
	if errors.Is(err, session.ErrNotFound) || errors.Is(err, store.ErrNoRollouts) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s, err := decodeState(row.Data)
	if err != nil {
		return nil, newDamagedError(row, err)
	}
	return s, nil
}

// ApplyAction changes an app's rollout for a person, whose name is by. A row that cannot be read is replaced. The error is an
// [actionError] if the action does not fit.
func (c *Controller) ApplyAction(ctx context.Context, app, action, by string) (*View, error) {
	s, err := c.changeState(ctx, app, func(s *state) (bool, error) {
		err := s.applyAction(action, by, c.opts.Clock())
		return err == nil, err
	})
	if damage := (*damagedError)(nil); errors.As(err, &damage) {
		s, err = c.replaceDamaged(ctx, damage, action)
	}
	if err != nil {
		return nil, err
	}
	return s.describeRollout(app), nil
}

// replaceDamaged stores a new state instead of one that cannot be read.
func (c *Controller) replaceDamaged(ctx context.Context, damage *damagedError, action string) (*state, error) {
	s, err := damage.replaceState(action)
	if err != nil {
		return nil, err
	}
	row := &store.Rollout{App: damage.row.App, Version: damage.row.Version}
	if row.Data, err = s.encodeState(); err == nil {
		err = c.opts.Rollouts.Save(ctx, row)
	}
	if err != nil {
		return nil, err
	}
	c.recordDamage(row.App, false)
	c.publishState(row.App, row.Version, s)
	return s, nil
}
