package runtime

import (
	"context"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/tool"
)

// An outcome is what a part of an agent's run leads to. Each part returns its own, from one call to a
// whole step, and the part above it decides; none sets a flag that another one reads:
//
//	runCall           one call: next, paused, finished or failed
//	  mergeOutcomes   all calls in one response: the greatest, in the order of the calls
//	executeCalls      these calls and the events that they lead to: any kind
//	runStep           a model call and its calls: any kind
//	LLMAgent.run      the loop: another step after next, the other agent after transferred; it yields
//	                  the error after failed, and pauses for pending calls after the others
//
// Two rules hold. An error is yielded once, by the loop; the part that fails first yields the event
// that reports it. Nothing is yielded after stopped: the consumer has left, or a sub-agent has
// yielded its own error.
//
// A model's stream is an iterator and cannot return what its consumer found. So handleResponse keeps
// the last outcome in [step].reached for runStep. A captured variable would do the same at the price
// of an allocation for each step. Live conversations have no loop: [TwoWayTurn] keeps whether it is
// done, because its driver calls one method after another.
type outcome struct {
	kind outcomeKind
	// to is the agent after outcomeTransferred.
	to string
	// value is the task's output after outcomeFinished.
	value any
	// err is the error after outcomeFailed.
	err error
}

// An outcomeKind is the way in which an agent continues or ends.
type outcomeKind uint8

// The kinds are in order: among the calls in one response, the greatest decides.
const (
	outcomeNext        outcomeKind = iota // the model reads the results in the next step
	outcomeAnswered                       // the agent has its answer, or all its calls are answered later
	outcomePaused                         // a sub-agent or a task waits for the user
	outcomeTransferred                    // another agent continues the conversation
	outcomeFailed                         // the run ends with an error, which is not yielded yet
	outcomeFinished                       // finish_task has ended the agent's task
	outcomeStopped                        // nothing can be yielded any more
)

// endsAgent reports whether the agent has nothing more to do in this step and after it.
func (o outcome) endsAgent() bool { return o.kind > outcomeAnswered }

func failWith(err error) outcome { return outcome{kind: outcomeFailed, err: err} }

// stopUnless returns stopped after an event that the consumer did not accept.
func stopUnless(proceed bool) outcome {
	if !proceed {
		return outcome{kind: outcomeStopped}
	}
	return outcome{}
}

// answerWith returns the outcome for an agent whose last event is known.
func answerWith(last *session.Event) outcome {
	if last.IsFinal() {
		return outcome{kind: outcomeAnswered}
	}
	return outcome{}
}

// A callRunner executes function calls for an agent. It yields nothing; its results are events that
// a step or a live conversation yields.
type callRunner struct {
	inv *Invocation
	// agent is nil in a ToolNode.
	agent *LLMAgent
	// decided has a person's decisions, by call ID.
	decided map[string]*decision
	// attempts are the invocations in which calls were first attempted, by call ID.
	attempts map[string]string
	// delegated receives the events from sub-agents that are called as tools, and interim responses;
	// nil while there are none.
	delegated chan<- *eventHandoff
	// isAbandoned is [tool.Call.IsAbandoned] for calls that store interim responses; nil without
	// delegated.
	isAbandoned func() bool
	// intercept may answer a call instead of its tool: [TwoWayTurn].Intercept; nil in most
	// runs.
	intercept func(ctx context.Context, t tool.Tool, call *tool.Call) *tool.Result
}

// A step is one call to an agent's model and the tool calls in its response. An agent runs one step
// after the other, and reuses one value for all.
type step struct {
	callRunner
	sink func(*session.Event, error) bool
	// generator answers over a live connection; nil without support_cfc.
	generator LiveGenerator
	// guard wraps the model's stream.
	guard panicGuard[*model.Response]
	modelAnswer
}

// A modelAnswer is what a step keeps from its model's answer while the stream lasts.
type modelAnswer struct {
	// id is the ID for the events with the response.
	id string
	// reached is what the whole responses have led to so far.
	reached outcome
	// assigned are the IDs of calls that came without one: the partial responses and the
	// whole response contain the same call.
	assigned map[*genai.FunctionCall]string
	// callbackContext is the context for model callbacks; nil until one is called.
	callbackContext *CallbackContext
}

// responseFunc receives a model's responses, partial ones included, or the error that ends the
// call. It returns false to stop the stream.
type responseFunc = func(*model.Response, error) bool

// emitEvent yields an event, or a sub-agent's error, and returns whether the consumer accepts more.
func (s *step) emitEvent(ev *session.Event, err error) bool {
	if f := s.inv.frame; f != nil {
		f.yielded = true
		if ev != nil && ev.NodePath == f.path {
			f.trackPending(ev)
		}
	}
	return s.sink(ev, err)
}
