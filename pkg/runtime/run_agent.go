package runtime

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/template"
)

// RunChild runs one of this agent's children on the same branch, for the first time. An agent that
// runs a child repeatedly uses [Invocation.RunChildAgain].
func (inv *Invocation) RunChild(ctx context.Context, i int) Events {
	return inv.RunChildAgain(ctx, i, 1)
}

// RunChildAgain runs one of this agent's children on the same branch for the nth time in this run,
// counted from 1. A resumed invocation uses the number to find the run that it continues.
func (inv *Invocation) RunChildAgain(ctx context.Context, i, nth int) Events {
	child := inv.childInvocation(i, nth)
	return func(yield func(*session.Event, error) bool) { child.runAgent(ctx, yield) }
}

// childInvocation returns a child's invocation on the same branch.
func (inv *Invocation) childInvocation(i, nth int) *Invocation {
	return inv.newChildInvocation(inv.node.children[i], inv.branch, nth)
}

// newChildInvocation returns the invocation for an agent that this one runs. If this invocation has
// ended, the new one has too.
func (inv *Invocation) newChildInvocation(n *node, branch string, nth int) *Invocation {
	below := &Invocation{}
	inv.initChildInvocation(below, n, branch, nth)
	return below
}

// initChildInvocation initializes below as the invocation for an agent that this one runs.
func (inv *Invocation) initChildInvocation(below *Invocation, n *node, branch string, nth int) {
	below.run, below.node, below.branch = inv.run, n, branch
	below.path = inv.childPath(n.agent.Name(), strconv.Itoa(nth))
	below.frame = inv.frame.childFrame(inv.run.record, below.path)
	if n.isTaskNode() {
		below.scope = below.path
	}
	if inv.hasEnded() {
		below.EndInvocation()
	}
}

// withBranch returns the invocation on another branch.
func (inv *Invocation) withBranch(branch string) *Invocation {
	return &Invocation{run: inv.run, node: inv.node, branch: branch, scope: inv.scope, path: inv.path, frame: inv.frame, input: inv.input}
}

// passLastEvent returns the onLastEvent for an agent with which this one ends.
func (inv *Invocation) passLastEvent() func() {
	if inv.endsWithAgent() {
		return inv.onLastEvent
	}
	return nil
}

// endsWithAgent reports that nothing follows the agent itself: no callback
// after it, and no event that marks its end.
func (inv *Invocation) endsWithAgent() bool {
	return inv.frame == nil && (inv.node.hooks == nil || len(inv.node.hooks.afterAgent) == 0)
}

// runAgent runs the agent with its condition, callbacks and span (adk-python
// agents/base_agent.py run_async). It returns false when the run is over.
func (inv *Invocation) runAgent(ctx context.Context, yield func(*session.Event, error) bool) bool {
	ctx, span := inv.beginAgentSpan(ctx)
	defer span.endSpan()
	yield = inv.reportAgentErrors(ctx, span.recordErrors(yield))
	if inv.frame != nil {
		return inv.runFrame(ctx, yield)
	}
	if when := inv.node.when; when != nil {
		holds, err := when.evaluateFor(ctx, inv, "when")
		if err != nil {
			yield(nil, err)
			return false
		}
		if !holds {
			return yield(inv.newSkippedEvent("when: "+when.source), nil)
		}
	}
	h := inv.node.hooks
	if h == nil {
		return inv.runAgentBody(ctx, yield)
	}
	if answered, ok := inv.runAgentCallbacks(ctx, "before_agent", h.beforeAgent, yield); answered || !ok {
		return ok
	}
	if !inv.runAgentBody(ctx, yield) {
		return false
	}
	if inv.hasEnded() {
		return true
	}
	_, ok := inv.runAgentCallbacks(ctx, hookAfterAgent, h.afterAgent, yield)
	return ok
}

// runAgentBody runs the agent itself. An agent that was ended before does not start.
func (inv *Invocation) runAgentBody(ctx context.Context, yield func(*session.Event, error) bool) bool {
	if inv.hasEnded() {
		return true
	}
	if inv.run.twoWay != nil {
		return inv.runTwoWayBody(ctx, yield)
	}
	if a := inv.node.builtin; a != nil {
		return a.run(ctx, inv, yield)
	}
	return inv.runCustomAgent(ctx, yield)
}

