package openaiserver

import (
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/google/uuid"

	"agenthost/pkg/protocol"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// A response is a turn in a session, and later turns rely on it. So its deletion is one of two:
//
//   - If the host created the session for a response, and it has only deleted responses and the history
//     that their requests brought, the session is deleted with all that it stores.
//   - Otherwise the session gets a mark. The response is not found any more, and no request continues
//     it; its items stay in the conversation, which later turns continue and which can be deleted as one.
//
// The session's lease is held meanwhile, so that no turn that begins at the same time is lost.

// deletedKey marks an event that deletes a response, in its metadata; the value is the invocation.
const deletedKey = "deleted_response"

// readDeleted returns the response that an event deletes; empty for another event.
func readDeleted(ev *session.Event) string {
	if !ev.IsFromUser() || ev.Content != nil {
		return ""
	}
	set, _ := ev.CustomMetadata[turnKey].(map[string]any)
	invocation, _ := set[deletedKey].(string)
	return invocation
}

// listDeleted returns the invocations whose responses were deleted.
func listDeleted(events []*session.Event) []string {
	var deleted []string
	for _, ev := range events {
		if invocation := readDeleted(ev); invocation != "" {
			deleted = append(deleted, invocation)
		}
	}
	return deleted
}

// isDisposable reports whether a session has nothing besides deleted responses: the host created it for a
// response, and no client has used it as a conversation.
func isDisposable(sess *session.Session, deleted []string) bool {
	digest, _, _ := strings.Cut(strings.TrimPrefix(sess.ID, idPrefix), "-")
	if code, err := hex.DecodeString(digest); err != nil || len(code) != sessionDigest || !strings.HasPrefix(sess.ID, idPrefix) || protocol.ReadMetadata(sess, conversationKey) != nil {
		return false
	}
	turns := turn{}
	return !slices.ContainsFunc(sess.Events(), func(ev *session.Event) bool {
		turns.readTurn(ev)
		return turns.isNamed || !ev.Provenance.Imported && readDeleted(ev) == "" && !slices.Contains(deleted, ev.InvocationID)
	})
}

// handleStoredResponse reads a response from its session. An interrupted one is resumed, if its app is
// resumable.
func (h *handlers) handleStoredResponse(w http.ResponseWriter, r *http.Request) error {
	s, err := h.findResponse(w, r)
	if err != nil {
		return err
	}
	skip, streams, err := h.readFollow(w, r)
	if err != nil {
		return err
	}
	if streams {
		return s.followResponse(r.Context(), nil, skip)
	}
	return s.sendStored(r.Context())
}

func newMissingResponse(id string) *requestError {
	return &requestError{http.StatusNotFound, fmt.Sprintf("Response with id %q not found", protocol.TruncateText(id, maxShown)), "", ""}
}

// findResponse finds the response that a path names, in a session of the caller.
func (h *handlers) findResponse(w http.ResponseWriter, r *http.Request) (*storedReader, error) {
	text := r.PathValue("response")
	missing := newMissingResponse(text)
	app, id, invocation := decodeResponseID(text)
	m, user, err := h.openDoor(r, cmp.Or(app, "-"), r.URL.Query().Get("user"))
	if own := (*requestError)(nil); errors.As(err, &own) {
		return nil, missing
	}
	if err != nil {
		return nil, err
	}
	key := session.Key{App: app, User: user, ID: id}
	sess, err := h.Host().Store().Sessions.Get(r.Context(), key, nil)
	if errors.Is(err, session.ErrNotFound) {
		return nil, missing
	}
	if err != nil {
		return nil, server.WithSessionKey(key, err)
	}
	isOwn := func(ev *session.Event) bool { return ev.InvocationID == invocation }
	if !slices.ContainsFunc(sess.Events(), isOwn) || slices.Contains(listDeleted(sess.Events()), invocation) {
		return nil, missing
	}
	o := &responseWriter{turn: &turn{h: h, r: r, w: w, model: m, place: newPlace(sess), finish: finishStop}}
	for _, ev := range sess.Events() {
		if isOwn(ev) {
			o.turn.readTurn(ev)
		}
	}
	o.object = o.newObject()
	if o.turn.isNamed {
		o.object.Conversation = &conversation{id}
	}
	return &storedReader{responseWriter: o, invocation: invocation, found: sess}, nil
}

// handleCancel cancels a response that is in progress.
func (h *handlers) handleCancel(w http.ResponseWriter, r *http.Request) error {
	s, err := h.findResponse(w, r)
	if err != nil {
		return err
	}
	state, err := s.readState(r.Context(), s.invocation)
	if err != nil {
		return err
	}
	if state == nil || state.Status != task.Working && state.Status != task.Waiting {
		return newRefusal("", "Only a response in progress can be canceled")
	}
	err = h.tasks.Cancel(r.Context(), task.ID{Key: s.turn.place.key, Invocation: s.invocation}, "The client canceled the response.")
	if errors.Is(err, task.ErrNotLast) {
		return newRefusal("", "The response cannot be canceled: a later one has begun in its conversation")
	}
	if err != nil {
		return err
	}
	return s.sendStored(r.Context())
}

// handleDeletedResponse deletes a response that has ended.
func (h *handlers) handleDeletedResponse(w http.ResponseWriter, r *http.Request) error {
	s, err := h.findResponse(w, r)
	if err != nil {
		return err
	}
	key, sessions := s.turn.place.key, h.Host().Store().Sessions
	isRunning, err := sessions.IsRunning(r.Context(), key)
	switch {
	case err != nil:
		return server.WithSessionKey(key, err)
	case isRunning && s.turn.place.invocation == s.invocation && !s.isComplete():
		return newRefusal("", "A response in progress cannot be deleted: cancel it first")
	}
	if err := h.ReserveRun(key.App, key.User); err != nil { // an event is as cheap to store as a run
		return server.WithSessionKey(key, err)
	}
	ctx, release, err := sessions.Acquire(r.Context(), key, conversationWait)
	if err != nil {
		return server.WithSessionKey(key, err)
	}
	defer release()
	sess, err := sessions.Get(ctx, key, nil)
	if errors.Is(err, session.ErrNotFound) {
		return newMissingResponse(r.PathValue("response"))
	}
	if err != nil {
		return server.WithSessionKey(key, err)
	}
	deleted := listDeleted(sess.Events())
	switch {
	case slices.Contains(deleted, s.invocation): // by another request meanwhile
		return newMissingResponse(r.PathValue("response"))
	case isDisposable(sess, append(deleted, s.invocation)):
		err = h.Host().DeleteSession(ctx, key)
	default:
		ev := &session.Event{InvocationID: "p-" + uuid.NewString(), Author: session.UserAuthor}
		ev.CustomMetadata = map[string]any{turnKey: map[string]any{deletedKey: s.invocation}}
		err = sessions.Append(ctx, sess, ev)
	}
	if err != nil {
		return server.WithSessionKey(key, err)
	}
	return server.WriteJSON(w, &deletedObject{r.PathValue("response"), "response", true})
}

// isComplete reports whether the response's last event ends a turn. A run that has the session's lease after
// it has almost ended, or is another request's.
func (s *storedReader) isComplete() bool {
	for _, ev := range slices.Backward(s.found.Events()) {
		if ev.InvocationID == s.invocation {
			return !ev.IsFromUser() && (ev.ErrorCode != "" || ev.IsFinal())
		}
	}
	return false
}

// handleInputItems lists the user's items that a response answers: the message or the answers that its turn
// began with. Earlier messages in the request are the conversation's items.
func (h *handlers) handleInputItems(w http.ResponseWriter, r *http.Request) error {
	s, err := h.findResponse(w, r)
	if err != nil {
		return err
	}
	events := s.found.Events()
	for events[len(events)-1].InvocationID != s.invocation {
		events = events[:len(events)-1]
	}
	return h.WriteLarge(w, r, false, func() ([]byte, error) {
		items, err := h.newItemReader(r, s.turn.model, s.found.Key).readItems(events)
		if err != nil {
			return nil, err
		}
		list, err := selectItems(r, slices.DeleteFunc(items, func(i listedItem) bool { return i.input != s.invocation }))
		if err != nil {
			return nil, err
		}
		return server.EncodeJSON(list)
	})
}
