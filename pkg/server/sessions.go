package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/internal/jsonbody"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// sessionHandlers handle the session routes.
type sessionHandlers struct{ *Services }

func (s sessionHandlers) listRoutes() []Route {
	const sessions = "/apps/{app}/users/{user}/sessions"
	return []Route{
		{Method: "GET", Pattern: sessions, Limits: Limits{ShareTimeout: true}, Handler: s.handleListSessions, Doc: Doc{Tag: "sessions", ID: "listSessions", Summary: "List sessions without their events", Params: []string{"pageSize", "pageToken"}, Answer: "[Session]"}},
		{Method: "POST", Pattern: sessions, Handler: s.handleCreateSession, Doc: Doc{Tag: "sessions", ID: "createSession", Summary: "Create a session", Params: []string{"provenance"}, Body: "CreateSessionRequest", Answer: "Session"}},
		{Method: "GET", Pattern: sessions + "/{session}", Limits: Limits{ShareTimeout: true}, Handler: s.handleSession, Doc: Doc{Tag: "sessions", ID: "getSession", Summary: "Get a session with its events", Params: []string{"provenance"}, Answer: "Session"}},
		{Method: "POST", Pattern: sessions + "/{session}", Limits: Limits{ShareTimeout: true}, Handler: s.handleCreateNamedSession, Doc: Doc{Tag: "sessions", ID: "createNamedSession", Summary: "Create a session with this id; prefer createSession", Params: []string{"provenance"}, Body: "CreateNamedSessionRequest", Answer: "Session"}},
		{Method: "PATCH", Pattern: sessions + "/{session}", Limits: Limits{ShareTimeout: true}, Handler: s.handlePatchSession, Doc: Doc{Tag: "sessions", ID: "updateSession", Summary: "Change the state", Params: []string{"provenance"}, Body: "UpdateSessionRequest", Answer: "Session"}},
		{Method: "DELETE", Pattern: sessions + "/{session}", Limits: Limits{ShareTimeout: true}, Handler: s.handleDeleteSession, Doc: Doc{Tag: "sessions", ID: "deleteSession", Summary: "Delete a session with its artifacts"}},
		{Method: "POST", Pattern: sessions + "/{session}/rewind", Handler: s.handleRewind, Doc: Doc{Tag: "sessions", ID: "rewindSession", Summary: "Undo the end of a session", Params: []string{"provenance"}, Body: "RewindRequest", Answer: "RewindAnswer"}},
		{Method: "POST", Pattern: sessions + "/{session}/stop", Handler: s.handleStop, Doc: Doc{Tag: "sessions", ID: "stopRun", Summary: "Stop the session's run, on any replica"}},
		{Method: "POST", Pattern: sessions + "/{session}/fork", Handler: s.handleFork, Doc: Doc{Tag: "sessions", ID: "forkSession", Summary: "Copy the beginning of a session", Params: []string{"provenance"}, Body: "ForkRequest", Answer: "Session"}},
		{Method: "GET", Pattern: sessions + "/{session}/feedback", Limits: Limits{ShareTimeout: true}, Handler: s.handleListFeedback, Doc: Doc{Tag: "sessions", ID: "listFeedback", Summary: "List the caller's feedback on a session", Answer: "[Feedback]"}},
		{Method: "POST", Pattern: sessions + "/{session}/feedback", Limits: Limits{Body: maxFeedbackBody, ShareTimeout: true}, Handler: s.handleFeedback, Doc: Doc{Tag: "sessions", ID: "giveFeedback", Summary: "Score an invocation", Body: "FeedbackRequest", Answer: "Feedback"}},
		{Method: "PATCH", Pattern: "/apps/{app}/users/{user}/memory", Limits: Limits{ShareTimeout: true}, Handler: s.handleMemory, Doc: Doc{Tag: "sessions", ID: "updateMemory", Summary: "Add a session to the user's memory", Body: "UpdateMemoryRequest"}},
	}
}

// foreignSessions returns the extension's sessions to which an ID belongs, or nil if the
// store has the ID.
func (s sessionHandlers) foreignSessions(id string) ForeignSessions {
	for _, x := range s.extensions {
		if x.Sessions != nil && x.Sessions.Owns(id) {
			return x.Sessions
		}
	}
	return nil
}

// defaultPageSize is the page size if the request has only a page token.
const defaultPageSize = 100

