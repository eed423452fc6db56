package runtime

import (
	"context"
	"maps"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// hearing is told what a model answers, piece by piece, or the error that ends the
// call. It says whether it wants more.
type hearing = func(*model.Response, error) bool

// ask asks the model, or the callbacks in its place and about its answers, and says
// whether all was heard. Only a real call is counted. The error is of what came
// before it.
func (s *step) ask(ctx context.Context, req *model.Request, hear hearing) (whole bool, err error) {
	host, hooked := s.inv.run.host, s.inv.node.hooks != nil
	if hooked {
		answer, err := s.inv.beforeModel(ctx, s.at(), req)
		if err != nil {
			return false, err
		}
		if answer != nil {
			s.id = host.newID()
			return hear(answer, nil), nil
		}
	}
	if err := s.inv.run.budget.spend(); err != nil {
		return false, err
	}
	s.id = host.newID()
	if hooked {
		hear = s.reviewed(ctx, req, hear)
	}
	if host.observe == nil {
		return s.askModel(ctx, req, hear), nil // spares making a function of the method
	}
	return host.observed(ctx, req, &s.id, s.askModel, hear), nil
}

func (inv *Invocation) beforeModel(ctx context.Context, m *Moment, req *model.Request) (*model.Response, error) {
	return firstAnswer(ctx, inv, "before_model", inv.node.hooks.beforeModel, func(f BeforeModelFunc) (*model.Response, error) {
		return f(ctx, m, req)
	})
}

// reviewed is told what the callbacks let through.
func (s *step) reviewed(ctx context.Context, req *model.Request, hear hearing) hearing {
	return func(resp *model.Response, err error) bool {
		if err != nil {
			resp, err = s.rescue(ctx, req, err)
		}
		if err == nil {
			resp, err = s.review(ctx, resp)
		}
		return hear(resp, err) && err == nil
	}
}

// rescue asks for an answer in place of a failed call's; the failure stays
// when there is none. A run that was stopped has nothing to answer.
func (s *step) rescue(ctx context.Context, req *model.Request, failure error) (*model.Response, error) {
	if ctx.Err() != nil {
		return nil, failure
	}
	answer, err := firstAnswer(ctx, s.inv, "on_model_error", s.inv.node.hooks.onModelError, func(f ModelErrorFunc) (*model.Response, error) {
		return f(ctx, s.at(), req, failure)
	})
	if answer == nil && err == nil {
		err = failure
	}
	return answer, err
}

func (s *step) review(ctx context.Context, resp *model.Response) (*model.Response, error) {
	answer, err := firstAnswer(ctx, s.inv, "after_model", s.inv.node.hooks.afterModel, func(f AfterModelFunc) (*model.Response, error) {
		return f(ctx, s.at(), resp)
	})
	if answer == nil {
		answer = resp
	}
	return answer, err
}

// at is the moment that the model's callbacks share until an event takes what
// they wrote.
func (s *step) at() *Moment {
	k := s.keep()
	if k.moment == nil {
		k.moment = s.inv.newMoment(&session.Actions{})
	}
	return k.moment
}

// ride puts what the model's callbacks wrote on an event. A piece of a stream
// shows it; the whole answer takes it along.
func (s *step) ride(ev *session.Event) {
	if s.kept == nil || s.kept.moment == nil {
		return
	}
	ev.Actions = *s.kept.moment.Actions
	if ev.Partial {
		ev.Actions.StateDelta = maps.Clone(ev.Actions.StateDelta)
		ev.Actions.ArtifactDelta = maps.Clone(ev.Actions.ArtifactDelta)
		return
	}
	s.kept.moment = nil
}
