package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// maxCandidates is how many sessions are examined to choose a sample, the latest created ones.
const maxCandidates = 20_000

// A cohort is the sessions that are replayed.
type cohort struct {
	keys []session.Key
	// examined is how many sessions the sample was chosen from, and more reports that there are older
	// ones.
	examined int
	more     bool
}

// chooseSessions chooses an app's sessions: the latest ones of each kind in turn.
func chooseSessions(ctx context.Context, st *store.Store, app string, rules *Rules, now time.Time) (*cohort, error) {
	c := &cohort{}
	byKind := map[string][]session.Key{}
	var kinds []string
	add := func(kind string, key session.Key) {
		if byKind[kind] == nil {
			kinds = append(kinds, kind)
		}
		byKind[kind] = append(byKind[kind], key)
		c.examined++
	}
	since := now.Add(-rules.Since)
	var err error
	c.more, err = st.Outcomes.EachSession(ctx, &store.OutcomeRequest{App: app, Since: since, MaxSessions: maxCandidates}, func(s *store.SessionOutcomes) error {
		add(describeKind(s.Outcomes), s.Key)
		return nil
	})
	if errors.Is(err, store.ErrNoOutcomes) {
		err = c.listSessions(ctx, st, app, since, add)
	}
	if err != nil {
		return nil, err
	}
	for i := 0; len(c.keys) < min(rules.Sample, c.examined); i++ {
		for _, kind := range kinds {
			if i < len(byKind[kind]) && len(c.keys) < rules.Sample {
				c.keys = append(c.keys, byKind[kind][i])
			}
		}
	}
	return c, nil
}

// listSessions adds sessions from a store without outcomes, all as one kind.
func (c *cohort) listSessions(ctx context.Context, st *store.Store, app string, since time.Time, add func(kind string, key session.Key)) error {
	for token := ""; c.examined < maxCandidates; {
		page, next, err := st.Sessions.Page(ctx, &store.PageRequest{App: app, Size: store.MaxPage, Token: token, WithoutState: true})
		if err != nil {
			return err
		}
		for _, sess := range page {
			if !sess.LastUpdate.Before(since) {
				add("", sess.Key)
			}
		}
		if token = next; token == "" {
			return nil
		}
	}
	c.more = true
	return nil
}

// describeKind describes what a session's turns have in common with others: the revision, the agents, and
// whether there were failures, tool errors and approvals.
func describeKind(outcomes []session.Outcome) string {
	var agents []string
	var failed, toolErrors, asked, rejected int64
	revision := ""
	for i := range outcomes {
		o := &outcomes[i]
		if i == 0 {
			revision = o.Revision
		}
		failed, asked, rejected = failed+o.CountFailed(), asked+o.Asked, rejected+o.Rejected
		for _, a := range o.Agents {
			toolErrors += a.ToolErrors
			if !slices.Contains(agents, a.Agent) {
				agents = append(agents, a.Agent)
			}
		}
	}
	slices.Sort(agents)
	return fmt.Sprint(revision, " ", strings.Join(agents, ","), " ", failed > 0, toolErrors > 0, asked > 0, rejected > 0)
}