func (s sessionHandlers) handleListSessions(w http.ResponseWriter, r *http.Request) error {
	return s.responses.sendResponse(w, r, responseRequest{user: PathKey(r).User, encode: func() ([]byte, error) {
		list := sessionList{handlers: s}
		if query := r.URL.Query(); query.Has("pageSize") || query.Has("pageToken") {
			next, err := list.addPage(r)
			if err != nil {
				return nil, err
			}
			if next != "" {
				w.Header().Set("X-Next-Page-Token", next)
			}
			return list.encodeList(), nil
		}
		key := PathKey(r)
		older, err := s.host.Store().Sessions.VisitSessions(r.Context(), key.App, key.User, list.addSessions)
		if err != nil {
			return nil, err
		}
		if older {
			w.Header().Set("X-Older-Sessions", "true")
		}
		return list.encodeList(), nil
	}})
}

// maxListBytes limits the JSON in a list of sessions.
const maxListBytes = 64 << 20

// A sessionList is a list in JSON. Sessions are encoded as they are read, so that their states are not all in memory.
type sessionList struct {
	handlers sessionHandlers
	// text is the list without its last bracket; empty without sessions.
	text []byte
}

func (l *sessionList) encodeList() []byte {
	if len(l.text) == 0 {
		return []byte("[]")
	}
	return append(l.text, ']')
}

// addPage adds the requested page, and returns the next one's token.
func (l *sessionList) addPage(r *http.Request) (next string, err error) {
	key, query := PathKey(r), r.URL.Query()
	req := &store.PageRequest{App: key.App, User: key.User, Size: defaultPageSize, Token: query.Get("pageToken")}
	if query.Has("pageSize") {
		if req.Size, err = strconv.Atoi(query.Get("pageSize")); err != nil {
			return "", fmt.Errorf("pageSize must be a whole number, got %q: %w", query.Get("pageSize"), session.ErrInvalid)
		}
	}
	page, next, err := l.handlers.host.Store().Sessions.Page(r.Context(), req)
	if err != nil {
		return "", err
	}
	return next, l.addSessions(page)
}

func (l *sessionList) addSessions(some []*session.Session) error {
	for _, sess := range some {
		if l.handlers.foreignSessions(sess.ID) != nil {
			continue
		}
		text, err := sess.Head().MarshalJSON()
		if err != nil {
			return err
		}
		separator := byte(',')
		if len(l.text) == 0 {
			separator = '['
		}
		if l.text = append(append(l.text, separator), text...); len(l.text) > maxListBytes {
			return NewError(http.StatusUnprocessableEntity, fmt.Sprintf("the list of sessions exceeds %d MiB: set a smaller pageSize, such as 20", maxListBytes>>20))
		}
	}
	return nil
}

func (s sessionHandlers) handleSession(w http.ResponseWriter, r *http.Request) error {
	form, err := readEventForm(r)
	if err != nil {
		return err
	}
	key := PathKey(r)
	return s.responses.sendResponse(w, r, responseRequest{user: key.User, encode: func() ([]byte, error) {
		sess, err := s.host.Store().Sessions.Get(r.Context(), key, nil)
		if errors.Is(err, session.ErrNotFound) {
			if foreign := s.foreignSessions(key.ID); foreign != nil && s.IsPrivileged(r) {
				return foreign.Read(r)
			}
		}
		if err != nil {
			return nil, err
		}
		return form.AppendSession(nil, sess)
	}})
}

func (s sessionHandlers) handleDeleteSession(w http.ResponseWriter, r *http.Request) error {
	if err := s.host.DeleteSession(r.Context(), PathKey(r)); err != nil {
		return err
	}
	return WriteJSON(w, nil)
}

func (s sessionHandlers) handleCreateSession(w http.ResponseWriter, r *http.Request) error {
	form, err := readEventForm(r)
	if err != nil {
		return err
	}
	b, err := s.ReadBody(w, r)
	if err != nil {
		return err
	}
	n := newSession{key: PathKey(r), state: b.ReadMap("state"), events: b.ReadEvents("events")}
	n.key.ID = strings.TrimSpace(b.ReadString("sessionId"))
	n.expires = s.readExpiry(b)
	if err := b.Err(); err != nil {
		return err
	}
	if err := s.AuthorizeWrites(r, n.key.App, n.stateWrites()...); err != nil {
		return err
	}
	if err := s.responses.checkUser(n.key.User); err != nil {
		return err
	}
	if err := s.importEvents(r, n.events); err != nil {
		return err
	}
	sess, err := s.createSession(r.Context(), n)
	if err != nil {
		return WithSessionKey(n.key, err)
	}
	return s.writeSession(w, r, sess, form)
}

