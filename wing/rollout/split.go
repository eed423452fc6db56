package rollout

import (
	"context"

	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// Split chooses the revision of a session's turn, for [runtime.Options]. A session stays on its
// revision, apart from one on a revision that was taken back with then: move, or that cannot be loaded.
func (c *Controller) Split(ctx context.Context, app *runtime.App, sess *session.Session, last string) runtime.Split {
	known := (*c.known.Load())[app.Name()]
	if known == nil {
		return runtime.Split{Revision: last}
	}
	s := known.state
	switch {
	case last != "":
		if s.Status == statusAborted && s.Plan.Then == "move" && last == s.Draft {
			return runtime.Split{}
		}
		if last == s.Draft && c.isBackedOff(app.Name(), last) {
			return runtime.Split{}
		}
		return runtime.Split{Revision: last}
	case s.Status == statusPromoted: // also where the old files still serve
		return runtime.Split{Revision: s.Stable}
	case !s.isActive():
		return runtime.Split{}
	case c.isBackedOff(app.Name(), s.Draft):
		return runtime.Split{Revision: s.Stable}
	}
	if known.always != nil {
		// A failure of the expression selects no session: the stable revision is the safe one.
		if ok, err := known.always.Bool(ctx, map[string]any{"state": sess.State.All()}); err == nil && ok {
			return runtime.Split{Revision: s.Draft, Selected: true}
		}
	}
	if computeBucket(app.Name(), s.Salt, s.unitOf(sess.User, sess.ID)) < s.currentShare() {
		return runtime.Split{Revision: s.Draft}
	}
	return runtime.Split{Revision: s.Stable}
}
