package chatpage

import (
	"context"
	"errors"
	"net/http"
	"slices"

	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// maxFeedback limits the body of a rating in bytes.
const maxFeedback = 4 << 10

type feedbackRequest struct {
	Message string `json:"message"`
	Score   int    `json:"score"`
}

// handleFeedback stores the user's rating of an answer, which counts for the answer's turn. A user
// has one rating for a turn; the last one replaces the others.
func (h *handlers) handleFeedback(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	var q feedbackRequest
	if err := h.ReadJSON(w, r, &q); err != nil {
		return err
	}
	if q.Score < -1 || q.Score > 1 {
		return server.NewError(http.StatusUnprocessableEntity, "score must be -1, 0 or 1")
	}
	sess, err := h.Host().Store().Sessions.Get(r.Context(), v.key, nil)
	if err != nil {
		return h.plainError(r, v.key, err)
	}
	events := session.Recorded(sess.Events())
	at := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.ID == q.Message && !ev.IsFromUser() })
	if at < 0 {
		return errNotFound
	}
	invocation := events[at].InvocationID
	err = h.Host().Store().Outcomes.SaveFeedback(r.Context(), v.key, &store.Feedback{
		Invocation: invocation, Caller: v.key.User, Score: float64(q.Score), Revision: session.RevisionOf(events, invocation),
	})
	if errors.Is(err, store.ErrNoOutcomes) {
		return server.NewError(http.StatusNotImplemented, "Ratings are not stored here")
	}
	if err != nil {
		return h.plainError(r, v.key, err)
	}
	return server.WriteJSON(w, nil)
}

// listScores returns the user's own ratings by invocation.
func (h *handlers) listScores(ctx context.Context, key session.Key) (map[string]int, error) {
	all, err := h.Host().Store().Outcomes.ListFeedback(ctx, key)
	if errors.Is(err, store.ErrNoOutcomes) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	scores := map[string]int{}
	for i := range all {
		if all[i].Caller == key.User {
			scores[all[i].Invocation] = int(all[i].Score)
		}
	}
	return scores, nil
}
