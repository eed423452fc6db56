package rollout

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"agenthost/pkg/store"
)

// DescribeRevision describes a revision's place in its app's rollouts, for explanations; empty if it has
// none. began is when a session got the revision, which has the step at that time; zero has none.
func DescribeRevision(ctx context.Context, rollouts *store.Rollouts, app, revision string, began time.Time) (string, error) {
	s, err := readStored(ctx, rollouts, app)
	if damage := (*damagedError)(nil); errors.As(err, &damage) {
		return damage.Error(), nil
	}
	if err != nil || s == nil || revision == "" {
		return "", err
	}
	return s.describeRevision(revision) + s.describeStart(revision, began), nil
}

// describeStart describes the step in which a session got the new revision.
func (s *state) describeStart(revision string, began time.Time) string {
	later := slices.IndexFunc(s.Began, func(t time.Time) bool { return t.After(began) })
	step := len(s.Began)
	if later >= 0 {
		step = later
	}
	if s.Draft != revision || s.Plan == nil || step == 0 || step > len(s.Plan.Steps) || began.IsZero() || !s.Ended.IsZero() && began.After(s.Ended) {
		return ""
	}
	return fmt.Sprintf("; the session began on it in step %d, at %.4g %% of the new sessions", step, 100*s.Plan.Steps[step-1].Share)
}

func (s *state) describeRevision(revision string) string {
	isDraft := s.Draft == revision
	switch {
	case isDraft && s.isActive():
		return fmt.Sprintf("new revision in a rollout, %s at %.4g %% of the new sessions, step %d of %d", s.Status, 100*s.currentShare(), len(s.Began), len(s.Plan.Steps))
	case isDraft && s.Status == statusPromoted:
		return fmt.Sprintf("promoted by a rollout on %s: %s", s.Ended.UTC().Format(time.DateTime), s.Reason)
	case isDraft && s.Status == statusAborted:
		return fmt.Sprintf("taken back by a rollout on %s: %s", s.Ended.UTC().Format(time.DateTime), s.Reason)
	case s.Stable == revision && s.isActive():
		return fmt.Sprintf("stable revision in a rollout, %s at %.4g %% of the new sessions for revision %s", s.Status, 100*s.currentShare(), s.Draft)
	case slices.Contains(s.Rejected, revision):
		return "taken back by an earlier rollout"
	}
	return ""
}
