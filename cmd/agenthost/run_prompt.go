package main

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/wing/chat"
)

// answerPending prompts once for each of the session's pending calls, and sends the responses. It
// returns false when the conversation ends.
func (t *conversation) answerPending(ctx context.Context) bool {
	for !t.json {
		open := t.unpromptedCalls(ctx)
		if len(open) == 0 {
			return true
		}
		reply := &genai.Content{Role: genai.RoleUser}
		for _, call := range open {
			t.prompted[call.ID] = true
			response, ok := t.answerCall(ctx, call)
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
		if err := t.runStoppable(ctx, func(ctx context.Context) error { return t.runInvocation(ctx, reply) }); err != nil {
			t.printFailure(err)
		}
	}
	return true
}

// unpromptedCalls returns the pending calls in the oldest event that has calls the user was not
// prompted for yet.
func (t *conversation) unpromptedCalls(ctx context.Context) []*genai.FunctionCall {
	for _, w := range t.pendingCalls(ctx) {
		open := slices.DeleteFunc(w.Calls, func(c *genai.FunctionCall) bool { return t.prompted[c.ID] })
		if len(open) > 0 {
			return open
		}
	}
	return nil
}

// pendingCalls returns the session's pending calls. If it cannot be read, it returns none, and the
// next run reports the error.
func (t *conversation) pendingCalls(ctx context.Context) []runtime.PendingCalls {
	sess, err := t.host.Store().Sessions.Get(ctx, t.key, nil)
	if err != nil {
		return nil
	}
	return runtime.Pending(sess.Events())
}

// promptUser prompts until a line answers the question. The response is nil if the user leaves the
// call pending; it returns false when the conversation ends.
func (t *conversation) promptUser(ctx context.Context, q *question) (map[string]any, bool) {
	if t.person != nil && q.tool != "" {
		t.printApproval(q)
		q.prompt = "approve " + q.tool + "? [y/n] "
	}
	if q.message != "" {
		fmt.Fprintf(t.env.Err, "%s\n", q.message)
	}
	for {
		line, ok := t.readLine(ctx, chat.Prompt{Text: q.prompt, Question: true})
		if !ok || line == "" && q.optional {
			return nil, ok
		}
		response, problem := q.parseLine(line)
		if response != nil {
			return response, true
		}
		if problem != "" {
			fmt.Fprintf(t.env.Err, "%s\n", problem)
		}
	}
}

// printPending lists the pending calls after a single message, with the command that continues
// the session, or without one if the session has ended.
func (t *conversation) printPending(ctx context.Context, command string) {
	if t.json {
		return
	}
	for _, w := range t.pendingCalls(ctx) {
		for _, call := range w.Calls {
			text := newQuestion(call).pendingText
			if command != "" {
				text += ": answer with " + command
			}
			fmt.Fprintln(t.env.Err, text)
		}
	}
}
