package chatpage

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"agenthost/pkg/protocol"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A conversation is a session as its user sees it.
type conversation struct {
	ID    string `json:"id"`
	Title string `json:"title"`
	// Time of the last change is in milliseconds since 1970.
	Time     int64      `json:"time"`
	Messages []*message `json:"messages,omitempty"`
	// Before is set if there are earlier messages: the ID to ask for them.
	Before string `json:"before,omitempty"`
	// At is the last stored event, for a follow request.
	At string `json:"at,omitempty"`
	// Running reports that a turn is in progress; Failed is why the last one can be repeated.
	Running bool   `json:"running,omitempty"`
	Failed  string `json:"failed,omitempty"`
}

type conversationList struct {
	Conversations []*conversation `json:"conversations"`
	// Next is the token for the next page.
	Next string `json:"next,omitempty"`
}

// Page sizes.
const (
	pageConversations = 100
	pageMessages      = 100
)

func newConversation(sess *session.Session) *conversation {
	return &conversation{ID: sess.ID, Title: cleanName(protocol.ReadTitle(sess)), Time: sess.LastUpdate.UnixMilli()}
}

func (h *handlers) handleList(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	return h.plainError(r, v.key, h.WriteLarge(w, r, false, func() ([]byte, error) {
		all, next, err := h.Host().Store().Sessions.Page(r.Context(), &store.PageRequest{App: v.key.App, User: v.key.User, Size: pageConversations, Token: r.URL.Query().Get("page")})
		if err != nil {
			return nil, err
		}
		list := conversationList{Conversations: []*conversation{}, Next: next}
		for _, sess := range all {
			list.Conversations = append(list.Conversations, newConversation(sess))
		}
		slices.SortStableFunc(list.Conversations, func(a, b *conversation) int { return int(b.Time - a.Time) })
		return server.EncodeJSON(list)
	}))
}

type titleRequest struct {
	Title string `json:"title"`
}

// readTitle reads a title for a conversation, on one line.
func (h *handlers) readTitle(w http.ResponseWriter, r *http.Request) (string, error) {
	var req titleRequest
	err := h.ReadJSON(w, r, &req)
	return strings.TrimSpace(cleanName(req.Title)), err
}

func (h *handlers) handleCreate(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	title, err := h.readTitle(w, r)
	if err != nil {
		return err
	}
	if err := h.ReserveRun(v.key.App, v.key.User); err != nil { // sessions are as cheap to create as runs
		return h.plainError(r, v.key, err)
	}
	var state map[string]any
	if title != "" {
		state = protocol.WithTitle(nil, title)
	}
	sess, err := h.Host().Store().Sessions.Create(r.Context(), v.key, state)
	if err != nil {
		return h.plainError(r, v.key, err)
	}
	return server.WriteJSON(w, newConversation(sess))
}

func (h *handlers) handleConversation(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	return h.plainError(r, v.key, h.WriteLarge(w, r, false, func() ([]byte, error) {
		c, err := h.loadConversation(r.Context(), v, r.URL.Query().Get("before"))
		if err != nil {
			return nil, err
		}
		return server.EncodeJSON(c)
	}))
}

// loadConversation returns the latest messages, or those before a message.
func (h *handlers) loadConversation(ctx context.Context, v *visit, before string) (*conversation, error) {
	sessions := h.Host().Store().Sessions
	// A run that ends between the two calls is in the events.
	isRunning, err := sessions.IsRunning(ctx, v.key)
	if err != nil {
		return nil, err
	}
	sess, err := sessions.Get(ctx, v.key, nil)
	if err != nil {
		return nil, err
	}
	events := session.Recorded(sess.Events())
	o, c := newOutlook(v.chat, events), newConversation(sess)
	if o.scores, err = h.listScores(ctx, v.key); err != nil {
		return nil, err
	}
	c.Running = isRunning
	if n := len(events); n > 0 {
		c.At = events[n-1].ID
	}
	if !c.Running {
		c.Failed = o.findFailure(v.app, events)
	}
	shown := events
	if before != "" {
		at := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.ID == before })
		shown = events[:max(at, 0)]
	}
	for i, ev := range slices.Backward(shown) {
		if m := o.readEvent(ev); m != nil {
			c.Messages = append(c.Messages, m)
		}
		if len(c.Messages) == pageMessages && i > 0 {
			c.Before = ev.ID
			break
		}
	}
	slices.Reverse(c.Messages)
	return c, nil
}

func (h *handlers) handleRename(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	title, err := h.readTitle(w, r)
	switch {
	case err != nil:
		return err
	case title == "":
		return server.NewError(http.StatusUnprocessableEntity, "title is required")
	}
	if err := h.renameSession(r.Context(), v.key, title); err != nil {
		return h.plainError(r, v.key, err)
	}
	return server.WriteJSON(w, nil)
}

// renameWait is how long a rename waits for a turn in the session.
const renameWait = 5 * time.Second

// renameSession stores a title as an event, between two turns.
func (h *handlers) renameSession(ctx context.Context, key session.Key, title string) error {
	sessions := h.Host().Store().Sessions
	ctx, release, err := sessions.Acquire(ctx, key, renameWait)
	if err != nil {
		return err
	}
	defer release()
	sess, err := sessions.Get(ctx, key, nil)
	if err != nil {
		return err
	}
	ev := &session.Event{InvocationID: "p-" + uuid.NewString(), Author: session.UserAuthor}
	ev.Actions.StateDelta = protocol.WithTitle(sess, title)
	return sessions.Append(ctx, sess, ev)
}

func (h *handlers) handleDelete(w http.ResponseWriter, r *http.Request) error {
	v, err := h.openDoor(r)
	if err != nil {
		return err
	}
	h.stopTurn(v.key)
	if err := h.Host().DeleteSession(r.Context(), v.key); err != nil {
		return h.plainError(r, v.key, err)
	}
	return server.WriteJSON(w, nil)
}
