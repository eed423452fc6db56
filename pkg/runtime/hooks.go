package runtime

import (
	"context"
	"errors"
	"runtime/debug"
)

// hooks are the callbacks that apply to one agent, each with its owner. It is
// nil for an agent without callbacks.
type hooks struct {
	beforeAgent  []ownedCallback[AgentFunc]
	afterAgent   []ownedCallback[AgentFunc]
	beforeModel  []ownedCallback[BeforeModelFunc]
	afterModel   []ownedCallback[AfterModelFunc]
	onModelError []ownedCallback[ModelErrorFunc]
	beforeTool   []ownedCallback[BeforeToolFunc]
	afterTool    []ownedCallback[AfterToolFunc]
	onToolError  []ownedCallback[ToolErrorFunc]
}

// ownedCallback is a callback with the name of its owner.
type ownedCallback[F any] struct {
	owner string
	fn    F
}

// withCallbacks appends callbacks; nil stays nil when there are none.
func (h *hooks) withCallbacks(by string, c *Callbacks) *hooks {
	if c.countFunctions() == 0 {
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

// firstAnswer calls the callbacks of one list until one returns an answer.
func firstAnswer[F, A any](ctx context.Context, inv *Invocation, hook string, list []ownedCallback[F], ask func(F) (*A, error)) (*A, error) {
	for _, o := range list {
		answer, err := callRecovering(inv, hook, o, ask)
		if err != nil {
			return nil, wrapHookError(ctx, o.owner, hook, err)
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

// A hookError is the error of a callback. It ends the run, and is not an error
// of the model or a tool.
type hookError struct{ runErr *RunError }

func (f *hookError) Error() string { return f.runErr.Message }
func (f *hookError) Unwrap() error { return f.runErr }

func wrapHookError(ctx context.Context, by, hook string, err error) error {
	var runErr *RunError
	switch {
	case errors.As(err, &runErr):
	case ctx.Err() != nil:
		runErr = AsRunError(ctx.Err())
	default:
		runErr = failf(CodeCallbackFailed, err, "%s of %s failed: %s", hook, by, err)
	}
	return &hookError{runErr}
}

// asHookError returns the error of a callback in an error chain.
func asHookError(err error) (*RunError, bool) {
	var f *hookError
	if errors.As(err, &f) {
		return f.runErr, true
	}
	return nil, false
}
