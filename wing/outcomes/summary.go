// Package outcomes shows what came out of an app's turns: by the commands outcomes and cost, by
// GET /apps/{app}/outcomes, and by metrics for each revision. The runtime counts, and stores keep the
// counts; see [session.Outcome].
package outcomes

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"agenthost/internal/statistics"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// keyNames are the names by which rows can be grouped.
var keyNames = []string{"agent", "revision", "user", "day", "protocol"}

// maxRows is how many rows a summary has at most; the rest is one row whose keys are
// [session.OtherName].
const maxRows = 10_000

// A Request selects and groups outcomes.
type Request struct {
	store.OutcomeRequest
	// By has key names; see [ParseKeys]. Rows by agent have only model and tool calls.
	By []string
}

// ParseKeys splits a list such as agent,day, and checks the names.
func ParseKeys(text string) ([]string, error) {
	by := strings.Split(text, ",")
	for i, name := range by {
		if !slices.Contains(keyNames, name) {
			return nil, fmt.Errorf("unknown key %q: known are %s", name, strings.Join(keyNames, ", "))
		}
		if slices.Contains(by[:i], name) {
			return nil, fmt.Errorf("key %s appears more than once", name)
		}
	}
	return by, nil
}

// A Summary has the rows of a request.
type Summary struct {
	Rows []*Row `json:"rows"`
	// Sessions is how many sessions were counted, DeletedSessions how many are deleted ones. More reports
	// that older ones were not counted.
	Sessions        int64 `json:"sessions"`
	DeletedSessions int64 `json:"deletedSessions,omitempty"`
	More            bool  `json:"more"`
	// Damaged is how many sessions, and days with deleted ones, have outcomes that cannot be read.
	Damaged int64 `json:"damaged,omitempty"`
}

// A Row counts the outcomes with the same keys. Keys that do not group it are empty.
type Row struct {
	Agent    string `json:"agent,omitempty"`
	Revision string `json:"revision,omitempty"`
	User     string `json:"user,omitempty"`
	Day      string `json:"day,omitempty"`
	Protocol string `json:"protocol,omitempty"`

	Sessions int64 `json:"sessions"`
	// FailedSessions have a turn that did not end well.
	FailedSessions int64 `json:"failedSessions"`
	Turns          int64 `json:"turns"`
	Failed         int64 `json:"failed"`
	// FailedRate is the share of turns, FailedInterval its 95 % interval, as if turns were
	// independent.
	FailedRate     float64             `json:"failedRate"`
	FailedInterval statistics.Interval `json:"failedInterval"`
	Failures       []Failure           `json:"failures,omitempty"`
	// Seconds is the mean of a turn; its interval is missing for one turn.
	Seconds         float64              `json:"seconds"`
	SecondsInterval *statistics.Interval `json:"secondsInterval,omitempty"`
	Asked           int64                `json:"asked"`
	Approved        int64                `json:"approved"`
	Rejected        int64                `json:"rejected"`

	Calls      int64   `json:"calls"`
	Priced     int64   `json:"priced"`
	Input      int64   `json:"inputTokens"`
	Cached     int64   `json:"cachedTokens"`
	Output     int64   `json:"outputTokens"`
	USD        float64 `json:"usd"`
	ToolCalls  int64   `json:"toolCalls"`
	ToolErrors int64   `json:"toolErrors"`

	// Scores counts people's feedback; Score is the mean.
	Scores        int64                `json:"scores"`
	Score         float64              `json:"score"`
	ScoreInterval *statistics.Interval `json:"scoreInterval,omitempty"`

	// EvalCases counts evaluations' case runs that passed or failed, EvalPassed the former.
	EvalCases          int64                `json:"evalCases,omitempty"`
	EvalPassed         int64                `json:"evalPassed,omitempty"`
	EvalPassedInterval *statistics.Interval `json:"evalPassedInterval,omitempty"`

	total                  session.Outcome
	lastSession            int64 // the last counted session
	lastFailed             int64 // the last counted session with a failed turn
	lastDay                int64
	scoreSum, scoreSquares float64
}

// A Failure counts turns with a code.
type Failure struct {
	Code  string `json:"code"`
	Turns int64  `json:"turns"`
}

