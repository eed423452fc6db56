package runtime

import (
	"context"
	"errors"
	"runtime/debug"
)

// hooks are the callbacks that apply at one place of the tree, each with whose
// it is. A place without any has none at all, which is all that a turn without
// callbacks looks at.
type hooks struct {
	beforeAgent  []owned[AgentFunc]
	afterAgent   []owned[AgentFunc]
	beforeModel  []owned[BeforeModelFunc]
	afterModel   []owned[AfterModelFunc]
	onModelError []owned[ModelErrorFunc]
	beforeTool   []owned[BeforeToolFunc]
	afterTool    []owned[AfterToolFunc]
	onToolError  []owned[ToolErrorFunc]
}

// owned is a callback and whose it is, in words.
type owned[F any] struct {
	by string
	fn F
}

// with returns the hooks with more callbacks behind; nil stays nil as long as
// there are none.
func (h *hooks) with(by string, c *Callbacks) *hooks {
	if c.size() == 0 {
		return h
	}
	if h == nil {
		h = &hooks{}
	}
	h.beforeAgent = owning(h.beforeAgent, by, c.BeforeAgent)
	h.afterAgent = owning(h.afterAgent, by, c.AfterAgent)
	h.beforeModel = owning(h.beforeModel, by, c.BeforeModel)
	h.afterModel = owning(h.afterModel, by, c.AfterModel)
	h.onModelError = owning(h.onModelError, by, c.OnModelError)
	h.beforeTool = owning(h.beforeTool, by, c.BeforeTool)
	h.afterTool = owning(h.afterTool, by, c.AfterTool)
	h.onToolError = owning(h.onToolError, by, c.OnToolError)
	return h
}

func owning[F any](list []owned[F], by string, fns []F) []owned[F] {
	for _, fn := range fns {
		list = append(list, owned[F]{by, fn})
	}
	return list
}

// firstAnswer asks the callbacks of one list until one answers.
func firstAnswer[F, A any](ctx context.Context, inv *Invocation, hook string, list []owned[F], ask func(F) (*A, error)) (*A, error) {
	for _, o := range list {
		answer, err := guarded(inv, hook, o, ask)
		if err != nil {
			return nil, hookFailed(ctx, o.by, hook, err)
		}
		if answer != nil {
			return answer, nil
		}
	}
	return nil, nil
}

// guarded asks one callback. A panic is an error of that callback: one bad
// callback must not take the host down.
func guarded[F, A any](inv *Invocation, hook string, o owned[F], ask func(F) (*A, error)) (answer *A, err error) {
	defer func() {
		if p := recover(); p != nil {
			inv.run.log().Error("callback panicked", "callback", hook, "of", o.by,
				"panic", p, "stack", string(debug.Stack()))
			answer, err = nil, errPanicked
		}
	}()
	return ask(o.fn)
}

// A hookFailure is the error of a callback. It ends the run, and is neither
// the model's nor a tool's.
type hookFailure struct{ told *RunError }

func (f *hookFailure) Error() string { return f.told.Message }
func (f *hookFailure) Unwrap() error { return f.told }

func hookFailed(ctx context.Context, by, hook string, err error) error {
	var told *RunError
	switch {
	case errors.As(err, &told):
	case ctx.Err() != nil:
		told = AsRunError(ctx.Err())
	default:
		told = failf(CodeCallbackFailed, err, "%s of %s failed: %s", hook, by, err)
	}
	return &hookFailure{told}
}

// asHookFailure finds the failure of a callback in an error.
func asHookFailure(err error) (*RunError, bool) {
	var f *hookFailure
	if errors.As(err, &f) {
		return f.told, true
	}
	return nil, false
}
