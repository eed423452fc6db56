package runtime

import (
	"context"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// buildRequest builds the next request to the agent's model in ADK's order:
// settings, instructions, contents, tools, and the changes that tools make.
func (inv *Invocation) buildRequest(ctx context.Context, a *LLMAgent) (*model.Request, error) {
	if err := inv.loadToolsets(ctx); err != nil {
		return nil, err
	}
	req, userContents, err := inv.prepareRequest(ctx, a)
	if err != nil {
		return nil, err
	}
	contents, err := inv.buildContents(a.opts.IncludeContents)
	if err != nil {
		return nil, err
	}
	req.Contents = insertBeforeUserTail(contents, userContents)
	a.opts.Planner.prepareRequest(req)
	if inv.run.app.ContextCache != nil {
		req.Cache = inv.buildCacheRequest()
	}
	return req, inv.applyRequestEditors(ctx, req)
}

// prepareRequest returns a request without its contents, and the user contents
// that belong to its instruction.
func (inv *Invocation) prepareRequest(ctx context.Context, a *LLMAgent) (req *model.Request, userContents []*genai.Content, err error) {
	if c := inv.node.fixedRequest().config; c != nil && !inv.run.config.affectsRequests() {
		req = &model.Request{Config: c}
		inv.setModelAndOrigin(req)
		return req, nil, nil
	}
	both := &struct {
		req    model.Request
		config genai.GenerateContentConfig
	}{}
	req = &both.req
	req.Config = &both.config
	inv.setModelAndOrigin(req)
	inv.node.applySettings(req.Config, a)
	inv.run.config.applyToRequest(req.Config)
	if userContents, err = inv.buildInstructions(ctx, a, req); err != nil {
		return nil, nil, err
	}
	req.Config.Tools = slices.Clip(inv.activeToolbox().declared)
	return req, userContents, nil
}

// setModelAndOrigin sets the model and the caller of the request.
func (inv *Invocation) setModelAndOrigin(req *model.Request) {
	req.Model = inv.node.llm.Name()
	req.Stream = inv.run.config.StreamingMode == StreamingSSE
	req.Origin = inv.requestOrigin()
}

func (inv *Invocation) applyRequestEditors(ctx context.Context, req *model.Request) error {
	for _, e := range inv.activeToolbox().editors {
		call := inv.newToolCall(&genai.FunctionCall{Name: e.name}, &session.Actions{})
		if err := e.edit.EditRequest(ctx, call, req); err != nil {
			return failf(CodeToolFailed, err, "tool %s of agent %s could not prepare the request: %s", e.name, inv.node.agent.Name(), err)
		}
	}
	return nil
}

// newToolCall returns the context of one tool call.
func (inv *Invocation) newToolCall(fc *genai.FunctionCall, actions *session.Actions) *tool.Call {
	return &tool.Call{
		ID: fc.ID, Name: fc.Name, Args: cloneArgs(fc.Args),
		Origin:         inv.requestOrigin(),
		State:          &callState{run: inv.run, actions: actions},
		Actions:        actions,
		Artifacts:      &callArtifacts{store: inv.run.host.store.Artifacts, key: inv.run.sess.Key, actions: actions},
		Memories:       &callMemories{inv.run},
		IdempotencyKey: idempotencyKey(inv.run.id, fc.ID),
		EndInvocation:  inv.EndInvocation,
		Expressions:    inv.run.expressions,
	}
}
