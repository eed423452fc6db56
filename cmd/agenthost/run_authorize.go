package main

import (
	"context"
	"fmt"

	"google.golang.org/genai"

	"agenthost/internal/command"
	"agenthost/wing/chat"
	"agenthost/wing/connection/authorize"
)

// authorizePending lets the user authorize the connections for pending calls after a single
// message, and sends the answers. Without a person it returns an error.
func (t *conversation) authorizePending(ctx context.Context) error {
	for {
		calls := t.pendingCredentials(ctx)
		if len(calls) == 0 {
			return nil
		}
		if !t.authorizer.IsEnabled() {
			return command.FailWithf("connection %s is not authorized for user %s: authorize it in a terminal, or with --authorize", calls[0].Connection, t.key.User)
		}
		reply := &genai.Content{Role: genai.RoleUser}
		for _, c := range calls {
			response, err := t.authorizer.AuthorizeCall(ctx, c, t.key, t.lines)
			if err != nil {
				return command.FailWith(c.WrapError(err))
			}
			reply.Parts = append(reply.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{ID: c.ID, Name: c.Name, Response: response}})
		}
		if err := t.runInvocation(ctx, reply); err != nil {
			return err
		}
	}
}

// pendingCredentials returns the oldest event's calls that wait for connections.
func (t *conversation) pendingCredentials(ctx context.Context) []*authorize.Call {
	for _, w := range t.pendingCalls(ctx) {
		var calls []*authorize.Call
		for _, call := range w.Calls {
			if c := authorize.NewCall(call); c != nil {
				calls = append(calls, c)
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
func (t *conversation) answerCall(ctx context.Context, call *genai.FunctionCall) (map[string]any, bool) {
	c := authorize.NewCall(call)
	if c == nil {
		return t.promptUser(ctx, newQuestion(call))
	}
	if !t.authorizer.IsEnabled() {
		fmt.Fprintf(t.env.Err, "%s: authorize it in a terminal, or with --authorize\n", c.DescribePending())
		return nil, true
	}
	if t.person != nil {
		t.person.OpenPrompt(chat.Prompt{Text: "address [Enter: later] ", Question: true, Secret: true, Keep: true})
		t.person.SetBusy(true)
		defer t.person.ClosePrompt()
		defer t.person.SetBusy(false)
	}
	var response map[string]any
	err := t.runStoppable(ctx, func(ctx context.Context) (err error) {
		response, err = t.authorizer.AuthorizeCall(ctx, c, t.key, t.lines)
		return err
	})
	if err != nil && ctx.Err() == nil {
		fmt.Fprintln(t.env.Err, c.WrapError(err))
	}
	return response, ctx.Err() == nil
}
