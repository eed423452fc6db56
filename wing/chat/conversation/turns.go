package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// FindTurn returns the message of the user that begins the last turn but count-1 that is not undone.
// It fails if the session has fewer turns.
func FindTurn(sess *session.Session, count int) (*session.Event, error) {
	remaining := count
	for _, ev := range slices.Backward(session.WithoutRewound(sess.Events())) {
		if ev.Author == session.UserAuthor && ev.Text() != "" && ev.Actions.Compaction == nil {
			if remaining--; remaining == 0 {
				return ev, nil
			}
		}
	}
	return nil, fmt.Errorf("cannot rewind session %s by %d turns: it has %d", sess.ID, count, count-remaining)
}

// lastMessage returns the last message of the user that is not undone.
func (t *Conversation) lastMessage(ctx context.Context) (*session.Event, error) {
	sess, err := t.Session(ctx)
	if err != nil {
		return nil, err
	}
	ev, err := FindTurn(sess, 1)
	if err != nil {
		return nil, errors.New("the session has no message yet")
	}
	return ev, nil
}

// rewindBefore undoes an invocation and what follows it, and sends a message if there is one.
func (t *Conversation) rewindBefore(ctx context.Context, invocation string, message *genai.Content) error {
	streaming := !t.opts.JSON
	req := &runtime.RewindRequest{
		App: t.key.App, UserID: t.key.User, SessionID: t.key.ID, BeforeInvocationID: invocation,
		Message: message, Streaming: &streaming, Writer: session.WriterAdmin,
	}
	clear(t.prompted)
	if message == nil {
		for _, err := range t.opts.Host.Rewind(ctx, req) {
			return command.FailRun(err)
		}
		return nil
	}
	return t.runStoppable(ctx, func(ctx context.Context) error { return t.printTurn(t.opts.Host.Rewind(ctx, req)) })
}

func (t *Conversation) rewindTurns(ctx context.Context, count string) error {
	turns := 1
	if count != "" {
		var err error
		if turns, err = strconv.Atoi(count); err != nil || turns < 1 {
			return fmt.Errorf("/rewind must be followed by a number of turns above 0, got %q", count)
		}
	}
	sess, err := t.opts.Host.Store().Sessions.Get(ctx, t.key, nil)
	if err != nil {
		return err
	}
	first, err := FindTurn(sess, turns)
	if err != nil {
		return err
	}
	if err := t.rewindBefore(ctx, first.InvocationID, nil); err != nil {
		return err
	}
	t.replaces = ""
	fmt.Fprintf(t.opts.Env.Err, "%s undone\n", command.FormatCount(turns, "turn"))
	return nil
}

func (t *Conversation) retryTurn(ctx context.Context, _ string) error {
	ev, err := t.lastMessage(ctx)
	if err != nil {
		return err
	}
	return t.rewindBefore(ctx, ev.InvocationID, ev.Content)
}

// editTurn replaces the last message by the text, or by the next message, which begins as the last
// one in the editor.
func (t *Conversation) editTurn(ctx context.Context, text string) error {
	ev, err := t.lastMessage(ctx)
	switch {
	case err != nil:
		return err
	case text != "":
		return t.rewindBefore(ctx, ev.InvocationID, model.UserText(text))
	case t.opts.Terminal == nil:
		return errors.New("/edit must be followed by the new message, without a terminal or with --plain")
	case t.replaces != "":
		t.replaces = ""
		t.opts.Terminal.SetDraft("")
		fmt.Fprintln(t.opts.Env.Err, "the last turn is kept")
		return nil
	}
	t.replaces = ev.InvocationID
	t.opts.Terminal.SetDraft(ev.Text())
	fmt.Fprintln(t.opts.Env.Err, "the next message replaces the last turn; /edit again keeps it")
	return nil
}

// forkSession copies the session with its state and files, and continues in the copy.
func (t *Conversation) forkSession(ctx context.Context, _ string) error {
	if !t.stored {
		return errors.New("the session has no message yet")
	}
	fork, err := t.opts.Host.Fork(ctx, &runtime.ForkRequest{App: t.key.App, UserID: t.key.User, SessionID: t.key.ID, Writer: session.WriterAdmin})
	if err != nil {
		return err
	}
	fmt.Fprintf(t.opts.Env.Err, "session %s continues as %s\n", t.key.ID, fork.ID)
	t.key, t.replaces = fork.Key, ""
	clear(t.prompted)
	return nil
}