// handleCreateNamedSession reads the state from the whole body, as adk-python does. A
// body whose only key is state with an object is {"state": {…}}, the form of ADK's
// JavaScript client and adk-js.
func (s sessionHandlers) handleCreateNamedSession(w http.ResponseWriter, r *http.Request) error {
	form, err := readEventForm(r)
	if err != nil {
		return err
	}
	text, err := s.ReadText(w, r)
	if err != nil {
		return err
	}
	b := &jsonbody.Body{}
	n := newSession{key: PathKey(r)}
	if len(text) > 0 {
		if n.state, err = session.DecodeMap(text); err != nil {
			b.AddFieldError(err)
		}
		if inner, ok := n.state["state"].(map[string]any); ok && len(n.state) == 1 {
			n.state = inner
		}
	}
	if err := b.Err(); err != nil {
		return err
	}
	if err := s.AuthorizeWrites(r, n.key.App, n.stateWrites()...); err != nil {
		return err
	}
	if err := s.responses.checkUser(n.key.User); err != nil {
		return err
	}
	sess, err := s.createSession(r.Context(), n)
	if err != nil {
		return err
	}
	return s.writeSession(w, r, sess, form)
}

type newSession struct {
	key    session.Key
	state  map[string]any
	events []*session.Event
	// expires is when the store deletes the session; zero is never.
	expires time.Time
}

// readExpiry reads ttl, seconds such as "7200s", or expireTime (adk-python 2.10). The zero time
// means neither.
func (s sessionHandlers) readExpiry(b *jsonbody.Body) time.Time {
	ttl, at := b.ReadString("ttl"), b.ReadString("expireTime")
	switch {
	case ttl != "" && at != "":
		b.AddDetail("value_error", "ttl and expireTime are mutually exclusive", "expireTime")
	case ttl != "":
		d, err := time.ParseDuration(ttl)
		if err != nil || d <= 0 || !strings.HasSuffix(ttl, "s") {
			b.AddDetail("value_error", `expected seconds, such as "86400s"`, "ttl")
			return time.Time{}
		}
		return s.opts.Clock().Add(d)
	case at != "":
		t, err := time.Parse(time.RFC3339Nano, at)
		if err != nil {
			b.AddDetail("value_error", "expected a time, such as 2027-01-31T12:00:00Z", "expireTime")
		}
		return t
	}
	return time.Time{}
}

// stateWrites returns every state key map that the session writes.
func (n *newSession) stateWrites() []map[string]any {
	all := []map[string]any{n.state}
	for _, ev := range n.events {
		all = append(all, ev.Actions.StateDelta)
	}
	return all
}

// createSession creates a session with all its events, or none.
func (s sessionHandlers) createSession(ctx context.Context, n newSession) (*session.Session, error) {
	if s.host.App(n.key.App) == nil {
		return nil, appNotFound(n.key.App)
	}
	sessions := s.host.Store().Sessions
	if len(n.events) == 0 {
		return sessions.CreateExpiring(ctx, n.key, n.state, n.expires)
	}
	ctx, release, err := sessions.Acquire(ctx, n.key, s.opts.Wait)
	if err != nil {
		return nil, err
	}
	defer release()
	sess, err := sessions.CreateExpiring(ctx, n.key, n.state, n.expires)
	if err != nil {
		return nil, err
	}
	if err := s.appendEvents(ctx, sess, n.events...); err != nil {
		_ = sessions.Delete(context.WithoutCancel(ctx), sess.Key)
		return nil, err
	}
	return sessions.Get(ctx, sess.Key, nil)
}

func (s sessionHandlers) appendEvents(ctx context.Context, sess *session.Session, events ...*session.Event) error {
	return s.host.Store().Sessions.AppendAll(ctx, sess, events)
}

func (s sessionHandlers) handlePatchSession(w http.ResponseWriter, r *http.Request) error {
	form, err := readEventForm(r)
	if err != nil {
		return err
	}
	b, err := s.ReadBody(w, r)
	if err != nil {
		return err
	}
	b.RequireField("stateDelta")
	delta := b.ReadMap("stateDelta")
	b.RejectUnknownFields("stateDelta") // the client would miss what it did not write
	if err := b.Err(); err != nil {
		return err
	}
	if err := s.AuthorizeWrites(r, PathKey(r).App, delta); err != nil {
		return err
	}
	if err := s.responses.checkUser(PathKey(r).User); err != nil {
		return err
	}
	sess, err := s.patchSession(r.Context(), PathKey(r), delta)
	if err != nil {
		return err
	}
	return s.writeSession(w, r, sess, form)
}