// Summarize reads outcomes session by session, and without a user deleted sessions and evaluations. Rows by agent or user begin with the highest cost, others
// with the latest day.
func Summarize(ctx context.Context, st *store.Store, req *Request) (*Summary, error) {
	s := &summarizer{Summary: Summary{Rows: []*Row{}}, by: req.By, rows: map[rowKey]*Row{}}
	var err error
	s.More, err = st.Outcomes.EachSession(ctx, &req.OutcomeRequest, func(one *store.SessionOutcomes) error {
		s.addSession(one)
		return ctx.Err()
	})
	if err == nil && req.User == "" {
		err = st.Outcomes.EachDay(ctx, &store.KeptOutcomesRequest{App: req.App, Since: req.Since}, func(d *store.OutcomeDay) error {
			s.addDay(d)
			return ctx.Err()
		})
	}
	if err == nil && req.User == "" && !slices.Contains(req.By, "agent") {
		err = s.addEvaluations(ctx, st.Results, req)
	}
	if err != nil {
		return nil, err
	}
	for _, r := range s.Rows {
		r.finishCounts()
	}
	byCost := slices.Contains(req.By, "agent") || slices.Contains(req.By, "user")
	slices.SortStableFunc(s.Rows, func(a, b *Row) int {
		if byCost {
			return cmp.Or(cmp.Compare(b.USD, a.USD), cmp.Compare(b.Input+b.Output, a.Input+a.Output))
		}
		return cmp.Or(cmp.Compare(b.lastDay, a.lastDay), strings.Compare(b.Day, a.Day))
	})
	return &s.Summary, nil
}

// A rowKey has the keys by which a row is grouped.
type rowKey struct{ Agent, Revision, User, Day, Protocol string }

type summarizer struct {
	Summary
	by   []string
	rows map[rowKey]*Row
}

func (s *summarizer) addSession(one *store.SessionOutcomes) {
	s.Sessions++
	if one.Damaged {
		s.Damaged++
	}
	for i := range one.Outcomes {
		o := &one.Outcomes[i]
		s.eachRow(one.Key.User, o, func(r *Row, o *session.Outcome) { r.addOutcome(one.ID, o) })
	}
	if slices.Contains(s.by, "agent") {
		return // a person scores an answer, and not an agent
	}
	for _, f := range one.Feedback {
		r := s.findRow(one.Key.User, one.FindOutcome(&f), "")
		r.Scores++
		r.scoreSum, r.scoreSquares = r.scoreSum+f.Score, r.scoreSquares+f.Score*f.Score
	}
}

// addDay counts deleted sessions. Rows by agent have their calls only, since an agent's sessions are not kept.
func (s *summarizer) addDay(d *store.OutcomeDay) {
	if d.Damaged {
		s.Damaged++
	}
	for i := range d.Totals {
		t := &d.Totals[i]
		s.Sessions, s.DeletedSessions = s.Sessions+t.Latest.Sessions, s.DeletedSessions+t.Latest.Sessions
		s.eachRow("", &t.Outcome, func(r *Row, o *session.Outcome) { r.total.Add(o) })
		if slices.Contains(s.by, "agent") {
			continue
		}
		r, n := s.findRow("", &t.Outcome, ""), s.selectCount(t)
		r.Sessions, r.FailedSessions, r.Scores = r.Sessions+n.Sessions, r.FailedSessions+n.Failed, r.Scores+t.Scores
		r.scoreSum, r.scoreSquares = r.scoreSum+t.ScoreSum, r.scoreSquares+t.ScoreSquares
	}
}

// evalProtocol is the protocol that evaluations run turns with.
const evalProtocol = "eval"

// addEvaluations counts the cases in the app's stored evaluation results, except for runs with another model than
// the revision has.
func (s *summarizer) addEvaluations(ctx context.Context, results *store.Results, req *Request) error {
	all, err := results.List(ctx, req.App)
	for _, one := range all {
		if one.Cases == 0 || one.Model != "" || !req.Since.IsZero() && store.DayOf(one.Stored) < store.DayOf(req.Since) {
			continue
		}
		r := s.findRow("", &session.Outcome{Revision: one.Revision, Day: store.DayOf(one.Stored), Protocol: evalProtocol}, "")
		r.EvalCases, r.EvalPassed = r.EvalCases+one.Cases, r.EvalPassed+one.Passed
	}
	return err
}

