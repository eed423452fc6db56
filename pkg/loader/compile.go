package loader

import (
	"context"
	"errors"
	"slices"
	"time"

	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// compileApp builds the agents, leaves first, into an app. On failure it closes the
// resources of the load.
func (j *job) compileApp(ctx context.Context, root *resolvedAgent) *runtime.App {
	agent, err := j.buildAgent(ctx, root)
	if err == nil {
		var app *runtime.App
		app, err = runtime.NewApp(j.src.name, agent, &runtime.AppOptions{
			Description: j.doc.Description, Revision: j.src.computeRevision(), Config: j.doc.runConfig(), Model: j.buildDefaultModel(ctx), Close: j.closeResources,
			ContextCache: j.doc.ContextCache, Retention: time.Duration(j.doc.Retention),
			Compaction: j.doc.compactionConfig(), Summarizer: j.summarizer,
			StateSchema: stateSchema(root), Resumable: j.isResumable(root), Reload: j.doc.Reload,
			Plugins: j.plugins, Logger: j.loader.opts.Logger,
		})
		if err == nil {
			return app
		}
	}
	j.closeResources()
	if isLimitError(err) {
		return nil // reported at the end of the load
	}
	j.reportBuildError(root.plan.Node, "build", err)
	return nil
}

func (j *job) closeResources() {
	var errs []error
	for _, c := range slices.Backward(j.closers) {
		errs = append(errs, c())
	}
	if err := errors.Join(errs...); err != nil {
		j.loader.opts.Logger.Warn("failed to close app", "app", j.src.name, "error", err)
	}
}

func (j *job) buildAgent(ctx context.Context, p *resolvedAgent) (runtime.Agent, error) {
	if j.src.budget.isExceeded() {
		return nil, j.src.budget.exceeded
	}
	env := runtime.AgentEnv{Model: p.model}
	for _, sub := range p.subs {
		a, err := j.buildAgent(ctx, sub)
		if err != nil {
			return nil, err
		}
		env.SubAgents = append(env.SubAgents, a)
	}
	for _, t := range p.tools {
		if t.isDynamic() {
			env.Toolsets = append(env.Toolsets, j.replaceSetTools(t.set))
			continue
		}
		tools, err := j.buildTools(ctx, t)
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

func (j *job) buildTools(ctx context.Context, t *resolvedTool) ([]tool.Tool, error) {
	set := t.set
	if t.agent != nil {
		a, err := j.buildAgent(ctx, t.agent)
		if err != nil {
			return nil, err
		}
		if set, err = t.plan.Build(ctx, runtime.AgentToolEnv{Agent: a}); err != nil {
			return nil, err
		}
	}
	return j.replaceTools(set.Tools(ctx))
}
