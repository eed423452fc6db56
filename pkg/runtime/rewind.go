package runtime

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A RewindRequest undoes a conversation's end.
type RewindRequest struct {
	App, UserID, SessionID string
	// Exactly one is set. BeforeInvocationID undoes an invocation and everything
	// after it, AfterEventID everything after an event.
	BeforeInvocationID, AfterEventID string
	// Message starts a run after the rewind; nil starts none.
	Message *genai.Content
	// Streaming requests partial events; nil uses the app's setting.
	Streaming *bool
	// Writer is the caller; the zero value is a client. State keys that it may not
	// write are not restored.
	Writer session.Writer
}

// Rewind undoes a session's end. It restores the session's own state and artifacts to that point.
// It keeps user: and app: keys and files, and keys that the state_schema does not allow the caller
// to write. The rewind is one user event, committed together with the state. It deletes nothing:
// undone events are still listed, but models do not see them. If there is nothing to undo, no event
// is stored.
//
// With a message, a run follows before any other run in the session, and its events are yielded as
// by [Host.Run]. The rewind itself is not yielded, and stays even if the run fails. Without a
// message the app need not exist.
func (h *Host) Rewind(ctx context.Context, req *RewindRequest) Events {
	return func(yield func(*session.Event, error) bool) {
		key := session.Key{App: req.App, User: req.UserID, ID: req.SessionID}
		var span *runSpan
		if req.Message != nil {
			ctx, span = h.beginRunSpan(ctx, &RunRequest{App: req.App, UserID: req.UserID, SessionID: req.SessionID})
		}
		room := h.newRunRoom(key, span, yield)
		defer room.output.guard.recoverPanic()
		defer span.endSpan()
		if err := req.validateRequest(); err != nil {
			room.deliverEvent(nil, err)
			return
		}
		var app *App
		if req.Message != nil {
			var err error
			if app, err = h.acquireApp(req.App); err != nil {
				room.deliverEvent(nil, err)
				return
			}
			defer app.refs.release()
		}
		ctx, free, err := h.store.Sessions.Acquire(ctx, key, h.wait)
		if err != nil {
			room.deliverEvent(nil, storeFailure(key, err))
			return
		}
		defer free()
		span.recordSessionWait()
		room.output.ctx = ctx
		if err := h.rewindSession(ctx, key, req); err != nil {
			var runErr *RunError
			if !errors.As(err, &runErr) {
				err = storeFailure(key, err)
			}
			room.deliverEvent(nil, err)
			return
		}
		if app == nil {
			return
		}
		sess, err := h.store.Sessions.Get(ctx, key, app.config.SessionWindow.storeOptions())
		if err != nil {
			room.deliverEvent(nil, storeFailure(key, err))
			return
		}
		room.runInvocation(ctx, app, sess, &RunRequest{Message: req.Message, Streaming: req.Streaming, Protocol: "rewind"})
	}
}

func (req *RewindRequest) validateRequest() error {
	if (req.BeforeInvocationID == "") == (req.AfterEventID == "") {
		return failf(CodeInvalidRequest, session.ErrInvalid, "a rewind requires either the invocation to undo or the last event to keep")
	}
	if req.Message != nil {
		return checkMessage(req.Message)
	}
	return nil
}

// findStart returns the index of the first event to undo. It also finds events
// that an earlier rewind has undone.
func (req *RewindRequest) findStart(events []*session.Event) (int, error) {
	if req.AfterEventID != "" {
		i := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.ID == req.AfterEventID })
		if i < 0 {
			return 0, failf(CodeInvalidRequest, session.ErrNotFound, "Event not found: %s", req.AfterEventID)
		}
		return i + 1, nil
	}
	i := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.InvocationID == req.BeforeInvocationID })
	if i < 0 {
		return 0, failf(CodeInvalidRequest, session.ErrNotFound, "Invocation ID not found: %s", req.BeforeInvocationID)
	}
	return i, nil
}

