package runtime

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"agenthost/internal/safe"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// The codes in a [RunError], besides those from model services.
const (
	CodeAppNotFound      = "APP_NOT_FOUND"
	CodeSessionNotFound  = "SESSION_NOT_FOUND"
	CodeSessionBusy      = "SESSION_BUSY"
	CodeSessionTaken     = "SESSION_TAKEN_OVER"
	CodeInvalidRequest   = "INVALID_REQUEST"
	CodeLiveUnsupported  = "LIVE_UNSUPPORTED"
	CodeLiveDisconnected = "LIVE_DISCONNECTED"
	CodeLiveLimit        = "LIVE_LIMIT"
	CodeForbidden        = "FORBIDDEN"
	CodeMissingValue     = "MISSING_VALUE"
	CodeLLMCallsLimit    = "LLM_CALLS_LIMIT"
	CodeCostLimit        = "COST_LIMIT"
	CodeToolCallsLimit   = "TOOL_CALLS_LIMIT"
	CodeTimeLimit        = "TIME_LIMIT"
	CodeOutputInvalid    = "OUTPUT_INVALID"
	CodeToolFailed       = "TOOL_FAILED"
	CodeModelFailed      = "MODEL_FAILED"
	CodeNoContent        = "MODEL_RETURNED_NO_CONTENT"
	CodeAgentFailed      = "AGENT_FAILED"
	CodeTransferFailed   = "TRANSFER_FAILED"
	CodeEventRefused     = "EVENT_REFUSED"
	CodeCallbackFailed   = "CALLBACK_FAILED"
	CodeCanceled         = "CANCELED"
	CodeUnavailable      = "UNAVAILABLE"
	CodeInternal         = "INTERNAL"
)

// A RunError is a run's failure with a message for the client. Internal causes stay in Err.
type RunError struct {
	// Code is for programs, Message for people.
	Code, Message string
	Err           error
}

// Error returns the message.
func (e *RunError) Error() string { return e.Message }

// Unwrap returns the cause.
func (e *RunError) Unwrap() error { return e.Err }

func failf(code string, err error, format string, args ...any) *RunError {
	return &RunError{Code: code, Message: spec.HidePaths(fmt.Sprintf(format, args...), err), Err: err}
}

// AsRunError returns err as a RunError. For any other error it returns a
// RunError with a generic message, because internal details belong in the log
// only.
func AsRunError(err error) *RunError {
	var re *RunError
	if errors.As(err, &re) {
		return re
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return &RunError{Code: CodeCanceled, Message: "the run was stopped", Err: err}
	}
	return &RunError{Code: CodeInternal, Message: "internal error: see the host's log", Err: err}
}

// NewModelError returns the error that ends a run after a failed call to the model with this name.
func NewModelError(name string, err error) *RunError {
	var me *model.Error
	if errors.As(err, &me) {
		if me.Provider != "" {
			name = me.Name()
		}
		return failf(me.EventCode(), err, "model %s failed: %s", name, me.ClientMessage())
	}
	if tooMany, ok := errors.AsType[*model.CallsLimitError](err); ok {
		return failf(CodeToolCallsLimit, errTooManyCalls, "the function calls in one answer of model %s exceed the limit of %d (run_config: max_function_calls)", name, tooMany.Limit)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return AsRunError(err)
	}
	return failf(CodeModelFailed, err, "model %s failed: %s", name, err)
}

// ModelError returns the error that ends a run after a failed call to the agent's model, for
// callbacks that report it.
func (inv *Invocation) ModelError(err error) *RunError {
	if inv.node.llm == nil {
		return AsRunError(err)
	}
	return NewModelError(inv.node.llm.Name(), err)
}

func storeFailure(key session.Key, err error) error {
	switch {
	case errors.Is(err, session.ErrNotFound):
		return failf(CodeSessionNotFound, err, "Session not found: %s", key.ID)
	case errors.Is(err, session.ErrBusy):
		return failf(CodeSessionBusy, err, "session %s is busy with another run, retry later", key.ID)
	case errors.Is(err, session.ErrFenced):
		return failf(CodeSessionTaken, err, "session %s was taken over by another host during this turn: stored events are kept, retry later", key.ID)
	case errors.Is(err, session.ErrUnavailable):
		part := "session store"
		if down := (*store.ArtifactsUnavailable)(nil); errors.As(err, &down) {
			part = "artifact store"
		}
		return failf(CodeUnavailable, err, "%s unavailable, retry later", part)
	case errors.Is(err, session.ErrInvalid):
		return failf(CodeInvalidRequest, err, "%s", err)
	default:
		return err
	}
}

func invalidRequest(format string, args ...any) error {
	return failf(CodeInvalidRequest, session.ErrInvalid, format, args...)
}

// errPanicked is all that clients see of a panic; the log has the details.
var errPanicked = errors.New("it panicked")

func (inv *Invocation) modelPanicked(p *safe.Panic) error {
	p.Log(inv.run.logger(), "model panicked", "agent", inv.node.agent.Name())
	return errPanicked
}

// A panicGuard wraps an iterator and turns its panic into its last error. A consumer's panic passes
// through.
type panicGuard[T any] struct {
	// onPanic converts the iterator's panic to an error; inv is its argument.
	onPanic func(inv *Invocation, p *safe.Panic) error
	inv     *Invocation
	yield   func(T, error) bool

	inConsumer bool // the consumer is running
	stopped    bool // the consumer has stopped
}

// forwardValue is the iterator's yield function.
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

// errTooManyCalls is the cause when a run exceeds max_function_calls.
var errTooManyCalls = errors.New("too many function calls in one answer")

// errSuspended is the error for a call whose sub-agent waits for the user. The call gets its result
// in a later turn.
var errSuspended = errors.New("the sub-agent waits for the user")
