package conversation

import (
	"context"
	"fmt"
	"slices"

	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/pkg/runtime"
	"agenthost/wing/chat"
)

// answerPending prompts once for each of the session's pending calls, and sends the responses. It
// returns false when the conversation ends.
func (t *Conversation) answerPending(ctx context.Context) bool {
	for !t.opts.JSON {
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
				reply.Parts = append(reply.Parts, newResponse(call, response))
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
func (t *Conversation) unpromptedCalls(ctx context.Context) []*genai.FunctionCall {
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
func (t *Conversation) pendingCalls(ctx context.Context) []runtime.PendingCalls {
	sess, err := t.opts.Host.Store().Sessions.Get(ctx, t.key, nil)
	if err != nil {
		return nil
	}
	return runtime.Pending(sess.Events())
}

// promptUser prompts until a line answers the question. The response is nil if the user leaves the
// call pending; it returns false when the conversation ends.
func (t *Conversation) promptUser(ctx context.Context, q *question) (map[string]any, bool) {
	if t.opts.Terminal != nil && q.tool != "" {
		t.printApproval(q)
		q.prompt = "approve " + q.tool + "? [y/n" + q.editHint + "] "
	}
	if q.message != "" {
		fmt.Fprintf(t.opts.Env.Err, "%s\n", q.message)
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
			fmt.Fprintf(t.opts.Env.Err, "%s\n", problem)
		}
	}
}

// printPending lists the pending calls after a single message, with the command that continues
// the session, or without one if the session has ended.
func (t *Conversation) printPending(ctx context.Context) {
	if t.opts.JSON {
		return
	}
	command := t.opts.DescribeContinuation(t.key.ID)
	for _, w := range t.pendingCalls(ctx) {
		for _, call := range w.Calls {
			text := newQuestion(call, t.findConsent(call)).pendingText
			if command != "" {
				text += ": answer with " + command
			}
			fmt.Fprintln(t.opts.Env.Err, text)
		}
	}
}

// authorizePending lets the user authorize the connections for pending calls after a single
// message, and sends the answers. Without a person it returns an error.
func (t *Conversation) authorizePending(ctx context.Context) error {
	for {
		calls := t.pendingConsents(ctx)
		if len(calls) == 0 {
			return nil
		}
		reply := &genai.Content{Role: genai.RoleUser}
		for _, call := range calls {
			consent := t.findConsent(call)
			if !t.opts.CanAuthorize {
				return command.FailWithf("connection %s is not authorized for user %s: authorize it in a terminal, or with --authorize", consent.Connection, t.key.User)
			}
			response, err := consent.Authorize(ctx, t.key, t.lines)
			if err != nil {
				return command.FailWith(err)
			}
			reply.Parts = append(reply.Parts, newResponse(call, response))
		}
		if err := t.runInvocation(ctx, reply); err != nil {
			return err
		}
	}
}

// pendingConsents returns the oldest event's calls that wait for connections.
func (t *Conversation) pendingConsents(ctx context.Context) []*genai.FunctionCall {
	for _, w := range t.pendingCalls(ctx) {
		var calls []*genai.FunctionCall
		for _, call := range w.Calls {
			if t.findConsent(call) != nil {
				calls = append(calls, call)
			}
		}
		if len(calls) > 0 {
			return calls
		}
	}
	return nil
}

// answerCall prompts for the answer to a pending call, or lets the user authorize its connection.
// The response is nil if the call stays pending; it returns false when the conversation ends.
func (t *Conversation) answerCall(ctx context.Context, call *genai.FunctionCall) (map[string]any, bool) {
	consent := t.findConsent(call)
	if consent == nil {
		return t.promptUser(ctx, newQuestion(call, nil))
	}
	if !t.opts.CanAuthorize {
		fmt.Fprintf(t.opts.Env.Err, "%s: authorize it in a terminal, or with --authorize\n", consent.Pending)
		return nil, true
	}
	if t.opts.Terminal != nil {
		t.opts.Terminal.OpenPrompt(chat.Prompt{Text: "address [Enter: later] ", Question: true, Secret: true, Keep: true})
		t.opts.Terminal.SetBusy(true)
		defer t.opts.Terminal.ClosePrompt()
		defer t.opts.Terminal.SetBusy(false)
	}
	var response map[string]any
	err := t.runStoppable(ctx, func(ctx context.Context) (err error) {
		response, err = consent.Authorize(ctx, t.key, t.lines)
		return err
	})
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(t.opts.Env.Err, err)
	}
	return response, ctx.Err() == nil
}

// newResponse returns the part of a message that answers a call.
func newResponse(call *genai.FunctionCall, response map[string]any) *genai.Part {
	return &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: call.ID, Name: call.Name, Response: response}}
}
