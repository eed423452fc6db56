package openaiserver

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/genai"

	"agenthost/pkg/protocol/task"
	"agenthost/pkg/server"
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
		return (&storedReader{responseWriter: o, invocation: invocation}).followResponse(ctx, run, 0)
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
