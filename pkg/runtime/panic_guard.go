package runtime

import (
	"context"
	"errors"
	"runtime/debug"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// errPanicked is all that clients see of a panic; the log has the details.
var errPanicked = errors.New("it panicked")

// runAgentBody runs the agent itself. A panic of an agent from another package
// is an error of that agent and does not stop the host. An agent that was
// ended before does not start.
func (inv *Invocation) runAgentBody(ctx context.Context, yield func(*session.Event, error) bool) bool {
	if inv.hasEnded() {
		return true
	}
	if a := asBuiltin(inv.node.agent); a != nil {
		return a.run(ctx, inv, yield)
	}
	return forwardEvents(inv.runCustomAgent(ctx), yield)
}

// runCustomAgent runs an agent of another package.
func (inv *Invocation) runCustomAgent(ctx context.Context) Events {
	return func(yield func(*session.Event, error) bool) {
		s := panicGuard[*session.Event]{onPanic: (*Invocation).panicFailure, inv: inv, yield: yield}
		defer s.recoverPanic()
		inv.node.agent.Run(ctx, inv)(s.forwardValue)
	}
}

// panicFailure logs a panic of the agent and returns the error for clients.
func (inv *Invocation) panicFailure(p *safe.Panic) error {
	p.Log(inv.run.logger(), "agent panicked", "agent", inv.node.agent.Name())
	return failf(CodeAgentFailed, errPanicked, "agent %s panicked", inv.node.agent.Name())
}

// streamModel calls the agent's model, and returns whether the whole stream
// was consumed. A panic of the model is a failed call.
func (s *step) streamModel(ctx context.Context, req *model.Request, yield responseFunc) (whole bool) {
	s.guard = panicGuard[*model.Response]{onPanic: (*Invocation).modelPanicked, inv: s.inv, yield: yield}
	defer s.guard.recoverPanic()
	s.inv.node.llm.Generate(ctx, req)(s.guard.forwardValue)
	return !s.guard.stopped
}

func (inv *Invocation) modelPanicked(p *safe.Panic) error {
	p.Log(inv.run.logger(), "model panicked", "agent", inv.node.agent.Name())
	return errPanicked
}

// runPanicked handles a panic of the run outside of any agent.
func (h *Host) runPanicked(req *RunRequest, p *safe.Panic) error {
	p.Log(h.logger, "run panicked", "app", req.App, "session", req.SessionID)
	return AsRunError(errPanicked)
}

// A panicGuard wraps an iterator and turns its panic into its last error. A
// panic of the consumer passes through.
type panicGuard[T any] struct {
	// onPanic converts a panic of the iterator to an error; inv is its
	// argument.
	onPanic func(inv *Invocation, p *safe.Panic) error
	inv     *Invocation
	yield   func(T, error) bool

	inConsumer bool // the consumer is running
	stopped    bool // the consumer has stopped
}

// forwardValue is the yield function of the iterator.
func (s *panicGuard[T]) forwardValue(v T, err error) bool {
	if s.stopped {
		return false
	}
	s.inConsumer = true
	ok := s.yield(v, err)
	s.inConsumer, s.stopped = false, !ok
	return ok
}

// recoverPanic must be deferred around the iterator.
func (s *panicGuard[T]) recoverPanic() {
	if s.inConsumer {
		return
	}
	if v := recover(); v != nil {
		if err := s.onPanic(s.inv, &safe.Panic{Value: v, Stack: string(debug.Stack())}); !s.stopped {
			var none T
			s.yield(none, err)
		}
	}
}
