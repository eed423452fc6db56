package openaiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/google/uuid"
	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/runtime"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// A conversation object is a session: each session is one, also if another client created it. A session
// belongs to an app, which the path or ?model= names; without either, the caller's apps are searched.

// A conversationObject is a conversation on the wire.
type conversationObject struct {
	ID       string         `json:"id"`
	Object   string         `json:"object"`
	Created  int64          `json:"created_at"`
	Metadata map[string]any `json:"metadata"`
}

// A deletedObject is the answer to the deletion of a conversation or a response.
type deletedObject struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

type itemList struct {
	Object string `json:"object"`
	Data   []any  `json:"data"`
	First  string `json:"first_id"`
	Last   string `json:"last_id"`
	More   bool   `json:"has_more"`
}

// A conversationRequest is the body for POST /v1/conversations and the routes below it. Model and User are
// this host's own keys, as in responses.
type conversationRequest struct {
	Model    string         `json:"model"`
	User     string         `json:"user"`
	Items    []inputItem    `json:"items"`
	Metadata map[string]any `json:"metadata"`
}

// OpenAI's limits.
const (
	maxItems        = 20
	maxMetadata     = 16
	maxMetadataKey  = 64
	maxMetadataText = 512
	maxListed       = 100
	defaultListed   = 20
)

// Keys in a session's metadata.
const (
	conversationKey = "conversation"
	createdKey      = "created_at"
	metadataKey     = "metadata"
)

// conversationWait is how long a change to a conversation waits for a turn.
const conversationWait = 5 * time.Second

// A room is a conversation's session and the model that it was found by.
type room struct {
	model *model
	sess  *session.Session
}

// checkMetadata checks the keys and texts that a client attaches to an object.
func checkMetadata(metadata map[string]any) error {
	if n := len(metadata); n > maxMetadata {
		return newRefusal("metadata", "metadata exceeds the limit of %d keys, got %d", maxMetadata, n)
	}
	for key, value := range metadata {
		text, isText := value.(string)
		shown := protocol.TruncateText(key, maxMetadataKey)
		switch {
		case len([]rune(key)) > maxMetadataKey:
			return newRefusal("metadata", "metadata key %q exceeds the limit of %d characters", shown, maxMetadataKey)
		case !isText:
			return newRefusal("metadata", "metadata key %q must have a string", shown)
		case len([]rune(text)) > maxMetadataText:
			return newRefusal("metadata", "the value of the metadata key %q exceeds the limit of %d characters", shown, maxMetadataText)
		}
	}
	return nil
}

// describeConversation returns a session on the wire.
func describeConversation(sess *session.Session) *conversationObject {
	c := &conversationObject{ID: sess.ID, Object: "conversation", Created: sess.LastUpdate.Unix(), Metadata: map[string]any{}}
	if events := sess.Events(); len(events) > 0 {
		c.Created = events[0].Timestamp.Unix()
	}
	stored, _ := protocol.ReadMetadata(sess, conversationKey).(map[string]any)
	if created, ok := stored[createdKey].(int64); ok {
		c.Created = created
	}
	if metadata, ok := stored[metadataKey].(map[string]any); ok {
		c.Metadata = metadata
	}
	return c
}

// writeMetadata returns the state or its change with a conversation's metadata.
func writeMetadata(sess *session.Session, created int64, metadata map[string]any) map[string]any {
	if metadata == nil {
		metadata = map[string]any{}
	}
	return protocol.WithMetadata(sess, conversationKey, map[string]any{createdKey: created, metadataKey: metadata})
}

func (h *handlers) handleNewConversation(w http.ResponseWriter, r *http.Request) error {
	q, err := h.readConversation(w, r)
	if err != nil {
		return err
	}
	m, user, err := h.chooseModel(r, q)
	if err != nil {
		return err
	}
	history, err := q.readItems()
	if err != nil {
		return err
	}
	c := &room{model: m, sess: &session.Session{Key: session.Key{App: m.app.Name(), User: user}}}
	if err := h.ReserveRun(c.sess.App, user); err != nil { // sessions are as cheap to create as runs
		return server.WithSessionKey(c.sess.Key, err)
	}
	if err := h.createConversation(r.Context(), c, q.Metadata, history); err != nil {
		return server.WithSessionKey(c.sess.Key, err)
	}
	return server.WriteJSON(w, describeConversation(c.sess))
}

