package runtime

import (
	"context"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// newModelEvent returns the event for a model response. A stream's partial responses and its whole
// response share one ID.
func (s *step) newModelEvent(resp *model.Response) *session.Event {
	ev := s.inv.newEventWithID(s.id)
	ev.Response = *resp
	s.attachCallbackActions(ev)
	if calls := ev.Calls(); len(calls) > 0 {
		ev.Content = s.assignCallIDs(ev.Content)
		ev.LongRunningToolIDs = s.longRunningIDs(ev.Calls())
	}
	return ev
}

// assignCallIDs assigns IDs to calls that the model sent without one.
func (s *step) assignCallIDs(c *genai.Content) *genai.Content {
	parts := slices.Clone(c.Parts)
	for i, p := range parts {
		if p.FunctionCall == nil || p.FunctionCall.ID != "" {
			continue
		}
		call := *p.FunctionCall
		call.ID = s.assigned[p.FunctionCall]
		if call.ID == "" {
			call.ID = ownIDPrefix + s.inv.run.host.newID()
			if s.assigned == nil {
				s.assigned = map[*genai.FunctionCall]string{}
			}
			s.assigned[p.FunctionCall] = call.ID
		}
		q := *p
		q.FunctionCall = &call
		parts[i] = &q
	}
	return &genai.Content{Role: c.Role, Parts: parts}
}

// attachCallbackActions adds the model callbacks' writes to an event. A partial event gets a copy;
// the whole response takes them.
func (s *step) attachCallbackActions(ev *session.Event) {
	if s.callbackContext == nil {
		return
	}
	ev.Actions = *s.callbackContext.Actions
	if ev.Partial {
		ev.Actions.StateDelta = maps.Clone(ev.Actions.StateDelta)
		ev.Actions.ArtifactDelta = maps.Clone(ev.Actions.ArtifactDelta)
		return
	}
	s.callbackContext = nil
}

// emitAnswer stores an event's output and yields the event. An answer that does not match the
// schema is stored and ends the run.
func (s *step) emitAnswer(ctx context.Context, ev *session.Event) outcome {
	var failure *RunError
	if !ev.Partial {
		failure = s.agent.storeOutput(ctx, s.inv.run.app.state, ev)
	}
	if failure == nil && s.inv.onLastEvent != nil && s.inv.endsWithAgent() && !ev.Partial && ev.IsFinal() && len(ev.Calls()) == 0 {
		s.inv.onLastEvent()
	}
	proceed := s.emitEvent(ev, nil)
	if proceed && failure != nil {
		return failWith(failure)
	}
	return stopUnless(proceed)
}

// storeOutput sets the agent's output key to a final event's text, so that both are stored together
// (adk-python llm_agent.py __maybe_save_output_to_state). With an output schema it sets the decoded
// value. Text that does not match the schema makes ev an error event.
func (a *LLMAgent) storeOutput(ctx context.Context, s *tool.StateSchema, ev *session.Event) *RunError {
	if a.opts.OutputKey == "" || a.opts.Mode == ModeTask || !ev.IsFinal() || ev.Content == nil {
		return nil
	}
	isOutputText := func(p *genai.Part) bool { return p.Text != "" && !p.Thought }
	if !slices.ContainsFunc(ev.Content.Parts, isOutputText) {
		return nil
	}
	text := model.TextOf(ev.Content)
	if a.opts.OutputSchema == nil {
		return a.storeOutputValue(s, ev, text)
	}
	if strings.TrimSpace(text) == "" {
		return nil
	}
	v, err := a.opts.OutputSchema.Parse(ctx, text)
	if err != nil {
		return rejectOutput(ev, err, "the answer of agent %s does not match its output_schema: %s", a.AgentName, err)
	}
	return a.storeOutputValue(s, ev, v)
}

// storeOutputValue sets the agent's output key to an answer. If the value does not match the key's
// type, it makes ev an error event.
func (a *LLMAgent) storeOutputValue(s *tool.StateSchema, ev *session.Event, v any) *RunError {
	checked, err := s.Check(a.opts.OutputKey, v)
	if err != nil {
		return rejectOutput(ev, err, "the answer of agent %s cannot be stored: %s", a.AgentName, err)
	}
	ev.Actions.SetState(a.opts.OutputKey, checked)
	return nil
}

// rejectOutput makes ev an error event, unless it already is one.
func rejectOutput(ev *session.Event, err error, format string, args ...any) *RunError {
	failure := failf(CodeOutputInvalid, err, format, args...)
	if ev.ErrorCode == "" {
		ev.ErrorCode, ev.ErrorMessage = failure.Code, failure.Message
	}
	return failure
}

// modelCallbackContext returns the context that the model's callbacks share
// until an event takes their writes.
func (s *step) modelCallbackContext() *CallbackContext {
	if s.callbackContext == nil {
		s.callbackContext = s.inv.newCallbackContext(&session.Actions{})
	}
	return s.callbackContext
}

func (inv *Invocation) runBeforeModel(ctx context.Context, m *CallbackContext, req *model.Request) (*model.Response, error) {
	return firstAnswer(ctx, inv, "before_model", inv.node.hooks.beforeModel, func(f BeforeModelFunc) (*model.Response, error) {
		return f(ctx, m, req)
	})
}

// withModelCallbacks wraps yield with the callbacks after the model: those for a failed call, unless
// the run was canceled, then those for a response. The error stays if none answers.
func (s *step) withModelCallbacks(ctx context.Context, req *model.Request, yield responseFunc) responseFunc {
	hooks := s.inv.node.hooks
	return func(resp *model.Response, err error) bool {
		if failure := err; err != nil && ctx.Err() == nil {
			resp, err = firstAnswer(ctx, s.inv, "on_model_error", hooks.onModelError, func(f ModelErrorFunc) (*model.Response, error) {
				return f(ctx, s.modelCallbackContext(), req, failure)
			})
			if resp == nil && err == nil {
				err = failure
			}
		}
		if err == nil {
			given, answer := resp, (*model.Response)(nil)
			answer, err = firstAnswer(ctx, s.inv, "after_model", hooks.afterModel, func(f AfterModelFunc) (*model.Response, error) {
				return f(ctx, s.modelCallbackContext(), given)
			})
			if answer != nil {
				resp = answer
			}
		}
		return yield(resp, err) && err == nil
	}
}
