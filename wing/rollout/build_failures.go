package rollout

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"agenthost/pkg/session"
)

const (
	// buildAttempts is how many failures to load the new revision take a change back.
	buildAttempts = 3
	// minBackoff is the time after the first failure in which no session begins on the revision. It
	// doubles with each one, to maxBackoff.
	minBackoff = 5 * time.Second
	maxBackoff = 5 * time.Minute
	// maxBuildError limits the failure's text in a reason.
	maxBuildError = 500
)

// A buildFailure is why this host could not load a new revision, the last times.
type buildFailure struct {
	revision string
	count    int
	err      error
	// until is when the next session may begin on the revision.
	until time.Time
}

// buildFailures are the failures by app. They are safe for concurrent use.
type buildFailures struct {
	mu    sync.Mutex
	byApp map[string]*buildFailure
}

// RecordFailure records that a revision could not be loaded, for [runtime.Options].SplitFailed. Failures of the
// database do not count.
func (c *Controller) RecordFailure(app, revision string, err error) {
	known := (*c.known.Load())[app]
	if known == nil || revision != known.state.Draft {
		return
	}
	now := c.opts.Clock()
	c.failures.mu.Lock()
	defer c.failures.mu.Unlock()
	f := c.failures.byApp[app]
	if f == nil || f.revision != revision || now.Sub(f.until) > maxBackoff {
		f = &buildFailure{revision: revision}
		c.failures.byApp[app] = f
	}
	if now.Before(f.until) {
		return // it began before the last failure was recorded
	}
	backoff := minBackoff << min(f.count, 10)
	f.until = now.Add(min(backoff, maxBackoff))
	if !errors.Is(err, session.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		f.count, f.err = f.count+1, err
	}
}

// isBackedOff reports whether no session may begin on a revision, because it could not be loaded a moment ago.
func (c *Controller) isBackedOff(app, revision string) bool {
	c.failures.mu.Lock()
	defer c.failures.mu.Unlock()
	f := c.failures.byApp[app]
	return f != nil && f.revision == revision && c.opts.Clock().Before(f.until)
}

// describeFailure returns why a revision cannot serve on this host, after several attempts; empty otherwise.
func (c *Controller) describeFailure(app, revision string) string {
	c.failures.mu.Lock()
	defer c.failures.mu.Unlock()
	f := c.failures.byApp[app]
	if f == nil || f.revision != revision || f.count < buildAttempts {
		return ""
	}
	return fmt.Sprintf("the revision could not be loaded in %d attempts: %s", f.count, strings.ToValidUTF8(fmt.Sprintf("%.*s", maxBuildError, f.err), ""))
}
