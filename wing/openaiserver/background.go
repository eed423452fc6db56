package openaiserver

import (
	"context"
	"errors"
	"net/http"

	"google.golang.org/genai"

	"agenthost/pkg/protocol"
	"agenthost/pkg/protocol/task"
	"agenthost/pkg/server"
)

// A response in the background is a task: its run continues without the request, and every replica reads
// and cancels it.

// startTask starts a run that does not end with its request: of a message, or of an interrupted
// invocation.
func (t *turn) startTask(ctx context.Context, content *genai.Content, invocation string) (*task.Run, error) {
	run, err := t.h.tasks.Start(ctx, task.ID{Key: t.place.key, Invocation: invocation}, func(ctx context.Context, started func(string)) error {
		inner, end, err := t.h.StartRun(ctx, t.place.key.App, t.place.key.User, true)
		if err != nil {
			return err
		}
		defer end()
		live := newLiveTurn(t)
		defer t.h.live.dropTurn(live)
		req := t.newRun(content)
		req.InvocationID, req.OnStart = invocation, func(id string) {
			t.h.live.addTurn(task.ID{Key: t.place.key, Invocation: id}, live)
			started(id)
		}
		return protocol.Run(inner, t.h.Services, req, live.addEvent)
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
