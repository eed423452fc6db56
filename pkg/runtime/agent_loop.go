package runtime

import (
	"context"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/template"
)

// loopConfig is the YAML of a LoopAgent.
type loopConfig struct {
	Common        CommonConfig `yaml:",inline"`
	MaxIterations int          `yaml:"max_iterations" doc:"How often the sub-agents run at most; zero is no limit."`
	Until         spec.Expr    `yaml:"until" doc:"Ends the loop when true after one of its sub-agents; sees state, user, session, invocation and agent."`
}

func (c *loopConfig) AgentRefs() []*AgentRef { return c.Common.AgentRefs() }

// Check compiles the expression and refuses a negative count.
func (c *loopConfig) Check(n *spec.Node) spec.Diagnostics {
	var ds spec.Diagnostics
	if c.MaxIterations < 0 {
		ds = append(ds, n.Get("max_iterations").Errorf("loop", "max_iterations %d is less than zero", c.MaxIterations))
	}
	_, found := compileUntil(c.Until)
	return append(ds, found...)
}

func compileUntil(e spec.Expr) (*template.Expr, spec.Diagnostics) {
	if e.Value == "" {
		return nil, nil
	}
	return compileCondition(e)
}

func newLoop(_ context.Context, env AgentEnv, c *loopConfig) (Agent, error) {
	until, ds := compileUntil(c.Until)
	if err := ds.Err(); err != nil {
		return nil, err
	}
	return NewLoop(c.Common.Name.Value, &LoopOptions{
		Description: c.Common.Description, MaxIterations: c.MaxIterations, Until: until, SubAgents: env.SubAgents,
	}), nil
}

// LoopOptions are what a loop agent may be given.
type LoopOptions struct {
	Description string
	// MaxIterations is zero for no limit.
	MaxIterations int
	// Until ends the loop when it is true after a sub-agent.
	Until     *template.Expr
	SubAgents []Agent
	Callbacks Callbacks
}

// A LoopAgent runs its sub-agents in turn, again and again, until one of them
// escalates, its condition holds, or its iterations are used up.
type LoopAgent struct {
	Base
	opts LoopOptions
}

// NewLoop makes a loop agent; nil options are fine.
func NewLoop(name string, opts *LoopOptions) *LoopAgent {
	if opts == nil {
		opts = &LoopOptions{}
	}
	base := Base{AgentName: name, AgentDescription: opts.Description, Children: opts.SubAgents, Callbacks: opts.Callbacks}
	return &LoopAgent{base, *opts}
}

// Run loops. A sub-agent that escalates finishes its step first; the rest of
// the iteration is left out (adk-python agents/loop_agent.py).
func (a *LoopAgent) Run(ctx context.Context, inv *Invocation) Events {
	return func(yield func(*session.Event, error) bool) {
		if len(a.Children) == 0 {
			return
		}
		for n := 0; a.opts.MaxIterations == 0 || n < a.opts.MaxIterations; n++ {
			// Sub-agents that do nothing would not notice.
			if ctx.Err() != nil {
				yield(nil, AsRunError(ctx.Err()))
				return
			}
			if !a.iterate(ctx, inv, yield) {
				return
			}
		}
	}
}

// iterate runs each sub-agent once, and says whether the loop goes on. It does
// not when all were skipped: then nothing of the next round would be different.
func (a *LoopAgent) iterate(ctx context.Context, inv *Invocation, yield func(*session.Event, error) bool) bool {
	seen, skips := 0, 0
	for i := range a.Children {
		escalated := false
		_, ok := forward(inv.RunChild(ctx, i), func(ev *session.Event, err error) bool {
			if ev != nil && ev.Actions.Escalate {
				escalated = true
			}
			if seen++; ev != nil && isSkip(ev) {
				skips++
			}
			return yield(ev, err)
		})
		if !ok || escalated {
			return false
		}
		done, err := a.done(ctx, inv)
		if err != nil {
			yield(nil, err)
			return false
		}
		if done {
			return false
		}
	}
	return seen == 0 || skips < seen
}

func (a *LoopAgent) done(ctx context.Context, inv *Invocation) (bool, error) {
	if a.opts.Until == nil {
		return false, nil
	}
	done, err := a.opts.Until.Bool(ctx, inv.vars())
	if err != nil {
		return false, failf(CodeInvalidRequest, err, "until of agent %s: %s", a.AgentName, err)
	}
	return done, nil
}
