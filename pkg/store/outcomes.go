package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"agenthost/internal/codec"
	"agenthost/pkg/session"
)

// ErrNoOutcomes is the error from a store without a backend for outcomes.
var ErrNoOutcomes = errors.New("the session database does not support outcomes")

// Outcomes reads what came out of an app's sessions, and stores people's feedback on them. The
// outcomes themselves are stored with the events, see [session.Outcome]. It is safe for concurrent
// use.
type Outcomes struct {
	backend OutcomeBackend
	clock   func() time.Time
}

// An OutcomeBackend reads the outcomes of stored sessions, and stores feedback. It is safe for
// concurrent use.
type OutcomeBackend interface {
	OutcomeDayRows
	// ListOutcomes returns a page of sessions, the latest created one first unless the query is Ascending, with feedback in order of
	// invocation and caller, without comments. Sessions without events are included.
	ListOutcomes(ctx context.Context, q OutcomeQuery) ([]*SessionOutcomes, error)
	// PutFeedback stores feedback, instead of the caller's earlier one on the invocation. It fails
	// with ErrNotFound if the session is missing, and with a [session.LimitError] if the invocation has
	// feedback from most callers.
	PutFeedback(ctx context.Context, key session.Key, f Feedback, most int) error
	// ListFeedback returns a session's feedback in order of invocation and caller. A missing session
	// is ErrNotFound.
	ListFeedback(ctx context.Context, key session.Key) ([]Feedback, error)
}

// An OutcomeQuery selects an app's sessions.
type OutcomeQuery struct {
	App string
	// User selects one user; empty selects all users.
	User string
	// Before selects sessions with a smaller head id; 0 selects all. After selects those with a greater one.
	Before, After int64
	// Ascending lists the earliest created session first.
	Ascending bool
	// Limit is how many sessions a page has at most.
	Limit int
}

// SessionOutcomes are what came out of one session.
type SessionOutcomes struct {
	Key session.Key
	// ID is the head id, see [Head].
	ID      int64
	Created time.Time
	// Outcomes are in order of time, the latest one first. None of them is empty.
	Outcomes []session.Outcome
	// Damaged reports that stored outcomes cannot be read and are missing.
	Damaged bool
	// Feedback has no comments.
	Feedback []Feedback
}

// AddOutcome adds an outcome in its stored form, and returns the number of the event with the outcome
// before it, 0 for none. Backends call it in order, the latest outcome first.
func (s *SessionOutcomes) AddOutcome(text []byte) (previous int64) {
	var o session.Outcome
	if err := o.Decode(text); err != nil {
		s.Damaged = true
		return 0
	}
	if !o.IsEmpty() {
		s.Outcomes = append(s.Outcomes, o)
	}
	return o.Previous
}

// Feedback is a person's score for an invocation.
type Feedback struct {
	Invocation string
	// Caller is who gave it: a name from the server's authentication, or the session's user.
	Caller string
	// Revision is that on which the invocation ran.
	Revision string
	// Score is from -1 to 1.
	Score float64
	// Comment may be empty.
	Comment string
	Stored  time.Time
}

// Limits on feedback.
const (
	// MaxFeedbackComment is the maximum length of a comment in bytes.
	MaxFeedbackComment = 4 << 10
	// maxFeedbackCallers is how many callers can give feedback on one invocation.
	maxFeedbackCallers = 100
)

// DefaultOutcomeSessions is the default of OutcomeRequest.MaxSessions.
const DefaultOutcomeSessions = 100_000

// outcomePage is how many sessions are read at once. In ascending order the first page is small and pages double,
// since a reader that follows new sessions finds few.
const (
	outcomePage      = 500
	firstOutcomePage = 10
)

// An OutcomeRequest selects outcomes.
type OutcomeRequest struct {
	App string
	// User selects one user; empty selects all users.
	User string
	// Before selects sessions with a smaller head id; 0 selects all. After selects those with a greater one.
	Before, After int64
	// Ascending calls for the earliest created session first, instead of the latest one.
	Ascending bool
	// Empty includes sessions without outcomes and feedback.
	Empty bool
	// Since omits outcomes of earlier UTC days; the zero time omits none.
	Since time.Time
	// MaxSessions is how many sessions are examined at most, the first ones in the order; 0 is
	// [DefaultOutcomeSessions].
	MaxSessions int
}