// createConversation creates a conversation with a generated ID, and its history.
func (h *handlers) createConversation(ctx context.Context, c *room, metadata map[string]any, history []*genai.Content) error {
	sessions := h.Host().Store().Sessions
	sess, err := sessions.Create(ctx, c.sess.Key, writeMetadata(nil, h.Now().Unix(), metadata))
	if err != nil {
		return err
	}
	if c.sess = sess; len(history) == 0 {
		return nil
	}
	ctx, release, err := sessions.Acquire(ctx, c.sess.Key, conversationWait)
	if err == nil {
		defer release()
		err = protocol.AppendHistory(ctx, sessions, c.sess, c.model.app.Root().Name(), history)
	}
	if err != nil {
		return errors.Join(err, sessions.Delete(context.WithoutCancel(ctx), c.sess.Key))
	}
	return nil
}

// readConversation reads a request's body.
func (h *handlers) readConversation(w http.ResponseWriter, r *http.Request) (*conversationRequest, error) {
	q := &conversationRequest{}
	if err := h.readBody(w, r, q); err != nil {
		return nil, err
	}
	if n := len(q.Items); n > maxItems {
		return nil, newRefusal("items", "items exceeds the limit of %d, got %d", maxItems, n)
	}
	return q, checkMetadata(q.Metadata)
}

// readItems returns a request's items as contents for the history.
func (q *conversationRequest) readItems() ([]*genai.Content, error) {
	var messages []message
	open := map[string]bool{}
	for i := range q.Items {
		item, at := &q.Items[i], fmt.Sprintf("items[%d]", i)
		var m message
		var err error
		switch item.Type {
		case "", "message":
			m, err = (&chatMessage{Role: item.Role, Content: item.Content}).readMessage(at)
			if err == nil && !m.isEmpty() && m.role == roleSystem {
				err = newRefusal(at+".role", "%s.role must be user or assistant: a response has its own instructions", at)
			}
		case "function_call", "function_call_output":
			m, err = item.readCall(at)
			open[item.CallID] = item.Type == "function_call"
		default:
			err = newRefusal(at+".type", "%s.type must be message, function_call or function_call_output, got %q", at, protocol.TruncateText(item.Type, maxShown))
		}
		switch {
		case err != nil:
			return nil, err
		case m.isEmpty():
			return nil, newRefusal(at+".content", "%s.content must not be empty", at)
		}
		messages = append(messages, m)
	}
	for id, isOpen := range open {
		if isOpen {
			return nil, newRefusal("items", "call_id %q must have a function_call_output in the same request", protocol.TruncateText(id, maxShown))
		}
	}
	return readHistory(messages)
}

// chooseModel returns the model for a new conversation, and the user as which the caller acts.
func (h *handlers) chooseModel(r *http.Request, q *conversationRequest) (*model, string, error) {
	names, err := h.listCandidates(r, q.Model)
	if err != nil {
		return nil, "", err
	}
	if len(names) != 1 {
		return nil, "", newRefusal("model", "model is required: a conversation belongs to one app; send model, or use the base URL /apps/APP/v1")
	}
	return h.openDoor(r, names[0], cmp.Or(q.User, r.URL.Query().Get("user")))
}

// listCandidates returns the models that a conversation can belong to: the one that the request names, or
// all that the caller may use.
func (h *handlers) listCandidates(r *http.Request, named string) ([]string, error) {
	caller, err := h.Authenticate(r)
	if err != nil {
		return nil, err
	}
	if named == "" {
		named = r.URL.Query().Get("model")
	}
	if named == "" {
		named = r.PathValue("app")
	}
	if named != "" {
		return []string{named}, nil
	}
	var names []string
	for _, app := range h.Host().Apps() {
		if h.newModel(app.Name()) != nil && (caller == nil || caller.MayUse(r.Context(), app.Name())) {
			names = append(names, app.Name())
		}
	}
	return names, nil
}

