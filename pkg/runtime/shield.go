package runtime

import (
	"context"
	"errors"
	"runtime/debug"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

var errBroke = errors.New("it broke down")

// play runs the agent itself. One that was written elsewhere may panic, which
// must not take the host down: it is that agent's failure. One that was ended
// before does not begin.
func (inv *Invocation) play(ctx context.Context, yield func(*session.Event, error) bool) bool {
	if inv.hasEnded() {
		return true
	}
	switch a := inv.node.agent.(type) {
	case *LLMAgent, *SequentialAgent, *ParallelAgent, *LoopAgent, *RouterAgent, *Workflow, *JoinNode:
		return a.(ownAgent).run(ctx, inv, yield)
	}
	return forward(inv.askAgent(ctx), yield)
}

// askAgent runs an agent that was written elsewhere.
func (inv *Invocation) askAgent(ctx context.Context) Events {
	return func(yield func(*session.Event, error) bool) {
		s := shield[*session.Event]{inv: inv, broke: (*Invocation).agentPanicked, yield: yield}
		defer s.hold()
		inv.node.agent.Run(ctx, inv)(s.pass)
	}
}

func (inv *Invocation) agentPanicked(p any) error {
	inv.panicked("an agent panicked", p)
	return failf(CodeAgentFailed, errBroke, "agent %s failed: %s", inv.node.agent.Name(), errBroke)
}

// askModel asks the agent's model, and says whether all was heard. Its panic is a
// failed call.
func (s *step) askModel(ctx context.Context, req *model.Request, hear hearing) (whole bool) {
	s.heard = shield[*model.Response]{inv: s.inv, broke: (*Invocation).modelPanicked, yield: hear}
	defer s.heard.hold()
	s.inv.node.llm.Generate(ctx, req)(s.heard.pass)
	return !s.heard.over
}

func (inv *Invocation) modelPanicked(p any) error {
	inv.panicked("a model panicked", p)
	return errBroke
}

func (inv *Invocation) panicked(what string, p any) {
	r := inv.run
	r.log().Error(what, "agent", inv.node.agent.Name(),
		"panic", p, "stack", string(debug.Stack()))
}

// A shield stands between a sequence and whoever consumes it. It makes a panic
// of the sequence its last error; a panic of the consumer passes through.
type shield[T any] struct {
	inv *Invocation
	// broke makes a panic of the sequence an error.
	broke func(inv *Invocation, p any) error
	yield func(T, error) bool

	outside bool // the consumer is at work
	over    bool // the consumer wants no more
}

// pass is what the sequence gives its values to.
func (s *shield[T]) pass(v T, err error) bool {
	if s.over {
		return false
	}
	s.outside = true
	ok := s.yield(v, err)
	s.outside, s.over = false, !ok
	return ok
}

// hold is deferred around the sequence.
func (s *shield[T]) hold() {
	if s.outside {
		return
	}
	if p := recover(); p != nil {
		if err := s.broke(s.inv, p); !s.over {
			var none T
			s.yield(none, err)
		}
	}
}
