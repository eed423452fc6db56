package loader

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"time"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/model"
	"agenthost/pkg/provider"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/declare"
)

// A compiler builds a valid model's agents into an app. Its tools and models are built when they
// are resolved, so that their problems have places.
type compiler struct{ *appLoad }

// compileApp builds the agents, leaves first, into an app, which owns what the load opened.
func (c *compiler) compileApp(ctx context.Context) (*runtime.App, error) {
	agent, err := c.buildAgent(ctx, c.app.root)
	if err != nil {
		return nil, err
	}
	doc := &c.app.doc
	sections, entries, err := c.buildSections(ctx, agent)
	if err != nil {
		return nil, err
	}
	opts := &runtime.AppOptions{
		Description: doc.Description, Revision: c.src.computeRevision(), Config: c.runConfig(), Model: c.app.defaultModel(), Close: c.held.close,
		Retention: time.Duration(doc.Retention), OutcomeRetention: time.Duration(doc.OutcomeRetention), Summarizer: c.app.summarizer,
		StateSchema: c.app.stateSchema(), Resumable: c.app.isResumable(), Reload: doc.reloadOptions(), Sections: sections, Entries: entries,
		Plugins: c.app.plugins, Logger: c.held.logger, Live: c.loader.kinds.Live,
		ContextSizes: listContextSizes(c.app),
	}
	if cache := doc.ContextCache; cache != nil {
		opts.ContextCache = &model.CacheConfig{MinTokens: cache.MinTokens, TTL: time.Duration(cache.TTLSeconds) * time.Second, Intervals: cache.CacheIntervals}
	}
	if doc.Compaction != nil {
		config := &doc.Compaction.config
		opts.Compaction = &runtime.CompactionOptions{
			Interval: config.Interval, Overlap: config.Overlap, TokenThreshold: config.TokenThreshold, EventRetention: config.EventRetention,
			Prompt: config.Summarizer.Prompt.Value,
		}
	}
	return runtime.NewApp(c.src.name, agent, opts)
}

// runConfig returns the app's run_config, or nil for the defaults.
func (c *compiler) runConfig() *runtime.RunConfig {
	config, limit := c.app.doc.runConfig(), c.src.maxLLMCalls
	if limit == nil || config != nil && !c.app.doc.RunConfig.node.Get("max_llm_calls").IsNull() {
		return config
	}
	own := runtime.DefaultRunConfig()
	if config != nil {
		own = *config
	}
	own.MaxLLMCalls = *limit
	return &own
}

func (c *compiler) buildAgent(ctx context.Context, p *resolvedAgent) (runtime.Agent, error) {
	if c.src.budget.isExceeded() {
		return nil, c.src.budget.exceeded
	}
	env := agentconfig.AgentEnv{Model: p.model, WrapModel: p.wrapModel, Prompts: p.prompts}
	for _, sub := range p.subs {
		a, err := c.buildAgent(ctx, sub)
		if err != nil {
			return nil, err
		}
		env.SubAgents = append(env.SubAgents, a)
	}
	for _, t := range p.tools {
		if t.isDynamic() {
			env.Toolsets = append(env.Toolsets, t.set)
			continue
		}
		tools, err := c.buildTools(ctx, t)
		if err != nil {
			return nil, err
		}
		env.Tools = append(env.Tools, tools...)
	}
	for _, t := range p.server {
		env.Server = t.set
	}
	if p.executor != nil {
		executor, err := c.buildExecutor(ctx, p.executor)
		if err != nil {
			return nil, err
		}
		env.Executor = executor
	}
	agent, err := p.plan.Build(ctx, env)
	if err == nil {
		err = runtime.AddCallbacks(agent, p.callbacks)
	}
	if at := p.plan.Node.Get("when"); err == nil && !at.IsNull() {
		when := &agentconfig.Condition{}
		if err = when.DecodeSpec(at).Err(); err == nil {
			err = runtime.SetCondition(agent, when.Compiled)
		}
	}
	return agent, err
}

func (c *compiler) buildTools(ctx context.Context, t *resolvedTool) ([]tool.Tool, error) {
	set := t.set
	if t.agent != nil {
		a, err := c.buildAgent(ctx, t.agent)
		if err != nil {
			return nil, err
		}
		if set, err = t.plan.Build(ctx, agentconfig.AgentToolEnv{Agent: a}); err != nil {
			return nil, err
		}
	}
	return set.Tools(ctx)
}

type wrappedTool struct{ tool.Tool }

// Capabilities returns the wrapped tool's capabilities.
func (t wrappedTool) Capabilities() tool.Capabilities { return tool.CapabilitiesOf(t.Tool) }

// RecordTools returns a value for [Options.WrapTool] that records tool calls.
func RecordTools(rec *provider.Recorder) func(tool.Tool) tool.Tool {
	return func(t tool.Tool) tool.Tool { return &recordedTool{wrappedTool{t}, rec} }
}

// ReplayTools returns a value for [Options.WrapTool] that answers calls from a record
// without running tools. A call that is not in the record ends the run.
func ReplayTools(s *provider.Script) func(tool.Tool) tool.Tool {
	replay := provider.NewToolReplay(s)
	return func(t tool.Tool) tool.Tool { return &replayedTool{wrappedTool{t}, replay} }
}

type recordedTool struct {
	wrappedTool
	rec *provider.Recorder
}

// Run runs the tool; see [tool.Tool]. Canceled calls and calls with invalid arguments
// are not recorded.
func (t *recordedTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	c := &provider.ToolCall{Origin: call.Origin, Name: call.Name, Args: maps.Clone(call.Args)}
	before := maps.Clone(call.Actions.StateDelta)
	result, err := t.Tool.Run(ctx, call)
	late, wrong := (*tool.TimeoutError)(nil), (*tool.ArgsError)(nil)
	switch {
	case errors.As(err, &wrong):
		return result, err
	case err != nil && errors.As(context.Cause(ctx), &late):
		c.Error = late.Error()
	case err != nil && ctx.Err() != nil:
		return result, err
	case err != nil:
		c.Error = err.Error()
	case result != nil:
		c.Response = result.Response
	}
	c.State = map[string]any{}
	for key, value := range call.Actions.StateDelta {
		if old, ok := before[key]; !ok || !reflect.DeepEqual(old, value) {
			c.State[key] = value
		}
	}
	for _, key := range call.Actions.UpdatedKeys() {
		c.State[key], _ = call.State.Get(key)
	}
	t.rec.AddToolCall(c)
	return result, err
}

type replayedTool struct {
	wrappedTool
	replay *provider.ToolReplay
}

// Run answers from the record; see [tool.Tool].
func (t *replayedTool) Run(ctx context.Context, call *tool.Call) (*tool.Result, error) {
	if _, err := declare.CheckArgs(ctx, t.Declaration(), call.Args); err != nil {
		return nil, err
	}
	found, err := t.replay.Answer(ctx, call.Origin, call.Name, call.Args)
	if err != nil {
		return nil, &tool.EndError{Err: err}
	}
	for k, v := range found.State {
		call.State.Set(k, v)
	}
	switch {
	case found.Error != "":
		return nil, errors.New(found.Error)
	case found.Response == nil:
		return nil, nil
	}
	return &tool.Result{Response: found.Response}, nil
}
