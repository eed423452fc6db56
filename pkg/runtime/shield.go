package runtime

import (
	"context"
	"errors"
	"runtime/debug"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// errPanicked is all that a client hears of a panic; the log has the rest.
var errPanicked = errors.New("it panicked")

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
		s := shield[*session.Event]{broke: (*Invocation).panicFailure, inv: inv, yield: yield}
		defer s.hold()
		inv.node.agent.Run(ctx, inv)(s.pass)
	}
}

// panicFailure logs a panic of the agent, and is the error that clients get.
func (inv *Invocation) panicFailure(p *safe.Panic) error {
	p.Log(inv.run.log(), "agent panicked", "agent", inv.node.agent.Name())
	return failf(CodeAgentFailed, errPanicked, "agent %s panicked", inv.node.agent.Name())
}

// askModel asks the agent's model, and says whether all was heard. Its panic is a
// failed call.
func (s *step) askModel(ctx context.Context, req *model.Request, hear hearing) (whole bool) {
	s.heard = shield[*model.Response]{broke: (*Invocation).modelPanicked, inv: s.inv, yield: hear}
	defer s.heard.hold()
	s.inv.node.llm.Generate(ctx, req)(s.heard.pass)
	return !s.heard.over
}

func (inv *Invocation) modelPanicked(p *safe.Panic) error {
	p.Log(inv.run.log(), "model panicked", "agent", inv.node.agent.Name())
	return errPanicked
}

// runPanicked is for a panic of the run itself, outside of any agent.
func (h *Host) runPanicked(req *RunRequest, p *safe.Panic) error {
	p.Log(h.logger, "run panicked", "app", req.App, "session", req.SessionID)
	return AsRunError(errPanicked)
}

// A shield stands between a sequence and whoever consumes it. It makes a panic
// of the sequence its last error; a panic of the consumer passes through.
type shield[T any] struct {
	// broke makes a panic of the sequence an error; inv is given to it.
	broke func(inv *Invocation, p *safe.Panic) error
	inv   *Invocation
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
	if v := recover(); v != nil {
		if err := s.broke(s.inv, &safe.Panic{Value: v, Stack: string(debug.Stack())}); !s.over {
			var none T
			s.yield(none, err)
		}
	}
}
