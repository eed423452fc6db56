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

// A RewindRequest asks to take back the end of a conversation.
type RewindRequest struct {
	App, UserID, SessionID string
	// Exactly one of these says where: everything from the first event of an
	// invocation on is taken back, or everything behind an event.
	BeforeInvocationID, AfterEventID string
	// Message is what the user says instead, at once; nil says nothing.
	Message *genai.Content
	// Streaming asks for partial events; nil leaves it to the app.
	Streaming *bool
	// Writer is the party that asks; the zero value is a client. Keys of the
	// state that it may not write stay as they are.
	Writer session.Writer
}

// Rewind takes back the end of a session. The session's own state and its
// artifacts become what they were at that point; user: and app: keys and files
// stay, and so do keys that the state_schema does not let the caller write. It is one event of the user, stored with the state in one step. Nothing
// is deleted: the events that were taken back stay listed, and models see them
// no more. Where the event that is to be the last is the last already, there is
// nothing to take back, and no event.
//
// With a message, a run of it follows before any other run of the session, and
// its events are yielded as [Host.Run] does; the rewind itself is not yielded,
// and stays when the run fails. Without one the app need not be there.
func (h *Host) Rewind(ctx context.Context, req *RewindRequest) Events {
	return func(yield func(*session.Event, error) bool) {
		if err := req.validateRequest(); err != nil {
			yield(nil, err)
			return
		}
		var app *App
		var span *Span
		if req.Message != nil {
			ctx, span = h.beginRunSpan(ctx, &RunRequest{App: req.App, UserID: req.UserID, SessionID: req.SessionID})
			defer span.end(h.now)
			yield = span.recordErrors(yield)
			var err error
			if app, err = h.acquireApp(req.App); err != nil {
				yield(nil, err)
				return
			}
			defer app.refs.release()
		}
		key := session.Key{App: req.App, User: req.UserID, ID: req.SessionID}
		ctx, free, err := h.store.Sessions.Acquire(ctx, key, h.wait)
		if err != nil {
			yield(nil, storeFailure(key, err))
			return
		}
		defer free()
		span.recordSessionWait(h.now)
		yield = reportingStoreCause(ctx, key, yield)
		if err := h.rewindSession(ctx, key, req); err != nil {
			var runErr *RunError
			if !errors.As(err, &runErr) {
				err = storeFailure(key, err)
			}
			yield(nil, err)
			return
		}
		if app == nil {
			return
		}
		sess, err := h.store.Sessions.Get(ctx, key, app.Config.SessionWindow.storeOptions())
		if err != nil {
			yield(nil, storeFailure(key, err))
			return
		}
		h.runInvocation(ctx, app, sess, &RunRequest{Message: req.Message, Streaming: req.Streaming}, yield)
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

// findStart is the index of the first event that is taken back. Events that an
// earlier rewind took back are found too.
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

// rewindSession stores the event that takes the session back (adk-python runners.py
// rewind_async). The caller holds the session.
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
		ID: h.newID(), InvocationID: "e-" + h.newID(), Author: session.UserAuthor, Timestamp: h.now(),
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

// replayState is the session's own state after events. Earlier rewinds among
// them need no care: their deltas are the way back that was gone.
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

// sessionState are the keys that belong to the session alone.
func sessionState(all map[string]any) map[string]any {
	own := map[string]any{}
	for k, v := range all {
		if scope, _ := session.ScopeOf(k); scope == session.ScopeSession {
			own[k] = v
		}
	}
	return own
}

// revertDelta is the delta that makes the state now what it was then.
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

// restoreArtifacts saves the former versions of the session's artifacts as new
// versions, and returns their numbers.
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

// loadFormerArtifact is an artifact as it was. Nothing is left of one whose version
// was deleted, or was itself an absence: only the first is worth a word.
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

// savedVersions are the latest versions of the artifacts that events saved.
func savedVersions(events []*session.Event) map[string]int {
	all := map[string]int{}
	for _, ev := range events {
		maps.Copy(all, ev.Actions.ArtifactDelta)
	}
	return all
}
