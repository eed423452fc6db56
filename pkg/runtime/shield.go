package runtime

import (
	"context"
	"errors"
	"iter"
	"runtime/debug"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

var errBroke = errors.New("it broke down")

// play runs the agent itself. One that was written elsewhere may panic, which
// must not take the host down: it is that agent's failure.
func (inv *Invocation) play(ctx context.Context) Events {
	switch a := inv.node.agent.(type) {
	case *LLMAgent, *SequentialAgent, *ParallelAgent, *LoopAgent, *RouterAgent, *Workflow, *JoinNode:
		return a.Run(ctx, inv)
	}
	return shielded(func(yield func(*session.Event, error) bool) {
		inv.node.agent.Run(ctx, inv)(yield)
	}, func(p any) error {
		inv.panicked("an agent panicked", p)
		return failf(CodeAgentFailed, errBroke, "agent %s failed: %s", inv.node.agent.Name(), errBroke)
	})
}

// askModel asks the agent's model. Its panic is a failed call.
func (inv *Invocation) askModel(ctx context.Context, req *model.Request) responses {
	return shielded(func(yield func(*model.Response, error) bool) {
		inv.node.llm.Generate(ctx, req)(yield)
	}, func(p any) error {
		inv.panicked("a model panicked", p)
		return errBroke
	})
}

func (inv *Invocation) panicked(what string, p any) {
	r := inv.run
	r.host.logger.Error(what, "agent", inv.node.agent.Name(), "session", r.sess.ID, "invocation", r.id,
		"panic", p, "stack", string(debug.Stack()))
}

// shielded makes a panic of a sequence its last error. A panic of whoever
// consumes it passes through.
func shielded[T any](events iter.Seq2[T, error], broke func(p any) error) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		outside, over := false, false
		defer func() {
			if outside {
				return
			}
			if p := recover(); p != nil {
				if err := broke(p); !over {
					yield(none, err)
				}
			}
		}()
		events(func(v T, err error) bool {
			outside = true
			ok := yield(v, err)
			outside, over = false, !ok
			return ok
		})
	}
}
