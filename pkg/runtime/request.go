package runtime

import (
	"context"
	"slices"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// request builds what the agent's model is asked next, parts in ADK's order:
// settings, instructions, contents, tools, and what tools add of their own.
func (inv *Invocation) request(ctx context.Context, a *LLMAgent) (*model.Request, error) {
	if err := inv.stock(ctx); err != nil {
		return nil, err
	}
	req, beside, err := inv.furnished(ctx, a)
	if err != nil {
		return nil, err
	}
	contents, err := inv.contents(a.opts.IncludeContents)
	if err != nil {
		return nil, err
	}
	req.Contents = insertBeforeUserTail(contents, beside)
	a.opts.Planner.prepare(req)
	if inv.run.app.ContextCache != nil {
		req.Cache = inv.cacheRequest()
	}
	return req, inv.letToolsEdit(ctx, req)
}

// furnished is a request with all but its contents, and the contents that go with
// its instruction.
func (inv *Invocation) furnished(ctx context.Context, a *LLMAgent) (req *model.Request, beside []*genai.Content, err error) {
	if c := inv.node.standing().config; c != nil && !inv.run.config.settles() {
		req = &model.Request{Config: c}
		inv.address(req)
		return req, nil, nil
	}
	both := &struct {
		req    model.Request
		config genai.GenerateContentConfig
	}{}
	req = &both.req
	req.Config = &both.config
	inv.address(req)
	inv.node.settle(req.Config, a)
	inv.run.config.settle(req.Config)
	if beside, err = inv.instruct(ctx, a, req); err != nil {
		return nil, nil, err
	}
	req.Config.Tools = slices.Clip(inv.tools().offered)
	return req, beside, nil
}

// address says who asks whom.
func (inv *Invocation) address(req *model.Request) {
	req.Model = inv.node.llm.Name()
	req.Stream = inv.run.config.StreamingMode == StreamingSSE
	req.Origin = inv.origin()
}

func (inv *Invocation) letToolsEdit(ctx context.Context, req *model.Request) error {
	for _, e := range inv.tools().editors {
		call := inv.newCall(&genai.FunctionCall{Name: e.name}, &session.Actions{})
		if err := e.edit.EditRequest(ctx, call, req); err != nil {
			return failf(CodeToolFailed, err, "tool %s of agent %s could not prepare the request: %s", e.name, inv.node.agent.Name(), err)
		}
	}
	return nil
}

// newCall makes what one tool call sees.
func (inv *Invocation) newCall(fc *genai.FunctionCall, actions *session.Actions) *tool.Call {
	return &tool.Call{
		ID: fc.ID, Name: fc.Name, Args: cloneArgs(fc.Args),
		Origin:         inv.origin(),
		State:          &callState{base: inv.run, actions: actions},
		Actions:        actions,
		Artifacts:      &callArtifacts{store: inv.run.host.store.Artifacts, key: inv.run.sess.Key, actions: actions},
		Memories:       &callMemories{inv.run},
		IdempotencyKey: idempotencyKey(inv.run.id, fc.ID),
		EndInvocation:  inv.EndInvocation,
		Expressions:    inv.run.expressions,
	}
}
