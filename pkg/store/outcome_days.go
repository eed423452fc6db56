package store

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
)

// Outcomes of deleted sessions. A deletion adds the session's outcomes and scores to one row for each of
// their days, in its own transaction: a session counts either by its events or in these rows, and a
// repeated deletion finds no session to add. A row has neither users nor sessions, only sums by revision
// and protocol, so that it shows nothing about a person that a count does not.
//
// Invariants:
//   - A row has at most maxDayTotals totals, and rows are as many as the days that an app keeps.
//   - A transaction that changes a row locks it first, in order of days, after its session.

// OutcomeDayRows stores the outcomes of deleted sessions.
type OutcomeDayRows interface {
	// DeleteCounted deletes a session as [SessionRows.DeleteSession] does, and in the same transaction adds
	// what [SessionOutcomes.CountDays] returns to the app's days. A missing session adds nothing.
	DeleteCounted(ctx context.Context, key session.Key, r OutcomeRetention) error
	// ListOutcomeDays returns a page of days. A row that cannot be read is a damaged one.
	ListOutcomeDays(ctx context.Context, q OutcomeDayQuery) ([]*OutcomeDay, error)
	// DeleteOutcomeDays deletes an app's days before one, and returns how many there were.
	DeleteOutcomeDays(ctx context.Context, app string, before int64) (int, error)
}

// An OutcomeDay is what came out of an app's deleted sessions on one UTC day.
type OutcomeDay struct {
	// Day is in days since 1970-01-01 UTC.
	Day int64
	// Totals have different revisions or protocols.
	Totals []OutcomeTotal
	// Damaged reports that the stored row cannot be read.
	Damaged bool
}

// An OutcomeTotal is what came out of deleted sessions on one revision, in one protocol.
type OutcomeTotal struct {
	// Outcome has the counts of all sessions. Its Code, Previous and Selected are empty.
	session.Outcome
	// Here counts the sessions with an outcome in this total. The others count a session in one total only:
	// that of its latest outcome on the revision, on the day, and of all.
	Here, OfRevision, OfDay, Latest SessionCount
	// Scores counts feedback. ScoreSum and ScoreSquares are the sums of the scores and of their squares.
	Scores                 int64
	ScoreSum, ScoreSquares float64
}

// A SessionCount counts sessions, and those that have a turn that did not end well.
type SessionCount struct {
	Sessions int64 `json:"sessions,omitempty"`
	Failed   int64 `json:"failed,omitempty"`
}

// OutcomeRetention is which outcomes of a deleted session are kept: those from the day From. Later days
// than Today, which a clock that ran ahead has written, count as Today.
type OutcomeRetention struct{ From, Today int64 }

// An OutcomeDayQuery selects an app's days, the latest one first.
type OutcomeDayQuery struct {
	App string
	// From and Before are the first day and the day after the last one.
	From, Before int64
	// Limit is how many days a page has at most.
	Limit int
}

const (
	// maxDayTotals is how many totals a day has at most. The last one is for all other revisions and
	// protocols, whose name is [session.OtherName].
	maxDayTotals = 64
	// maxDayBytes is the maximum length of a stored day.
	maxDayBytes = 8 << 20
	// maxDayCount is the maximum of a count in a stored day.
	maxDayCount = 1 << 53
	// maxRevisionName is the maximum length of a revision or protocol in a total.
	maxRevisionName = 255
	// outcomeDayPage is how many days are read at once.
	outcomeDayPage = 100
)

// CountDays returns the session's outcomes and scores of the days that are kept, in order of days.
func (s *SessionOutcomes) CountDays(r OutcomeRetention) []*OutcomeDay {
	c := dayCounter{OutcomeRetention: r, revisions: map[string]*OutcomeTotal{}, onDay: map[int64]*OutcomeTotal{}}
	for i := range s.Outcomes {
		c.addOutcome(&s.Outcomes[i])
	}
	for i := range s.Feedback {
		f := &s.Feedback[i]
		if t := c.findTotal(s.FindOutcome(f)); t != nil {
			t.Scores, t.ScoreSum, t.ScoreSquares = t.Scores+1, t.ScoreSum+f.Score, t.ScoreSquares+f.Score*f.Score
		}
	}
	slices.SortFunc(c.days, func(a, b *OutcomeDay) int { return cmp.Compare(a.Day, b.Day) })
	return c.days
}

// FindOutcome returns the outcome that feedback belongs to: the latest one on its revision, or an empty
// one on the feedback's day.
func (s *SessionOutcomes) FindOutcome(f *Feedback) *session.Outcome {
	for i := range s.Outcomes {
		if s.Outcomes[i].Revision == f.Revision {
			return &s.Outcomes[i]
		}
	}
	return &session.Outcome{Revision: f.Revision, Day: DayOf(f.Stored)}
}

