package loader

import (
	"context"
	"io"

	"agenthost/internal/agentconfig"
	"agenthost/pkg/runtime"
	"agenthost/pkg/tool"
)

// acquirePrograms returns what runs the app's programs, or nil if this program runs none. The
// session folders exist as long as an app uses it.
func (r *appLoad) acquirePrograms() (tool.ProgramRunner, func() error) {
	open := r.loader.kinds.Programs
	if open == nil {
		return nil, func() error { return nil }
	}
	host, end, _ := acquireResource(r.loader.resources, hashResourceKey("programs"), func() (ProgramHost, func() error, error) {
		host := open(ProgramEnv{Policy: r.loader.opts.Policy, Logger: r.loader.opts.Logger})
		return host, host.Close, nil
	})
	return host.Runner(r.src.name, r.src.absoluteDir()), end
}

// checkExecutor reports what an executor's host does not grant or have.
func (r *appLoad) checkExecutor(plan *agentconfig.ExecutorPlan) {
	for _, p := range plan.Programs() {
		r.report(r.checkOneProgram(p)...)
	}
	r.report(plan.CheckHost(r.newExecutorEnv(plan))...)
	if len(plan.Programs()) > 0 && r.loader.kinds.Programs == nil {
		r.report(plan.Use.Name.Errorf(0, "code-executor", "the code executor %s runs programs, which this program cannot run", plan.Kind.Name).
			WithHint("in Go, set Programs of loader.Kinds, such as programs.Opener from package wing/programs"))
	}
}

func (r *appLoad) newExecutorEnv(plan *agentconfig.ExecutorPlan) agentconfig.ExecutorEnv {
	return agentconfig.ExecutorEnv{ExecutorUse: plan.Use, Interpreters: r.loader.opts.Interpreters, Logger: r.loader.opts.Logger}
}

// buildExecutor builds an agent's executor. The app closes it.
func (r *appLoad) buildExecutor(ctx context.Context, plan *agentconfig.ExecutorPlan) (runtime.CodeExecutor, error) {
	env := r.newExecutorEnv(plan)
	if len(plan.Programs()) > 0 && !r.loader.opts.Offline {
		programs, end := r.acquirePrograms()
		r.held.add(end)
		env.Programs = programs
	}
	executor, err := plan.Build(ctx, env)
	if err != nil {
		return nil, err
	}
	if closer, ok := executor.(io.Closer); ok {
		r.held.add(closer.Close)
	}
	return executor, nil
}