// runCustomAgent runs an agent from another package. Its panic is that agent's error and does not
// stop the host.
func (inv *Invocation) runCustomAgent(ctx context.Context, yield func(*session.Event, error) bool) bool {
	events := func(yield func(*session.Event, error) bool) {
		s := panicGuard[*session.Event]{onPanic: (*Invocation).panicFailure, inv: inv, yield: yield}
		defer s.recoverPanic()
		inv.node.agent.Run(ctx, inv)(s.forwardValue)
	}
	for ev, err := range events {
		if err != nil {
			yield(nil, err)
			return false
		}
		if !yield(ev, nil) {
			return false
		}
	}
	return true
}

// NewCondition compiles a condition. The error is a [*template.Error] with the problem's position.
func NewCondition(source string) (*Condition, error) {
	compiled, err := template.CompileBool(source, ExprEnv())
	if err != nil {
		return nil, err
	}
	return &Condition{source, compiled}, nil
}

// evaluateFor evaluates the condition for an agent; key is the condition's field, for errors. A nil
// condition is true.
func (c *Condition) evaluateFor(ctx context.Context, inv *Invocation, key string) (bool, error) {
	if c == nil || c.compiled == nil {
		return true, nil
	}
	ok, err := c.compiled.Bool(ctx, inv.ExprVars())
	if err != nil {
		return false, failf(CodeInvalidRequest, err, "%s of agent %s: %s", key, inv.node.agent.Name(), err)
	}
	return ok, nil
}

// SetCondition sets the condition under which an agent runs; nil means always. The agent must not
// be in an app yet. It fails for an agent that does not embed [Base].
func SetCondition(agent Agent, when *Condition) error {
	a, ok := agent.(baseAgent)
	switch {
	case ok:
		a.base().when = when
	case when != nil:
		return fmt.Errorf("agent %s cannot have a when: its type %T does not embed runtime.Base", agent.Name(), agent)
	}
	return nil
}

// ExprEnv declares the names that expressions can use, for [template.Compile]:
// state, user (the text of the user message), session, run_config, invocation and agent.
// [Invocation.ExprVars] returns their values.
func ExprEnv() template.Env {
	return template.Env{
		"state":      map[string]any{},
		"user":       "",
		"session":    map[string]any{},
		"run_config": template.Env(model.SampleRunConfig()),
		"invocation": map[string]any{},
		"agent":      "",
	}
}

// ExprVars returns the values for the names in [ExprEnv], for [template.Expr.Eval]. The map belongs
// to the caller, who can add names. The evaluations count against the turn's limits.
func (inv *Invocation) ExprVars() map[string]any {
	r := inv.run
	state := r.sess.State.All()
	r.app.state.AddDefaults(state)
	return map[string]any{
		"state":      state,
		"user":       r.latestText(),
		"session":    r.sessionVars(),
		"run_config": r.ReadConfig(),
		"invocation": map[string]any{"id": r.id},
		"agent":      inv.node.agent.Name(),

		template.BudgetName: r.expressionBudget(),
	}
}

// ExprVars returns the variables in [Invocation.ExprVars], where state includes this callback's
// writes, and now, the current time.
func (m *CallbackContext) ExprVars() map[string]any {
	r := m.run
	return map[string]any{
		"state": m.State, "user": r.latestText(), "agent": m.node.agent.Name(),
		"session":    r.sessionVars(),
		"run_config": r.ReadConfig(),
		"invocation": map[string]any{"id": r.id}, "now": r.host.now(),

		template.BudgetName: r.expressionBudget(),
	}
}

// reportAgentErrors wraps yield for plugins with OnAgentError.
func (inv *Invocation) reportAgentErrors(ctx context.Context, yield func(*session.Event, error) bool) func(*session.Event, error) bool {
	if !slices.ContainsFunc(inv.run.app.plugins, func(p *Plugin) bool { return p.OnAgentError != nil }) {
		return yield
	}
	return func(ev *session.Event, err error) bool {
		if err != nil {
			inv.reportFailure(ctx, "on_agent_error", err, func(p *Plugin) errorObserver { return p.OnAgentError })
		}
		return yield(ev, err)
	}
}

// reportFailure calls all plugins' observers. A panic in one is logged.
func (inv *Invocation) reportFailure(ctx context.Context, hook string, failure error, observerOf func(*Plugin) errorObserver) {
	_, err := askPlugins(ctx, inv, hook, func(p *Plugin) func() (*struct{}, error) {
		observe := observerOf(p)
		if observe == nil {
			return nil
		}
		return func() (*struct{}, error) { observe(ctx, inv, AsRunError(failure)); return nil, nil }
	})
	if err != nil {
		inv.run.logger().WarnContext(ctx, hook+" failed", "error", err)
	}
}

// errorObserver is a plugin's OnAgentError or OnRunError; it may be nil.
type errorObserver = func(ctx context.Context, inv *Invocation, failure *RunError)