// patchSession changes a session's state between two runs. During a run, the change would
// make the run's next event stale.
func (s sessionHandlers) patchSession(ctx context.Context, key session.Key, delta map[string]any) (*session.Session, error) {
	sessions := s.host.Store().Sessions
	// A run's context has no shared timeout; the request's does.
	_, release, err := sessions.Acquire(ctx, key, s.opts.Wait)
	if err != nil {
		return nil, err
	}
	defer release()
	sess, err := sessions.Get(ctx, key, nil)
	if err != nil {
		return nil, err
	}
	ev := &session.Event{InvocationID: "p-" + s.opts.NewID(), Author: session.UserAuthor}
	ev.Actions.StateDelta = delta
	if err := s.appendEvents(ctx, sess, ev); err != nil {
		return nil, err
	}
	// sess still has the event's temp: keys; reload without them.
	return sessions.Get(ctx, key, nil)
}

// writeSession responds to a request that changed a session.
func (s sessionHandlers) writeSession(w http.ResponseWriter, r *http.Request, sess *session.Session, form session.Form) error {
	return s.responses.sendResponse(w, r, responseRequest{user: sess.User, exempt: true, encode: func() ([]byte, error) {
		return form.AppendSession(nil, sess)
	}})
}

// maxClockSkew is how far a client's clock may be ahead of the server's.
const maxClockSkew = 5 * time.Minute

// importEvents validates and marks the events of a session that a client creates.
// Imported events are history: models read them, and no other part of the host relies
// on them. As in adk-python since 2.7.1, fields that would control the host are
// rejected. A state delta is accepted, because the request may write the state anyway.
// With authentication, only administrators may import events other than the user's own
// input.
func (s sessionHandlers) importEvents(r *http.Request, events []*session.Event) error {
	ids := map[string]bool{}
	for i, ev := range events {
		if reason := s.importProblem(ev); reason != "" {
			return badRequest(fmt.Sprintf("cannot import event %d: %s", i, reason))
		}
		if ev.ID != "" && ids[ev.ID] {
			return badRequest(fmt.Sprintf("cannot import event %d: id %q appears more than once", i, ev.ID))
		}
		ids[ev.ID] = true
		if !isUserInput(ev) && !s.IsPrivileged(r) {
			return forbiddenError(fmt.Sprintf("permission denied: event %d is not user input; only administrators can import other events", i))
		}
		ev.CustomMetadata = session.PublicMetadata(ev.CustomMetadata)
		ev.Provenance = session.Provenance{Imported: true}
		delete(ev.Extra, "provenance")
	}
	return nil
}

// importProblem returns why an event cannot be imported, or an empty string.
func (s sessionHandlers) importProblem(ev *session.Event) string {
	a := ev.Actions
	a.StateDelta = nil
	switch {
	case ev.Partial:
		return "partial events are not stored"
	case len(ev.LongRunningToolIDs) > 0:
		return "longRunningToolIds must be empty"
	case !a.IsEmpty():
		return "actions must be empty except stateDelta"
	case ev.Timestamp.After(s.opts.Clock().Add(maxClockSkew)):
		return "timestamp is in the future"
	}
	for _, name := range functionNames(ev) {
		if runtime.IsReservedFunction(name) {
			return fmt.Sprintf("function name %q is reserved", name)
		}
	}
	return ""
}

// functionNames returns the names of an event's calls and responses.
func functionNames(ev *session.Event) []string {
	var names []string
	for _, c := range ev.Calls() {
		names = append(names, c.Name)
	}
	for _, f := range ev.Responses() {
		names = append(names, f.Name)
	}
	return names
}

// isUserInput reports whether an event contains only text and files from the user.
func isUserInput(ev *session.Event) bool {
	if ev.Author != session.UserAuthor || ev.ErrorCode != "" || ev.InputTranscription != nil || ev.OutputTranscription != nil {
		return false
	}
	if ev.Content == nil {
		return true
	}
	return (ev.Content.Role == "" || ev.Content.Role == genai.RoleUser) && !slices.ContainsFunc(ev.Content.Parts, func(p *genai.Part) bool {
		if p == nil {
			return true
		}
		rest := *p
		rest.Text, rest.InlineData, rest.FileData = "", nil, nil
		return !reflect.ValueOf(rest).IsZero()
	})
}

