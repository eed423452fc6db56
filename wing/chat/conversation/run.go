package conversation

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// runStoppable runs part of the conversation that an interrupt (^C) stops, with [command.ErrAnswerStopped].
func (t *Conversation) runStoppable(ctx context.Context, part func(context.Context) error) error {
	ctx, end := t.opts.Env.Interrupts.WithStop(ctx)
	defer end()
	err := part(ctx)
	if err != nil && command.IsAnswerStopped(ctx) {
		return command.ErrAnswerStopped
	}
	return err
}

// sendText sends a user message and prints the answer.
func (t *Conversation) sendText(ctx context.Context, text string) error {
	return t.runInvocation(ctx, t.buildMessage(text))
}

// runInvocation runs one invocation and prints its events.
func (t *Conversation) runInvocation(ctx context.Context, message *genai.Content) error {
	if err := t.storeSession(ctx); err != nil {
		return err
	}
	streaming := !t.opts.JSON
	req := &runtime.RunRequest{
		App: t.key.App, UserID: t.key.User, SessionID: t.key.ID,
		Message: message, StateDelta: t.state, Writer: session.WriterAdmin, Streaming: &streaming,
		ClientLeft: func() bool { return command.IsAnswerStopped(ctx) },
	}
	t.state = nil
	return t.runRequest(ctx, req)
}

// storeSession creates the session before its first message. A conversation without a message
// leaves no session.
func (t *Conversation) storeSession(ctx context.Context) error {
	if t.stored {
		return nil
	}
	_, err := t.opts.Host.Store().Sessions.Create(ctx, t.key, nil)
	if err != nil && !errors.Is(err, session.ErrExists) {
		return command.FailWith(err)
	}
	t.stored = true
	return nil
}

// runRequest runs a request and prints its events, and then its cost. A model call that waits
// is reported at once.
func (t *Conversation) runRequest(ctx context.Context, req *runtime.RunRequest) error {
	req.Protocol = "terminal"
	req.OnModelWait = func(wait model.Wait) { fmt.Fprintln(t.opts.Env.Err, wait) }
	return t.printTurn(t.opts.Host.Run(ctx, req))
}

// printTurn prints a turn's events, and then its cost.
func (t *Conversation) printTurn(events runtime.Events) error {
	defer t.printCost()
	t.opts.Costs.beginTurn()
	defer t.opts.Costs.endTurn()
	return t.PrintEvents(events)
}

// PrintEvents prints a run's events until it ends.
func (t *Conversation) PrintEvents(events runtime.Events) error {
	p := t.newPrinter()
	for ev, err := range events {
		if err != nil {
			p.view.endLine()
			return command.FailRun(err)
		}
		if err := t.printEvent(p, ev); err != nil {
			return command.FailWith(err)
		}
	}
	p.flushProblem()
	p.view.endLine()
	return nil
}

func (t *Conversation) printEvent(p *eventPrinter, ev *session.Event) error {
	if !t.opts.JSON {
		p.printEvent(ev)
		return nil
	}
	b, err := session.Form{Provenance: true}.AppendEvent(nil, ev)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(t.opts.Env.Out, "%s\n", b)
	return err
}
