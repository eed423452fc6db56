package runtime

import (
	"context"
	"maps"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// responseFunc receives the responses of a model, partial ones included, or
// the error that ends the call. It returns false to stop the stream.
type responseFunc = func(*model.Response, error) bool

// callModel calls the model with its callbacks, and returns whether the whole
// stream was consumed. Only a real model call is counted. The error is one
// that occurred before the call.
func (s *step) callModel(ctx context.Context, req *model.Request, yield responseFunc) (whole bool, err error) {
	host, hooked := s.inv.run.host, s.inv.node.hooks != nil
	if hooked {
		answer, err := s.inv.runBeforeModel(ctx, s.modelCallbackContext(), req)
		if err != nil {
			return false, err
		}
		if answer != nil {
			s.id = host.newID()
			return yield(answer, nil), nil
		}
	}
	if err := s.inv.run.budget.spendCall(); err != nil {
		return false, err
	}
	s.id = host.newID()
	if hooked {
		yield = s.withModelCallbacks(ctx, req, yield)
	}
	if host.observe == nil {
		return s.streamModel(ctx, req, yield), nil // avoids allocating a method value
	}
	return host.traceModelCall(ctx, req, &s.id, s.streamModel, yield), nil
}

func (inv *Invocation) runBeforeModel(ctx context.Context, m *CallbackContext, req *model.Request) (*model.Response, error) {
	return firstAnswer(ctx, inv, "before_model", inv.node.hooks.beforeModel, func(f BeforeModelFunc) (*model.Response, error) {
		return f(ctx, m, req)
	})
}

// withModelCallbacks wraps yield with the callbacks after the model.
func (s *step) withModelCallbacks(ctx context.Context, req *model.Request, yield responseFunc) responseFunc {
	return func(resp *model.Response, err error) bool {
		if err != nil {
			resp, err = s.recoverModelError(ctx, req, err)
		}
		if err == nil {
			resp, err = s.runAfterModel(ctx, resp)
		}
		return yield(resp, err) && err == nil
	}
}

// recoverModelError calls the callbacks for a failed model call, and returns
// the error if none answers. They are not called when the run was canceled.
func (s *step) recoverModelError(ctx context.Context, req *model.Request, failure error) (*model.Response, error) {
	if ctx.Err() != nil {
		return nil, failure
	}
	answer, err := firstAnswer(ctx, s.inv, "on_model_error", s.inv.node.hooks.onModelError, func(f ModelErrorFunc) (*model.Response, error) {
		return f(ctx, s.modelCallbackContext(), req, failure)
	})
	if answer == nil && err == nil {
		err = failure
	}
	return answer, err
}

func (s *step) runAfterModel(ctx context.Context, resp *model.Response) (*model.Response, error) {
	answer, err := firstAnswer(ctx, s.inv, "after_model", s.inv.node.hooks.afterModel, func(f AfterModelFunc) (*model.Response, error) {
		return f(ctx, s.modelCallbackContext(), resp)
	})
	if answer == nil {
		answer = resp
	}
	return answer, err
}

// modelCallbackContext returns the context that the model's callbacks share
// until an event takes their writes.
func (s *step) modelCallbackContext() *CallbackContext {
	k := s.ensureState()
	if k.callbackContext == nil {
		k.callbackContext = s.inv.newCallbackContext(&session.Actions{})
	}
	return k.callbackContext
}

// attachCallbackActions adds the writes of the model's callbacks to an event.
// A partial event gets a copy; the whole response takes them.
func (s *step) attachCallbackActions(ev *session.Event) {
	if s.state == nil || s.state.callbackContext == nil {
		return
	}
	ev.Actions = *s.state.callbackContext.Actions
	if ev.Partial {
		ev.Actions.StateDelta = maps.Clone(ev.Actions.StateDelta)
		ev.Actions.ArtifactDelta = maps.Clone(ev.Actions.ArtifactDelta)
		return
	}
	s.state.callbackContext = nil
}
