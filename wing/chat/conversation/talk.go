package conversation

import (
	"context"
	"fmt"

	"agenthost/internal/command"
	"agenthost/pkg/runtime"
	"agenthost/wing/chat"
)

// Send sends one message and prints the answer, with what waits for the user after it. Live sends it
// in a live conversation.
func (t *Conversation) Send(ctx context.Context, text string, live bool) error {
	send := t.sendText
	if live {
		send = t.sendLive
	}
	err := send(ctx, text)
	if err == nil {
		err = t.authorizePending(ctx)
	}
	t.printPending(ctx)
	if t.stored {
		fmt.Fprintf(t.opts.Env.Err, "session %s\n", t.key.ID)
	}
	return err
}

// Resume resumes the session's last invocation, which was interrupted.
func (t *Conversation) Resume(ctx context.Context) error {
	sess, err := t.opts.Host.Store().Sessions.Get(ctx, t.key, nil)
	if err != nil {
		return command.FailWith(err)
	}
	if id := runtime.ResumableInvocation(sess.Events()); id != "" {
		streaming := !t.opts.JSON
		err = t.runRequest(ctx, &runtime.RunRequest{
			App: t.key.App, UserID: t.key.User, SessionID: t.key.ID, InvocationID: id, Streaming: &streaming,
		})
	} else {
		fmt.Fprintf(t.opts.Env.Err, "nothing to resume: the last invocation of session %s is complete\n", t.key.ID)
	}
	if err == nil {
		err = t.authorizePending(ctx)
	}
	t.printPending(ctx)
	return err
}

// Talk handles lines until /quit, or until the input or ctx ends, and prints the command that
// continues the conversation. It hot-reloads the app when its files are saved. Live holds a live
// conversation.
func (t *Conversation) Talk(ctx context.Context, live bool) error {
	defer t.printContinuation()
	if live {
		return t.runLiveLoop(ctx)
	}
	ctx, end := t.openInput(ctx)
	defer end()
	for t.answerPending(ctx) {
		line, ok := t.readLine(ctx, chat.Prompt{Text: t.messagePrompt()})
		if !ok {
			return nil
		}
		if err := t.handleLine(ctx, line); err != nil {
			t.printFailure(err)
		}
	}
	return nil
}

// printContinuation prints the command that continues the conversation, if it has a message.
func (t *Conversation) printContinuation() {
	command := t.opts.DescribeContinuation(t.key.ID)
	if command == "" || !t.stored {
		return
	}
	if line := "continue with: " + command; t.opts.Terminal != nil {
		t.opts.Terminal.PrintGap()
		t.opts.Terminal.Print(line) // not wrapped, so that it can be copied
	} else {
		fmt.Fprintln(t.opts.Env.Err, line)
	}
}