// selectCount returns the count that has a session once in each row, as far as the keys allow.
func (s *summarizer) selectCount(t *store.OutcomeTotal) store.SessionCount {
	switch byDay, byRevision := slices.Contains(s.by, "day"), slices.Contains(s.by, "revision"); {
	case byDay && byRevision:
		return t.Here
	case byDay:
		return t.OfDay
	case byRevision:
		return t.OfRevision
	}
	return t.Latest
}

// eachRow calls add for an outcome's row, or for its agents' rows with their calls only.
func (s *summarizer) eachRow(user string, o *session.Outcome, add func(r *Row, o *session.Outcome)) {
	if !slices.Contains(s.by, "agent") {
		add(s.findRow(user, o, ""), o)
		return
	}
	for _, a := range o.Agents {
		add(s.findRow(user, o, a.Agent), &session.Outcome{Day: o.Day, Agents: []session.AgentOutcome{a}})
	}
}

// findRow returns the row for an outcome, and adds it if it is missing.
func (s *summarizer) findRow(user string, o *session.Outcome, agent string) *Row {
	all := map[string]string{"agent": agent, "revision": o.Revision, "user": user, "day": store.FormatDay(o.Day), "protocol": o.Protocol}
	r := s.rows[s.selectKeys(all)]
	if r == nil && len(s.Rows) >= maxRows-1 {
		for name := range all {
			all[name] = session.OtherName
		}
		r = s.rows[s.selectKeys(all)]
	}
	if r == nil {
		k := s.selectKeys(all)
		r = &Row{Agent: k.Agent, Revision: k.Revision, User: k.User, Day: k.Day, Protocol: k.Protocol, lastSession: -1, lastFailed: -1}
		s.rows[k], s.Rows = r, append(s.Rows, r)
	}
	r.lastDay = max(r.lastDay, o.Day)
	return r
}

func (s *summarizer) selectKeys(all map[string]string) (k rowKey) {
	for name, to := range map[string]*string{"agent": &k.Agent, "revision": &k.Revision, "user": &k.User, "day": &k.Day, "protocol": &k.Protocol} {
		if slices.Contains(s.by, name) {
			*to = all[name]
		}
	}
	return k
}

// addOutcome adds one outcome. A session's outcomes follow each other.
func (r *Row) addOutcome(id int64, o *session.Outcome) {
	if r.lastSession != id {
		r.Sessions, r.lastSession = r.Sessions+1, id
	}
	if o.CountFailed() > 0 && r.lastFailed != id {
		r.FailedSessions, r.lastFailed = r.FailedSessions+1, id
	}
	r.total.Add(o)
}

// finishCounts sets what follows from the sums.
func (r *Row) finishCounts() {
	o := &r.total
	r.Turns, r.Failed, r.Asked, r.Approved, r.Rejected = o.Turns, o.CountFailed(), o.Asked, o.Approved, o.Rejected
	r.FailedInterval = statistics.RateInterval(r.Failed, r.Turns)
	if r.Turns > 0 {
		r.FailedRate = float64(r.Failed) / float64(r.Turns)
		r.Seconds = float64(o.Millis) / 1e3 / float64(r.Turns)
	}
	if i, ok := statistics.MeanInterval(r.Turns, float64(o.Millis)/1e3, float64(o.SquaredMillis)/1e6); ok {
		r.SecondsInterval = &i
	}
	for _, f := range o.Failures {
		r.Failures = append(r.Failures, Failure{f.Code, f.Turns})
	}
	slices.SortStableFunc(r.Failures, func(a, b Failure) int { return cmp.Compare(b.Turns, a.Turns) })
	for i := range o.Agents {
		a := &o.Agents[i]
		r.Calls, r.Priced, r.Input, r.Cached, r.Output = r.Calls+a.Calls, r.Priced+a.Priced, r.Input+a.Input, r.Cached+a.Cached, r.Output+a.Output
		r.USD, r.ToolCalls, r.ToolErrors = r.USD+a.USD(), r.ToolCalls+a.ToolCalls, r.ToolErrors+a.ToolErrors
	}
	if r.Scores > 0 {
		r.Score = r.scoreSum / float64(r.Scores)
	}
	if r.EvalCases > 0 {
		i := statistics.RateInterval(r.EvalPassed, r.EvalCases)
		r.EvalPassedInterval = &i
	}
	if i, ok := statistics.MeanInterval(r.Scores, r.scoreSum, r.scoreSquares); ok {
		r.ScoreInterval = &i
	}
}
