package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// countTurn returns the stored form of an outcome with one more turn, and the outcome.
func countTurn(t testing.TB, o *session.Outcome) []byte {
	t.Helper()
	o.BeginTurn()
	o.Code = ""
	o.AddAgent(session.AgentOutcome{Agent: "desk", Calls: 1, Input: 10, Output: 2})
	return o.Append(nil)
}

// sessionOutcomes are the outcomes of an app's sessions as text, the latest created one first.
func sessionOutcomes(t testing.TB, s *testStore, req *store.OutcomeRequest) (all []string, more bool) {
	t.Helper()
	more, err := s.Outcomes.EachSession(t.Context(), req, func(one *store.SessionOutcomes) error {
		var turns []string
		for _, o := range one.Outcomes {
			turn := fmt.Sprintf("%s day %d: %d", o.Revision, o.Day, o.Turns)
			if o.Selected {
				turn += " selected"
			}
			turns = append(turns, turn)
		}
		all = append(all, one.Key.ID+" "+strings.Join(turns, ", "))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all, more
}

// An append stores the session's outcome with its event: a later read, in this store and in another
// one, has it, and so has the next event if nothing was counted.
func (su *Suite) testOutcomeRoundTrip(t *testing.T) {
	a, b := su.openPair(t)
	sess := createSession(t, a, alice, nil)
	wantEqual(t, "outcome of a new session", 0, len(sess.Outcome))
	o := session.Outcome{Revision: "r1", Protocol: "run", Day: 3, Selected: true}
	sess.Outcome = countTurn(t, &o)
	want := string(sess.Outcome)
	appendEvent(t, a, sess, textEvent("user", "hi"))
	appendEvent(t, a, sess, textEvent("agent", "hello"))
	wantEqual(t, "outcome", want, string(getSession(t, a, alice, nil).Outcome))
	appendEvent(t, a, sess, updateEvent("app:n", session.UpdateAdd, 1))
	if err := a.Sessions.AppendAll(t.Context(), sess, []*session.Event{textEvent("user", "a"), textEvent("agent", "b")}); err != nil {
		t.Fatal(err)
	}
	few := 0
	a.dropCache()
	for _, s := range []*testStore{a, b} {
		wantEqual(t, "outcome", want, string(getSession(t, s, alice, nil).Outcome))
		wantEqual(t, "outcome without events", want, string(getSession(t, s, alice, &store.GetOptions{NumRecentEvents: &few}).Outcome))
		all, more := sessionOutcomes(t, s, &store.OutcomeRequest{App: "app"})
		wantEqual(t, "outcomes", []string{"s r1 day 3: 1 selected"}, all)
		wantEqual(t, "more", false, more)
	}
}

// An append that fails counts nothing, and one that is repeated counts once.
func (su *Suite) testOutcomeRejected(t *testing.T) {
	s := su.open(t, nil)
	sess, late := createSession(t, s, alice, nil), getSession(t, s, alice, nil)
	o := session.Outcome{Revision: "r1"}
	sess.Outcome = countTurn(t, &o)
	ev := appendEvent(t, s, sess, textEvent("user", "hi"))
	late.Outcome = countTurn(t, &session.Outcome{Revision: "late"})
	wantErr(t, "stale append", s.Sessions.Append(t.Context(), late, textEvent("user", "hi")), wantedError{session.ErrStale, ""})
	again := *ev
	again.Seq = 0
	late.Outcome = countTurn(t, &session.Outcome{Revision: "late"})
	if err := s.Sessions.Append(t.Context(), late, &again); err != nil {
		t.Fatal(err)
	}
	all, _ := sessionOutcomes(t, s, &store.OutcomeRequest{App: "app"})
	wantEqual(t, "outcomes", []string{"s r1 day 0: 1"}, all)
	wantEqual(t, "outcome", string(sess.Outcome), string(getSession(t, s, alice, nil).Outcome))
}

// When an outcome begins after another one, both are listed, the latest one first. Sessions are
// listed by their creation, the latest one first, up to a number, and go with their session.
func (su *Suite) testOutcomeList(t *testing.T) {
	s := su.open(t, nil)
	ids := map[string]int64{}
	for _, id := range []string{"one", "two", "empty", "three"} {
		key := session.Key{App: "app", User: "user-" + id, ID: id}
		sess := createSession(t, s, key, nil)
		if id == "empty" {
			continue
		}
		var previous int64
		for day := range int64(3) {
			o := session.Outcome{Revision: fmt.Sprint("r", day), Day: day, Previous: previous}
			for range 2 {
				sess.Outcome = countTurn(t, &o)
				appendEvent(t, s, sess, textEvent("user", "hi"))
			}
			previous = sess.Version
		}
	}
	_, err := s.Outcomes.EachSession(t.Context(), &store.OutcomeRequest{App: "app"}, func(one *store.SessionOutcomes) error {
		ids[one.Key.ID] = one.ID
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	const days = " r2 day 2: 2, r1 day 1: 2, r0 day 0: 2"
	for _, tt := range []struct {
		req  store.OutcomeRequest
		want []string
		more bool
	}{
		{store.OutcomeRequest{App: "app"}, []string{"three" + days, "two" + days, "one" + days}, false},
		{store.OutcomeRequest{App: "app", MaxSessions: 3}, []string{"three" + days, "two" + days}, true},
		{store.OutcomeRequest{App: "app", MaxSessions: 4}, []string{"three" + days, "two" + days, "one" + days}, false},
		{store.OutcomeRequest{App: "app", User: "user-two"}, []string{"two" + days}, false},
		{store.OutcomeRequest{App: "app", User: "user-two", Since: time.Unix(2*86400+5, 0)}, []string{"two r2 day 2: 2"}, false},
		{store.OutcomeRequest{App: "app", Since: time.Unix(3*86400, 0)}, nil, false},
		{store.OutcomeRequest{App: "app", Ascending: true}, []string{"one" + days, "two" + days, "three" + days}, false},
		{store.OutcomeRequest{App: "app", Ascending: true, MaxSessions: 2}, []string{"one" + days, "two" + days}, true},
		{store.OutcomeRequest{App: "app", Ascending: true, After: ids["one"]}, []string{"two" + days, "three" + days}, false},
		{store.OutcomeRequest{App: "app", Ascending: true, After: ids["two"], Empty: true}, []string{"empty ", "three" + days}, false},
		{store.OutcomeRequest{App: "app", Before: ids["three"]}, []string{"two" + days, "one" + days}, false},
		{store.OutcomeRequest{App: "other"}, nil, false},
	} {
		all, more := sessionOutcomes(t, s, &tt.req)
		wantEqual(t, fmt.Sprintf("outcomes of %+v", tt.req), tt.want, all)
		wantEqual(t, fmt.Sprintf("more than %+v", tt.req), tt.more, more)
	}
	if err := s.Sessions.Delete(t.Context(), session.Key{App: "app", User: "user-two", ID: "two"}); err != nil {
		t.Fatal(err)
	}
	all, _ := sessionOutcomes(t, s, &store.OutcomeRequest{App: "app"})
	wantEqual(t, "outcomes after a deletion", []string{"three" + days, "one" + days}, all)
	_, err = s.Outcomes.EachSession(t.Context(), &store.OutcomeRequest{}, nil)
	wantErr(t, "outcomes without an app", err, wantedError{session.ErrInvalid, "app is required"})
}

// Text that is not an outcome is reported, and the session can be used.
func (su *Suite) testOutcomeDamaged(t *testing.T) {
	s := su.open(t, nil)
	sess := createSession(t, s, alice, nil)
	sess.Outcome = []byte("1 what is this")
	appendEvent(t, s, sess, textEvent("user", "hi"))
	wantEqual(t, "version", int64(1), getSession(t, s, alice, nil).Version)
	_, err := s.Outcomes.EachSession(t.Context(), &store.OutcomeRequest{App: "app"}, func(one *store.SessionOutcomes) error {
		if !one.Damaged || len(one.Outcomes) > 0 {
			t.Errorf("outcomes = %+v, want damaged ones", one)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A caller has one feedback for an invocation, the last one. It goes with the session.
func (su *Suite) testFeedback(t *testing.T) {
	now := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	s := su.open(t, &store.Options{Clock: func() time.Time { return now }})
	createSession(t, s, alice, nil)
	save := func(f store.Feedback) {
		t.Helper()
		if err := s.Outcomes.SaveFeedback(t.Context(), alice, &f); err != nil {
			t.Fatal(err)
		}
	}
	save(store.Feedback{Invocation: "e-1", Caller: "bob", Revision: "r1", Score: 1, Comment: "good"})
	save(store.Feedback{Invocation: "e-1", Caller: "alice", Revision: "r1", Score: 0.25, Comment: "so so"})
	save(store.Feedback{Invocation: "e-1", Caller: "bob", Revision: "r1", Score: -1, Comment: "no: \u00e9\n"})
	want := []store.Feedback{
		{Invocation: "e-1", Caller: "alice", Revision: "r1", Score: 0.25, Comment: "so so", Stored: now},
		{Invocation: "e-1", Caller: "bob", Revision: "r1", Score: -1, Comment: "no: \u00e9\n", Stored: now},
	}
	got, err := s.Outcomes.ListFeedback(t.Context(), alice)
	if err != nil {
		t.Fatal(err)
	}
	wantEqual(t, "feedback", want, got)
	want[0].Comment, want[1].Comment = "", ""
	_, err = s.Outcomes.EachSession(t.Context(), &store.OutcomeRequest{App: "app"}, func(one *store.SessionOutcomes) error {
		wantEqual(t, "listed feedback", want, one.Feedback)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 98 {
		save(store.Feedback{Invocation: "e-1", Caller: fmt.Sprint("caller-", i), Score: 1})
	}
	save(store.Feedback{Invocation: "e-1", Caller: "caller-7", Score: -1})
	wantErr(t, "feedback of one more caller", s.Outcomes.SaveFeedback(t.Context(), alice, &store.Feedback{Invocation: "e-1", Caller: "one more"}),
		wantedError{session.ErrTooLarge, "feedback on an invocation exceeds the limit of 100 callers"})
	if err := s.Sessions.Delete(t.Context(), alice); err != nil {
		t.Fatal(err)
	}
	_, err = s.Outcomes.ListFeedback(t.Context(), alice)
	wantErr(t, "feedback on a deleted session", err, wantedError{session.ErrNotFound, "session not found: s"})
	wantErr(t, "feedback on a deleted session", s.Outcomes.SaveFeedback(t.Context(), alice, &store.Feedback{Invocation: "e-1"}),
		wantedError{session.ErrNotFound, "session not found: s"})
	createSession(t, s, alice, nil)
	if got, err = s.Outcomes.ListFeedback(t.Context(), alice); err != nil || len(got) > 0 {
		t.Errorf("feedback on a new session with the id = %v, %v", got, err)
	}
}

// Feedback outside the limits is rejected.
func (su *Suite) testFeedbackInvalid(t *testing.T) {
	s := su.open(t, nil)
	createSession(t, s, alice, nil)
	for _, tt := range []struct {
		f    store.Feedback
		want string
	}{
		{store.Feedback{Score: 1.01}, "score must be from -1 to 1, got 1.01"},
		{store.Feedback{Comment: strings.Repeat("x", 4097)}, "comment exceeds the limit of 4 KiB"},
		{store.Feedback{Comment: "a\x00b"}, `comment "a\x00b" contains a NUL byte`},
		{store.Feedback{Invocation: strings.Repeat("x", 129)}, "invocation id exceeds the limit of 128 characters"},
		{store.Feedback{Caller: "\xff"}, `caller "\xff" is not UTF-8`},
	} {
		err := s.Outcomes.SaveFeedback(t.Context(), alice, &tt.f)
		wantErr(t, "SaveFeedback", err, wantedError{session.ErrInvalid, tt.want})
	}
}

// After Close, every method fails.
func (su *Suite) testOutcomesClosed(t *testing.T) {
	s := su.open(t, nil)
	closeStore(t, s)
	_, err := s.Outcomes.EachSession(t.Context(), &store.OutcomeRequest{App: "app"}, nil)
	_, listErr := s.Outcomes.ListFeedback(t.Context(), alice)
	dayErr := s.Outcomes.EachDay(t.Context(), &store.KeptOutcomesRequest{App: "app"}, nil)
	for _, err := range []error{err, listErr, dayErr, s.Delete(t.Context(), alice, time.Hour), s.Outcomes.SaveFeedback(t.Context(), alice, &store.Feedback{})} {
		if !errors.Is(err, store.ErrClosed) {
			t.Errorf("after Close: %v, want %v", err, store.ErrClosed)
		}
	}
}
