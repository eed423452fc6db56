package openaiserver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// A response in the background is a task: its run continues without the request, and every replica reads
// and cancels it.

// startBackground starts the turn, and writes the response once its message is stored.
func (o *responseWriter) startBackground(ctx context.Context, content *genai.Content) error {
	run, err := o.turn.startTask(ctx, content, "")
	if err != nil {
		return err
	}
	invocation := run.WaitForStart(ctx)
	switch {
	case invocation != "":
	case ctx.Err() != nil:
		return ctx.Err()
	case run.Err() != nil:
		return run.Err()
	default:
		return task.ErrPanicked
	}
	o.object.ID = encodeResponseID(o.turn.place.key, invocation)
	if o.follows {
		return o.followResponse(ctx, &storedReader{responseWriter: o, invocation: invocation}, run, 0)
	}
	return server.WriteJSON(o.turn.w, o.object)
}

// startTask starts a run that does not end with its request: of a message, or of an interrupted
// invocation.
func (t *turn) startTask(ctx context.Context, content *genai.Content, invocation string) (*task.Run, error) {
	run, err := t.h.tasks.Start(ctx, task.ID{Key: t.place.key, Invocation: invocation}, func(ctx context.Context, started func(string)) error {
		inner, end, err := t.h.StartRun(ctx, t.place.key.App, t.place.key.User, true)
		if err != nil {
			return err
		}
		defer end()
		req := t.newRun(content)
		req.InvocationID, req.OnStart = invocation, started
		return t.h.runTask(inner, req)
	})
	if errors.Is(err, task.ErrTooMany) {
		return nil, server.NewError(http.StatusTooManyRequests, "Too many responses in progress")
	}
	return run, err
}

// handleStoredResponse reads a response from its session. An interrupted one is resumed, if its app is
// resumable.
func (h *handlers) handleStoredResponse(w http.ResponseWriter, r *http.Request) error {
	o, invocation, err := h.findResponse(w, r)
	if err != nil {
		return err
	}
	skip, streams, err := h.readFollow(w, r)
	if err != nil {
		return err
	}
	if streams {
		return o.followResponse(r.Context(), &storedReader{responseWriter: o, invocation: invocation}, nil, skip)
	}
	return o.sendStored(r.Context(), invocation)
}

// findResponse finds the response that a path names, in a session of the caller.
func (h *handlers) findResponse(w http.ResponseWriter, r *http.Request) (*responseWriter, string, error) {
	text := r.PathValue("response")
	missing := &requestError{http.StatusNotFound, fmt.Sprintf("Response with id %q not found", protocol.TruncateText(text, maxShown)), "", ""}
	app, id, invocation := decodeResponseID(text)
	m, user, err := h.openDoor(r, cmp.Or(app, "-"), r.URL.Query().Get("user"))
	if own := (*requestError)(nil); errors.As(err, &own) {
		return nil, "", missing
	}
	if err != nil {
		return nil, "", err
	}
	key := session.Key{App: app, User: user, ID: id}
	sess, err := h.Host().Store().Sessions.Get(r.Context(), key, nil)
	if errors.Is(err, session.ErrNotFound) {
		return nil, "", missing
	}
	if err != nil {
		return nil, "", server.WithSessionKey(key, err)
	}
	if !slices.ContainsFunc(sess.Events(), func(ev *session.Event) bool { return ev.InvocationID == invocation }) {
		return nil, "", missing
	}
	o := &responseWriter{turn: &turn{h: h, r: r, w: w, model: m, place: newPlace(sess), finish: finishStop}}
	for _, ev := range sess.Events() {
		if ev.InvocationID == invocation {
			o.turn.readTurn(ev)
		}
	}
	o.object = o.newObject()
	return o, invocation, nil
}

// readState returns a response's state as a task; nil for one that answers a question of an earlier one,
// and is none.
func (o *responseWriter) readState(ctx context.Context, invocation string) (*task.State, error) {
	state, err := o.turn.h.tasks.Read(ctx, task.ID{Key: o.turn.place.key, Invocation: invocation}, func() (*task.Run, error) {
		return o.turn.startTask(ctx, nil, invocation)
	})
	if errors.Is(err, task.ErrUnknown) {
		return nil, nil
	}
	return state, err
}

// handleCancel cancels a response that is in progress.
func (h *handlers) handleCancel(w http.ResponseWriter, r *http.Request) error {
	o, invocation, err := h.findResponse(w, r)
	if err != nil {
		return err
	}
	state, err := o.readState(r.Context(), invocation)
	if err != nil {
		return err
	}
	if state == nil || state.Status != task.Working && state.Status != task.Waiting {
		return newRefusal("", "Only a response in progress can be canceled")
	}
	err = h.tasks.Cancel(r.Context(), task.ID{Key: o.turn.place.key, Invocation: invocation}, "The client canceled the response.")
	if errors.Is(err, task.ErrNotLast) {
		return newRefusal("", "The response cannot be canceled: a later one has begun in its conversation")
	}
	if err != nil {
		return err
	}
	return o.sendStored(r.Context(), invocation)
}