// findConversation returns the conversation that a path names, among the caller's sessions.
func (h *handlers) findConversation(r *http.Request) (*room, error) {
	id := r.PathValue("conversation")
	names, err := h.listCandidates(r, "")
	if err != nil {
		return nil, err
	}
	var found *room
	for _, name := range names {
		m, user, err := h.openDoor(r, name, r.URL.Query().Get("user"))
		if err != nil {
			return nil, err
		}
		key := session.Key{App: m.app.Name(), User: user, ID: id}
		sess, err := h.Host().Store().Sessions.Get(r.Context(), key, nil)
		switch {
		case errors.Is(err, session.ErrNotFound) || errors.Is(err, session.ErrInvalid): // an ID that no session can have
			continue
		case err != nil:
			return nil, server.WithSessionKey(key, err)
		case found != nil:
			return nil, newRefusal("model", "the models %s and %s have a conversation with this ID: name one with ?model=, or use the base URL /apps/APP/v1", found.model.id, m.id)
		}
		found = &room{m, sess}
	}
	if found == nil {
		return nil, &requestError{http.StatusNotFound, fmt.Sprintf("Conversation with id %q not found", protocol.TruncateText(id, maxShown)), "", ""}
	}
	return found, nil
}

func (h *handlers) handleConversation(w http.ResponseWriter, r *http.Request) error {
	c, err := h.findConversation(r)
	if err != nil {
		return err
	}
	return server.WriteJSON(w, describeConversation(c.sess))
}

// handleChangedConversation replaces a conversation's metadata.
func (h *handlers) handleChangedConversation(w http.ResponseWriter, r *http.Request) error {
	q, err := h.readConversation(w, r)
	if err != nil {
		return err
	}
	if q.Metadata == nil {
		return newRefusal("metadata", "metadata is required")
	}
	c, err := h.findConversation(r)
	if err != nil {
		return err
	}
	err = h.changeConversation(r.Context(), c, func(ctx context.Context, sess *session.Session) error {
		ev := &session.Event{InvocationID: "p-" + uuid.NewString(), Author: session.UserAuthor}
		ev.Actions.StateDelta = writeMetadata(sess, describeConversation(sess).Created, q.Metadata)
		return h.Host().Store().Sessions.Append(ctx, sess, ev)
	})
	if err != nil {
		return err
	}
	return server.WriteJSON(w, describeConversation(c.sess))
}

// changeConversation changes a conversation between two turns, and reads it again.
func (h *handlers) changeConversation(ctx context.Context, c *room, change func(context.Context, *session.Session) error) error {
	key, sessions := c.sess.Key, h.Host().Store().Sessions
	if err := h.ReserveRun(key.App, key.User); err != nil { // an event is as cheap to store as a run
		return server.WithSessionKey(key, err)
	}
	ctx, release, err := sessions.Acquire(ctx, key, conversationWait)
	if err != nil {
		return server.WithSessionKey(key, err)
	}
	defer release()
	sess, err := sessions.Get(ctx, key, nil)
	if err == nil {
		err = change(ctx, sess)
	}
	if err == nil {
		c.sess, err = sessions.Get(ctx, key, nil)
	}
	if own := (*requestError)(nil); err == nil || errors.As(err, &own) {
		return err
	}
	return server.WithSessionKey(key, err)
}

func (h *handlers) handleDeletedConversation(w http.ResponseWriter, r *http.Request) error {
	c, err := h.findConversation(r)
	if err != nil {
		return err
	}
	if err := h.Host().DeleteSession(r.Context(), c.sess.Key); err != nil {
		return server.WithSessionKey(c.sess.Key, err)
	}
	return server.WriteJSON(w, &deletedObject{c.sess.ID, "conversation.deleted", true})
}

// listItems returns the items in a conversation's events.
func (h *handlers) listItems(r *http.Request, c *room, events []*session.Event) ([]listedItem, error) {
	return h.newItemReader(r, c.model, c.sess.Key).readItems(session.WithoutRewound(events))
}

func (h *handlers) newItemReader(r *http.Request, m *model, key session.Key) *itemReader {
	query := r.URL.Query()
	withImages := slices.Contains(append(query["include"], query["include[]"]...), "message.input_image.image_url")
	return &itemReader{h: h, model: m, key: key, withImages: withImages}
}

