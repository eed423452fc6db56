package protocol

import (
	"context"
	"errors"
	"fmt"

	"google.golang.org/genai"

	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// CreateSession creates a session whose history is a client's: contents by the user, and by the agent
// root. They are imported: models read them, and nothing else relies on them. It fails with
// [session.ErrExists] if the ID is in use.
func CreateSession(ctx context.Context, sessions *store.Sessions, key session.Key, root string, history []*genai.Content) error {
	if len(history) == 0 {
		_, err := sessions.Create(ctx, key, nil)
		return err
	}
	ctx, release, err := sessions.Acquire(ctx, key, 0)
	if err != nil {
		return err
	}
	defer release()
	sess, err := sessions.Create(ctx, key, nil)
	if err != nil {
		return err
	}
	if err := AppendHistory(ctx, sessions, sess, root, history); err != nil {
		return errors.Join(err, sessions.Delete(context.WithoutCancel(ctx), key))
	}
	return nil
}

// AppendHistory appends a client's history to a session that the caller has acquired; see [CreateSession].
// Each message of the user begins an invocation.
func AppendHistory(ctx context.Context, sessions *store.Sessions, sess *session.Session, root string, history []*genai.Content) error {
	events := make([]*session.Event, len(history))
	n := len(sess.Events())
	for i, content := range history {
		ev := &session.Event{Author: session.UserAuthor}
		if content.Role == genai.RoleModel {
			ev.Author = root
		} else if i > 0 {
			n++
		}
		ev.InvocationID = fmt.Sprintf("imported-%d", n)
		ev.Content, ev.Provenance.Imported = content, true
		events[i] = ev
	}
	return sessions.AppendAll(ctx, sess, events)
}

// A ClosedCallError reports a result for a call that does not wait.
type ClosedCallError struct{ ID string }

// Error names the call.
func (e *ClosedCallError) Error() string { return fmt.Sprintf("the call %q is not open", e.ID) }

// NameResponses gives each function response in a history the name of its call, which comes before it.
// The error is a [*ClosedCallError] for one without a call.
func NameResponses(history []*genai.Content) error {
	names := map[string]string{}
	for _, content := range history {
		for _, p := range content.Parts {
			if c := p.FunctionCall; c != nil {
				names[c.ID] = c.Name
			}
			if f := p.FunctionResponse; f != nil {
				if f.Name = names[f.ID]; f.Name == "" {
					return &ClosedCallError{f.ID}
				}
			}
		}
	}
	return nil
}
