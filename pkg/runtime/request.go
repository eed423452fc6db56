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
	req := inv.newRequest(a)
	beside, err := inv.instruct(ctx, a, req)
	if err != nil {
		return nil, err
	}
	contents, err := inv.contents(a.opts.IncludeContents)
	if err != nil {
		return nil, err
	}
	req.Contents = insertBeforeUserTail(contents, beside)
	req.Config.Tools = slices.Clip(inv.tools().offered)
	a.opts.Planner.prepare(req)
	if inv.run.app.ContextCache != nil {
		req.Cache = inv.cacheRequest()
	}
	return req, inv.letToolsEdit(ctx, req)
}

// newRequest has the settings only.
func (inv *Invocation) newRequest(a *LLMAgent) *model.Request {
	both := &struct {
		req    model.Request
		config genai.GenerateContentConfig
	}{}
	req := &both.req
	req.Model = inv.node.llm.Name()
	req.Config = &both.config
	req.Stream = inv.run.config.StreamingMode == StreamingSSE
	req.Origin = inv.origin()
	if a.opts.GenerateContentConfig != nil {
		*req.Config = *a.opts.GenerateContentConfig
	}
	inv.run.config.settle(req.Config)
	inv.node.askInShape(req.Config)
	return req
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
	}
}
