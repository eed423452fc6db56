package main

import (
	"context"
	"fmt"

	"google.golang.org/genai"

	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// settle asks the person at the terminal for what waits for approval, each
// thing once, and says the answers. It is false when the conversation is over.
func (t *talker) settle(ctx context.Context) bool {
	for !t.json {
		open := t.unasked(ctx)
		if len(open) == 0 {
			return true
		}
		reply := &genai.Content{Role: genai.RoleUser}
		for _, request := range open {
			t.asked[request.ID] = true
			response, ok := t.ask(ctx, request)
			if !ok {
				return false
			}
			reply.Parts = append(reply.Parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{
				ID: request.ID, Name: request.Name, Response: response,
			}})
		}
		if err := t.send(ctx, reply); err != nil {
			fmt.Fprintf(t.io.err, "%s\n", err)
		}
	}
	return true
}

// unasked are the oldest requests of one event that nobody has answered, and
// that were not put to this person yet.
func (t *talker) unasked(ctx context.Context) []*genai.FunctionCall {
	for _, open := range t.pending(ctx) {
		if !t.asked[open[0].ID] {
			return open
		}
	}
	return nil
}

// pending are the requests that wait in the session; none where it cannot be
// read, which the next run will tell.
func (t *talker) pending(ctx context.Context) [][]*genai.FunctionCall {
	sess, err := t.host.Store().Sessions.Get(ctx, t.key, nil)
	if err != nil {
		return nil
	}
	return runtime.Pending(sess.Events())
}

// ask puts one request to the person, until the answer is yes or no.
func (t *talker) ask(ctx context.Context, request *genai.FunctionCall) (map[string]any, bool) {
	confirmation, _ := request.Args["toolConfirmation"].(map[string]any)
	name, call := asked(request)
	if hint, ok := confirmation["hint"].(string); ok && hint != tool.UsualHint(name) {
		fmt.Fprintf(t.io.err, "%s\n", hint)
	}
	for {
		line, ok := t.read(ctx, fmt.Sprintf("approve %s? [y/n] ", call))
		switch {
		case !ok:
			return nil, false
		case line == "y" || line == "yes":
			response := map[string]any{"confirmed": true}
			if payload, ok := confirmation["payload"]; ok {
				response["payload"] = payload
			}
			return response, true
		case line == "n" || line == "no":
			return map[string]any{"confirmed": false}, true
		}
	}
}

// asked is the call that a request is about: its name, and all of it in one line.
func asked(request *genai.FunctionCall) (name, call string) {
	original, _ := request.Args["originalFunctionCall"].(map[string]any)
	name, _ = original["name"].(string)
	args, _ := original["args"].(map[string]any)
	return name, fmt.Sprintf("%s(%s)", name, wholeLine(args))
}

// remind tells whoever has said a single text what waits for approval.
func (t *talker) remind(ctx context.Context, dir string) {
	if t.json {
		return
	}
	for _, open := range t.pending(ctx) {
		for _, request := range open {
			_, call := asked(request)
			fmt.Fprintf(t.io.err, "%s waits for approval: agenthost run %s --session %s asks for it\n", call, dir, t.key.ID)
		}
	}
}