// A dayCounter counts one session.
type dayCounter struct {
	OutcomeRetention
	days []*OutcomeDay
	// revisions and onDay have the total with the latest outcome on a revision or a day; latest is that of all
	// outcomes.
	revisions map[string]*OutcomeTotal
	onDay     map[int64]*OutcomeTotal
	latest    *OutcomeTotal
}

// addOutcome counts an outcome. Outcomes come in order, the latest one first.
func (c *dayCounter) addOutcome(o *session.Outcome) {
	t := c.findTotal(o)
	if t == nil {
		return
	}
	t.Add(o)
	c.latest = cmp.Or(c.latest, t)
	c.revisions[t.Revision], c.onDay[t.Day] = cmp.Or(c.revisions[t.Revision], t), cmp.Or(c.onDay[t.Day], t)
	for _, n := range []*SessionCount{&t.Here, &c.revisions[t.Revision].OfRevision, &c.onDay[t.Day].OfDay, &c.latest.Latest} {
		n.Sessions = 1
		if o.CountFailed() > 0 {
			n.Failed = 1
		}
	}
}

// findTotal returns the total for an outcome; nil if its day is not kept.
func (c *dayCounter) findTotal(o *session.Outcome) *OutcomeTotal {
	if o.Day < c.From {
		return nil
	}
	day := min(o.Day, c.Today)
	at := slices.IndexFunc(c.days, func(d *OutcomeDay) bool { return d.Day == day })
	if at < 0 {
		at, c.days = len(c.days), append(c.days, &OutcomeDay{Day: day, Totals: make([]OutcomeTotal, 0, maxDayTotals)}) // pointers into it stay valid
	}
	return c.days[at].findTotal(o.Revision, o.Protocol)
}

// findTotal returns the total with a revision and a protocol, and adds it if it is missing.
func (d *OutcomeDay) findTotal(revision, protocol string) *OutcomeTotal {
	if !isTotalName(revision) || !isTotalName(protocol) {
		revision, protocol = session.OtherName, session.OtherName
	}
	at := slices.IndexFunc(d.Totals, func(t OutcomeTotal) bool { return t.Revision == revision && t.Protocol == protocol })
	if at < 0 && len(d.Totals) >= maxDayTotals-1 && revision != session.OtherName {
		return d.findTotal(session.OtherName, session.OtherName)
	}
	if at < 0 {
		at = len(d.Totals)
		d.Totals = append(d.Totals, OutcomeTotal{Outcome: session.Outcome{Revision: revision, Protocol: protocol, Day: d.Day}})
	}
	return &d.Totals[at]
}

// isTotalName reports whether every database can store a name.
func isTotalName(name string) bool {
	return len(name) <= maxRevisionName && utf8.ValidString(name) && !strings.Contains(name, "\x00")
}

// AddDay adds the counts of the same day.
func (d *OutcomeDay) AddDay(other *OutcomeDay) {
	for i := range other.Totals {
		from := &other.Totals[i]
		t := d.findTotal(from.Revision, from.Protocol)
		t.Add(&from.Outcome)
		counts := from.listCounts()
		for i, n := range t.listCounts() {
			n.Sessions, n.Failed = min(n.Sessions+counts[i].Sessions, maxDayCount), min(n.Failed+counts[i].Failed, maxDayCount)
		}
		t.Scores, t.ScoreSum, t.ScoreSquares = min(t.Scores+from.Scores, maxDayCount), t.ScoreSum+from.ScoreSum, t.ScoreSquares+from.ScoreSquares
	}
}

func (t *OutcomeTotal) listCounts() [4]*SessionCount {
	return [4]*SessionCount{&t.Here, &t.OfRevision, &t.OfDay, &t.Latest}
}

// A storedTotal is the stored form of a total.
type storedTotal struct {
	Revision string `json:"revision,omitempty"`
	Protocol string `json:"protocol,omitempty"`
	// Outcome is [session.Outcome.Append]'s output.
	Outcome      string       `json:"outcome,omitempty"`
	Here         SessionCount `json:"here"`
	OfRevision   SessionCount `json:"ofRevision"`
	OfDay        SessionCount `json:"ofDay"`
	Latest       SessionCount `json:"latest"`
	Scores       int64        `json:"scores,omitempty"`
	ScoreSum     float64      `json:"scoreSum,omitempty"`
	ScoreSquares float64      `json:"scoreSquares,omitempty"`
}

// Encode returns the stored form of the totals, which [OutcomeDay.Decode] reads.
func (d *OutcomeDay) Encode() (string, error) {
	all := make([]storedTotal, len(d.Totals))
	for i := range d.Totals {
		t := &d.Totals[i]
		all[i] = storedTotal{t.Revision, t.Protocol, string(t.Append(nil)), t.Here, t.OfRevision, t.OfDay, t.Latest, t.Scores, t.ScoreSum, t.ScoreSquares}
	}
	text, err := json.Marshal(all)
	return string(text), err
}

