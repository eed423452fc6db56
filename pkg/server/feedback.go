package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"agenthost/internal/jsonbody"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// maxFeedbackBody limits the body of feedback: a comment, each byte of which may be escaped.
const maxFeedbackBody = 64 << 10

// A feedbackEntry is a caller's score for an invocation, as JSON.
type feedbackEntry struct {
	InvocationID string    `json:"invocationId"`
	Caller       string    `json:"caller"`
	Score        float64   `json:"score"`
	Comment      string    `json:"comment,omitempty"`
	Revision     string    `json:"revision,omitempty"`
	Time         time.Time `json:"time"`
}

func newFeedbackEntry(f *store.Feedback) feedbackEntry {
	return feedbackEntry{f.Invocation, f.Caller, f.Score, f.Comment, f.Revision, f.Stored}
}

// handleFeedback stores the caller's score for an invocation, instead of its earlier one. Only an
// invocation that the host ran, and that has an answer, can get one.
func (s sessionHandlers) handleFeedback(w http.ResponseWriter, r *http.Request) error {
	b, err := s.ReadBody(w, r)
	if err != nil {
		return err
	}
	b.RequireField("invocationId")
	f := store.Feedback{Invocation: b.ReadString("invocationId"), Score: readScore(b), Comment: b.ReadString("comment")}
	b.RejectUnknownFields("invocationId", "score", "comment")
	if err := b.Err(); err != nil {
		return err
	}
	key := PathKey(r)
	if f.Caller, err = s.feedbackCaller(r); err != nil {
		return err
	}
	if f.Revision, err = s.findAnswered(r.Context(), key, f.Invocation); err != nil {
		return err
	}
	if err := s.host.Store().Outcomes.SaveFeedback(r.Context(), key, &f); err != nil {
		return wrapOutcomeError(key, err)
	}
	return WriteJSON(w, newFeedbackEntry(&f))
}

// readScore reads the required number.
func readScore(b *jsonbody.Body) (score float64) {
	f := b.FindField("score")
	switch {
	case f == nil:
		b.AddDetail("missing", "Field required", "score")
	case json.Unmarshal(f.Value, &score) != nil:
		b.AddDetail("float_type", "Input should be a valid number", "score")
	case score < -1 || score > 1:
		b.AddDetail("value_error", "Input should be from -1 to 1", "score")
	}
	return score
}

// feedbackCaller returns who gives feedback: the authenticated caller, or without authentication the
// user in the path.
func (s sessionHandlers) feedbackCaller(r *http.Request) (string, error) {
	p, err := s.Authenticate(r)
	switch {
	case err != nil:
		return "", err
	case p == nil:
		return PathKey(r).User, nil
	}
	return cmp.Or(p.UserID, "admin"), nil
}

// findAnswered returns the revision of an invocation in the session that has an answer.
func (s sessionHandlers) findAnswered(ctx context.Context, key session.Key, invocation string) (revision string, err error) {
	sess, err := s.host.Store().Sessions.Get(ctx, key, nil)
	if err != nil {
		return "", WithSessionKey(key, err)
	}
	events := session.WithoutImported(sess.Events())
	own := func(ev *session.Event) bool { return ev.InvocationID == invocation }
	if !slices.ContainsFunc(events, own) {
		return "", NewError(http.StatusNotFound, "Invocation not found: "+invocation)
	}
	if !slices.ContainsFunc(events, func(ev *session.Event) bool { return own(ev) && !ev.IsFromUser() }) {
		return "", &Error{Status: http.StatusConflict, Code: runtime.CodeInvalidRequest, Detail: "invocation " + invocation + " has no answer yet, retry later", RetryAfter: time.Second}
	}
	return session.RevisionOf(events, invocation), nil
}

// handleListFeedback responds with the session's feedback: all of it for administrators, the caller's
// own for others.
func (s sessionHandlers) handleListFeedback(w http.ResponseWriter, r *http.Request) error {
	key := PathKey(r)
	caller, err := s.feedbackCaller(r)
	if err != nil {
		return err
	}
	all, err := s.host.Store().Outcomes.ListFeedback(r.Context(), key)
	if err != nil {
		return wrapOutcomeError(key, err)
	}
	privileged, entries := s.IsPrivileged(r), []feedbackEntry{}
	for i := range all {
		if privileged || all[i].Caller == caller {
			entries = append(entries, newFeedbackEntry(&all[i]))
		}
	}
	return WriteJSON(w, entries)
}

func wrapOutcomeError(key session.Key, err error) error {
	if errors.Is(err, store.ErrNoOutcomes) {
		return NewError(http.StatusNotImplemented, store.ErrNoOutcomes.Error())
	}
	return WithSessionKey(key, err)
}
