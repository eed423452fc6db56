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
	if inv.run.app.contextCache != nil {
		req.Cache = inv.buildCacheRequest()
	}
	return req, inv.applyRequestEditors(ctx, req)
}

// prepareRequest returns a request without its contents, and the user contents
// that belong to its instruction.
func (inv *Invocation) prepareRequest(ctx context.Context, a *LLMAgent) (req *model.Request, userContents []*genai.Content, err error) {
	if c := inv.node.fixedRequest().config; c != nil && inv.toolbox == nil && !inv.run.config.affectsRequests() {
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

// setModelAndOrigin sets the request's model and caller.
func (inv *Invocation) setModelAndOrigin(req *model.Request) {
	req.Model = inv.node.llm.Name()
	req.Stream = inv.run.config.StreamingMode == StreamingSSE
	req.Origin = inv.requestOrigin()
	req.OnWait = inv.run.onModelWait
	req.MaxCalls = inv.run.config.maxFunctionCalls()
}

func (inv *Invocation) applyRequestEditors(ctx context.Context, req *model.Request) error {
	for _, e := range inv.activeToolbox().editors {
		call := inv.newToolCall(&genai.FunctionCall{Name: e.name}, inv.newCallState(&session.Actions{}))
		if err := e.edit.EditRequest(ctx, call, req); err != nil {
			return failf(CodeToolFailed, err, "tool %s of agent %s could not prepare the request: %s", e.name, inv.node.agent.Name(), err)
		}
	}
	return nil
}

func (a *App) buildFixedRequest(n *node, l *LLMAgent) *fixedRequest {
	s := &fixedRequest{system: a.fixedSystemInstruction(n, l)}
	editable := n.hooks != nil && len(n.hooks.beforeModel)+len(n.hooks.onModelError) > 0 || len(n.tools.editors) > 0
	if s.system == nil || editable || len(n.toolsets) > 0 || l.opts.Planner != nil {
		return s
	}
	c := &genai.GenerateContentConfig{}
	n.applySettings(c, l)
	if c.SystemInstruction == nil {
		c.SystemInstruction, c.Tools = s.system, slices.Clip(n.tools.declared)
		s.config = c
	}
	return s
}

// fixedSystemInstruction returns an agent's system instruction without placeholders, or nil.
func (a *App) fixedSystemInstruction(n *node, l *LLMAgent) *genai.Content {
	var global *Instruction
	if root, ok := a.root.(*LLMAgent); ok {
		global = root.opts.GlobalInstruction
	}
	first, fixed := global.fixedText()
	own, alsoFixed := l.opts.Instruction.fixedText()
	if !fixed || !alsoFixed || l.opts.InstructionProvider != nil || l.opts.StaticInstruction != nil {
		return nil
	}
	text := prompt(nil).appendParagraph(first).appendParagraph(own).appendIdentity(n, l)
	return &genai.Content{Parts: []*genai.Part{{Text: text.joinText()}}}
}

// applySettings sets the agent's settings in a request.
func (n *node) applySettings(c *genai.GenerateContentConfig, l *LLMAgent) {
	if l.opts.GenerateContentConfig != nil {
		*c = *l.opts.GenerateContentConfig
	}
	if n.responseSchema != nil {
		c.ResponseJsonSchema, c.ResponseMIMEType = n.responseSchema, "application/json"
	}
}

// buildCacheRequest returns the cache data from the agent's last responses for the model. The first
// use of a cache in an invocation counts as one more (adk-python
// flows/llm_flows/context_cache_processor.py).
func (inv *Invocation) buildCacheRequest() *model.CacheRequest {
	state := inv.readCacheState()
	req := &model.CacheRequest{
		CacheConfig: *inv.run.app.contextCache, Metadata: state.metadata, PromptTokens: state.promptTokens,
	}
	if state.metadata.Active() && state.invocation != inv.run.id {
		again := *state.metadata
		again.Used++
		req.Metadata = &again
	}
	return req
}

type cacheKey struct{ agent string }

// cacheState is the latest cache data in an agent's events. It does not change once it is derived.
type cacheState struct {
	seen         int
	metadata     *model.CacheMetadata
	invocation   string
	promptTokens int
}

// readCacheState reads each event once.
func (inv *Invocation) readCacheState() *cacheState {
	agent := inv.node.agent.Name()
	state := inv.run.sess.History.Derive(cacheKey{agent}, func(last any, events []*session.Event) (any, int64) {
		state := &cacheState{}
		if last != nil {
			*state = *last.(*cacheState)
		}
		for _, ev := range events[state.seen:] {
			if ev.Author == agent && !ev.Provenance.Imported {
				state.recordEvent(ev)
			}
		}
		state.seen = len(events)
		return state, partBytes
	})
	return state.(*cacheState)
}

func (c *cacheState) recordEvent(ev *session.Event) {
	if ev.CacheMetadata != nil {
		c.metadata, c.invocation = ev.CacheMetadata, ev.InvocationID
	}
	if u := ev.UsageMetadata; u != nil && u.PromptTokenCount > 0 {
		c.promptTokens = int(u.PromptTokenCount)
	}
}

// loadToolsets lists the tools of the agent's sets and the client's, once per agent run: a server's
// tools may change between runs, but not during one.
func (inv *Invocation) loadToolsets(ctx context.Context) error {
	a, ok := inv.node.agent.(*LLMAgent)
	if !ok || len(inv.node.toolsets)+len(inv.run.clientTools) == 0 || inv.toolbox != nil {
		return nil
	}
	tools := slices.Clip(inv.node.staticTools)
	names := map[string]bool{}
	for _, name := range inv.node.tools.names {
		names[name] = true
	}
	call := inv.NewSetCall()
	for _, set := range inv.node.toolsets {
		more, err := tool.ListTools(ctx, set, call)
		switch {
		case ctx.Err() != nil:
			return AsRunError(ctx.Err())
		case err != nil:
			return failf(CodeToolFailed, err, "listing the tools of agent %s failed: %s", a.AgentName, err)
		}
		for _, t := range more {
			if tool.CapabilitiesOf(t).RequestOnly {
				continue
			}
			name := t.Declaration().Name
			if names[name] { // the model would not know which one it calls, so that it gets only the first
				inv.run.logger().Warn("tool skipped: another tool of the agent has its name", "agent", inv.node.agent.Name(), "tool", name)
			}
			names[name] = true
		}
		tools = append(tools, more...)
	}
	for _, t := range inv.run.clientTools {
		name := t.Declaration().Name
		if names[name] {
			return failf(CodeInvalidRequest, session.ErrInvalid, "the client's tool %s has the name of a tool of agent %s", name, a.AgentName)
		}
		names[name] = true
	}
	inv.toolbox = a.buildToolbox(append(tools, inv.run.clientTools...))
	return nil
}

// activeToolbox returns the agent's toolbox in this run.
func (inv *Invocation) activeToolbox() *toolbox {
	if inv.toolbox != nil {
		return inv.toolbox
	}
	return inv.node.tools
}

func newToolbox(tools []tool.Tool) *toolbox {
	b := &toolbox{byName: map[string]tool.Tool{}}
	var decls []*genai.FunctionDeclaration
	for _, t := range tools {
		d := t.Declaration()
		if e, ok := t.(tool.RequestEditor); ok {
			b.editors = append(b.editors, namedEditor{d.Name, e})
		}
		if tool.CapabilitiesOf(t).RequestOnly || b.byName[d.Name] != nil {
			continue
		}
		b.byName[d.Name] = t
		b.names = append(b.names, d.Name)
		decls = append(decls, d)
	}
	if len(decls) > 0 {
		b.declared = []*genai.Tool{{FunctionDeclarations: decls}}
	}
	return b
}

// buildToolbox returns the agent's toolbox with these tools.
func (a *LLMAgent) buildToolbox(tools []tool.Tool) *toolbox {
	b := newToolbox(tools)
	if c := a.opts.Code; c != nil && c.Executor == nil { // the model's sandbox runs the code
		b.declared = append(slices.Clip(b.declared), &genai.Tool{CodeExecution: &genai.ToolCodeExecution{}})
	}
	return b
}
