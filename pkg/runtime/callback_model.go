package runtime

import (
	"context"
	"iter"
	"maps"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// responses is what a model answers, or an error that ends the call.
type responses = iter.Seq2[*model.Response, error]

// generate asks the model, or the callbacks in its place and about its
// answers. Only a real call is counted.
func (s *step) generate(ctx context.Context, req *model.Request) (responses, error) {
	n := s.inv.node
	if n.hooks != nil {
		answer, err := s.inv.beforeModel(ctx, s.at(), req)
		if err != nil {
			return nil, err
		}
		if answer != nil {
			return func(yield func(*model.Response, error) bool) { yield(answer, nil) }, nil
		}
	}
	if err := s.inv.run.budget.spend(); err != nil {
		return nil, err
	}
	if n.hooks != nil {
		return s.reviewed(ctx, req), nil
	}
	return s.ask(ctx, req), nil
}

// ask is the call of the model itself.
func (s *step) ask(ctx context.Context, req *model.Request) responses {
	if s.inv.run.host.observe == nil {
		return s.inv.askModel(ctx, req) // spares making a function of the method
	}
	return s.inv.run.host.observed(ctx, req, &s.id, s.inv.askModel)
}

func (inv *Invocation) beforeModel(ctx context.Context, m *Moment, req *model.Request) (*model.Response, error) {
	return firstAnswer(ctx, inv, "before_model", inv.node.hooks.beforeModel, func(f BeforeModelFunc) (*model.Response, error) {
		return f(ctx, m, req)
	})
}

// reviewed is what the model answers, as the callbacks let it through.
func (s *step) reviewed(ctx context.Context, req *model.Request) responses {
	return func(yield func(*model.Response, error) bool) {
		for resp, err := range s.ask(ctx, req) {
			if err != nil {
				resp, err = s.rescue(ctx, req, err)
			}
			if err == nil {
				resp, err = s.review(ctx, resp)
			}
			if !yield(resp, err) || err != nil {
				return
			}
		}
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