// EachSession calls each for the sessions that have outcomes or feedback, in the order of the request,
// page by page. It reports whether there are more sessions than it may examine. An invalid app
// or user is ErrInvalid. It returns [ErrNoOutcomes] if the store has no backend for outcomes.
func (o *Outcomes) EachSession(ctx context.Context, req *OutcomeRequest, each func(*SessionOutcomes) error) (more bool, err error) {
	if err := o.checkApp(req.App); err != nil {
		return false, err
	}
	if err := codec.CheckText("user id", req.User, codec.MaxUser); err != nil {
		return false, err
	}
	left := cmp.Or(req.MaxSessions, DefaultOutcomeSessions)
	q := OutcomeQuery{App: req.App, User: req.User, Before: req.Before, After: req.After, Ascending: req.Ascending}
	size := outcomePage
	if q.Ascending {
		size = firstOutcomePage
	}
	for ; ; size = min(2*size, outcomePage) {
		// One more than is used shows whether there are more.
		q.Limit = min(size, left) + 1
		page, err := o.backend.ListOutcomes(ctx, q)
		if err != nil {
			return false, err
		}
		last := len(page) < q.Limit
		page = page[:min(len(page), q.Limit-1)]
		for _, s := range page {
			s.dropBefore(req.Since)
			if len(s.Outcomes) == 0 && len(s.Feedback) == 0 && !s.Damaged && !req.Empty {
				continue
			}
			if err := each(s); err != nil {
				return false, err
			}
		}
		if left -= len(page); last || left <= 0 {
			return !last, nil
		}
		if end := page[len(page)-1].ID; q.Ascending {
			q.After = end
		} else {
			q.Before = end
		}
	}
}

// dropBefore removes outcomes and feedback of days before that of a time.
func (s *SessionOutcomes) dropBefore(since time.Time) {
	if since.IsZero() {
		return
	}
	day := DayOf(since)
	kept := s.Outcomes[:0]
	for _, o := range s.Outcomes {
		if o.Day >= day {
			kept = append(kept, o)
		}
	}
	s.Outcomes = kept
	given := s.Feedback[:0]
	for _, f := range s.Feedback {
		if DayOf(f.Stored) >= day {
			given = append(given, f)
		}
	}
	s.Feedback = given
}

// DayOf returns a time's UTC day, as outcomes have it.
func DayOf(t time.Time) int64 { return int64(math.Floor(float64(t.Unix()) / 86400)) }

// FormatDay formats a UTC day, as outcomes have it.
func FormatDay(day int64) string { return time.Unix(day*86400, 0).UTC().Format(time.DateOnly) }

// SaveFeedback stores feedback, instead of the caller's earlier one on the invocation, and sets its
// time. The caller of this method has checked that the invocation exists. A missing session is
// ErrNotFound, feedback that cannot be stored ErrInvalid. It returns [ErrNoOutcomes] if the store has
// no backend for outcomes.
func (o *Outcomes) SaveFeedback(ctx context.Context, key session.Key, f *Feedback) error {
	if o.backend == nil {
		return ErrNoOutcomes
	}
	if err := codec.CheckSession(key); err != nil {
		return err
	}
	if err := f.Validate(); err != nil {
		return err
	}
	f.Score = math.Round(f.Score*1e6) / 1e6
	f.Stored = o.clock().UTC().Truncate(time.Microsecond)
	return o.backend.PutFeedback(ctx, key, *f, maxFeedbackCallers)
}

// Validate reports feedback that cannot be stored as ErrInvalid.
func (f *Feedback) Validate() error {
	if math.IsNaN(f.Score) || f.Score < -1 || f.Score > 1 {
		return fmt.Errorf("score must be from -1 to 1, got %v: %w", f.Score, session.ErrInvalid)
	}
	for _, field := range []struct {
		name, value string
		most        int
	}{
		{"invocation id", f.Invocation, codec.MaxID}, {"caller", f.Caller, codec.MaxUser}, {"revision", f.Revision, codec.MaxUser},
	} {
		if err := codec.CheckText(field.name, field.value, field.most); err != nil {
			return err
		}
	}
	if err := codec.CheckText("comment", f.Comment, MaxFeedbackComment); err != nil && len(f.Comment) <= MaxFeedbackComment {
		return err
	}
	if len(f.Comment) > MaxFeedbackComment {
		return &session.LimitError{Part: "comment", Limit: MaxFeedbackComment}
	}
	return nil
}

// ListFeedback returns a session's feedback with comments, in order of invocation and caller. A missing
// session is ErrNotFound. It returns [ErrNoOutcomes] if the store has no backend for outcomes.
func (o *Outcomes) ListFeedback(ctx context.Context, key session.Key) ([]Feedback, error) {
	if o.backend == nil {
		return nil, ErrNoOutcomes
	}
	if err := codec.CheckSession(key); err != nil {
		return nil, err
	}
	return o.backend.ListFeedback(ctx, key)
}

// TooMuchFeedback is the error for an invocation with feedback from too many callers.
func TooMuchFeedback(most int) error {
	return &session.LimitError{Part: "feedback on an invocation", Limit: int64(most), Unit: "callers"}
}
