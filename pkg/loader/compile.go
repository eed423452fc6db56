package loader

import (
	"context"
	"errors"
	"slices"
	"time"

	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// compile builds the agents, leaves first, into an app. When that fails, what
// was opened is closed again.
func (j *job) compile(ctx context.Context, root *placed) *runtime.App {
	agent, err := j.build(ctx, root)
	if err == nil {
		var app *runtime.App
		app, err = runtime.NewApp(j.src.name, agent, &runtime.AppOptions{
			Description: j.doc.Description, Revision: j.src.revision(), Config: j.doc.runConfig(), Model: j.defaultModel(ctx), Close: j.close,
			ContextCache: j.doc.ContextCache, Retention: time.Duration(j.doc.Retention),
			Compaction: j.doc.compaction(), Summarizer: j.summarizer,
			StateSchema: stateSchema(root), Resumable: j.resumable(root), Reload: j.doc.Reload,
			Plugins: j.plugins, Logger: j.loader.opts.Logger,
		})
		if err == nil {
			return app
		}
	}
	j.close()
	if isLimit(err) {
		return nil // reported at the end of the load
	}
	j.reportBuild(root.plan.Node, "build", err)
	return nil
}

func (j *job) close() {
	var errs []error
	for _, c := range slices.Backward(j.closers) {
		errs = append(errs, c())
	}
	if err := errors.Join(errs...); err != nil {
		j.loader.opts.Logger.Warn("closing an app", "app", j.src.name, "error", err)
	}
}

func (j *job) build(ctx context.Context, p *placed) (runtime.Agent, error) {
	if j.src.budget.isSpent() {
		return nil, j.src.budget.exceeded
	}
	env := runtime.AgentEnv{Model: p.model}
	for _, sub := range p.subs {
		a, err := j.build(ctx, sub)
		if err != nil {
			return nil, err
		}
		env.SubAgents = append(env.SubAgents, a)
	}
	for _, t := range p.tools {
		if t.isDynamic() {
			env.Toolsets = append(env.Toolsets, j.replacedSet(t.set))
			continue
		}
		tools, err := j.toolsOf(ctx, t)
		if err != nil {
			return nil, err
		}
		env.Tools = append(env.Tools, tools...)
	}
	agent, err := p.plan.Build(ctx, env)
	if err == nil {
		err = runtime.AddCallbacks(agent, p.callbacks)
	}
	if at := p.plan.Node.Get("when"); err == nil && !at.IsNull() {
		when := &runtime.Condition{}
		if err = when.DecodeSpec(at).Err(); err == nil {
			err = runtime.SetCondition(agent, when)
		}
	}
	return agent, err
}

func (j *job) toolsOf(ctx context.Context, t *placedTool) ([]tool.Tool, error) {
	set := t.set
	if t.agent != nil {
		a, err := j.build(ctx, t.agent)
		if err != nil {
			return nil, err
		}
		if set, err = t.plan.Build(ctx, runtime.AgentToolEnv{Agent: a}); err != nil {
			return nil, err
		}
	}
	return j.replaced(set.Tools(ctx))
}
