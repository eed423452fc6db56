package runtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"

	"google.golang.org/genai"

	"agenthost/internal/safe"
	"agenthost/pkg/session"
)

// A NodeFunc computes the output of a [FunctionNode] from the output of the previous node. It
// returns a value that JSON can represent, or a [*genai.Content], which becomes the event's
// content. The state and actions that it writes to the context are part of the event. Many runs
// call it concurrently.
type NodeFunc func(ctx context.Context, m *CallbackContext, input any) (any, error)

// A ContentFilter returns the request contents that the model receives. It must not change the
// given contents, and must return at least one.
type ContentFilter func(ctx context.Context, m *CallbackContext, contents []*genai.Content) ([]*genai.Content, error)

func (inv *Invocation) newCallbackContext(actions *session.Actions) *CallbackContext {
	r := inv.run
	return &CallbackContext{
		Invocation: inv, Actions: actions,
		State:     inv.newCallState(actions),
		Artifacts: &callArtifacts{store: r.host.store.Artifacts, key: r.sess.Key, actions: actions},
		Memories:  &callMemories{r},
	}
}

// Add appends more's lists to c's.
func (c *Callbacks) Add(more *Callbacks) {
	c.BeforeAgent = append(c.BeforeAgent, more.BeforeAgent...)
	c.AfterAgent = append(c.AfterAgent, more.AfterAgent...)
	c.BeforeModel = append(c.BeforeModel, more.BeforeModel...)
	c.AfterModel = append(c.AfterModel, more.AfterModel...)
	c.OnModelError = append(c.OnModelError, more.OnModelError...)
	c.BeforeTool = append(c.BeforeTool, more.BeforeTool...)
	c.AfterTool = append(c.AfterTool, more.AfterTool...)
	c.OnToolError = append(c.OnToolError, more.OnToolError...)
}

// IsEmpty reports whether all lists are empty.
func (c *Callbacks) IsEmpty() bool {
	return len(c.BeforeAgent)+len(c.AfterAgent)+len(c.BeforeModel)+len(c.AfterModel)+
		len(c.OnModelError)+len(c.BeforeTool)+len(c.AfterTool)+len(c.OnToolError) == 0
}

// AddCallbacks appends callbacks to those of an agent that is not yet part of
// an app. It fails for an agent that does not embed [Base].
func AddCallbacks(agent Agent, more Callbacks) error {
	a, ok := agent.(baseAgent)
	switch {
	case ok:
		a.base().Callbacks.Add(&more)
	case !more.IsEmpty():
		return fmt.Errorf("agent %s cannot have callbacks: its type %T does not embed runtime.Base", agent.Name(), agent)
	}
	return nil
}

// hookAfterAgent names the callbacks after an agent.
const hookAfterAgent = "after_agent"

// runAgentCallbacks calls the callbacks before or after an agent, and yields
// an event with their answer or their state writes. It returns whether there
// was an answer, and false when the run is over.
func (inv *Invocation) runAgentCallbacks(ctx context.Context, hook string, list []ownedCallback[AgentFunc], yield func(*session.Event, error) bool) (answered, ok bool) {
	if len(list) == 0 {
		return false, true
	}
	actions := &session.Actions{}
	m := inv.newCallbackContext(actions)
	if hook == hookAfterAgent {
		m.Event = inv.lastOwnEvent()
	}
	content, err := firstAnswer(ctx, inv, hook, list, func(f AgentFunc) (*genai.Content, error) { return f(ctx, m) })
	if err != nil {
		hookErr, _ := asHookError(err)
		yield(nil, hookErr)
		return false, false
	}
	if content == nil && len(actions.StateDelta)+len(actions.StateUpdates)+len(actions.ArtifactDelta) == 0 {
		return false, true
	}
	ev := inv.NewEvent()
	ev.Content, ev.Actions = content, *actions
	return content != nil, yield(ev, nil)
}

// lastOwnEvent returns the last event of the agent, or of one below it, in
// this run, or nil.
func (inv *Invocation) lastOwnEvent() *session.Event {
	for _, ev := range slices.Backward(inv.run.sess.Events()) {
		switch {
		case ev.InvocationID != inv.run.id || ev.IsFromUser():
			return nil
		case (ev.Content != nil || ev.Output != nil) && onBranch(ev.Branch, inv.branch) && inv.node.findNode(ev.NodeName()) != nil:
			return ev
		}
	}
	return nil
}

// withCallbacks appends callbacks; nil stays nil when there are none.
func (h *hooks) withCallbacks(by string, c *Callbacks) *hooks {
	if c.IsEmpty() {
		return h
	}
	if h == nil {
		h = &hooks{}
	}
	h.beforeAgent = appendOwned(h.beforeAgent, by, c.BeforeAgent)
	h.afterAgent = appendOwned(h.afterAgent, by, c.AfterAgent)
	h.beforeModel = appendOwned(h.beforeModel, by, c.BeforeModel)
	h.afterModel = appendOwned(h.afterModel, by, c.AfterModel)
	h.onModelError = appendOwned(h.onModelError, by, c.OnModelError)
	h.beforeTool = appendOwned(h.beforeTool, by, c.BeforeTool)
	h.afterTool = appendOwned(h.afterTool, by, c.AfterTool)
	h.onToolError = appendOwned(h.onToolError, by, c.OnToolError)
	return h
}

func appendOwned[F any](list []ownedCallback[F], by string, fns []F) []ownedCallback[F] {
	for _, fn := range fns {
		list = append(list, ownedCallback[F]{by, fn})
	}
	return list
}

// firstAnswer calls the callbacks in one list until one returns an answer.
func firstAnswer[F, A any](ctx context.Context, inv *Invocation, hook string, list []ownedCallback[F], ask func(F) (*A, error)) (*A, error) {
	for _, o := range list {
		answer, err := callRecovering(inv, hook, o, ask)
		var runErr *RunError
		switch {
		case err == nil:
		case errors.As(err, &runErr):
			return nil, &hookError{runErr}
		case ctx.Err() != nil:
			return nil, &hookError{AsRunError(ctx.Err())}
		default:
			return nil, &hookError{failf(CodeCallbackFailed, err, "%s of %s failed: %s", hook, o.owner, err)}
		}
		if answer != nil {
			return answer, nil
		}
	}
	return nil, nil
}

// callRecovering calls one callback. A panic is an error of that callback and
// does not stop the host.
func callRecovering[F, A any](inv *Invocation, hook string, o ownedCallback[F], ask func(F) (*A, error)) (answer *A, err error) {
	defer func() {
		if p := recover(); p != nil {
			inv.run.logger().Error("callback panicked", "callback", hook, "of", o.owner,
				"panic", p, "stack", string(debug.Stack()))
			answer, err = nil, errPanicked
		}
	}()
	return ask(o.fn)
}

// A hookError is a callback's error. It ends the run, and is not a model or tool error.
type hookError struct{ runErr *RunError }

func (f *hookError) Error() string { return f.runErr.Message }

func (f *hookError) Unwrap() error { return f.runErr }

// asHookError returns a callback's error in an error chain.
func asHookError(err error) (*RunError, bool) {
	var f *hookError
	if errors.As(err, &f) {
		return f.runErr, true
	}
	return nil, false
}

// panicFailure logs an agent's panic and returns the error for clients.
func (inv *Invocation) panicFailure(p *safe.Panic) error {
	p.Log(inv.run.logger(), "agent panicked", "agent", inv.node.agent.Name())
	return failf(CodeAgentFailed, errPanicked, "agent %s panicked", inv.node.agent.Name())
}
