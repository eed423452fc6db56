package rollout

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"agenthost/pkg/loader"
	"agenthost/pkg/runtime"
	"agenthost/pkg/store"
)

// Admit decides whether a loaded revision serves, for [loader.WatchOptions].
func (c *Controller) Admit(ctx context.Context, app *runtime.App) (loader.Admission, error) {
	plan, _ := app.Section(sectionKey).(*Plan)
	name, draft := app.Name(), app.Revision()
	var admission loader.Admission
	_, err := c.changeState(ctx, name, func(s *state) (bool, error) {
		saved, err := s.encodeState()
		if err != nil {
			return false, err
		}
		admission = c.decideServing(s, app, plan)
		now, err := s.encodeState()
		return string(saved) != string(now), err
	})
	if errors.Is(err, store.ErrNoRollouts) && plan == nil {
		return loader.Admission{}, nil
	}
	if errors.Is(err, store.ErrNoRollouts) {
		c.opts.Logger.Warn("the change serves at once, without a rollout: "+err.Error(), "app", name, "revision", draft)
		return loader.Admission{}, nil
	}
	if damage := (*damagedError)(nil); errors.As(err, &damage) {
		admission, err = damage.decideServing(app, plan), nil
	}
	if err != nil {
		return loader.Admission{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if delete(c.held, name); admission.Hold {
		c.held[name] = draft
	}
	return admission, nil
}

// decideServing changes the state for a loaded app, and returns whether the app serves. An app that no
// longer has a rollout keeps its state up to date, because a later rollout begins from what serves then.
func (c *Controller) decideServing(s *state, app *runtime.App, plan *Plan) loader.Admission {
	name, changed, now := app.Name(), candidate{app.Revision(), app.Reload().Gate}, c.opts.Clock()
	draft := changed.revision
	if s.Stable == "" && plan == nil {
		return loader.Admission{}
	}
	if s.Stable == "" {
		s.Stable = draft
		if serving := c.servingApp(name); serving != nil && serving.Reload().Sessions == runtime.FollowNewSessions {
			s.Stable = serving.Revision()
		}
	}
	c.mu.Lock()
	held := c.held[name]
	c.mu.Unlock()
	switch {
	case draft == s.Stable:
		if s.isActive() && held == s.Draft {
			s.endRollout(statusAborted, "the files went back to revision "+draft, now)
		}
		return loader.Admission{}
	case plan == nil:
		if s.isActive() {
			s.endRollout(statusAborted, "revision "+draft+" was published without a rollout", now)
		}
		s.Stable = draft
		return loader.Admission{}
	case slices.Contains(s.Rejected, draft):
		reason := "the revision was rolled back before; change the files"
		if s.Draft == draft {
			reason = "the revision was rolled back: " + s.Reason + "; change the files, or run agenthost rollout promote"
		}
		return loader.Admission{Hold: true, Serving: s.Stable, Reason: reason}
	case s.isActive() && draft != s.Draft && slices.Contains(s.Replaced, draft):
		return loader.Admission{Hold: true, Serving: s.Stable, Reason: "a later change is rolled out, revision " + s.Draft}
	case !s.isActive() || draft != s.Draft:
		s.beginRollout(changed, plan, rand.Text(), now)
	}
	return loader.Admission{Hold: true, Serving: s.Stable, Reason: fmt.Sprintf("rollout to %.4g %% of the new sessions", 100*s.currentShare())}
}

// servingApp returns the app that serves under a name; nil if none does.
func (c *Controller) servingApp(name string) *runtime.App {
	if h := c.host.Load(); h != nil {
		return h.Serving(name)
	}
	return nil
}
