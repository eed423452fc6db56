package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/pkg/model"
	"agenthost/pkg/runtime"
	"agenthost/pkg/session"
)

// readSession reads the session, which is stored with its first message.
func (t *conversation) readSession(ctx context.Context) (*session.Session, error) {
	if !t.stored {
		return nil, errors.New("the session has no message yet")
	}
	return t.host.Store().Sessions.Get(ctx, t.key, nil)
}

// lastMessage returns the last message of the user that is not undone, and its invocation.
func (t *conversation) lastMessage(ctx context.Context) (*session.Event, error) {
	sess, err := t.readSession(ctx)
	if err != nil {
		return nil, err
	}
	for _, ev := range slices.Backward(session.WithoutRewound(sess.Events())) {
		if ev.Author == session.UserAuthor && ev.Text() != "" && ev.Actions.Compaction == nil {
			return ev, nil
		}
	}
	return nil, errors.New("the session has no message yet")
}

// rewindBefore undoes an invocation and what follows it, and sends a message if there is one.
func (t *conversation) rewindBefore(ctx context.Context, invocation string, message *genai.Content) error {
	streaming := !t.json
	req := &runtime.RewindRequest{
		App: t.key.App, UserID: t.key.User, SessionID: t.key.ID, BeforeInvocationID: invocation,
		Message: message, Streaming: &streaming, Writer: session.WriterAdmin,
	}
	clear(t.prompted)
	if message == nil {
		for _, err := range t.host.Rewind(ctx, req) {
			return runFailure(err)
		}
		return nil
	}
	return t.runStoppable(ctx, func(ctx context.Context) error {
		defer t.printCost()
		t.spent.beginTurn()
		defer t.spent.endTurn()
		return t.printEvents(t.host.Rewind(ctx, req))
	})
}

func (t *conversation) rewindTurns(ctx context.Context, count string) error {
	turns := 1
	if count != "" {
		var err error
		if turns, err = strconv.Atoi(count); err != nil || turns < 1 {
			return fmt.Errorf("/rewind must be followed by a number of turns above 0, got %q", count)
		}
	}
	invocation, err := (&sessionFlags{turns: turns}).findTurn(ctx, t.host.Store(), t.key)
	if err != nil {
		return err
	}
	if err := t.rewindBefore(ctx, invocation, nil); err != nil {
		return err
	}
	t.replaces = ""
	fmt.Fprintf(t.env.Err, "%s undone\n", command.FormatCount(turns, "turn"))
	return nil
}

func (t *conversation) retryTurn(ctx context.Context, _ string) error {
	ev, err := t.lastMessage(ctx)
	if err != nil {
		return err
	}
	return t.rewindBefore(ctx, ev.InvocationID, ev.Content)
}

// editTurn replaces the last message by the text, or by the next message, which begins as the last
// one in the editor.
func (t *conversation) editTurn(ctx context.Context, text string) error {
	ev, err := t.lastMessage(ctx)
	switch {
	case err != nil:
		return err
	case text != "":
		return t.rewindBefore(ctx, ev.InvocationID, model.UserText(text))
	case t.person == nil:
		return errors.New("/edit must be followed by the new message, without a terminal or with --plain")
	case t.replaces != "":
		t.replaces = ""
		t.person.SetDraft("")
		fmt.Fprintln(t.env.Err, "the last turn is kept")
		return nil
	}
	t.replaces = ev.InvocationID
	t.person.SetDraft(ev.Text())
	fmt.Fprintln(t.env.Err, "the next message replaces the last turn; /edit again keeps it")
	return nil
}

// forkSession copies the session with its state, and the latest versions of its files, and continues
// in the copy.
func (t *conversation) forkSession(ctx context.Context, _ string) error {
	st := t.host.Store()
	sess, err := t.readSession(ctx)
	if err != nil {
		return err
	}
	initial, err := st.Sessions.Initial(ctx, t.key)
	if err != nil {
		return err
	}
	key := t.key
	key.ID = uuid.NewString()
	fork, err := st.Sessions.Create(ctx, key, initial)
	if err != nil {
		return err
	}
	err = st.Sessions.AppendAll(ctx, fork, sess.Events())
	if err == nil {
		err = t.copyArtifacts(ctx, key)
	}
	if err != nil {
		return errors.Join(err, st.Delete(context.WithoutCancel(ctx), key))
	}
	fmt.Fprintf(t.env.Err, "session %s continues as %s\n", t.key.ID, key.ID)
	t.key, t.replaces = key, ""
	clear(t.prompted)
	return nil
}

func (t *conversation) copyArtifacts(ctx context.Context, to session.Key) error {
	files := t.host.Store().Artifacts
	names, err := files.Keys(ctx, t.key)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name, session.UserPrefix) {
			continue // both sessions have it
		}
		part, err := files.Load(ctx, t.key, name, -1)
		if err != nil {
			return err
		}
		if _, err := files.Save(ctx, to, name, part); err != nil {
			return err
		}
	}
	return nil
}