func (h *handlers) handleItems(w http.ResponseWriter, r *http.Request) error {
	c, err := h.findConversation(r)
	if err != nil {
		return err
	}
	return h.WriteLarge(w, r, false, func() ([]byte, error) {
		items, err := h.listItems(r, c, c.sess.Events())
		if err != nil {
			return nil, err
		}
		list, err := selectItems(r, items)
		if err != nil {
			return nil, err
		}
		return server.EncodeJSON(list)
	})
}

// selectItems returns the items that a request's query names.
func selectItems(r *http.Request, items []listedItem) (*itemList, error) {
	query, limit := r.URL.Query(), defaultListed
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxListed {
			return nil, newRefusal("limit", "limit must be from 1 to %d, got %q", maxListed, protocol.TruncateText(text, maxShown))
		}
		limit = n
	}
	switch order := query.Get("order"); order {
	case "", "desc":
		slices.Reverse(items)
	case "asc":
	default:
		return nil, newRefusal("order", "order must be asc or desc, got %q", protocol.TruncateText(order, maxShown))
	}
	if after := query.Get("after"); after != "" {
		at := slices.IndexFunc(items, func(i listedItem) bool { return i.id == after })
		if at < 0 {
			return nil, newRefusal("after", "after must be the ID of an item, got %q", protocol.TruncateText(after, maxShown))
		}
		items = items[at+1:]
	}
	list := newItemList(items[:min(limit, len(items))])
	list.More = len(items) > limit
	return list, nil
}

func newItemList(items []listedItem) *itemList {
	list := &itemList{Object: "list", Data: []any{}}
	for _, item := range items {
		list.Data = append(list.Data, item.object)
	}
	if n := len(items); n > 0 {
		list.First, list.Last = items[0].id, items[n-1].id
	}
	return list
}

// findItem returns an item that a path names.
func (h *handlers) findItem(r *http.Request) (*listedItem, error) {
	c, err := h.findConversation(r)
	if err != nil {
		return nil, err
	}
	items, err := h.listItems(r, c, c.sess.Events())
	if err != nil {
		return nil, err
	}
	id := r.PathValue("item")
	at := slices.IndexFunc(items, func(i listedItem) bool { return i.id == id })
	if at < 0 {
		return nil, &requestError{http.StatusNotFound, fmt.Sprintf("Item with id %q not found", protocol.TruncateText(id, maxShown)), "", ""}
	}
	return &items[at], nil
}

func (h *handlers) handleItem(w http.ResponseWriter, r *http.Request) error {
	item, err := h.findItem(r)
	if err != nil {
		return err
	}
	return server.WriteJSON(w, item.object)
}

// handleNewItems appends items to a conversation, as history.
func (h *handlers) handleNewItems(w http.ResponseWriter, r *http.Request) error {
	q, err := h.readConversation(w, r)
	if err != nil {
		return err
	}
	history, err := q.readItems()
	if err != nil {
		return err
	}
	if len(history) == 0 {
		return newRefusal("items", "items is required")
	}
	c, err := h.findConversation(r)
	if err != nil {
		return err
	}
	known := 0
	err = h.changeConversation(r.Context(), c, func(ctx context.Context, sess *session.Session) error {
		if len(runtime.Pending(session.Recorded(sess.Events()))) > 0 {
			return newRefusal("items", "the conversation has a call that waits: answer it in a response first")
		}
		known = len(sess.Events())
		return protocol.AppendHistory(ctx, h.Host().Store().Sessions, sess, c.model.app.Root().Name(), history)
	})
	if err != nil {
		return err
	}
	items, err := h.listItems(r, c, c.sess.Events()[known:])
	if err != nil {
		return err
	}
	return server.WriteJSON(w, newItemList(items))
}

// handleDeletedItem explains why an item stays.
func (h *handlers) handleDeletedItem(_ http.ResponseWriter, r *http.Request) error {
	if _, err := h.findItem(r); err != nil {
		return err
	}
	return newRefusal("", "An item cannot be deleted, because later turns rely on a session's earlier ones: delete the conversation, or continue from an earlier response with previous_response_id")
}
