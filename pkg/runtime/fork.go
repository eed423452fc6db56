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

// maxForkedFiles limits the artifact versions that a fork copies.
const maxForkedFiles = 1000

// A ForkRequest copies a conversation's beginning.
type ForkRequest struct {
	App, UserID, SessionID string
	// AfterEventID is the last event of the copy, which may be one that a rewind has undone;
	// empty copies all events.
	AfterEventID string
	// NewSessionID is the copy's ID, which fails with ErrExists if it is in use; empty generates one.
	NewSessionID string
	// Writer is the caller; the zero value is a client. State keys that it may not write keep
	// their current values.
	Writer session.Writer
}

// Fork creates a session with another session's events, and with its own state and artifact
// versions as they were after the last of these events. user: and app: keys and files belong to
// both sessions and do not change. The source may run meanwhile, and does not change. The error is
// a [*RunError], and no session remains after one.
func (h *Host) Fork(ctx context.Context, req *ForkRequest) (*session.Session, error) {
	from := session.Key{App: req.App, User: req.UserID, ID: req.SessionID}
	app, err := h.acquireApp(req.App)
	if err != nil {
		return nil, err
	}
	defer app.refs.release()
	source, err := h.store.Sessions.Get(ctx, from, nil)
	if err != nil {
		return nil, storeFailure(from, err)
	}
	initial, err := h.store.Sessions.Initial(ctx, from)
	if err != nil {
		return nil, storeFailure(from, err)
	}
	events := source.Events()
	if req.AfterEventID != "" {
		last := slices.IndexFunc(events, func(ev *session.Event) bool { return ev.ID == req.AfterEventID })
		if last < 0 {
			return nil, failf(CodeInvalidRequest, session.ErrNotFound, "Event not found: %s", req.AfterEventID)
		}
		events = events[:last+1]
	}

	copied := make([]*session.Event, 0, len(events)+1)
	for _, ev := range events {
		c := *ev
		c.Seq = 0
		c.Actions.StateDelta = sessionState(ev.Actions.StateDelta) // shared keys may have newer values
		copied = append(copied, &c)
	}
	initial = sessionState(initial)
	if delta := protectedDelta(app, req.Writer, replayState(initial, events), sessionState(source.State.All())); len(delta) > 0 {
		ev := &session.Event{ID: h.newID(), InvocationID: h.newRunID(), Author: session.UserAuthor, Timestamp: h.now()}
		ev.Actions.StateDelta = delta
		copied = append(copied, ev)
	}

	to := session.Key{App: req.App, User: req.UserID, ID: cmp.Or(req.NewSessionID, h.newID())}
	ctx, release, err := h.store.Sessions.Acquire(ctx, to, h.wait)
	if err != nil {
		return nil, storeFailure(to, err)
	}
	defer release()
	fork, err := h.store.Sessions.Create(ctx, to, initial)
	if err != nil {
		return nil, storeFailure(to, err)
	}
	err = h.store.Sessions.AppendAll(ctx, fork, copied)
	if err == nil {
		err = h.copyArtifacts(ctx, from, to, source.Events(), events)
	}
	if err == nil {
		fork, err = h.store.Sessions.Get(ctx, to, nil)
	}
	if err != nil {
		err = errors.Join(err, h.store.Delete(context.WithoutCancel(ctx), to, 0))
		var runErr *RunError
		if errors.As(err, &runErr) {
			return nil, err
		}
		return nil, storeFailure(from, err)
	}
	return fork, nil
}

// protectedDelta returns the delta that gives the state keys that a caller may not write their
// current values: a fork, as a rewind, does not undo what others have decided.
func protectedDelta(app *App, by session.Writer, former, now map[string]any) map[string]any {
	delta := map[string]any{}
	keys := maps.Clone(former)
	maps.Copy(keys, now)
	for key := range keys {
		if writer, _ := app.Writable(key); by >= writer {
			continue
		}
		before, had := former[key]
		if v, has := now[key]; has != had || !reflect.DeepEqual(before, v) {
			delta[key] = v // nil deletes it
		}
	}
	return delta
}

// copyArtifacts copies a session's artifacts in all versions that its copied events, the first ones
// of all, had saved, so that the events' version numbers apply to the copies. It copies
// artifacts that no event has saved completely.
func (h *Host) copyArtifacts(ctx context.Context, from, to session.Key, all, copied []*session.Event) error {
	ever, kept := savedVersions(all), savedVersions(copied)
	names, err := h.store.Artifacts.Keys(ctx, from)
	if err != nil {
		return err
	}
	left := maxForkedFiles
	for _, name := range names {
		if strings.HasPrefix(name, session.UserPrefix) {
			continue // both sessions have it
		}
		last, ok := kept[name]
		if _, later := ever[name]; later && !ok {
			continue
		}
		versions, err := h.store.Artifacts.Versions(ctx, from, name)
		if err != nil {
			return err
		}
		if !ok && len(versions) > 0 {
			last = versions[len(versions)-1].Version
		}
		if left -= last + 1; left < 0 {
			return failf(CodeInvalidRequest, session.ErrInvalid, "cannot fork session %s: its files exceed the limit of %d versions", from.ID, maxForkedFiles)
		}
		if err := h.copyVersions(ctx, from, to, name, last); err != nil {
			return fmt.Errorf("copying artifact %s: %w", name, err)
		}
	}
	return nil
}

// copyVersions copies an artifact's versions from 0 to last. A missing one becomes an absence.
func (h *Host) copyVersions(ctx context.Context, from, to session.Key, name string, last int) error {
	for version := range last + 1 {
		var part *genai.Part
		part, err := h.store.Artifacts.Load(ctx, from, name, version)
		if errors.Is(err, session.ErrNotFound) {
			part, err = store.Absence(), nil
		}
		if err == nil {
			_, err = h.store.Artifacts.Save(ctx, to, name, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