// errOutcomeDay is the error for a malformed row.
var errOutcomeDay = errors.New("malformed outcomes of deleted sessions")

// Decode reads the form that Encode writes. After an error the day is damaged and has no totals.
func (d *OutcomeDay) Decode(text []byte) error {
	d.Totals, d.Damaged = nil, true
	if len(text) > maxDayBytes {
		return fmt.Errorf("outcomes of deleted sessions exceed the limit of %d bytes", maxDayBytes)
	}
	var all []storedTotal
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("%w: %w", errOutcomeDay, err)
	}
	if len(all) > maxDayTotals {
		return fmt.Errorf("%w: %d totals, at most %d are possible", errOutcomeDay, len(all), maxDayTotals)
	}
	totals := make([]OutcomeTotal, len(all))
	for i, s := range all {
		t := OutcomeTotal{
			Here: s.Here, OfRevision: s.OfRevision, OfDay: s.OfDay, Latest: s.Latest, Scores: s.Scores, ScoreSum: s.ScoreSum, ScoreSquares: s.ScoreSquares,
		}
		for _, n := range t.listCounts() {
			if min(n.Sessions, n.Failed) < 0 || max(n.Sessions, n.Failed) > maxDayCount {
				return fmt.Errorf("%w: count %d of %d", errOutcomeDay, n.Failed, n.Sessions)
			}
		}
		if s.Scores < 0 || s.Scores > maxDayCount || math.Abs(s.ScoreSum) > float64(s.Scores) || s.ScoreSquares < 0 || s.ScoreSquares > float64(s.Scores) {
			return fmt.Errorf("%w: scores outside of -1 to 1", errOutcomeDay)
		}
		if err := t.Outcome.Decode([]byte(s.Outcome)); err != nil {
			return err
		}
		t.Revision, t.Protocol, t.Day = s.Revision, s.Protocol, d.Day
		totals[i] = t
	}
	d.Totals, d.Damaged = totals, false
	return nil
}

// A KeptOutcomesRequest selects the outcomes of an app's deleted sessions.
type KeptOutcomesRequest struct {
	App string
	// Since omits outcomes of earlier UTC days; the zero time omits none.
	Since time.Time
}

// EachDay calls each for the days with outcomes of deleted sessions, the latest one first. An invalid app is
// ErrInvalid. It returns [ErrNoOutcomes] if the store has no backend for outcomes.
func (o *Outcomes) EachDay(ctx context.Context, req *KeptOutcomesRequest, each func(*OutcomeDay) error) error {
	if err := o.checkApp(req.App); err != nil {
		return err
	}
	q := OutcomeDayQuery{App: req.App, From: math.MinInt64, Before: math.MaxInt64, Limit: outcomeDayPage}
	if !req.Since.IsZero() {
		q.From = DayOf(req.Since)
	}
	for {
		page, err := o.backend.ListOutcomeDays(ctx, q)
		if err != nil {
			return err
		}
		for _, d := range page {
			if err := each(d); err != nil {
				return err
			}
		}
		if len(page) < q.Limit {
			return nil
		}
		q.Before = page[len(page)-1].Day
	}
}

// PruneOutcomes deletes an app's outcomes of deleted sessions that are older than keep, and returns how many
// days it deleted; 0 deletes all. The earlier one of the store's clock and the database's counts. It returns
// [ErrNoOutcomes] if the store has no backend for outcomes.
func (s *Store) PruneOutcomes(ctx context.Context, app string, keep time.Duration) (int, error) {
	o := s.Outcomes
	if err := o.checkApp(app); err != nil {
		return 0, err
	}
	before := int64(math.MaxInt64)
	if keep > 0 {
		now, err := s.Sessions.backend.EarliestTime(ctx, s.Sessions.currentTime())
		if err != nil {
			return 0, fmt.Errorf("reading the time: %w", err)
		}
		before = DayOf(now.Add(-keep))
	}
	// Most apps have none, and a read costs no flush to the disk.
	old, err := o.backend.ListOutcomeDays(ctx, OutcomeDayQuery{App: app, From: math.MinInt64, Before: before, Limit: 1})
	if err != nil || len(old) == 0 {
		return 0, err
	}
	return o.backend.DeleteOutcomeDays(ctx, app, before)
}

// newRetention returns the days that are kept for a duration.
func (o *Outcomes) newRetention(keep time.Duration) OutcomeRetention {
	now := o.clock()
	return OutcomeRetention{From: DayOf(now.Add(-keep)), Today: DayOf(now)}
}

func (o *Outcomes) checkApp(app string) error {
	if o.backend == nil {
		return ErrNoOutcomes
	}
	if app == "" {
		return fmt.Errorf("app is required: %w", session.ErrInvalid)
	}
	return codec.CheckText("app", app, codec.MaxApp)
}