// rewindSession stores the rewind event (adk-python runners.py rewind_async). The
// caller holds the session.
func (h *Host) rewindSession(ctx context.Context, key session.Key, req *RewindRequest) error {
	sess, err := h.store.Sessions.Get(ctx, key, nil)
	if err != nil {
		return err
	}
	events := sess.Events()
	from, err := req.findStart(events)
	if err != nil || from == len(events) {
		return err
	}
	initial, err := h.store.Sessions.Initial(ctx, key)
	if err != nil {
		return err
	}
	ev := &session.Event{
		ID: h.newID(), InvocationID: h.newRunID(), Author: session.UserAuthor, Timestamp: h.now(),
	}
	ev.Actions.RewindBeforeInvocationID = req.BeforeInvocationID
	if req.AfterEventID != "" {
		ev.Actions.RewindBeforeInvocationID = cmp.Or(events[from].InvocationID, req.AfterEventID)
		ev.Provenance.RewindAfter = req.AfterEventID
	}
	ev.Actions.StateDelta = revertDelta(replayState(initial, events[:from]), sessionState(sess.State.All()))
	if app := h.App(key.App); app != nil {
		maps.DeleteFunc(ev.Actions.StateDelta, func(key string, _ any) bool {
			by, _ := app.Writable(key)
			return req.Writer < by
		})
	}
	if ev.Actions.ArtifactDelta, err = h.restoreArtifacts(ctx, key, events, from); err != nil {
		return err
	}
	return h.store.Sessions.Append(ctx, sess, ev)
}

// replayState returns the session's own state after events. Earlier rewinds need
// no special handling: their events contain the deltas that restore the state.
func replayState(initial map[string]any, events []*session.Event) map[string]any {
	state := maps.Clone(initial)
	for _, ev := range events {
		for k, v := range sessionState(ev.Actions.StateDelta) {
			if v == nil {
				delete(state, k)
			} else {
				state[k] = v
			}
		}
	}
	return state
}

// sessionState returns the keys with session scope.
func sessionState(all map[string]any) map[string]any {
	own := map[string]any{}
	for k, v := range all {
		if scope, _ := session.ScopeOf(k); scope == session.ScopeSession {
			own[k] = v
		}
	}
	return own
}

// revertDelta returns the delta that changes the state from now to former.
func revertDelta(former, now map[string]any) map[string]any {
	delta := map[string]any{}
	for k, v := range former {
		if current, ok := now[k]; !ok || !reflect.DeepEqual(current, v) {
			delta[k] = v
		}
	}
	for k := range now {
		if _, ok := former[k]; !ok {
			delta[k] = nil
		}
	}
	return delta
}

// restoreArtifacts saves former versions of the session's artifacts as new versions, and returns
// their numbers.
func (h *Host) restoreArtifacts(ctx context.Context, key session.Key, events []*session.Event, from int) (map[string]int, error) {
	former, now := savedVersions(events[:from]), savedVersions(events)
	parts := map[string]*genai.Part{}
	for name, version := range now {
		old, existed := former[name]
		if strings.HasPrefix(name, session.UserPrefix) || existed && old == version {
			continue
		}
		parts[name] = store.Absence()
		if existed {
			part, err := h.loadFormerArtifact(ctx, key, name, old)
			if err != nil {
				return nil, fmt.Errorf("restoring artifact %s: %w", name, err)
			}
			parts[name] = part
		}
	}
	saved := map[string]int{}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		version, err := h.store.Artifacts.Save(ctx, key, name, parts[name])
		if err != nil {
			return nil, fmt.Errorf("restoring artifact %s: %w", name, err)
		}
		saved[name] = version
	}
	return saved, nil
}

// loadFormerArtifact returns an artifact's former version. If the version no longer exists it
// returns an absence, and logs a warning unless the version was itself an absence.
func (h *Host) loadFormerArtifact(ctx context.Context, key session.Key, name string, version int) (*genai.Part, error) {
	part, err := h.store.Artifacts.Load(ctx, key, name, version)
	if !errors.Is(err, session.ErrNotFound) {
		return part, err
	}
	if _, err = h.store.Artifacts.Version(ctx, key, name, version); errors.Is(err, session.ErrNotFound) {
		err = nil
		h.logger.WarnContext(ctx, "cannot restore artifact: its former version no longer exists",
			"app", key.App, "session", key.ID, "artifact", name, "version", version)
	}
	return store.Absence(), err
}

// savedVersions returns the latest versions of the artifacts that events saved.
func savedVersions(events []*session.Event) map[string]int {
	all := map[string]int{}
	for _, ev := range events {
		maps.Copy(all, ev.Actions.ArtifactDelta)
	}
	return all
}