// handleStop stops a session's run, which ends as if its client had left. A run of another replica can
// store nothing more, and ends when that replica renews its leases.
func (s sessionHandlers) handleStop(w http.ResponseWriter, r *http.Request) error {
	key := PathKey(r)
	sessions := s.host.Store().Sessions
	if s.detachedRuns.stopSession(key) || sessions.CancelRun(key) {
		return WriteJSON(w, nil)
	}
	owner, err := sessions.TakeOver(r.Context(), key)
	if errors.Is(err, session.ErrNotFound) {
		return notFoundError("no run of this session")
	}
	if err != nil {
		return WithSessionKey(key, err)
	}
	s.opts.Logger.Info("stopped a turn of another replica", "app", key.App, "session", key.ID, "replica", owner)
	return WriteJSON(w, nil)
}

// handleRewind removes a session's end. With a message it responds with the events from the
// run that follows, otherwise with the session.
func (s sessionHandlers) handleRewind(w http.ResponseWriter, r *http.Request) error {
	form, err := readEventForm(r)
	if err != nil {
		return err
	}
	b, err := s.ReadBody(w, r)
	if err != nil {
		return err
	}
	key := PathKey(r)
	req := &runtime.RewindRequest{
		App: key.App, UserID: key.User, SessionID: key.ID,
		BeforeInvocationID: b.ReadString("rewindBeforeInvocationId"), AfterEventID: b.ReadString("eventId"),
		Message: b.ReadContent("newMessage"), Streaming: new(bool), Writer: s.StateWriter(r),
	}
	b.RejectUnknownFields("rewindBeforeInvocationId", "eventId", "newMessage") // it changes history
	if err := b.Err(); err != nil {
		return err
	}
	if req.Message != nil {
		if err := s.ReserveRun(key.App, key.User); err != nil {
			return err
		}
	}
	if err := s.responses.checkUser(key.User); err != nil {
		return err
	}
	if !s.runs.acquire() {
		return errShuttingDown
	}
	defer s.runs.release()
	text := []byte{'['}
	for ev, err := range s.host.Rewind(r.Context(), req) {
		if err != nil {
			if req.Message != nil {
				s.RefundMissing(key.App, err)
			}
			return WrapRunError(key, err)
		}
		setRevisionHeader(w, ev)
		if text, err = appendListItem(text, ev, form); err != nil {
			return WrapRunError(key, err)
		}
	}
	if req.Message != nil {
		WriteRawJSON(w, http.StatusOK, append(text, ']'))
		return nil
	}
	sess, err := s.host.Store().Sessions.Get(r.Context(), key, nil)
	if err != nil {
		return err
	}
	return s.writeSession(w, r, sess, form)
}

// handleFork creates a session with the beginning of another one. It counts as a run for the rate
// limits, because it writes as much as many runs.
func (s sessionHandlers) handleFork(w http.ResponseWriter, r *http.Request) error {
	form, err := readEventForm(r)
	if err != nil {
		return err
	}
	b, err := s.ReadBody(w, r)
	if err != nil {
		return err
	}
	key := PathKey(r)
	req := &runtime.ForkRequest{App: key.App, UserID: key.User, SessionID: key.ID, AfterEventID: b.ReadString("eventId"), Writer: s.StateWriter(r)}
	b.RejectUnknownFields("eventId") // without it, the copy would have all events
	if err := b.Err(); err != nil {
		return err
	}
	if err := s.ReserveRun(key.App, key.User); err != nil {
		return err
	}
	if err := s.responses.checkUser(key.User); err != nil {
		return err
	}
	end, err := s.TrackRun()
	if err != nil {
		return err
	}
	defer end()
	sess, err := s.host.Fork(r.Context(), req)
	if err != nil {
		s.RefundMissing(key.App, err)
		return WrapRunError(key, err)
	}
	return s.writeSession(w, r, sess, form)
}

// handleMemory adds a session to the memory and replaces its earlier entries.
func (s sessionHandlers) handleMemory(w http.ResponseWriter, r *http.Request) error {
	b, err := s.ReadBody(w, r)
	if err != nil {
		return err
	}
	b.RequireField("sessionId")
	key := PathKey(r)
	key.ID = b.ReadString("sessionId")
	if err := b.Err(); err != nil {
		return err
	}
	st := s.host.Store()
	sess, err := st.Sessions.Get(r.Context(), key, nil)
	if err != nil {
		return WithSessionKey(key, err)
	}
	if err := st.Memories.AddSession(r.Context(), sess); err != nil {
		return WithSessionKey(key, err)
	}
	return WriteJSON(w, nil)
}
