package main

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
)

// settle asks the person at the terminal for what waits in the session, each
// thing once, and says the answers. It is false when the conversation is over.
func (t *talker) settle(ctx context.Context) bool {
	for !t.json {
		open := t.unasked(ctx)
		if len(open) == 0 {
			return true
		}
		reply := &genai.Content{Role: genai.RoleUser}
		for _, call := range open {
			t.asked[call.ID] = true
			response, ok := t.ask(ctx, questionOf(call))
			if !ok {
				return false
			}
			if response != nil {
				reply.Parts = append(reply.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{
					ID: call.ID, Name: call.Name, Response: response,
				}})
			}
		}
		if len(reply.Parts) == 0 {
			continue
		}
		if err := t.send(ctx, reply); err != nil {
			fmt.Fprintf(t.io.err, "%s\n", err)
		}
	}
	return true
}

// unasked are the oldest calls of one event that wait, and that were not put to
// this person yet.
func (t *talker) unasked(ctx context.Context) []*genai.FunctionCall {
	for _, w := range t.pending(ctx) {
		open := slices.DeleteFunc(w.Calls, func(c *genai.FunctionCall) bool { return t.asked[c.ID] })
		if len(open) > 0 {
			return open
		}
	}
	return nil
}

// pending is what waits in the session; nothing where it cannot be read, which
// the next run will tell.
func (t *talker) pending(ctx context.Context) []runtime.PendingCalls {
	sess, err := t.host.Store().Sessions.Get(ctx, t.key, nil)
	if err != nil {
		return nil
	}
	return runtime.Pending(sess.Events())
}

// ask puts a question to the person until a line answers it. The response is nil
// where the person leaves it open; false is the end of the conversation.
func (t *talker) ask(ctx context.Context, q *question) (map[string]any, bool) {
	if q.before != "" {
		fmt.Fprintf(t.io.err, "%s\n", q.before)
	}
	for {
		line, ok := t.read(ctx, q.prompt)
		if !ok || line == "" && q.mayWait {
			return nil, ok
		}
		response, problem := q.read(line)
		if response != nil {
			return response, true
		}
		if problem != "" {
			fmt.Fprintf(t.io.err, "%s\n", problem)
		}
	}
}

// remind tells whoever has said a single text what waits.
func (t *talker) remind(ctx context.Context, dir string) {
	if t.json {
		return
	}
	for _, w := range t.pending(ctx) {
		for _, call := range w.Calls {
			fmt.Fprintf(t.io.err, "%s: agenthost run %s --session %s asks for it\n", questionOf(call).waits, dir, t.key.ID)
		}
	}
}
